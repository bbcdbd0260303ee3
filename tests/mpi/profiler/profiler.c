// A profiler after the rules of the MPI standard's profiling interface: it defines MPI_X, counts the call and the bytes
// of its arguments, and calls PMPI_X. At MPI_Finalize each rank writes its counts to $PROFILE.<rank>.
// -DLOOKS_UP: finds PMPI_X itself behind it, as some tools do. -DFORTRAN: has the Fortran entries as well.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum {
  kInit,
  kFinalize,
  kSend,
  kRecv,
  kIsend,
  kIrecv,
  kWait,
  kWaitall,
  kSendrecv,
  kBcast,
  kAllreduce,
  kBarrier,
  kDup,
  kKinds
};
static const char* const names[] = {"Init",    "Finalize", "Send",  "Recv",      "Isend",   "Irecv",   "Wait",
                                    "Waitall", "Sendrecv", "Bcast", "Allreduce", "Barrier", "Comm_dup"};
static struct { long calls, bytes; } counts[kKinds];

#ifdef LOOKS_UP
#define NEXT(name) ((__typeof__(&PMPI_##name))dlsym(RTLD_NEXT, "PMPI_" #name))
#else
#define NEXT(name) PMPI_##name
#endif

static void count(int kind, long n, MPI_Datatype type) {
  int size = 0;
  if (n > 0) NEXT(Type_size)(type, &size);
  ++counts[kind].calls;
  counts[kind].bytes += n * size;
}

static void report(void) {
  char path[4096];
  int rank = -1;
  NEXT(Comm_rank)(MPI_COMM_WORLD, &rank);
  snprintf(path, sizeof path, "%s.%d", getenv("PROFILE"), rank);
  FILE* file = fopen(path, "w");
  if (file == NULL) return;
  for (int i = 0; i < kKinds; ++i) {
    if (counts[i].calls != 0) fprintf(file, "%s %ld %ld\n", names[i], counts[i].calls, counts[i].bytes);
  }
  fclose(file);
}

int MPI_Init(int* argc, char*** argv) {
  count(kInit, 0, MPI_BYTE);
  return NEXT(Init)(argc, argv);
}
int MPI_Finalize(void) {
  count(kFinalize, 0, MPI_BYTE);
  report();
  return NEXT(Finalize)();
}
int MPI_Send(const void* b, int n, MPI_Datatype t, int d, int g, MPI_Comm c) {
  count(kSend, n, t);
  return NEXT(Send)(b, n, t, d, g, c);
}
int MPI_Recv(void* b, int n, MPI_Datatype t, int s, int g, MPI_Comm c, MPI_Status* status) {
  count(kRecv, n, t);
  return NEXT(Recv)(b, n, t, s, g, c, status);
}
int MPI_Isend(const void* b, int n, MPI_Datatype t, int d, int g, MPI_Comm c, MPI_Request* r) {
  count(kIsend, n, t);
  return NEXT(Isend)(b, n, t, d, g, c, r);
}
int MPI_Irecv(void* b, int n, MPI_Datatype t, int s, int g, MPI_Comm c, MPI_Request* r) {
  count(kIrecv, n, t);
  return NEXT(Irecv)(b, n, t, s, g, c, r);
}
int MPI_Wait(MPI_Request* r, MPI_Status* status) {
  count(kWait, 0, MPI_BYTE);
  return NEXT(Wait)(r, status);
}
int MPI_Waitall(int n, MPI_Request* r, MPI_Status* statuses) {
  count(kWaitall, 0, MPI_BYTE);
  return NEXT(Waitall)(n, r, statuses);
}
int MPI_Sendrecv(const void* sb, int sn, MPI_Datatype st, int d, int sg, void* rb, int rn, MPI_Datatype rt, int s,
                 int rg, MPI_Comm c, MPI_Status* status) {
  count(kSendrecv, sn, st);
  return NEXT(Sendrecv)(sb, sn, st, d, sg, rb, rn, rt, s, rg, c, status);
}
int MPI_Bcast(void* b, int n, MPI_Datatype t, int root, MPI_Comm c) {
  count(kBcast, n, t);
  return NEXT(Bcast)(b, n, t, root, c);
}
int MPI_Allreduce(const void* in, void* out, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c) {
  count(kAllreduce, n, t);
  return NEXT(Allreduce)(in, out, n, t, op, c);
}
int MPI_Barrier(MPI_Comm c) {
  count(kBarrier, 0, MPI_BYTE);
  return NEXT(Barrier)(c);
}
int MPI_Comm_dup(MPI_Comm c, MPI_Comm* made) {
  count(kDup, 0, MPI_BYTE);
  return NEXT(Comm_dup)(c, made);
}

#ifdef FORTRAN
// As profilers do it: the call is counted here and handed to the C binding; the rest of the language's start and end is
// the library's.
void pmpi_init_(MPI_Fint*);
void pmpi_finalize_(MPI_Fint*);

// Whether the library's MPI_Init of Fortran comes back to ours or goes around it, it is counted once.
void mpi_init_(MPI_Fint* error) {
  pmpi_init_(error);
  counts[kInit].calls = 1;
}
void mpi_finalize_(MPI_Fint* error) {
  counts[kFinalize].calls = 1;
  report();
  counts[kFinalize].calls = 0;
  pmpi_finalize_(error);
}
void mpi_send_(void* b, MPI_Fint* n, MPI_Fint* t, MPI_Fint* d, MPI_Fint* g, MPI_Fint* c, MPI_Fint* error) {
  count(kSend, *n, MPI_Type_f2c(*t));
  *error = NEXT(Send)(b, *n, MPI_Type_f2c(*t), *d, *g, MPI_Comm_f2c(*c));
}
void mpi_recv_(void* b, MPI_Fint* n, MPI_Fint* t, MPI_Fint* s, MPI_Fint* g, MPI_Fint* c, MPI_Fint* status,
               MPI_Fint* error) {
  MPI_Status full;
  count(kRecv, *n, MPI_Type_f2c(*t));
  *error = NEXT(Recv)(b, *n, MPI_Type_f2c(*t), *s, *g, MPI_Comm_f2c(*c), &full);
  MPI_Status_c2f(&full, status);
}
void mpi_isend_(void* b, MPI_Fint* n, MPI_Fint* t, MPI_Fint* d, MPI_Fint* g, MPI_Fint* c, MPI_Fint* r,
                MPI_Fint* error) {
  MPI_Request request;
  count(kIsend, *n, MPI_Type_f2c(*t));
  *error = NEXT(Isend)(b, *n, MPI_Type_f2c(*t), *d, *g, MPI_Comm_f2c(*c), &request);
  *r = MPI_Request_c2f(request);
}
void mpi_wait_(MPI_Fint* r, MPI_Fint* status, MPI_Fint* error) {
  MPI_Request request = MPI_Request_f2c(*r);
  MPI_Status full;
  count(kWait, 0, MPI_BYTE);
  *error = NEXT(Wait)(&request, &full);
  *r = MPI_Request_c2f(request);
  MPI_Status_c2f(&full, status);
}
void mpi_allreduce_(void* in, void* out, MPI_Fint* n, MPI_Fint* t, MPI_Fint* op, MPI_Fint* c, MPI_Fint* error) {
  count(kAllreduce, *n, MPI_Type_f2c(*t));
  *error = NEXT(Allreduce)(in, out, *n, MPI_Type_f2c(*t), MPI_Op_f2c(*op), MPI_Comm_f2c(*c));
}
#endif
