// Writing MPI_Status as the host's own functions read it.
#pragma once

#include "mpi/shim.h"

namespace zh::mpi {

inline bool ignored(const MPI_Status* status) { return status == MPI_STATUS_IGNORE; }
inline bool statuses_ignored(const MPI_Status* statuses) { return statuses == MPI_STATUSES_IGNORE; }

/// Without the verified layout: through the host's functions.
void slow_status(MPI_Status* status, int source, int tag, uint64_t bytes, bool cancelled);

/// Fills everything but MPI_ERROR. `status` may be MPI_STATUS_IGNORE. Source and tag are the host's numbers.
inline void write_status(MPI_Status* status, int source, int tag, uint64_t bytes, bool cancelled) {
  if (ignored(status)) return;
  if (shim.fast_status) [[likely]] {
    store_status(status, source, tag, bytes, cancelled);
  } else {
    slow_status(status, source, tag, bytes, cancelled);
  }
}

/// MPI standard 3.7.3: what a null or inactive request gives.
inline void write_empty_status(MPI_Status* status) {
  if (ignored(status)) return;
  write_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0, false);
  status->MPI_ERROR = MPI_SUCCESS;
}

/// Compares store_status() with what the host's functions write.
bool verify_status_layout();

}  // namespace zh::mpi
