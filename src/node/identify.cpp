// Who is here: what each rank says of itself, which ranks share a node, how many processors there are, and how the
// node's segment is divided. The first stages of Node::join (joiner.h); all ranks come to the same conclusions.
#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

#include "node/joiner.h"
#include "os/peer_mem.h"
#include "os/process.h"
#include "os/vm.h"

namespace zh::node {
namespace {

constexpr uint64_t kSeed = 0xcbf29ce484222325u;
constexpr uint64_t kAnnexesMax = uint64_t{256} << 30;
constexpr uint64_t kSegmentMax = uint64_t{127} << 30;  // queue entries are named by 31 bits, in lines

uint64_t hash(const std::string& text, uint64_t seed) {
  uint64_t h = seed;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h ^ (h >> 29);
}

}  // namespace

/// Other builds and other settings make other keys, so that only ranks of one kind go on together.
Status Joiner::meet() {
  const uint64_t kind = hash(std::to_string(os::page_bytes()) + " " + std::to_string(config_.node_ranks), kLayoutHash);
  const std::string kernel = config_.machine.empty() ? os::boot_id() : config_.machine;
  const std::string who = kernel + "\n" + os::host_name() + "\n" + std::to_string(os::user_id());
  key_ = place_key(hash(kernel, kind), hash(who, kind));
  std::vector<uint64_t> keys(static_cast<size_t>(world_.size()));
  if (Status s = world_.allgather(&key_, sizeof key_, keys.data()); !s.ok()) return s;
  roster_ = make_roster(keys, config_.node_ranks, world_.rank());
  if (!roster_.one_machine) {
    if (Status s = world_.among(roster_.machine, &machine_); !s.ok()) return s;
  }
  ranks_ = roster_.machine;
  if (machine_ == nullptr) {
    ranks_.resize(keys.size());
    std::iota(ranks_.begin(), ranks_.end(), 0);
  }
  return kOk;
}

/// All ranks of the job end alike; as many words in any build, so that builds can be compared.
Status Joiner::conclude(const Status& mine) {
  struct Kind {
    uint64_t build;
    uint64_t node_ranks;
  };
  enum : size_t { kFailed, kBuild, kNotBuild, kNodeRanks, kNotNodeRanks, kTerms };
  Kind kind{hash(std::to_string(os::page_bytes()), kLayoutHash), config_.node_ranks};
  if (config_.fail_stage == static_cast<int>(JoinStage::kIdentify)) kind.build = 0;
  // Who fails without a culprit, because the ranks of its machine could not speak to each other, is one itself.
  const int culprit = culprit_ >= 0 ? culprit_ : world_.rank();
  // The least of a value and of its complement: the least and the greatest.
  std::array<uint64_t, kTerms + JoinConfig::kMostTerms + 1> words{
      mine.ok() ? ~uint64_t{0} : static_cast<uint64_t>(culprit), kind.build, ~kind.build, kind.node_ranks,
      ~kind.node_ranks};
  std::ranges::copy(config_.terms, words.begin() + kTerms);
  // In the end it is 1: whoever took these numbers for signed would start on wrong answers.
  words.back() = world_.rank() == 0 ? 1 : ~uint64_t{0};
  if (Status s = world_.least(words); !s.ok()) return s;
  if (words.back() != 1) return {Code::kIo, "the host's MPI_MIN gives wrong results"};
  if (words[kBuild] == ~words[kNotBuild] && words[kNodeRanks] == ~words[kNotNodeRanks]) {
    std::copy_n(words.begin() + kTerms, config_.terms.size(), config_.terms.begin());
    return words[kFailed] == ~uint64_t{0} ? kOk : world_.tell(static_cast<int>(words[kFailed]), mine);
  }
  std::vector<Kind> all(static_cast<size_t>(world_.size()));
  if (Status s = world_.allgather(&kind, sizeof kind, all.data()); !s.ok()) return s;
  for (size_t r = 1; r < all.size(); ++r) {
    const std::string rank = "rank " + std::to_string(r);
    if (all[r].build != all[0].build) {
      return {Code::kInvalid, keep_text(rank + " runs another build of zerohop than rank 0")};
    }
    if (all[r].node_ranks != all[0].node_ranks) {
      return {Code::kInvalid, keep_text("node_ranks of ZEROHOP_CONFIG differs between rank 0 and " + rank)};
    }
  }
  return {Code::kIo, "the ranks cannot agree: the same values were told in two ways"};
}

Status Joiner::identify() {
  if (os::yama_scope() == 1 && config_.cma && config_.tracer && os::allow_any_tracer() != 0) {
    note(&notes_, "Yama scope 1 and PR_SET_PTRACER refused");
  }
  const Card mine = own_card();
  cards_.resize(ranks_.size());
  if (Status s = group().allgather(&mine, sizeof mine, cards_.data()); !s.ok()) return s;
  // From here all ranks of a machine hold the same cards, so all come to the same conclusions.
  find_members();
  if (Status s = names_are_told_apart(); !s.ok()) return s;
  count_cpus();
  lay_out();
  return kOk;
}

Card Joiner::own_card() {
  private_token_ = std::make_unique<uint64_t>(os::random_token());
  const std::string kernel = config_.machine.empty() ? os::boot_id() : config_.machine;
  const std::string who = kernel + "\n" + os::host_name() + "\n" + std::to_string(os::user_id());
  const os::Cgroup cgroup = os::find_cgroup();
  node_->memory_limited_ = os::cgroup_memory(cgroup).limit_bytes != os::kUnlimited;
  Card mine{};
  mine.place = key_;
  mine.key[0] = hash(who, kSeed);
  mine.key[1] = hash(who, 0x84222325cbf29ce4u);
  mine.kernel = hash(kernel, 1);
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
  mine.page_bytes = static_cast<uint32_t>(os::page_bytes());
  mine.pid = os::process_id();
  mine.cma = config_.cma ? 1 : 0;
  mine.module_use = static_cast<uint8_t>(config_.module_use);
  mine.measure = config_.measure_line ? 1 : 0;
  mine.synthetic = config_.topology_file.empty() ? 0 : 1;
  mine.cpus = os::allowed_cpus();
  return mine;
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
  const SegmentRanks of{node_->size_, static_cast<uint32_t>(world_.size())};
  // Annexes are for what few programs need; where something is scarce there are none.
  const uint64_t whole = make_header(of, rank_bytes, annex_bytes, page).segment_bytes;
  if (address_space != os::kUnlimited || whole > file_bytes) annex_bytes = 0;
  header_ = make_header(of, rank_bytes / page * page, annex_bytes / page * page, page);
  node_->page_bytes_ = page;
}

void Joiner::find_members() {
  node_->nodes_ = static_cast<int>(roster_.nodes);
  node_->world_size_ = world_.size();
  node_->world_of_local_ = roster_.members;
  node_->size_ = static_cast<uint32_t>(roster_.members.size());
  for (uint32_t i = 0; i < node_->size_; ++i) {
    const auto place = std::ranges::lower_bound(ranks_, roster_.members[i]);
    places_.push_back(static_cast<uint32_t>(place - ranks_.begin()));
    if (roster_.members[i] == world_.rank()) node_->self_ = i;
  }
  for (uint32_t i = 0; i < node_->size_; ++i) {
    node_->pids_.push_back(card(i).pid);
    node_->known_pids_.push_back(card(i).pid_namespace == card(node_->self_).pid_namespace ? 1 : 0);
  }
  node_->cma_.assign(node_->size_, 0);
  node_->module_members_.assign(node_->size_, 0);
  node_->lets_in_.assign(node_->size_, 0);
  node_->ended_.assign(node_->size_, 0);
  node_->next_look_.assign(node_->size_, 0);
  node_->pid_fds_.assign(node_->size_, -1);
}

/// Keys are short; cards have the whole names. The same on all ranks of the group.
Status Joiner::names_are_told_apart() const {
  std::map<uint64_t, const Card*> machines, nodes;
  for (const Card& c : cards_) {
    const Card& machine = *machines.try_emplace(machine_of(c.place), &c).first->second;
    const Card& node = *nodes.try_emplace(c.place, &c).first->second;
    if (c.kernel != machine.kernel || c.key[0] != node.key[0] || c.key[1] != node.key[1]) {
      return {Code::kInvalid, "the names of two nodes have the same hash"};
    }
  }
  return kOk;
}

/// All ranks on this rank's processors count, whichever node they are of.
void Joiner::count_cpus() {
  const Card& own = card(node_->self_);
  os::CpuSet cpus;
  std::map<uint64_t, uint64_t> quotas;
  uint32_t ranks = 0;
  bool measures = true;
  bool one_node = config_.node_ranks == 0;
  for (const Card& c : cards_) {
    if (c.kernel != own.kernel) continue;
    cpus.add(c.cpus);
    quotas[c.cgroup] = c.quota_milli;
    measures = measures && c.measure != 0 && c.synthetic == 0;
    one_node = one_node && c.key[0] == own.key[0] && c.key[1] == own.key[1];
    ++ranks;
  }
  uint32_t usable = std::max(1u, cpus.count());
  uint64_t quota_milli = 0;
  bool limited = true;
  for (const auto& [cgroup, milli] : quotas) {
    quota_milli += milli;
    limited = limited && milli != 0;
  }
  if (limited) usable = std::min(usable, std::max(1u, static_cast<uint32_t>(quota_milli / 1000)));
  // Of several nodes that share too few processors none knows when the others sleep.
  const bool crowded = ranks > usable;
  if (measures && node_->size_ > 1 && (!crowded || one_node)) {
    std::vector<os::CpuSet> of_rank;
    for (uint32_t i = 0; i < node_->size_; ++i) of_rank.push_back(card(i).cpus);
    measurers_ = std::make_unique<Measurers>(of_rank, crowded ? usable : node_->size_);
  }
  // Pretended nodes and containers share the real CPUs.
  node_->usable_cpus_ = ranks == node_->size_ ? usable : std::max(1u, usable * node_->size_ / ranks);
  if (limited)
    note(&notes_, "cgroup grants " + std::to_string(static_cast<double>(quota_milli) / 1000).substr(0, 5) + " CPUs");
}

}  // namespace zh::node
