// What MPI 4 added, for the mpi.h of Open MPI 4, which stops at MPI 3.1. The binary interface of libmpi.so.40 is one,
// so the module that is compiled with it serves Open MPI 5 as well.
#pragma once

using MPI_Session = struct ompi_instance_t*;

namespace zh::mpi {
namespace mpi4 {
using N = int;
using D = int;
extern "C" {
int PMPI_Isendrecv(const void*, int, MPI_Datatype, int, int, void*, int, MPI_Datatype, int, int, MPI_Comm,
                   MPI_Request*);
int PMPI_Isendrecv_replace(void*, int, MPI_Datatype, int, int, int, int, MPI_Comm, MPI_Request*);
int PMPI_Session_init(MPI_Info, MPI_Errhandler, MPI_Session*);
int PMPI_Comm_idup_with_info(MPI_Comm, MPI_Info, MPI_Comm*, MPI_Request*);
int PMPI_Barrier_init(MPI_Comm, MPI_Info, MPI_Request*);
#define ZH_COLLECTIVE(name, nonblocking, parameters, ...) \
  int PMPI_##name##_init(ZH_LIST parameters, MPI_Info, MPI_Request*);
#include "mpi/entry/collectives.table"
}
}  // namespace mpi4
using namespace mpi4;
}  // namespace zh::mpi
