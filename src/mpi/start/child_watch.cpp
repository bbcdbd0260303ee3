#include "mpi/start/child_watch.h"

#include "copy/regions.h"
#include "mpi/shim.h"
#include "mpi/start/job.h"
#include "os/vm.h"

namespace zh::mpi {

ChildWatch child_watch;

bool ChildWatch::has_memory() const { return job != nullptr && job->regions != nullptr && job->regions->used(); }

void ChildWatch::copy_in_child() {
  constexpr uint64_t kMostBytes = 64 << 20;
  if (has_memory() && !job->regions->copy_in_child(kMostBytes)) {
    os::say_line("a forked child shares memory of MPI_Alloc_mem with its parent: out of memory", "");
  }
}

void ChildWatch::in_child() {
  shim.rank = nullptr;
  job = nullptr;
  is_child = true;
}

}  // namespace zh::mpi
