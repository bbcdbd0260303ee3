// What a job's ranks of this node do at one moment, and the job that is looked at. Made by job.cpp from shared memory
// and /proc; judged (waits.h), told in words (words.h), drawn (draw.h) and printed as JSON by the others.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "node/segment_map.h"
#include "p2p/part.h"
#include "tools/top/processes.h"

namespace zh::tools::top {

enum class RankState {
  kComputing,  ///< with its program, or in a call that does not wait
  kPolling,    ///< it asks again and again (MPI_Test, MPI_Iprobe), and nothing moves
  kInHost,     ///< in a call of the host
  kWaiting,
  kStopped,  ///< by a signal or a debugger
  kDead,
  kLeft,       ///< the process lives, but has left the job
  kElsewhere,  ///< on another node
};

struct Traffic {
  uint64_t messages = 0;
  uint64_t bytes = 0;
};
using TrafficByPath = std::array<Traffic, p2p::kPaths>;

struct RankLook {
  int rank = 0;   ///< of the world
  pid_t pid = 0;  ///< as this process sees it; 0: in a PID namespace that cannot be seen from here
  RankState state = RankState::kComputing;
  std::string call;  ///< "MPI_Recv": what it waits in, also of the host; "": unknown
  p2p::Activity wait;
  uint64_t host_ticks = 0;  ///< when that call of the host began; 0: it is in none
  uint64_t host_ns = 0;     ///< how long ago that is
  uint64_t away_ns = 0;     ///< since it last looked for messages
  uint64_t polls_ns = 0;    ///< for how long it has polled in vain
  TrafficByPath sent, received;
  uint32_t unexpected = 0, unexpected_high = 0, posted = 0;
  uint64_t backed_bytes = 0;  ///< of its part of the segment
  uint64_t cpu_ns = 0;
};

struct JobLook {
  std::string id;       ///< of the batch system, else the lowest pid
  pid_t pid = 0;        ///< the lowest of its ranks'
  uint64_t began = 0;   ///< Process::began of that
  std::string program;  ///< of that
  std::string problem;  ///< why nothing can be told of its ranks; "" if it can
  uint64_t seen_ns = 0;
  uint32_t world_size = 0;
  uint32_t nodes = 1;
  std::vector<RankLook> ranks;  ///< of this node, ascending

  /// Null for one of another node.
  [[nodiscard]] const RankLook* rank(int world_rank) const;
};

/// A job whose segment is mapped for reading.
class Job {
 public:
  explicit Job(Segment segment);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  [[nodiscard]] JobLook look() const;
  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] uint64_t began() const { return began_; }
  [[nodiscard]] uint64_t inode() const { return segment_.inode; }
  /// Whether none of its processes holds it any more.
  [[nodiscard]] bool ended() const;
  /// Still being made: there is nothing to tell of it, and no problem.
  [[nodiscard]] bool starting() const { return starting_; }

 private:
  std::string attach();
  std::string map(int fd);
  void look_at(uint32_t index, RankLook* out) const;
  void look_at_life(uint32_t index, RankLook* out) const;

  Segment segment_;
  std::string id_, program_, problem_;
  uint64_t began_ = 0;
  bool starting_ = false;
  node::HeaderShm header_{};
  int fd_ = -1;
  std::byte* tables_ = nullptr;             ///< all in front of the parts
  std::vector<const p2p::PartShm*> parts_;  ///< null: that rank has made none yet
  mutable std::vector<int> fds_;            ///< by index, under which its process holds the segment; -1: not known yet
  std::vector<int> world_rank_;             ///< by index
};

/// All jobs that this user runs here under zerohop, the newest first; `within`: see find_segments().
[[nodiscard]] std::vector<std::unique_ptr<Job>> find_jobs(pid_t within);

}  // namespace zh::tools::top
