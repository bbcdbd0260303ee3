// The wrappers, one for each name in functions.table: what libzerohop.so's slots lead to. A wrapper checks cheaply, and
// calls the engine or the host; anything unusual goes to the host, which then raises its own error.
#pragma once

#include "mpi/p2p/requests.h"

namespace zh::mpi::wrap {

#define ZH_BOTH(N_TYPE, SUFFIX)                                                                                       \
  int Send##SUFFIX(const void*, N_TYPE, MPI_Datatype, int, int, MPI_Comm);                                            \
  int Bsend##SUFFIX(const void*, N_TYPE, MPI_Datatype, int, int, MPI_Comm);                                           \
  int Ssend##SUFFIX(const void*, N_TYPE, MPI_Datatype, int, int, MPI_Comm);                                           \
  int Rsend##SUFFIX(const void*, N_TYPE, MPI_Datatype, int, int, MPI_Comm);                                           \
  int Recv##SUFFIX(void*, N_TYPE, MPI_Datatype, int, int, MPI_Comm, MPI_Status*);                                     \
  int Isend##SUFFIX(const void*, N_TYPE, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);                             \
  int Ibsend##SUFFIX(const void*, N_TYPE, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);                            \
  int Issend##SUFFIX(const void*, N_TYPE, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);                            \
  int Irsend##SUFFIX(const void*, N_TYPE, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);                            \
  int Irecv##SUFFIX(void*, N_TYPE, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);                                   \
  int Send_init##SUFFIX(const void*, N_TYPE, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);                         \
  int Bsend_init##SUFFIX(const void*, N_TYPE, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);                        \
  int Ssend_init##SUFFIX(const void*, N_TYPE, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);                        \
  int Rsend_init##SUFFIX(const void*, N_TYPE, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);                        \
  int Recv_init##SUFFIX(void*, N_TYPE, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);                               \
  int Sendrecv##SUFFIX(const void*, N_TYPE, MPI_Datatype, int, int, void*, N_TYPE, MPI_Datatype, int, int, MPI_Comm,  \
                       MPI_Status*);                                                                                  \
  int Sendrecv_replace##SUFFIX(void*, N_TYPE, MPI_Datatype, int, int, int, int, MPI_Comm, MPI_Status*);               \
  int Isendrecv##SUFFIX(const void*, N_TYPE, MPI_Datatype, int, int, void*, N_TYPE, MPI_Datatype, int, int, MPI_Comm, \
                        MPI_Request*);                                                                                \
  int Isendrecv_replace##SUFFIX(void*, N_TYPE, MPI_Datatype, int, int, int, int, MPI_Comm, MPI_Request*);             \
  int Mrecv##SUFFIX(void*, N_TYPE, MPI_Datatype, MPI_Message*, MPI_Status*);                                          \
  int Imrecv##SUFFIX(void*, N_TYPE, MPI_Datatype, MPI_Message*, MPI_Request*);                                        \
  int Buffer_attach##SUFFIX(void*, N_TYPE);                                                                           \
  int Buffer_detach##SUFFIX(void*, N_TYPE*);                                                                          \
  int Comm_attach_buffer##SUFFIX(MPI_Comm, void*, N_TYPE);                                                            \
  int Comm_detach_buffer##SUFFIX(MPI_Comm, void*, N_TYPE*);
ZH_BOTH(int, )
ZH_BOTH(MPI_Count, _c)
#undef ZH_BOTH

int Probe(int, int, MPI_Comm, MPI_Status*);
int Iprobe(int, int, MPI_Comm, int*, MPI_Status*);
int Mprobe(int, int, MPI_Comm, MPI_Message*, MPI_Status*);
int Improbe(int, int, MPI_Comm, int*, MPI_Message*, MPI_Status*);

int Barrier(MPI_Comm);
int Ibarrier(MPI_Comm, MPI_Request*);
int Barrier_init(MPI_Comm, MPI_Info, MPI_Request*);
#define ZH_ALL_FORMS(name, nonblocking, suffix, parameters)          \
  int name##suffix parameters;                                       \
  int nonblocking##suffix(ZH_LIST parameters, MPI_Request* request); \
  int name##_init##suffix(ZH_LIST parameters, MPI_Info info, MPI_Request* request);
namespace narrow {
using N = int;
using D = int;
#define ZH_COLLECTIVE(name, nonblocking, parameters, ...) ZH_ALL_FORMS(name, nonblocking, , parameters)
#include "mpi/entry/collectives.table"
}  // namespace narrow
namespace large {
using N = MPI_Count;
using D = MPI_Aint;
#define ZH_COLLECTIVE(name, nonblocking, parameters, ...) ZH_ALL_FORMS(name, nonblocking, _c, parameters)
#include "mpi/entry/collectives.table"
}  // namespace large
#undef ZH_ALL_FORMS
using namespace narrow;
using namespace large;
int Reduce_local(const void*, void*, int, MPI_Datatype, MPI_Op);
int Reduce_local_c(const void*, void*, MPI_Count, MPI_Datatype, MPI_Op);
int Op_create(MPI_User_function*, int, MPI_Op*);
int Op_create_c(void (*)(void*, void*, MPI_Count*, MPI_Datatype*), int, MPI_Op*);
int Op_free(MPI_Op*);

