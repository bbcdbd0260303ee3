// The ABI of Open MPI's libmpi.so.40. Its predefined handles are addresses of data in the library: referring to them
// would keep every preloaded program without MPI from starting, so they are looked up when the host is known.
#pragma once

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#if MPI_VERSION < 4
#include "mpi/entry/abi_ompi_mpi3.h"
#endif

#undef MPI_COMM_WORLD
#undef MPI_COMM_SELF
#undef MPI_COMM_NULL
#undef MPI_REQUEST_NULL
#undef MPI_MESSAGE_NULL
#undef MPI_MESSAGE_NO_PROC
#undef MPI_DATATYPE_NULL
#undef MPI_OP_NULL
#undef MPI_BYTE
#undef MPI_INT
#undef MPI_MAX
#undef MPI_MIN
#undef MPI_PACKED
#undef MPI_INFO_NULL
#undef MPI_GROUP_NULL
#undef MPI_FLOAT_INT
#undef MPI_DOUBLE_INT
#undef MPI_LONG_INT
#undef MPI_2INT
#undef MPI_SHORT_INT
#undef MPI_LONG_DOUBLE_INT
#undef MPI_INT64_T
#undef MPI_ERRORS_RETURN

// name of the constant, its type, symbol in the library
#define ZH_PREDEFINED(X)                                 \
  X(COMM_WORLD, MPI_Comm, ompi_mpi_comm_world)           \
  X(COMM_SELF, MPI_Comm, ompi_mpi_comm_self)             \
  X(COMM_NULL, MPI_Comm, ompi_mpi_comm_null)             \
  X(REQUEST_NULL, MPI_Request, ompi_request_null)        \
  X(MESSAGE_NULL, MPI_Message, ompi_message_null)        \
  X(MESSAGE_NO_PROC, MPI_Message, ompi_message_no_proc)  \
  X(DATATYPE_NULL, MPI_Datatype, ompi_mpi_datatype_null) \
  X(OP_NULL, MPI_Op, ompi_mpi_op_null)                   \
  X(BYTE, MPI_Datatype, ompi_mpi_byte)                   \
  X(INT, MPI_Datatype, ompi_mpi_int)                     \
  X(INT64_T, MPI_Datatype, ompi_mpi_int64_t)             \
  X(MAX, MPI_Op, ompi_mpi_op_max)                        \
  X(MIN, MPI_Op, ompi_mpi_op_min)                        \
  X(PACKED, MPI_Datatype, ompi_mpi_packed)               \
  X(INFO_NULL, MPI_Info, ompi_mpi_info_null)             \
  X(GROUP_NULL, MPI_Group, ompi_mpi_group_null)          \
  X(FLOAT_INT, MPI_Datatype, ompi_mpi_float_int)         \
  X(DOUBLE_INT, MPI_Datatype, ompi_mpi_double_int)       \
  X(LONG_INT, MPI_Datatype, ompi_mpi_long_int)           \
  X(2INT, MPI_Datatype, ompi_mpi_2int)                   \
  X(SHORT_INT, MPI_Datatype, ompi_mpi_short_int)         \
  X(LONG_DOUBLE_INT, MPI_Datatype, ompi_mpi_longdbl_int) \
  X(ERRORS_RETURN, MPI_Errhandler, ompi_mpi_errors_return)

namespace zh::mpi {

struct Predefined {
#define ZH_X(name, type, symbol) type v_##name;
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

#define MPI_COMM_WORLD (::zh::mpi::predefined.v_COMM_WORLD)
#define MPI_COMM_SELF (::zh::mpi::predefined.v_COMM_SELF)
#define MPI_COMM_NULL (::zh::mpi::predefined.v_COMM_NULL)
#define MPI_REQUEST_NULL (::zh::mpi::predefined.v_REQUEST_NULL)
#define MPI_MESSAGE_NULL (::zh::mpi::predefined.v_MESSAGE_NULL)
#define MPI_MESSAGE_NO_PROC (::zh::mpi::predefined.v_MESSAGE_NO_PROC)
#define MPI_DATATYPE_NULL (::zh::mpi::predefined.v_DATATYPE_NULL)
#define MPI_OP_NULL (::zh::mpi::predefined.v_OP_NULL)
#define MPI_BYTE (::zh::mpi::predefined.v_BYTE)
#define MPI_INT (::zh::mpi::predefined.v_INT)
#define MPI_INT64_T (::zh::mpi::predefined.v_INT64_T)
#define MPI_MAX (::zh::mpi::predefined.v_MAX)
#define MPI_MIN (::zh::mpi::predefined.v_MIN)
#define MPI_PACKED (::zh::mpi::predefined.v_PACKED)
#define MPI_INFO_NULL (::zh::mpi::predefined.v_INFO_NULL)
#define MPI_GROUP_NULL (::zh::mpi::predefined.v_GROUP_NULL)
#define MPI_FLOAT_INT (::zh::mpi::predefined.v_FLOAT_INT)
#define MPI_DOUBLE_INT (::zh::mpi::predefined.v_DOUBLE_INT)
#define MPI_LONG_INT (::zh::mpi::predefined.v_LONG_INT)
#define MPI_2INT (::zh::mpi::predefined.v_2INT)
#define MPI_SHORT_INT (::zh::mpi::predefined.v_SHORT_INT)
#define MPI_LONG_DOUBLE_INT (::zh::mpi::predefined.v_LONG_DOUBLE_INT)
#define MPI_ERRORS_RETURN (::zh::mpi::predefined.v_ERRORS_RETURN)

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
