// What /proc tells of the user's processes: which of them hold a node's segment, whether they run, what they use.
// Called by job.cpp, top.cpp and hang.cpp; refuses to know what lies in a segment.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace zh::tools::top {

struct Process {
  pid_t parent = 0;
  char state = 'X';  ///< as `ps` shows it: R, S, D, T (stopped), Z (ended), ...
  uint64_t cpu_ns = 0;
  uint64_t began = 0;  ///< in clock ticks of the system, since it started
};
/// False if there is none.
bool look_at_process(pid_t pid, Process* out);
/// Its command line, without the folder of the program.
[[nodiscard]] std::string command_of(pid_t pid);
/// The first of these variables that it was started with; "" if it had none.
[[nodiscard]] std::string variable_of(pid_t pid, std::initializer_list<const char*> names);

/// A process that holds a segment.
struct Holder {
  pid_t pid = 0;  ///< as this process sees it
  int fd = -1;
  uint64_t pid_namespace = 0;
  pid_t inner_pid = 0;  ///< as it sees itself
};
/// A memory file that may be a node's segment, by its name.
struct Segment {
  uint64_t device = 0;
  uint64_t inode = 0;
  std::vector<Holder> holders;  ///< ascending
};
/// Of all processes of this user; `within`: only those that this process, or one that descends from it, holds; 0: all.
[[nodiscard]] std::vector<Segment> find_segments(pid_t within);
/// Whether the process has the file open for writing, under that number if there is any (which then changes), or
/// mapped: as a rank has, and not who looks at it.
[[nodiscard]] bool holds(pid_t pid, int* fd, const Segment& segment);

}  // namespace zh::tools::top
