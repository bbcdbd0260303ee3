// What MPI 4 added, for the mpi.h of Open MPI 4, which stops at MPI 3.1. The binary interface of libmpi.so.40 is one,
// so the module that is compiled with it serves Open MPI 5 as well.
#pragma once

extern "C" {
int PMPI_Isendrecv(const void*, int, MPI_Datatype, int, int, void*, int, MPI_Datatype, int, int, MPI_Comm,
                   MPI_Request*);
int PMPI_Isendrecv_replace(void*, int, MPI_Datatype, int, int, int, int, MPI_Comm, MPI_Request*);
int PMPI_Comm_idup_with_info(MPI_Comm, MPI_Info, MPI_Comm*, MPI_Request*);
int PMPI_Barrier_init(MPI_Comm, MPI_Info, MPI_Request*);
int PMPI_Bcast_init(void*, int, MPI_Datatype, int, MPI_Comm, MPI_Info, MPI_Request*);
int PMPI_Gather_init(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, int, MPI_Comm, MPI_Info, MPI_Request*);
int PMPI_Gatherv_init(const void*, int, MPI_Datatype, void*, const int*, const int*, MPI_Datatype, int, MPI_Comm,
                      MPI_Info, MPI_Request*);
int PMPI_Scatter_init(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, int, MPI_Comm, MPI_Info, MPI_Request*);
int PMPI_Scatterv_init(const void*, const int*, const int*, MPI_Datatype, void*, int, MPI_Datatype, int, MPI_Comm,
                       MPI_Info, MPI_Request*);
int PMPI_Allgather_init(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm, MPI_Info, MPI_Request*);
int PMPI_Allgatherv_init(const void*, int, MPI_Datatype, void*, const int*, const int*, MPI_Datatype, MPI_Comm,
                         MPI_Info, MPI_Request*);
int PMPI_Alltoall_init(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm, MPI_Info, MPI_Request*);
int PMPI_Alltoallv_init(const void*, const int*, const int*, MPI_Datatype, void*, const int*, const int*, MPI_Datatype,
                        MPI_Comm, MPI_Info, MPI_Request*);
int PMPI_Alltoallw_init(const void*, const int*, const int*, const MPI_Datatype*, void*, const int*, const int*,
                        const MPI_Datatype*, MPI_Comm, MPI_Info, MPI_Request*);
int PMPI_Reduce_init(const void*, void*, int, MPI_Datatype, MPI_Op, int, MPI_Comm, MPI_Info, MPI_Request*);
int PMPI_Allreduce_init(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Info, MPI_Request*);
int PMPI_Reduce_scatter_init(const void*, void*, const int*, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Info, MPI_Request*);
int PMPI_Reduce_scatter_block_init(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Info, MPI_Request*);
int PMPI_Scan_init(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Info, MPI_Request*);
int PMPI_Exscan_init(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Info, MPI_Request*);
int PMPI_Neighbor_allgather_init(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm, MPI_Info,
                                 MPI_Request*);
int PMPI_Neighbor_allgatherv_init(const void*, int, MPI_Datatype, void*, const int*, const int*, MPI_Datatype, MPI_Comm,
                                  MPI_Info, MPI_Request*);
int PMPI_Neighbor_alltoall_init(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm, MPI_Info,
                                MPI_Request*);
int PMPI_Neighbor_alltoallv_init(const void*, const int*, const int*, MPI_Datatype, void*, const int*, const int*,
                                 MPI_Datatype, MPI_Comm, MPI_Info, MPI_Request*);
int PMPI_Neighbor_alltoallw_init(const void*, const int*, const MPI_Aint*, const MPI_Datatype*, void*, const int*,
                                 const MPI_Aint*, const MPI_Datatype*, MPI_Comm, MPI_Info, MPI_Request*);
}
