// The ABI of Open MPI's libmpi.so.40. Its predefined handles are addresses of data in the library: referring to them
// would keep every preloaded program without MPI from starting, so they are looked up when the host is known.
#pragma once

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#if MPI_VERSION < 4
#include "mpi/entry/abi_ompi_mpi3.h"
#endif

#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, symbol) (::zh::mpi::predefined.symbol)

// The handles that the shim names: type, symbol in the library.
#define ZH_PREDEFINED(X)                  \
  X(MPI_Comm, ompi_mpi_comm_world)        \
  X(MPI_Comm, ompi_mpi_comm_self)         \
  X(MPI_Comm, ompi_mpi_comm_null)         \
  X(MPI_Request, ompi_request_null)       \
  X(MPI_Message, ompi_message_null)       \
  X(MPI_Message, ompi_message_no_proc)    \
  X(MPI_Datatype, ompi_mpi_datatype_null) \
  X(MPI_Op, ompi_mpi_op_null)             \
  X(MPI_Datatype, ompi_mpi_byte)          \
  X(MPI_Datatype, ompi_mpi_int)           \
  X(MPI_Datatype, ompi_mpi_int64_t)       \
  X(MPI_Op, ompi_mpi_op_max)              \
  X(MPI_Op, ompi_mpi_op_min)              \
  X(MPI_Datatype, ompi_mpi_packed)        \
  X(MPI_Info, ompi_mpi_info_null)         \
  X(MPI_Group, ompi_mpi_group_null)       \
  X(MPI_Datatype, ompi_mpi_float_int)     \
  X(MPI_Datatype, ompi_mpi_double_int)    \
  X(MPI_Datatype, ompi_mpi_long_int)      \
  X(MPI_Datatype, ompi_mpi_2int)          \
  X(MPI_Datatype, ompi_mpi_short_int)     \
  X(MPI_Datatype, ompi_mpi_longdbl_int)   \
  X(MPI_Errhandler, ompi_mpi_errors_return)

namespace zh::mpi {

struct Predefined {
#define ZH_X(type, symbol) type symbol;
  ZH_PREDEFINED(ZH_X)
#undef ZH_X
};
extern Predefined predefined;

inline void store_status(MPI_Status* status, int source, int tag, unsigned long long bytes, bool cancelled) {
  status->MPI_SOURCE = source;
  status->MPI_TAG = tag;
  status->_cancelled = cancelled ? 1 : 0;
  status->_ucount = bytes;
}

}  // namespace zh::mpi

// Newer constants that Open MPI 5 does not have; zerohop implements what they belong to.
#ifndef MPI_BUFFER_AUTOMATIC
#define MPI_BUFFER_AUTOMATIC (reinterpret_cast<void*>(2))
#endif

#define ZH_ABI_NAME "ompi"
#define ZH_ABI_INT_HANDLES 0
#define ZH_ABI_LARGE_COUNT 0
// Open MPI's Fortran wrappers read the Fortran handle inside a request object (at byte 0x68 in 4.1 and 5.0): each slot
// of this many bytes is filled with it.
#define ZH_ABI_REQUEST_SLOT_BYTES 256
