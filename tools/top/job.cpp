// See look.h. Only maps and reads: whatever becomes of this process, the job does not notice.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "mpi/entry/function_names.h"
#include "os/clock.h"
#include "os/process.h"
#include "os/segment.h"
#include "tools/top/look.h"

namespace zh::tools::top {
namespace {

/// A rank polls as long as no more than this, and twice what passed before, passes between polls that tell of it.
constexpr uint64_t kPollsWithinNs = 1'000'000'000;

uint64_t part_head_bytes(const node::HeaderShm& header) {
  return std::min(round_up(sizeof(p2p::PartShm), header.page_bytes), header.rank_bytes);
}

/// Bytes of [from, to) that have memory behind them.
uint64_t backed_bytes(int fd, uint64_t from, uint64_t to) {
  uint64_t sum = 0;
  for (auto at = static_cast<off_t>(from); at < static_cast<off_t>(to);) {
    const off_t data = lseek(fd, at, SEEK_DATA);
    if (data < 0 || data >= static_cast<off_t>(to)) break;
    at = std::min(lseek(fd, data, SEEK_HOLE), static_cast<off_t>(to));
    if (at <= data) break;
    sum += static_cast<uint64_t>(at - data);
  }
  return sum;
}

std::string name_of_call(uint32_t number) {
  return number == 0 || number > mpi::kFunctions ? "" : std::string("MPI_") + mpi::kFunctionNames[number - 1];
}

TrafficByPath traffic_of(const p2p::Tally (&tallies)[p2p::kPaths][p2p::kSizeClasses]) {
  TrafficByPath out;
  for (uint32_t path = 0; path < p2p::kPaths; ++path) {
    for (const p2p::Tally& tally : tallies[path]) {
      out[path].messages += tally.messages;
      out[path].bytes += tally.bytes;
    }
  }
  return out;
}

uint64_t ns_since(uint64_t ticks) {
  const uint64_t now = os::ticks();
  if (ticks == 0 || ticks >= now || !os::ticks_are_steady()) return 0;
  return static_cast<uint64_t>(static_cast<double>(now - ticks) / os::ticks_per_us() * 1000);
}

}  // namespace

const RankLook* JobLook::rank(int world_rank) const {
  const auto at = std::find_if(ranks.begin(), ranks.end(), [&](const RankLook& r) { return r.rank == world_rank; });
  return at == ranks.end() ? nullptr : &*at;
}

Job::Job(Segment segment) : segment_(std::move(segment)) {
  const pid_t first = segment_.holders.front().pid;
  id_ = variable_of(first, {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "JOB_ID"});
  if (id_.empty()) id_ = std::to_string(first);
  program_ = command_of(first);
  Process process;
  if (look_at_process(first, &process)) began_ = process.began;
  problem_ = attach();
}

Job::~Job() {
  for (const p2p::PartShm* part : parts_) {
    if (part != nullptr) {
      os::unmap(const_cast<std::byte*>(reinterpret_cast<const std::byte*>(part)), part_head_bytes(header_));
    }
  }
  os::unmap(tables_, header_.parts);
  if (fd_ >= 0) close(fd_);
}

std::string Job::attach() {
  for (const Holder& holder : segment_.holders) {
    const std::string path = "/proc/" + std::to_string(holder.pid) + "/fd/" + std::to_string(holder.fd);
    fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ >= 0) return map(fd_);
  }
  return "its memory cannot be opened: the system lets only a debugger of these processes do that";
}

std::string Job::map(int fd) {
  if (pread(fd, &header_, sizeof header_, 0) != static_cast<ssize_t>(sizeof header_) || header_.magic == 0) {
    starting_ = true;
    return "";
  }
  const node::HeaderShm seen = header_;
  header_.parts = 0;  // nothing is mapped
  if (seen.magic != node::kMagic) return "its memory is none of zerohop's";
  if (seen.layout_hash != node::kLayoutHash) return "it runs another build of zerohop: use the `zerohop top` of that";
  if (const char* broken = seen.broken_invariant(); broken != nullptr)
    return std::string("its memory is broken: ") + broken;
  if (os::size_of(fd) < seen.segment_bytes) return "its memory is broken: shorter than it says";
  if (const Status s = os::map_shared_range(fd, 0, seen.parts, false, &tables_); !s.ok()) return s.text();
  header_ = seen;
  world_rank_.assign(header_.ranks, -1);
  fds_.assign(header_.ranks, -1);
  const auto* local_of = at<const int32_t>(tables_, header_.local_of);
  for (uint32_t rank = 0; rank < header_.world_ranks; ++rank) {
    const int32_t local = local_of[rank];
    if (local >= 0 && local < static_cast<int32_t>(header_.ranks))
      world_rank_[static_cast<size_t>(local)] = static_cast<int>(rank);
  }
  for (uint32_t i = 0; i < header_.ranks; ++i) {
    std::byte* part = nullptr;
    const Status s =
        os::map_shared_range(fd, header_.parts + i * header_.rank_bytes, part_head_bytes(header_), false, &part);
    if (!s.ok()) return s.text();
    parts_.push_back(at<const p2p::PartShm>(part, 0));
  }
  return "";
}

