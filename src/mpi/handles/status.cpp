// The slow, portable way to write a status, and the check that allows the fast one.
#include "mpi/handles/status.h"

#include <cstring>

namespace zh::mpi {

void slow_status(MPI_Status* status, int source, int tag, uint64_t bytes, bool cancelled) {
  status->MPI_SOURCE = source;
  status->MPI_TAG = tag;
  host.Status_set_elements_x(status, MPI_BYTE, static_cast<MPI_Count>(bytes));
  host.Status_set_cancelled(status, cancelled ? 1 : 0);
}

bool verify_status_layout() {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{12345}, (uint64_t{5} << 32) + 77}) {
    for (const bool cancelled : {false, true}) {
      MPI_Status mine;
      MPI_Status theirs;
      std::memset(&mine, 0, sizeof(mine));
      std::memset(&theirs, 0, sizeof(theirs));
      slow_status(&theirs, 3, 4, bytes, cancelled);
      store_status(&mine, 3, 4, bytes, cancelled);
      if (std::memcmp(&mine, &theirs, sizeof(mine)) != 0) return false;
    }
  }
  return true;
}

}  // namespace zh::mpi
