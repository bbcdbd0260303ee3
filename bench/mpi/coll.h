// What the parts of the benchmark of collectives share: how a collective is described, its three forms, and the data
// that are sent. Seen by bench/mpi/coll*.c only.
#ifndef ZEROHOP_BENCH_MPI_COLL_H_
#define ZEROHOP_BENCH_MPI_COLL_H_

#include "bench.h"

enum { kPerLine = 8, kMostBytes = 32 << 20 };  // doubles of a cache line; bytes of a buffer of several blocks

typedef enum { kBlocking, kNonblocking, kPersistent, kFormCount } Form;

typedef enum { kNobody, kEverybody, kRoot } Who;

// A received block is the sum over some ranks of what each had for this place; or, of neighbors, one of their blocks.
typedef enum { kFromRoot, kFromBlock, kFromAll, kFromUpToMe, kFromBelowMe, kFromNeighbors } From;

typedef struct {
  const char* name;
  // Blocking: the call. Nonblocking: its start. Persistent: the making of `request`, which is then started.
  void (*call)(Form form, MPI_Comm comm, int root, int count, MPI_Request* request);
  int send_blocks;  // 1, or 0 for one block per rank
  int recv_blocks;
  Who sender;
  Who receiver;
  From from;
  int to_me;  // the block was made for the receiver, not the same for all
  int rooted;
} Collective;

// Defines call_<lower>: MPI_<Upper> in its three forms, whose arguments are the same but for the last ones. An MPI
// before version 4 has no persistent collectives, so that no program may need them to start.
#define BENCH_PRAGMA(text) _Pragma(#text)
#define BENCH_COLLECTIVE(Upper, lower, ...)                                                   \
  BENCH_PRAGMA(weak MPI_##Upper##_init)                                                       \
  static void call_##lower(Form form, MPI_Comm comm, int root, int n, MPI_Request* request) { \
    (void)root, (void)n;                                                                      \
    if (form == kBlocking) MPI_##Upper(__VA_ARGS__, comm);                                    \
    if (form == kNonblocking) MPI_I##lower(__VA_ARGS__, comm, request);                       \
    if (form == kPersistent) MPI_##Upper##_init(__VA_ARGS__, comm, MPI_INFO_NULL, request);   \
  }

extern double* send_buffer;
extern double* recv_buffer;
// Element i of what `source` has for `target`, as a sum over `sources` ranks. The first of each cache line changes with
// every call. Whole numbers below 2^53, so that the same data serve reductions.
double element(double sources, double source_sum, int target, size_t i, uint64_t turn);

// --- collectives of all ranks (coll_calls.c)
// ----------------------------------------------------------------------------------------------------------
extern const Collective kCollectives[];
extern const int kCollectiveCount;
extern const int kInQuick;  // of the first ones
// Sets what the forms with a count for each rank need.
void calls_open(void);
void calls_set_block(size_t size_bytes);
void calls_close(void);
int is_flat(const Collective* c);  // the raw line: no call of MPI
int is_barrier(const Collective* c);
int is_bcast(const Collective* c);  // one buffer for both
int has_persistent(void);

// --- collectives of neighborhoods (coll_neighbors.c)
// ----------------------------------------------------------------------------------------------------------
extern const Collective kNeighborhoods[];
extern const int kNeighborhoodCount;
// Puts a topology under the arms' communicators, until it is closed.
void neighbors_open(void);
void neighbors_close(void);
// Whether blocks of this size fit; sets what the call needs.
int neighbors_set_block(const Collective* c, size_t size_bytes);
void neighbors_end_block(void);
// Elements of the buffers.
size_t neighbors_send_count(const Collective* c, size_t n);
size_t neighbors_recv_count(const Collective* c, size_t n);
void neighbors_fill(const Collective* c, size_t n, uint64_t turn, size_t step);
void neighbors_check(const Collective* c, size_t n, uint64_t turn, size_t step);

#endif  // ZEROHOP_BENCH_MPI_COLL_H_
