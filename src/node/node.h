// Who shares this node, and the memory they share: the segment, each rank's own part of it, levels of distance,
// liveness. Made once per job (or per thread group in tests) by Node::join; the host's collectives are injected, so no
// MPI here.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/shm_types.h"
#include "base/status.h"

namespace zh::node {

/// Distance of two ranks, nearest first; from hwloc, corrected by the measured time of a cache line.
enum class Level : uint8_t { kSelf, kSameCore, kSharedL2, kSharedL3, kSameNuma, kSameSocket, kOtherSocket };
[[nodiscard]] const char* to_string(Level level);

/// What joining needs from outside: a collective over all ranks of the job (the host's Allgather, or a test's own).
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  [[nodiscard]] virtual int rank() const = 0;  ///< in the world, 0 <= rank < size
  [[nodiscard]] virtual int size() const = 0;
  /// out[i * bytes .. +bytes) = rank i's `in`, on every rank.
  virtual Status allgather(const void* in, size_t bytes, void* out) = 0;
};

struct JoinConfig {
  /// Address space of one rank's part of the segment: a budget, and as much again in reserve (shm/arena.h). Memory
  /// comes as it is used.
  uint64_t rank_bytes = 128 << 20;
  /// ... and of its annex, which stays closed until somebody needs it.
  uint64_t annex_bytes = 0;
  uint32_t node_ranks = 0;    ///< > 0: pretend that nodes have this many ranks (ZEROHOP_NODE_RANKS)
  std::string topology_file;  ///< hwloc XML or "synthetic:..." instead of this machine, for tests
  bool measure_line = true;   ///< correct levels by the measured line time
  bool cma = true;            ///< false: no probe, cma() is false for every pair (ZEROHOP_CMA=0)
  bool tracer = true;         ///< under Yama's scope 1, open this process to its user's others (ZEROHOP_PTRACER)
  uint32_t memory_kinds = kMemfd | kFile;                        ///< kinds of memory that may be tried, best first
  uint32_t reach_ways = kReachProc | kReachSocket | kReachFile;  ///< ways to the segment that may be tried
  std::string folder;   ///< of named files and sockets; "" = /dev/shm, else TMPDIR, else /tmp
  int fail_stage = -1;  ///< tests: this rank fails at the stage of that number (see JoinStage in joiner.cpp)

  static constexpr uint32_t kMemfd = 1, kFile = 2;
  static constexpr uint32_t kReachProc = 1, kReachSocket = 2, kReachFile = 4;
};

/// One rank's view of its node. Every rank of the node holds the segment mapped at some address.
class Node {
 public:
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Collective over `world`. On failure every rank gets a failure with the same reason and nothing is left behind.
  /// The Status' text lives for the rest of the process.
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
  /// Node of a world rank, and its index there; index is -1 for a rank of another node.
  [[nodiscard]] int local_index(int world_rank) const { return local_of_world_[static_cast<size_t>(world_rank)]; }
  /// Number of a world rank's node, the same on all ranks.
  [[nodiscard]] uint32_t node_of(int world_rank) const { return node_of_world_[static_cast<size_t>(world_rank)]; }
  [[nodiscard]] int world_rank(uint32_t index) const { return world_of_local_[index]; }
  [[nodiscard]] int nodes() const { return nodes_; }  ///< nodes of the whole job
  [[nodiscard]] int world_size() const { return static_cast<int>(local_of_world_.size()); }

  [[nodiscard]] Level level(uint32_t a, uint32_t b) const { return levels_[a * size_ + b]; }
  /// Number of the domain of a rank of this node: its socket, memory node or last-level cache by the topology, as it
  /// was bound when it joined; 0 for all where they are not divided (domains.h).
  [[nodiscard]] uint32_t domain_of(uint32_t index) const { return domains_[index]; }
  /// One-way time of a cache line between this rank and `index`, nanoseconds; 0 if it was not measured.
  [[nodiscard]] float line_ns(uint32_t index) const { return line_ns_[index]; }
  /// CPUs that this node's ranks may use altogether (affinity and cgroup quota).
  [[nodiscard]] uint32_t usable_cpus() const { return usable_cpus_; }
  [[nodiscard]] bool oversubscribed() const { return size_ > usable_cpus_; }
  /// Whether process_vm_readv/writev works towards `index` (live probe at join; false if ZEROHOP_CMA=0).
  [[nodiscard]] bool cma(uint32_t index) const { return cma_[index] != 0; }
  /// False once the peer's process has ended (pidfd; cheap, asked while waiting).
  [[nodiscard]] bool alive(uint32_t index);
  /// The same looked up now, for any thread.
  [[nodiscard]] bool ended(uint32_t index) const;
  /// How the segment was made and reached, and why not in a better way; for `zerohop info` and logs.
  [[nodiscard]] const std::string& how() const { return how_; }

 private:
  Node() = default;
  bool open_annex(Offset offset);
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
  int segment_fd_ = -1;
  std::vector<pid_t> pids_;
  std::vector<uint8_t> known_pids_;
  std::vector<int> pid_fds_;
  std::vector<uint64_t> next_look_;  ///< ticks before which alive() repeats its last answer
  std::vector<uint8_t> ended_;
  std::vector<int> local_of_world_;
  std::vector<uint32_t> node_of_world_;
  std::vector<int> world_of_local_;
  std::vector<Level> levels_;
  std::vector<float> line_ns_;
  std::vector<uint32_t> domains_;
  std::vector<uint8_t> cma_;
  std::string how_;
};

}  // namespace zh::node
