// The ABI of MPICH's libmpi.so.12, which Intel MPI shares: handles are ints, and the constants below.
#pragma once

#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

// Constants of the binary interface that MPICH 4.0 does not name yet.
#ifndef MPI_BUFFER_AUTOMATIC
#define MPI_BUFFER_AUTOMATIC reinterpret_cast<void*>(-2)
#endif
#ifndef MPI_REAL2
#define MPI_REAL2 static_cast<MPI_Datatype>(0x4c000226)
#endif
#ifndef MPI_LOGICAL1
#define MPI_LOGICAL1 static_cast<MPI_Datatype>(0x4c000147)
#define MPI_LOGICAL2 static_cast<MPI_Datatype>(0x4c000248)
#define MPI_LOGICAL4 static_cast<MPI_Datatype>(0x4c000449)
#define MPI_LOGICAL8 static_cast<MPI_Datatype>(0x4c00084a)
#endif

// Macros there, functions in other libraries; zerohop provides them as functions.
#undef MPI_Request_c2f
#undef MPI_Request_f2c
#undef MPI_Message_c2f
#undef MPI_Message_f2c
#undef PMPI_Request_c2f
#undef PMPI_Request_f2c
#undef PMPI_Message_c2f
#undef PMPI_Message_f2c

#define ZH_ABI_NAME "mpich"
#define ZH_ABI_INT_HANDLES 1
#define ZH_ABI_LARGE_COUNT 1
#define ZH_ABI_REQUEST_SLOT_BYTES 0

namespace zh::mpi {

/// Layout of MPI_Status (docs/design/interposition.md); verified against the host when it starts.
inline void store_status(MPI_Status* status, int source, int tag, unsigned long long bytes, bool cancelled) {
  status->MPI_SOURCE = source;
  status->MPI_TAG = tag;
  status->count_lo = static_cast<int>(bytes & 0xffffffffULL);
  status->count_hi_and_cancelled = static_cast<int>(((bytes >> 32) << 1) | (cancelled ? 1U : 0U));
}

}  // namespace zh::mpi
