// What a forked child is told, and what becomes its own.
#pragma once

#include "heap/shared_heap.h"

namespace zh::mpi {

/// In a forked child nothing of zerohop may run: the segment, the queues and the peers are the parent's. A program's
/// exit handlers may call MPI_Finalize there all the same; that goes to the host as if zerohop were not there.
class ChildWatch final : public heap::Client {
 public:
  void keep_peers_away() override {}
  void let_peers_in() override {}
  [[nodiscard]] bool has_memory() const override;
  void copy_in_child() override;
  void in_child() override;
  bool is_child = false;
};
extern ChildWatch child_watch;

}  // namespace zh::mpi
