// Who shares this node, and the memory they share: the segment, each rank's own part of it, levels of distance,
// liveness. Made once per job (or per thread group in tests) by Node::join; the host's collectives are injected, so no
// MPI here.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/shm_types.h"
#include "base/status.h"
#include "node/bootstrap.h"
#include "os/copy_module.h"

namespace zh::node {

/// Distance of two ranks, nearest first; from hwloc, corrected by the measured time of a cache line.
enum class Level : uint8_t { kSelf, kSameCore, kSharedL2, kSharedL3, kSameNuma, kSameSocket, kOtherSocket };
[[nodiscard]] const char* to_string(Level level);

/// One-way times of a line, in ns, by which a pair is near or far, whatever the topology says. All 0: as that says.
struct LineBounds {
  float near_ns = 0;  ///< up to here two hardware threads share a core's cache
  float far_ns = 0;   ///< from here on two "threads of one core" are separate cores
  float most_ns = 0;  ///< an envelope that took longer has waited for its receiver, not for the line
};
/// Measured 40 to 90 ns near and 190 to 380 far on cloud machines.
constexpr LineBounds kVirtualLines{100, 150, 1000};

/// When the kernel module copies, in the order of ZEROHOP_KERNEL's words.
enum class ModuleUse : uint8_t { kWhereRefused, kFirst, kNever };

struct JoinConfig {
  /// Address space of one rank's part of the segment: a budget, and as much again in reserve (shm/arena.h). Memory
  /// comes as it is used.
  uint64_t rank_bytes = 128 << 20;
  /// ... and of its annex, which stays closed until somebody needs it.
  uint64_t annex_bytes = 0;
  uint32_t node_ranks = 0;    ///< > 0: pretend that nodes have this many ranks (the setting node_ranks)
  std::string topology_file;  ///< hwloc XML or "synthetic:..." instead of this machine, for tests
  std::string machine;        ///< tests: this name instead of the kernel's boot id, so that there are several machines
  bool measure_line = true;   ///< correct levels by the measured line time
  bool cma = true;            ///< false: no probe, cma() is false for every pair (ZEROHOP_CMA=0)
  ModuleUse module_use = ModuleUse::kWhereRefused;  ///< between which pairs the kernel module copies (ZEROHOP_KERNEL)
  std::function<Status(std::unique_ptr<os::CopyModule>*)> open_module;  ///< tests: another one
  bool tracer = true;  ///< under Yama's scope 1, open this process to its user's others (the setting ptracer)
  uint32_t memory_kinds = kMemfd | kFile;                        ///< kinds of memory that may be tried, best first
  uint32_t reach_ways = kReachProc | kReachSocket | kReachFile;  ///< ways to the segment that may be tried
  std::span<uint64_t> terms;  ///< the caller's, kMostTerms at most: in the end each is the least of all ranks'
  std::string folder;         ///< of named files and sockets; "" = /dev/shm, else TMPDIR, else /tmp
  int fail_stage = -1;        ///< tests: this rank fails at the stage of that number (see JoinStage in joiner.cpp)

  static constexpr size_t kMostTerms = 16;
  static constexpr uint32_t kMemfd = 1, kFile = 2;
  static constexpr uint32_t kReachProc = 1, kReachSocket = 2, kReachFile = 4;
};

/// One rank's view of its node. Every rank of the node holds the segment mapped at some address.
class Node {
 public:
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Collective over `world`, to which each rank tells 8 bytes and a few words that are reduced; all else is told among
  /// the ranks of a machine (Bootstrap::among). On failure every rank gets a failure with the same reason and nothing
  /// is left behind. The Status' text lives for the rest of the process.
  static Status join(Bootstrap& world, const JoinConfig& config, std::unique_ptr<Node>* out);

  [[nodiscard]] uint32_t self() const { return self_; }    ///< index of this rank among the node's
  [[nodiscard]] uint32_t size() const { return size_; }    ///< ranks on this node
  [[nodiscard]] std::byte* base() const { return base_; }  ///< start of the segment
  [[nodiscard]] Offset part(uint32_t index) const { return parts_ + index * rank_bytes_; }
  [[nodiscard]] uint64_t part_bytes() const { return rank_bytes_; }

  /// A rank's annex, and its bytes; 0: there is none.
  [[nodiscard]] Offset annex(uint32_t index) const { return annexes_ + index * annex_bytes_; }
  [[nodiscard]] uint64_t annex_bytes() const { return annex_bytes_; }
  /// Before this process first touches what lies at `offset` in the segment, as somebody else has told it: false if
  /// that cannot be touched.
  [[nodiscard]] bool open(Offset offset) { return offset < annexes_ || open_annex(offset); }

  /// Backs [offset, offset + bytes) of this rank's own part or annex with memory, so that touching it cannot raise
  /// SIGBUS. kNoMemory when a limit is in the way (the text names it and the cure); kInvalid outside of these.
  Status reserve(Offset offset, uint64_t bytes);
  /// Gives whole pages of the own part back to the system; peers must have stopped using them. Best effort.
  void release(Offset offset, uint64_t bytes);

