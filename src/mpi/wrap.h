// The wrappers, one for each name in functions.table: what libzerohop.so's slots lead to. A wrapper checks cheaply, and
// calls the engine or the host; anything unusual goes to the host, which then raises its own error.
#pragma once

#include "mpi/p2p/requests.h"

namespace zh::mpi::wrap {

// Those of functions.table are as mpi.h declares them, but for collectives.
#define ZH_F(name) decltype(PMPI_##name) name;
#define ZH_C(name) ZH_F(name)
#define ZH_N(name)
#define ZH_B(name)
#define ZH_COLLECTIVE(...)
#include "mpi/entry/functions.table"

// With large counts, which not every mpi.h knows.
using LargeSend = int(const void*, MPI_Count, MPI_Datatype, int, int, MPI_Comm);
using LargeSendStart = int(const void*, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
using LargeRecvStart = int(void*, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
LargeSend Send_c, Bsend_c, Ssend_c, Rsend_c;
LargeSendStart Isend_c, Ibsend_c, Issend_c, Irsend_c, Send_init_c, Bsend_init_c, Ssend_init_c, Rsend_init_c;
LargeRecvStart Irecv_c, Recv_init_c;
int Recv_c(void*, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Status*);
int Sendrecv_c(const void*, MPI_Count, MPI_Datatype, int, int, void*, MPI_Count, MPI_Datatype, int, int, MPI_Comm,
               MPI_Status*);
int Sendrecv_replace_c(void*, MPI_Count, MPI_Datatype, int, int, int, int, MPI_Comm, MPI_Status*);
int Isendrecv_c(const void*, MPI_Count, MPI_Datatype, int, int, void*, MPI_Count, MPI_Datatype, int, int, MPI_Comm,
                MPI_Request*);
int Isendrecv_replace_c(void*, MPI_Count, MPI_Datatype, int, int, int, int, MPI_Comm, MPI_Request*);
int Mrecv_c(void*, MPI_Count, MPI_Datatype, MPI_Message*, MPI_Status*);
int Imrecv_c(void*, MPI_Count, MPI_Datatype, MPI_Message*, MPI_Request*);
int Reduce_local_c(const void*, void*, MPI_Count, MPI_Datatype, MPI_Op);
int Op_create_c(void (*)(void*, void*, MPI_Count*, MPI_Datatype*), int, MPI_Op*);
int Buffer_attach_c(void*, MPI_Count);
int Buffer_detach_c(void*, MPI_Count*);
int Win_create_c(void*, MPI_Aint, MPI_Aint, MPI_Info, MPI_Comm, MPI_Win*);
int Win_allocate_c(MPI_Aint, MPI_Aint, MPI_Info, MPI_Comm, void*, MPI_Win*);
int Win_allocate_shared_c(MPI_Aint, MPI_Aint, MPI_Info, MPI_Comm, void*, MPI_Win*);

// The others that not every mpi.h declares.
int Request_get_status_all(int, const MPI_Request*, int*, MPI_Status*);
int Request_get_status_any(int, const MPI_Request*, int*, int*, MPI_Status*);
int Request_get_status_some(int, const MPI_Request*, int*, int*, MPI_Status*);
int Buffer_flush(void);
int Buffer_iflush(MPI_Request*);
int Comm_attach_buffer(MPI_Comm, void*, int);
int Comm_attach_buffer_c(MPI_Comm, void*, MPI_Count);
int Comm_detach_buffer(MPI_Comm, void*, int*);
int Comm_detach_buffer_c(MPI_Comm, void*, MPI_Count*);
int Comm_flush_buffer(MPI_Comm);
int Comm_iflush_buffer(MPI_Comm, MPI_Request*);
int Request_c2f(MPI_Request);
MPI_Request Request_f2c(int);
int Request_toint(MPI_Request);
MPI_Request Request_fromint(int);
int Message_c2f(MPI_Message);
MPI_Message Message_f2c(int);
int Message_toint(MPI_Message);
MPI_Message Message_fromint(int);

#define ZH_BY_COUNT(name, nonblocking, suffix, parameters, ...)      \
  int name##suffix parameters;                                       \
  int nonblocking##suffix(ZH_LIST parameters, MPI_Request* request); \
  int name##_init##suffix(ZH_LIST parameters, MPI_Info info, MPI_Request* request);
#include "mpi/entry/collectives_by_count.table"
using namespace narrow;
using namespace large;

}  // namespace zh::mpi::wrap

namespace zh::mpi {

/// Drives the host's progress once (see init.cpp).
void pump_host();
/// For calls that only look, which programs make in loops: the engine's progress, and every so often the host's.
void turn_once();
/// For probes, which look at the engine's messages themselves: both every so often, so that other operations go on.
void turn_sometimes();

}  // namespace zh::mpi
