// The standard ABI of MPI 5 (libmpi_abi.so.1): handles are pointers, small values are predefined handles.
#pragma once

#include <mpi_abi.h>

#define ZH_ABI_NAME "abi"
#define ZH_ABI_INT_HANDLES 0
#define ZH_ABI_LARGE_COUNT 1
#define ZH_ABI_REQUEST_SLOT_BYTES 16

namespace zh::mpi {

inline void store_status(MPI_Status* status, int source, int tag, unsigned long long bytes, bool cancelled) {
  status->MPI_SOURCE = source;
  status->MPI_TAG = tag;
  status->MPI_internal[0] = static_cast<int>(bytes & 0xffffffffULL);
  status->MPI_internal[1] = static_cast<int>(((bytes >> 32) << 1) | (cancelled ? 1U : 0U));
}

}  // namespace zh::mpi
