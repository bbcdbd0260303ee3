// See commit.cpp.
#pragma once

namespace zh::mpi {

/// Called, while it is set, before each PMIx_Commit, with a handle by which dlsym finds the functions of PMIx. The
/// module sets it before the host initialises.
extern void (*before_commit)(void* pmix);

}  // namespace zh::mpi