  [[nodiscard]] pid_t pid(uint32_t index) const { return pids_[index]; }
  /// Whether pid(index) means that process here too (the same PID namespace): what it has open can then be reached.
  [[nodiscard]] bool knows_pid(uint32_t index) const { return known_pids_[index] != 0; }
  [[nodiscard]] bool same_process(uint32_t index) const { return pids_[index] == pids_[self_]; }
  /// By world rank, in the segment, where the node's ranks share them: the index on this node (-1 for ranks of others),
  /// the number of the rank's node (the same on all ranks), and the rank itself.
  [[nodiscard]] const int32_t* local_indices() const { return at<const int32_t>(base_, tables_.local_of); }
  [[nodiscard]] const uint32_t* nodes_of() const { return at<const uint32_t>(base_, tables_.node_of); }
  [[nodiscard]] const int32_t* world_ranks() const { return at<const int32_t>(base_, tables_.ranks); }
  [[nodiscard]] int local_index(int world_rank) const { return local_indices()[world_rank]; }
  [[nodiscard]] uint32_t node_of(int world_rank) const { return nodes_of()[world_rank]; }
  [[nodiscard]] int world_rank(uint32_t index) const { return world_of_local_[index]; }
  [[nodiscard]] int nodes() const { return nodes_; }  ///< nodes of the whole job
  [[nodiscard]] int world_size() const { return world_size_; }

  /// For a rank's first words to its node, while the job starts: leave_word() on one, agree() on all, word_of() on the
  /// others.
  void leave_word(uint64_t word);
  [[nodiscard]] uint64_t word_of(uint32_t index) const;

  [[nodiscard]] bool is_whole_job() const { return static_cast<int>(size_) == world_size_; }
  /// A meeting of the node's ranks: come() on all, then have_come() until it is true, `*well` if all came well; who has
  /// ended has not.
  void come(bool well);
  [[nodiscard]] bool have_come(bool* well);
  /// While the job starts: all ranks of it end with success, or with the failure of the lowest rank that has failed.
  /// Nobody returns before all have called; who waits on a job of one node sleeps.
  Status agree(Bootstrap& world, const Status& mine);

  [[nodiscard]] Level level(uint32_t a, uint32_t b) const { return levels_[a * size_ + b]; }
  /// One-way time of a cache line between this rank and `index`, nanoseconds; 0 if it was not measured.
  [[nodiscard]] float line_ns(uint32_t index) const { return line_ns_[index]; }
  /// What has corrected the levels, and may while the job runs.
  [[nodiscard]] const LineBounds& line_bounds() const { return line_bounds_; }
  /// Whether the ranks outnumber the CPUs that they may use altogether (affinity and cgroup quota).
  [[nodiscard]] bool oversubscribed() const { return size_ > usable_cpus_; }
  /// Whether process_vm_readv/writev works towards `index` (live probe at join; false if ZEROHOP_CMA=0).
  [[nodiscard]] bool cma(uint32_t index) const { return cma_[index] != 0; }
  /// The kernel module, if any pair of the node copies by it; else null.
  [[nodiscard]] os::CopyModule* module() const { return module_.get(); }
  /// The number under which `index` is known to it, if that is this rank's way to its memory; else 0.
  [[nodiscard]] uint32_t module_member(uint32_t index) const { return module_members_[index]; }
  /// `index` may have to copy so: buffers that it is told of must have been let in to.
  [[nodiscard]] bool lets_in(uint32_t index) const { return lets_in_[index] != 0; }
  /// Why the module does not copy where it was asked for; empty if it does, or was not.
  [[nodiscard]] const std::string& module_refusal() const { return module_refusal_; }
  /// False once the peer's process has ended (pidfd; cheap, asked while waiting).
  [[nodiscard]] bool alive(uint32_t index);
  /// The same looked up now, for any thread.
  [[nodiscard]] bool ended(uint32_t index) const;
  /// How the segment was made and reached, and why not in a better way; for `zerohop info` and logs.
  [[nodiscard]] const std::string& how() const { return how_; }

 private:
  Node() = default;
  bool open_annex(Offset offset);
  bool meet(bool well);  // whether all ranks came to it well
  friend class Joiner;
  friend struct NodeTestAccess;  // tests let threads share one mapping, so that ThreadSanitizer sees every access

  std::byte* base_ = nullptr;
  uint64_t segment_bytes_ = 0;
  uint64_t page_bytes_ = 4096;
  Offset parts_ = 0;
  uint64_t rank_bytes_ = 0;
  Offset annexes_ = ~Offset{0};
  uint64_t annex_bytes_ = 0;
  std::vector<uint64_t> annex_opened_;  ///< by rank, from the annex's start
  uint32_t self_ = 0;
  uint32_t size_ = 0;
  uint32_t usable_cpus_ = 1;
  int nodes_ = 1;
  int world_size_ = 1;
  struct {
    Offset slots, local_of, node_of, ranks;
  } tables_{};
  int segment_fd_ = -1;
  bool memory_limited_ = false;  ///< the cgroup has a limit, or those above it
  std::vector<pid_t> pids_;
  std::vector<uint8_t> known_pids_;
  std::vector<int> pid_fds_;
  std::vector<uint64_t> next_look_;  ///< ticks before which alive() repeats its last answer
  std::vector<uint8_t> ended_;
  std::vector<int> world_of_local_;
  std::vector<Level> levels_;
  std::vector<float> line_ns_;
  LineBounds line_bounds_;
  std::vector<uint8_t> cma_;
  std::unique_ptr<os::CopyModule> module_;
  std::vector<uint32_t> module_members_;
  std::vector<uint8_t> lets_in_;
  std::string module_refusal_;
  std::string how_;
};

}  // namespace zh::node