int Wait(MPI_Request*, MPI_Status*);
int Waitall(int, MPI_Request*, MPI_Status*);
int Waitany(int, MPI_Request*, int*, MPI_Status*);
int Waitsome(int, MPI_Request*, int*, int*, MPI_Status*);
int Test(MPI_Request*, int*, MPI_Status*);
int Testall(int, MPI_Request*, int*, MPI_Status*);
int Testany(int, MPI_Request*, int*, int*, MPI_Status*);
int Testsome(int, MPI_Request*, int*, int*, MPI_Status*);
int Request_get_status(MPI_Request, int*, MPI_Status*);
int Request_get_status_all(int, const MPI_Request*, int*, MPI_Status*);
int Request_get_status_any(int, const MPI_Request*, int*, int*, MPI_Status*);
int Request_get_status_some(int, const MPI_Request*, int*, int*, MPI_Status*);
int Request_free(MPI_Request*);
int Cancel(MPI_Request*);
int Start(MPI_Request*);
int Startall(int, MPI_Request*);

int Comm_dup(MPI_Comm, MPI_Comm*);
int Comm_dup_with_info(MPI_Comm, MPI_Info, MPI_Comm*);
int Comm_idup(MPI_Comm, MPI_Comm*, MPI_Request*);
int Comm_idup_with_info(MPI_Comm, MPI_Info, MPI_Comm*, MPI_Request*);
int Comm_create(MPI_Comm, MPI_Group, MPI_Comm*);
int Comm_create_group(MPI_Comm, MPI_Group, int, MPI_Comm*);
int Comm_split(MPI_Comm, int, int, MPI_Comm*);
int Comm_split_type(MPI_Comm, int, int, MPI_Info, MPI_Comm*);
int Cart_create(MPI_Comm, int, const int*, const int*, int, MPI_Comm*);
int Cart_sub(MPI_Comm, const int*, MPI_Comm*);
int Graph_create(MPI_Comm, int, const int*, const int*, int, MPI_Comm*);
int Dist_graph_create(MPI_Comm, int, const int*, const int*, const int*, const int*, MPI_Info, int, MPI_Comm*);
int Dist_graph_create_adjacent(MPI_Comm, int, const int*, const int*, int, const int*, const int*, MPI_Info, int,
                               MPI_Comm*);
int Comm_free(MPI_Comm*);
int Comm_disconnect(MPI_Comm*);
int Type_free(MPI_Datatype*);

int Init(int*, char***);
int Init_thread(int*, char***, int, int*);
int Session_init(MPI_Info, MPI_Errhandler, MPI_Session*);
int Finalize(void);
int Abort(MPI_Comm, int);

int Buffer_flush(void);
int Buffer_iflush(MPI_Request*);
int Comm_flush_buffer(MPI_Comm);
int Comm_iflush_buffer(MPI_Comm, MPI_Request*);
int Alloc_mem(MPI_Aint, MPI_Info, void*);
int Free_mem(void*);

int Win_create(void*, MPI_Aint, int, MPI_Info, MPI_Comm, MPI_Win*);
int Win_create_c(void*, MPI_Aint, MPI_Aint, MPI_Info, MPI_Comm, MPI_Win*);
int Win_allocate(MPI_Aint, int, MPI_Info, MPI_Comm, void*, MPI_Win*);
int Win_allocate_c(MPI_Aint, MPI_Aint, MPI_Info, MPI_Comm, void*, MPI_Win*);
int Win_allocate_shared(MPI_Aint, int, MPI_Info, MPI_Comm, void*, MPI_Win*);
int Win_allocate_shared_c(MPI_Aint, MPI_Aint, MPI_Info, MPI_Comm, void*, MPI_Win*);
int Win_create_dynamic(MPI_Info, MPI_Comm, MPI_Win*);

int Request_c2f(MPI_Request);
MPI_Request Request_f2c(int);
int Request_toint(MPI_Request);
MPI_Request Request_fromint(int);
int Message_c2f(MPI_Message);
MPI_Message Message_f2c(int);
int Message_toint(MPI_Message);
MPI_Message Message_fromint(int);

}  // namespace zh::mpi::wrap

namespace zh::mpi {

/// Drives the host's progress once (see init.cpp).
void pump_host();
/// For calls that only look, which programs make in loops: the engine's progress, and every so often the host's.
void turn_once();
/// For probes, which look at the engine's messages themselves: both every so often, so that other operations go on.
void turn_sometimes();

}  // namespace zh::mpi
