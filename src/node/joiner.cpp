// Node::join: from "we are N ranks with a collective" to "we share memory", in a series of collectives that every rank
// of a machine takes part in whatever happens to it, so that a failure of one is a failure of all and nobody hangs. The
// whole job meets at the beginning and at the end.
#include "node/joiner.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "base/invariant.h"
#include "node/line_time.h"
#include "os/clock.h"
#include "os/peer_mem.h"
#include "os/process.h"
#include "os/vm.h"

namespace zh::node {
namespace {

constexpr uint64_t kSocketTimeoutNs = 10'000'000'000;
constexpr uint64_t kSmallestPart = 256 << 10;
constexpr uint8_t kSettled = 0x80;

}  // namespace

void note(std::string* notes, const std::string& text) { *notes += (notes->empty() ? "" : "; ") + text; }

Status Node::join(Bootstrap& world, const JoinConfig& config, std::unique_ptr<Node>* out) {
  return Joiner(world, config).run(out);
}

Status Joiner::run(std::unique_ptr<Node>* out) {
  node_.reset(new Node());
  if (Status s = meet(); !s.ok()) return s;
  if (Status s = conclude(stages()); !s.ok()) return s;
  finish();
  *out = std::move(node_);
  return kOk;
}

Status Joiner::stages() {
  if (Status s = identify(); !s.ok()) return s;
  probe_cma();
  if (Status s = agree(JoinStage::kCreate, create()); !s.ok()) return s;
  if (Status s = reach(); !s.ok()) return s;
  return verify();
}

void Joiner::finish() {
  read_levels();
  node_->segment_fd_ = segment_.release();
  open_pidfds();
  describe();
}

// --- agreement

Status Joiner::or_injected(JoinStage stage, const Status& mine) const {
  const bool fails = mine.ok() && config_.fail_stage == static_cast<int>(stage);
  return fails ? Status{Code::kIo, "a failure injected by a test"} : mine;
}

Vote Joiner::vote_of(JoinStage stage, const Status& mine) const {
  Vote vote{};
  vote.fd = -1;
  const Status s = or_injected(stage, mine);
  vote.code = static_cast<int32_t>(s.code());
  vote.error = s.error();
  vote.refused = cma_refused_ ? 1 : 0;
  vote.member = member_;
  std::snprintf(vote.what, sizeof vote.what, "%s", s.what());
  return vote;
}

Status Joiner::exchange(const Vote& mine) {
  votes_.resize(ranks_.size());
  return group().allgather(&mine, sizeof mine, votes_.data());
}

Status Joiner::first_failure() {
  for (size_t i = 0; i < votes_.size(); ++i) {
    const Vote& v = votes_[i];
    if (v.code == static_cast<int32_t>(Code::kOk)) continue;
    culprit_ = ranks_[i];
    return failure_of(culprit_, {static_cast<Code>(v.code), v.what, v.error});
  }
  return kOk;
}

Status Joiner::agree(JoinStage stage, Status mine) {
  Vote vote = vote_of(stage, mine);
  if (stage == JoinStage::kCreate) vote.fd = segment_.get();
  if (Status s = exchange(vote); !s.ok()) return s;
  return first_failure();
}

// --- the memory

Status Joiner::create() {
  if (header_.rank_bytes < kSmallestPart) {
    return {Code::kNoMemory, "less than 256 KiB of the segment for each rank: raise ZEROHOP_MEMORY or ulimit -v",
            ENOMEM};
  }
  if (!is_leader()) return kOk;
  return create_memory(false, nullptr);
}

Status Joiner::create_memory(bool keep_name, std::string* path) {
  Status s{Code::kNotSupported, "no kind of memory for the segment is allowed"};
  segment_.reset();
  if (!keep_name && (config_.memory_kinds & JoinConfig::kMemfd) != 0) {
    s = os::make_memfd("zerohop", header_.segment_bytes, &segment_);
    memory_kind_ = "memfd";
    if (!s.ok()) note(&notes_, s.text());
  }
  if (!segment_.valid() && (config_.memory_kinds & JoinConfig::kFile) != 0) {
    const std::string folder = config_.folder.empty() ? os::find_shared_folder() : config_.folder;
    s = os::make_file(folder, header_.segment_bytes, keep_name, &segment_, path);
    memory_kind_ = "file in " + folder;
  }
  if (!s.ok()) return s;
  // Back the shared part before anyone touches it; the ranks' own parts are theirs to back.
  if (s = os::back_range(segment_.get(), 0, header_.parts); !s.ok()) {
    if (keep_name && path != nullptr) os::remove_name(*path);
    if (s.code() == Code::kNoMemory) {
      return {Code::kNoMemory,
              "no room for the segment's header: /dev/shm (or TMPDIR) is full; containers: --shm-size=1g", s.error()};
    }
    return s;
  }
  std::byte* base = nullptr;
  if (s = os::map_shared_range(segment_.get(), 0, header_.parts, true, &base); !s.ok()) return s;
  std::memcpy(base, &header_, sizeof header_);
  write_tables(base);
  if (secret_.words[0] == 0) {
    for (uint64_t& word : secret_.words) word = os::random_token();
  }
  std::ranges::copy(secret_.words, at<SlotShm>(base, header_.slots)->secret);
  ZH_CHECK_INVARIANT(at<HeaderShm>(base, 0)->broken_invariant());
  os::unmap(base, header_.parts);
  return kOk;
}

void Joiner::write_tables(std::byte* base) const {
  std::ranges::copy(roster_.node_of, at<uint32_t>(base, header_.node_of));
  auto* local_of = at<int32_t>(base, header_.local_of);
  std::fill_n(local_of, header_.world_ranks, -1);
  for (uint32_t i = 0; i < node_->size_; ++i) local_of[node_->world_of_local_[i]] = static_cast<int32_t>(i);
  auto* every_rank = at<int32_t>(base, header_.every_rank);
  std::iota(every_rank, every_rank + header_.world_ranks, 0);
}

/// Whether write_tables() of this rank would have written the same.
bool Joiner::tables_are_right() const {
  if (!std::ranges::equal(roster_.node_of, std::span(node_->nodes_of(), header_.world_ranks))) return false;
  const uint32_t own_node = roster_.node_of[static_cast<size_t>(world_.rank())];
  int32_t next = 0;
  for (int32_t rank = 0; rank < static_cast<int32_t>(header_.world_ranks); ++rank) {
    const int32_t expected = roster_.node_of[static_cast<size_t>(rank)] == own_node ? next++ : -1;
    if (node_->local_index(rank) != expected || node_->world_ranks()[rank] != rank) return false;
  }
  return true;
}

/// Maps the segment behind segment_ and signs it.
Status Joiner::map() {
  os::unmap(node_->base_, node_->segment_bytes_);
  node_->base_ = nullptr;
  std::byte* base = nullptr;
  if (Status s = os::map_shared_closed(segment_.get(), header_.segment_bytes, header_.annexes, &base); !s.ok())
    return s;
  node_->base_ = base;
  node_->segment_bytes_ = header_.segment_bytes;
  node_->parts_ = header_.parts;
  node_->rank_bytes_ = header_.rank_bytes;
  node_->annexes_ = header_.annexes;
  node_->annex_bytes_ = header_.annex_bytes;
  node_->annex_opened_.assign(node_->size_, 0);
  node_->tables_ = {header_.slots, header_.local_of, header_.node_of, header_.every_rank};
  if (std::memcmp(base, &header_, sizeof header_) != 0) {
    return {Code::kInvalid, "the segment that was reached is not this job's"};
  }
  SlotShm& own = at<SlotShm>(base, header_.slots)[node_->self_];
  own.pid_namespace.store_relaxed(card(node_->self_).pid_namespace);
  own.pid.store_relaxed(static_cast<uint32_t>(card(node_->self_).pid));
  own.token.store_release(*private_token_);  // N2 -> N2
  join_module();
  return kOk;
}

Status Joiner::reach() {
  const int offered_fd = told(0).fd;
  Status mine{Code::kNotSupported, "no way to reach the segment is allowed"};
  auto reached = [&] { return node_->base_ != nullptr && mine.ok(); };
  // All votes of a way are collected before the next is tried; `missing` counts those of this node.
  auto collect = [&](const Status& status, bool last, uint32_t* missing, bool* everyone) -> Status {
    Vote vote = vote_of(JoinStage::kReach, last ? status : kOk);
    vote.reached = reached() && config_.fail_stage != static_cast<int>(JoinStage::kReach) ? 1 : 0;
    if (Status s = exchange(vote); !s.ok()) return s;
    *everyone = std::all_of(votes_.begin(), votes_.end(), [](const Vote& v) { return v.reached != 0; });
    *missing = 0;
    for (uint32_t i = 0; i < node_->size_; ++i) {
      *missing += told(i).reached == 0 ? 1 : 0;
    }
    return kOk;
  };

  uint32_t missing = 0;
  bool everyone = false;
  if (is_leader()) {
    mine = map();
    reach_way_ = "its maker";
  } else if ((config_.reach_ways & JoinConfig::kReachProc) != 0) {
    const bool same_pids = card(0).pid_namespace == card(node_->self_).pid_namespace;
    mine = same_pids ? os::open_peer_descriptor(card(0).pid, offered_fd, &segment_)
                     : Status{Code::kNotPermitted, "other PID namespace, so no /proc/<pid>/fd"};
    if (mine.ok()) mine = map();
    reach_way_ = "/proc/<pid>/fd";
  }
  const bool maker_failed = is_leader() && !mine.ok();
  if (Status s = collect(mine, maker_failed, &missing, &everyone); !s.ok()) return s;
  if (Status s = first_failure(); !s.ok()) return s;
  if (everyone) return kOk;

  if (!reached()) note(&notes_, mine.text());
  const Status by_socket = reach_by_socket(missing);
  if (by_socket.code() == Code::kPeerDead) return by_socket;
  if (!reached() && !by_socket.ok()) note(&notes_, by_socket.text());
  if (!reached()) mine = by_socket;
  if (Status s = collect(mine, false, &missing, &everyone); !s.ok()) return s;
  if (everyone) return kOk;

  mine = reach_by_file();
  if (Status s = collect(mine, true, &missing, &everyone); !s.ok()) return s;
  if (Status s = first_failure(); !s.ok()) return s;
  return everyone ? kOk : Status{Code::kIo, "a rank did not reach the segment"};
}

/// Two steps: the leader of a node with missing ranks listens, then those ranks fetch the descriptor from it.
Status Joiner::reach_by_socket(uint32_t missing) {
  os::DescriptorServer server;
  Vote vote = vote_of(JoinStage::kStages, kOk);
  const bool serve = is_leader() && missing > 0 && (config_.reach_ways & JoinConfig::kReachSocket) != 0;
  Status mine = kOk;
  if (serve) {
    bool one_network = true;
    for (uint32_t i = 0; i < node_->size_; ++i)
      one_network = one_network && card(i).net_namespace == card(0).net_namespace;
    const std::string folder = config_.folder.empty() ? os::find_shared_folder() : config_.folder;
    mine = server.listen(*private_token_, one_network ? "" : folder);
    if (mine.ok()) std::snprintf(vote.address, sizeof vote.address, "%s", server.address().c_str());
  }
  const bool has_reached = told(node_->self_).reached != 0;
  if (Status s = exchange(vote); !s.ok()) return {Code::kPeerDead, s.what(), s.error()};
  const char* address = told(0).address;
  if (address[0] == '\0') return {Code::kNotSupported, "no socket passes the segment's descriptor"};
  if (serve) {
    // A rank that cannot connect costs the others the time limit, and never a hang.
    return server.serve(segment_.get(), static_cast<int>(missing), kSocketTimeoutNs);
  }
  if (has_reached) return kOk;
  if ((config_.reach_ways & JoinConfig::kReachSocket) == 0) {
    // Takes its place in the queue, so that the leader need not wait for it.
    os::Descriptor unused;
    (void)os::receive_descriptor(address, kSocketTimeoutNs, &unused);
    return {Code::kNotSupported, "no way to reach the segment is allowed"};
  }
  mine = os::receive_descriptor(address, kSocketTimeoutNs, &segment_);
  if (mine.ok()) mine = map();
  reach_way_ = "a Unix socket";
  return mine;
}

/// The last way: all ranks of the machine change to a segment that has a name for a moment.
Status Joiner::reach_by_file() {
  Status mine = kOk;
  std::string path;
  Vote vote = vote_of(JoinStage::kStages, kOk);
  const bool allowed = (config_.reach_ways & JoinConfig::kReachFile) != 0;
  if (is_leader() && allowed) {
    mine = create_memory(true, &path);
    if (mine.ok() && path.size() < sizeof vote.address)
      std::snprintf(vote.address, sizeof vote.address, "%s", path.c_str());
  }
  if (Status s = exchange(vote); !s.ok()) mine = s;
  const char* address = mine.ok() ? told(0).address : "";
  if (mine.ok() && address[0] == '\0')
    mine = {Code::kNotSupported, "no way to reach the segment worked: /proc, socket, file"};
  if (mine.ok() && !allowed) mine = {Code::kNotSupported, "no way to reach the segment is allowed"};
  if (mine.ok() && !is_leader()) mine = os::open_path(address, &segment_);
  if (mine.ok()) mine = map();
  reach_way_ = "a named file";
  // The name must outlive the others' open: one more collective, then it goes.
  vote = vote_of(JoinStage::kStages, kOk);
  if (Status s = exchange(vote); !s.ok() && mine.ok()) mine = s;
  os::remove_name(path);
  return mine;
}

// --- proof, probes, levels

/// What comes of it lies in the segment; the last agreement tells when all have done their part.
Status Joiner::verify() {
  Status s = or_injected(JoinStage::kVerify, prove());
  if (s.ok() && measurers_) time_lines();
  if (s.ok() && is_leader()) s = compute_levels();
  return s.ok() ? s : failure_of(world_.rank(), s);
}

Status Joiner::prove() {
  const SlotShm* slots = at<SlotShm>(node_->base_, header_.slots);
  for (uint32_t i = 0; i < node_->size_; ++i) {
    if (slots[i].token.load_acquire() != card(i).token) {  // N2 -> N2: signed after mapping
      return {Code::kInvalid, "a rank's token is not in the segment: it is another memory"};
    }
  }
  if (!tables_are_right()) return {Code::kInvalid, "the segment says of the job's ranks what is not so"};
  probe_module();
  return kOk;
}

// Cards are enough for it, so that all know who is refused before the kernel module could be joined.
void Joiner::probe_cma() {
  const Card& own = card(node_->self_);
  for (uint32_t i = 0; i < node_->size_; ++i) {
    const Card& peer = card(i);
    if (own.cma == 0 || peer.cma == 0) {
      cma_reason_ = "switched off by ZEROHOP_CMA";
      continue;
    }
    if (own.pid_namespace != peer.pid_namespace) {
      cma_reason_ = "other PID namespace";
      continue;
    }
    uint64_t seen = 0;
    const iovec local{&seen, sizeof seen};
    const iovec remote{reinterpret_cast<void*>(peer.token_address), sizeof seen};
    const ssize_t n = os::peer_read(peer.pid, &local, 1, &remote, 1);
    if (n == static_cast<ssize_t>(sizeof seen) && seen == peer.token) {
      node_->cma_[i] = 1;
      continue;
    }
    cma_refused_ = true;
    cma_reason_ = n < 0 ? std::strerror(static_cast<int>(-n)) : "a read gave other bytes";
    if (n == -EPERM && own.user_namespace != peer.user_namespace) cma_reason_ += " (other user namespace)";
    if (n == -EPERM && os::yama_scope() > 0) cma_reason_ += " (Yama scope " + std::to_string(os::yama_scope()) + ")";
  }
}

/// The same on both ranks: where the system refuses CMA to either of them, or one asks for the module in its place.
bool Joiner::wants_module(uint32_t index) const {
  const Card& own = card(node_->self_);
  const Card& peer = card(index);
  const auto uses = [&](ModuleUse use) {
    return own.module_use == static_cast<uint8_t>(use) || peer.module_use == static_cast<uint8_t>(use);
  };
  if (index == node_->self_ || uses(ModuleUse::kNever)) return false;
  if (uses(ModuleUse::kFirst)) return true;
  if (own.cma == 0 || peer.cma == 0) return false;
  return own.pid_namespace != peer.pid_namespace || told(node_->self_).refused != 0 || told(index).refused != 0;
}

bool Joiner::wants_module() const {
  for (uint32_t i = 0; i < node_->size_; ++i) {
    if (wants_module(i)) return true;
  }
  return false;
}

/// Once the segment is mapped, which has the secret. Where it is of no use to this rank nothing is opened.
void Joiner::join_module() {
  if (node_->module_ != nullptr || !node_->module_refusal_.empty() || !wants_module()) return;
  os::CopyModule::Secret secret{};
  std::ranges::copy(at<SlotShm>(node_->base_, header_.slots)->secret, secret.words);
  std::unique_ptr<os::CopyModule> module;
  Status s = config_.open_module ? config_.open_module(&module) : os::open_copy_module(os::kCopyDevice, &module);
  if (s.ok()) s = module->join(secret, &member_);
  if (s.ok()) {
    const int error = module->let_in(private_token_.get(), sizeof(uint64_t), false);
    if (error != 0) s = {Code::kNoMemory, "the kernel module cannot hold a page (ulimit -l, pool_mib)", -error};
  }
  if (!s.ok()) {
    member_ = 0;
    node_->module_refusal_ = s.text();
    return;
  }
  node_->module_ = std::move(module);
}

void Joiner::probe_module() {
  for (uint32_t i = 0; node_->module_ != nullptr && i < node_->size_; ++i) {
    if (!wants_module(i)) continue;
    const Card& peer = card(i);
    const uint32_t member = told(i).member;
    const bool needs = told(i).refused != 0 || peer.pid_namespace != card(node_->self_).pid_namespace ||
                       peer.module_use == static_cast<uint8_t>(ModuleUse::kFirst);
    node_->lets_in_[i] = member != 0 && needs ? 1 : 0;
    if (node_->cma_[i] != 0 && config_.module_use != ModuleUse::kFirst) continue;
    uint64_t seen = 0;
    const iovec local{&seen, sizeof seen};
    const iovec remote{reinterpret_cast<void*>(peer.token_address), sizeof seen};
    const ssize_t n = member != 0 ? node_->module_->read(member, &local, 1, &remote, 1) : -ENOTCONN;
    if (n == static_cast<ssize_t>(sizeof seen) && seen == peer.token) {
      node_->module_members_[i] = member;
    } else if (member == 0) {
      node_->module_refusal_ = "rank " + std::to_string(node_->world_rank(i)) + " cannot join it";
    } else {
      node_->module_refusal_ =
          std::string("the kernel module: ") + (n < 0 ? std::strerror(static_cast<int>(-n)) : "other bytes");
    }
  }
}

Status Joiner::compute_levels() {
  Machine topology;  // it takes milliseconds to load
  const Status loaded = topology.load(config_.topology_file);
  if (!loaded.ok() && !config_.topology_file.empty()) return loaded;
  const uint32_t n = node_->size_;
  std::vector<os::CpuSet> places(n);
  for (uint32_t i = 0; i < n; ++i) places[i] = config_.topology_file.empty() ? card(i).cpus : topology.place(i);
  // Ranks are often bound alike, so the few different pairs of sets are looked up once.
  std::vector<uint32_t> kind(n);
  for (uint32_t i = 0; i < n; ++i) {
    kind[i] = i;
    for (uint32_t k = 0; k < i; ++k) {
      if (places[k] == places[i]) {
        kind[i] = k;
        break;
      }
    }
  }
  std::map<std::pair<uint32_t, uint32_t>, Level> known;
  const auto level_of = [&](uint32_t a, uint32_t b) {
    const auto [entry, is_new] = known.try_emplace(std::minmax(kind[a], kind[b]), Level::kSelf);
    if (is_new) entry->second = topology.level(places[a], places[b]);
    return entry->second;
  };
  std::vector<uint8_t> bound(n);
  for (uint32_t i = 0; i < n; ++i) bound[i] = measurers_ && topology.cores(card(i).cpus) <= 1 ? 1 : 0;
  auto* levels = at<uint8_t>(node_->base_, header_.levels);
  for (uint32_t a = 0; a < n; ++a) {
    for (uint32_t b = 0; b < n; ++b) {
      bool settled = false;  // read_levels() asks of a < b, where lines were timed
      if (measurers_ && a < b) {
        os::CpuSet both = card(a).cpus;
        both.add(card(b).cpus);
        settled = (bound[a] != 0 && bound[b] != 0) || both.count() <= 2;
      }
      const Level level = a != b ? level_of(a, b) : Level::kSelf;
      levels[a * n + b] = static_cast<uint8_t>(static_cast<uint8_t>(level) | (settled ? kSettled : 0));
    }
  }
  return kOk;
}

void Joiner::time_lines() {
  const os::CpuSet& own = card(node_->self_).cpus;
  const bool stands_in = measurers_->stand_in() && measurers_->has(node_->self_);
  const bool moves = stands_in && os::bind_to(measurers_->place_of(node_->self_)) == 0;
  measure_lines(node_->base_, node_->self_, measurers_->ranks(), measurers_->stand_in());
  if (moves && os::bind_to(own) != 0) note(&notes_, "a processor of this rank was taken away while it measured");
}

/// When all ranks have measured: what the leader wrote, corrected by their lines.
void Joiner::read_levels() {
  const uint32_t n = node_->size_;
  const uint8_t* levels = at<uint8_t>(node_->base_, header_.levels);
  const float* rows = at<float>(node_->base_, header_.lines);
  node_->levels_.assign(size_t{n} * n, Level::kSelf);
  node_->line_ns_.assign(n, 0);
  node_->line_bounds_ =
      line_bounds(rows, n, measurers_ ? measurers_->ranks() : std::vector<uint32_t>{}, os::cpu_is_virtual());
  for (uint32_t a = 0; a < n; ++a) {
    for (uint32_t b = a + 1; b < n; ++b) {
      float line_ns = 0;
      if (measurers_) {
        const auto [one, other] = measurers_->of(a, b);
        line_ns = line_between(rows, n, one, other);
      }
      const uint8_t told = levels[a * n + b];
      const Level level =
          corrected(static_cast<Level>(told & ~kSettled), line_ns, (told & kSettled) != 0, node_->line_bounds_);
      node_->levels_[a * n + b] = node_->levels_[b * n + a] = level;
      if (a == node_->self_) node_->line_ns_[b] = line_ns;
      if (b == node_->self_) node_->line_ns_[a] = line_ns;
    }
  }
}

void Joiner::open_pidfds() {
  for (uint32_t i = 0; i < node_->size_; ++i) {
    if (node_->same_process(i) || card(i).pid_namespace != card(node_->self_).pid_namespace) continue;
    const int fd = os::open_pidfd(node_->pids_[i]);
    node_->pid_fds_[i] = fd >= 0 ? fd : -2;  // -2: ask by pid
  }
}

void Joiner::describe() {
  std::string& how = node_->how_;
  how = memory_kind_.empty() ? "segment of rank " + std::to_string(leader()) : memory_kind_;
  how += " of " + std::to_string(header_.segment_bytes >> 20) + " MiB, reached by " + reach_way_;
  uint32_t peers = 0, reachable = 0, by_module = 0;
  for (uint32_t i = 0; i < node_->size_; ++i) {
    if (i == node_->self_) continue;
    ++peers;
    reachable += node_->cma_[i];
    by_module += node_->module_members_[i] != 0 ? 1 : 0;
  }
  if (peers > 0) {
    how += "; CMA to " + std::to_string(reachable) + " of " + std::to_string(peers) + " peers";
    if (reachable < peers) how += " (" + cma_reason_ + ")";
    if (by_module > 0) how += "; the kernel module to " + std::to_string(by_module);
    if (!node_->module_refusal_.empty()) how += "; " + node_->module_refusal_;
  }
  if (!notes_.empty()) how += "; " + notes_;
}

}  // namespace zh::node