bool Job::ended() const {
  return std::none_of(segment_.holders.begin(), segment_.holders.end(),
                      [this](Holder h) { return holds(h.pid, &h.fd, segment_); });
}

JobLook Job::look() const {
  JobLook out{id_, segment_.holders.front().pid, began_, program_, problem_, os::now_ns(), 0, 1, {}};
  if (tables_ == nullptr) return out;
  out.world_size = header_.world_ranks;
  const auto* node_of = at<const uint32_t>(tables_, header_.node_of);
  out.nodes = *std::max_element(node_of, node_of + header_.world_ranks) + 1;
  for (uint32_t i = 0; i < header_.ranks; ++i) {
    RankLook rank;
    rank.rank = world_rank_[i];
    look_at(i, &rank);
    look_at_life(i, &rank);
    out.ranks.push_back(std::move(rank));
  }
  std::sort(out.ranks.begin(), out.ranks.end(), [](const RankLook& a, const RankLook& b) { return a.rank < b.rank; });
  return out;
}

void Job::look_at(uint32_t index, RankLook* out) const {
  const uint64_t begin = header_.parts + index * header_.rank_bytes;
  out->backed_bytes = backed_bytes(fd_, begin, begin + header_.rank_bytes);
  // A read of what the rank has not made yet would make it, at this process's expense.
  if (lseek(fd_, static_cast<off_t>(begin), SEEK_DATA) != static_cast<off_t>(begin)) return;
  const p2p::PartShm& part = *parts_[index];
  constexpr int kTries = 100;
  for (int i = 0; i < kTries && !part.activity.read(&out->wait); ++i) cpu_relax();
  out->wait.peers_told = std::min(out->wait.peers_told, p2p::Activity::kPeers);
  uint64_t host_ticks = 0;
  const uint32_t host_call = part.activity.host_function(&host_ticks);
  using Waits = p2p::Activity::Waits;
  if (host_call != 0 || out->wait.waits == Waits::kInHost) {
    out->state = RankState::kInHost;
    out->call = name_of_call(host_call != 0 ? host_call : out->wait.call);
    out->host_ticks = host_ticks;
    out->host_ns = ns_since(host_ticks);
    if (host_call == 0) out->host_ns = os::now_ns() - std::min(os::now_ns(), out->wait.began_ns);
  } else if (out->wait.waits != Waits::kNot) {
    out->state = RankState::kWaiting;
    out->call = name_of_call(out->wait.call);
  } else if (const uint64_t last = part.activity.polled_ns.load_relaxed();
             last + kPollsWithinNs + 2 * part.activity.poll_gap_ns.load_relaxed() > os::now_ns()) {
    out->state = RankState::kPolling;
    out->polls_ns = last - std::min(last, part.activity.polls_ns.load_relaxed());
  }
  out->away_ns = ns_since(part.state.stamp.load_relaxed());
  out->sent = traffic_of(part.account.counters.sent);
  out->received = traffic_of(part.account.counters.received);
  out->unexpected = part.queues.unexpected_count.load_relaxed();
  out->unexpected_high = part.queues.unexpected_high.load_relaxed();
  out->posted = part.queues.posted_total.load_relaxed();
}

void Job::look_at_life(uint32_t index, RankLook* out) const {
  const node::SlotShm& slot = at<const node::SlotShm>(tables_, header_.slots)[index];
  const auto inner = static_cast<pid_t>(slot.pid.load_relaxed());
  const uint64_t pid_namespace = slot.pid_namespace.load_relaxed();
  if (inner == 0) return;
  bool visible = pid_namespace == os::namespace_id("pid");
  out->pid = visible ? inner : 0;
  for (const Holder& holder : segment_.holders) {
    if (holder.pid_namespace != pid_namespace) continue;
    visible = true;
    if (holder.inner_pid == inner) out->pid = holder.pid;
  }
  if (!visible) return;
  Process process;
  if (out->pid == 0 || !look_at_process(out->pid, &process) || process.state == 'Z' || process.state == 'X') {
    out->state = RankState::kDead;
  } else if (!holds(out->pid, &fds_[index], segment_)) {
    out->state = RankState::kLeft;
  } else if (process.state == 'T' || process.state == 't') {
    out->state = RankState::kStopped;
  }
  out->cpu_ns = process.cpu_ns;
}

std::vector<std::unique_ptr<Job>> find_jobs(pid_t within) {
  std::vector<std::unique_ptr<Job>> jobs;
  for (Segment& segment : find_segments(within)) {
    auto job = std::make_unique<Job>(std::move(segment));
    if (!job->starting()) jobs.push_back(std::move(job));
  }
  std::sort(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) {
    return a->began() != b->began() ? a->began() > b->began() : a->inode() > b->inode();
  });
  return jobs;
}

}  // namespace zh::tools::top
