// See busy_loops.h.
#include "tools/bench/busy_loops.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/process.h"

namespace zh::tools {

BusyLoops::BusyLoops(int count) {
  const pid_t parent = os::process_id();
  for (int i = 0; i < count; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      os::die_with_parent(parent);
      volatile unsigned turns = 0;
      for (;;) turns = turns + 1;
    }
    if (child > 0) children_.push_back(child);
  }
}

BusyLoops::~BusyLoops() {
  for (const pid_t child : children_) kill(child, SIGKILL);
  for (const pid_t child : children_) waitpid(child, nullptr, 0);
}

}  // namespace zh::tools
