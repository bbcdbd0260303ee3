// Who is here: what each rank says of itself, which ranks share a node, how many processors there are, and how the
// node's segment is divided. The first stage of Node::join (joiner.h); all ranks come to the same conclusions.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "node/joiner.h"
#include "os/peer_mem.h"
#include "os/process.h"
#include "os/vm.h"

namespace zh::node {
namespace {

constexpr uint64_t kAnnexesMax = uint64_t{256} << 30;
constexpr uint64_t kSegmentMax = uint64_t{127} << 30;  // queue entries are named by 31 bits, in lines

uint64_t hash(const std::string& text, uint64_t seed) {
  uint64_t h = seed;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h ^ (h >> 29);
}

}  // namespace

Status Joiner::identify() {
  if (os::yama_scope() == 1 && config_.cma && config_.tracer && os::allow_any_tracer() != 0) {
    note(&notes_, "Yama scope 1 and PR_SET_PTRACER refused");
  }
  const Card mine = own_card();
  cards_.resize(static_cast<size_t>(world_.size()));
  if (Status s = world_.allgather(&mine, sizeof mine, cards_.data()); !s.ok()) return s;
  // From here all ranks hold the same cards, so all come to the same conclusions.
  if (Status s = of_one_kind(); !s.ok()) return s;
  assign_nodes();
  count_cpus();
  lay_out();
  return kOk;
}

Card Joiner::own_card() {
  private_token_ = std::make_unique<uint64_t>(os::random_token());
  const std::string who = os::boot_id() + "\n" + os::host_name() + "\n" + std::to_string(os::user_id());
  const os::Cgroup cgroup = os::find_cgroup();
  Card mine{};
  mine.key[0] = hash(who, 0xcbf29ce484222325u);
  mine.key[1] = hash(who, 0x84222325cbf29ce4u);
  mine.kernel = hash(os::boot_id(), 1);
  mine.token = *private_token_;
  mine.token_address = reinterpret_cast<uint64_t>(private_token_.get());
  mine.pid_namespace = os::namespace_id("pid");
  mine.user_namespace = os::namespace_id("user");
  mine.net_namespace = os::namespace_id("net");
  mine.cgroup = hash(cgroup.cpu_folder, 1);
  mine.quota_milli = static_cast<uint64_t>(os::cgroup_cpu_quota(cgroup) * 1000.0);
  mine.rank_bytes = config_.rank_bytes;
  mine.annex_bytes = config_.annex_bytes;
  mine.address_space = os::address_space_left();
  mine.file_bytes = os::soft_limit(os::Limit::kFileSize);
  mine.layout_hash = kLayoutHash;
  mine.page_bytes = static_cast<uint32_t>(os::page_bytes());
  mine.node_ranks = config_.node_ranks;
  mine.pid = os::process_id();
  mine.cma = config_.cma ? 1 : 0;
  mine.measure = config_.measure_line ? 1 : 0;
  mine.synthetic = config_.topology_file.empty() ? 0 : 1;
  mine.cpus = os::allowed_cpus();
  if (config_.fail_stage == static_cast<int>(JoinStage::kIdentify)) mine.layout_hash = 0;
  return mine;
}

Status Joiner::of_one_kind() const {
  for (size_t r = 1; r < cards_.size(); ++r) {
    const Card& c = cards_[r];
    if (c.layout_hash != cards_[0].layout_hash || c.page_bytes != cards_[0].page_bytes) {
      return {Code::kInvalid, keep_text("rank " + std::to_string(r) + " runs another build of zerohop than rank 0")};
    }
    if (c.node_ranks != cards_[0].node_ranks) {
      return {Code::kInvalid, keep_text("ZEROHOP_NODE_RANKS differs between rank 0 and rank " + std::to_string(r))};
    }
  }
  return kOk;
}

/// The segment's parts, by what every rank of the node may have.
void Joiner::lay_out() {
  uint64_t rank_bytes = ~uint64_t{0}, annex_bytes = kAnnexesMax / node_->size_, address_space = ~uint64_t{0};
  uint64_t file_bytes = ~uint64_t{0};
  for (uint32_t i = 0; i < node_->size_; ++i) {
    rank_bytes = std::min(rank_bytes, card(i).rank_bytes);
    annex_bytes = std::min(annex_bytes, card(i).annex_bytes);
    address_space = std::min(address_space, card(i).address_space);
    file_bytes = std::min(file_bytes, card(i).file_bytes);
  }
  const uint64_t page = card(node_->self_).page_bytes;
  if (address_space != os::kUnlimited && rank_bytes > address_space / 2 / node_->size_) {
    rank_bytes = address_space / 2 / node_->size_;
    note(&notes_, "parts made smaller for the address space limit (ulimit -v)");
  }
  if (rank_bytes > kSegmentMax / node_->size_) {
    rank_bytes = kSegmentMax / node_->size_;
    note(&notes_, "parts made smaller so that the segment stays below 127 GiB: lower ZEROHOP_MEMORY");
  }
  // Annexes are for what few programs need; where something is scarce there are none.
  const uint64_t whole = make_header(node_->size_, rank_bytes, annex_bytes, page).segment_bytes;
  if (address_space != os::kUnlimited || whole > file_bytes) annex_bytes = 0;
  header_ = make_header(node_->size_, rank_bytes / page * page, annex_bytes / page * page, page);
  node_->page_bytes_ = page;
}

void Joiner::assign_nodes() {
  std::map<std::pair<uint64_t, uint64_t>, std::vector<int>> machines;
  const int n = world_.size();
  for (int r = 0; r < n; ++r) {
    const Card& c = cards_[static_cast<size_t>(r)];
    machines[{c.key[0], c.key[1]}].push_back(r);
  }
  const Card& own = cards_[static_cast<size_t>(world_.rank())];
  const uint32_t split = own.node_ranks;
  node_->local_of_world_.assign(static_cast<size_t>(n), -1);
  node_->node_of_world_.assign(static_cast<size_t>(n), 0);
  node_->nodes_ = 0;
  for (const auto& [key, ranks] : machines) {
    const size_t step = split > 0 ? split : ranks.size();
    for (size_t first = 0; first < ranks.size(); first += step) {
      const auto number = static_cast<uint32_t>(node_->nodes_++);
      const size_t last = std::min(first + step, ranks.size());
      for (size_t i = first; i < last; ++i) node_->node_of_world_[static_cast<size_t>(ranks[i])] = number;
      const bool mine = ranks[first] <= world_.rank() && world_.rank() <= ranks[last - 1] &&
                        std::binary_search(ranks.begin(), ranks.end(), world_.rank());
      if (!mine) continue;
      machine_ranks_ = static_cast<uint32_t>(ranks.size());
      for (size_t i = first; i < last; ++i) {
        node_->local_of_world_[static_cast<size_t>(ranks[i])] = static_cast<int>(i - first);
        node_->world_of_local_.push_back(ranks[i]);
      }
    }
  }
  node_->size_ = static_cast<uint32_t>(node_->world_of_local_.size());
  node_->self_ = static_cast<uint32_t>(node_->local_of_world_[static_cast<size_t>(world_.rank())]);
  for (uint32_t i = 0; i < node_->size_; ++i) {
    node_->pids_.push_back(card(i).pid);
    node_->known_pids_.push_back(card(i).pid_namespace == card(node_->self_).pid_namespace ? 1 : 0);
  }
  node_->cma_.assign(node_->size_, 0);
  node_->ended_.assign(node_->size_, 0);
  node_->next_look_.assign(node_->size_, 0);
  node_->pid_fds_.assign(node_->size_, -1);
}

void Joiner::count_cpus() {
  // By kernel, so that every rank also knows which others will measure (the number of collectives depends on it).
  struct Use {
    os::CpuSet cpus;
    std::map<uint64_t, uint64_t> quotas;
    uint32_t ranks = 0;
    bool measure = true;
    bool one_node = true;
    const Card* any = nullptr;
  };
  std::map<uint64_t, Use> kernels;
  const Card& own = cards_[static_cast<size_t>(world_.rank())];
  for (const Card& c : cards_) {
    Use& use = kernels[c.kernel];
    use.cpus.add(c.cpus);
    use.quotas[c.cgroup] = c.quota_milli;
    use.measure = use.measure && c.measure != 0 && c.synthetic == 0;
    if (use.any == nullptr) use.any = &c;
    use.one_node = use.one_node && c.key[0] == use.any->key[0] && c.key[1] == use.any->key[1] && own.node_ranks == 0;
    ++use.ranks;
  }
  for (auto& [kernel, use] : kernels) {
    uint32_t usable = std::max(1u, use.cpus.count());
    uint64_t quota_milli = 0;
    bool limited = true;
    for (const auto& [cgroup, milli] : use.quotas) {
      quota_milli += milli;
      limited = limited && milli != 0;
    }
    if (limited) usable = std::min(usable, std::max(1u, static_cast<uint32_t>(quota_milli / 1000)));
    // Where ranks pretend to be alone on their nodes nobody has anybody to measure with. Of several nodes that share
    // too few processors none knows when the others sleep.
    const bool crowded = use.ranks > usable;
    const bool measures = use.measure && use.ranks > 1 && own.node_ranks != 1 && (!crowded || use.one_node);
    any_measures_ = any_measures_ || measures;
    if (kernel != own.kernel) continue;
    if (measures && node_->size_ > 1) {
      std::vector<os::CpuSet> cpus;
      for (uint32_t i = 0; i < node_->size_; ++i) cpus.push_back(card(i).cpus);
      measurers_ = std::make_unique<Measurers>(cpus, crowded ? usable : node_->size_);
    }
    // Pretended nodes and containers share the real CPUs.
    node_->usable_cpus_ = std::max(1u, usable * node_->size_ / use.ranks);
    if (use.ranks == node_->size_) node_->usable_cpus_ = usable;
    if (limited)
      note(&notes_, "cgroup grants " + std::to_string(static_cast<double>(quota_milli) / 1000).substr(0, 5) + " CPUs");
  }
}

}  // namespace zh::node
