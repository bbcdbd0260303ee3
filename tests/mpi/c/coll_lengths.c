// Collectives in which one rank takes the message for longer or shorter than the others, and such with a buffer that is
// both sent and received. Erroneous programs: hosts alone report some, wait for ever in others or write behind a
// buffer, so that this asks only for what zerohop promises where it serves the call. No rank waits, none writes behind
// its buffer, whoever gets more than there is room for has an error, and the communicator works on. Where schedules
// serve the call (nonblocking, persistent), somebody has an error: whoever hands pieces on for others may be the only
// one to see that they are wrong.
#include "coll.h"

enum { kGuard = 4096, kRoot = 0 };

// One rank has `odd` bytes, the others `usual`.
struct Lengths {
  int usual, odd, odd_rank;
};
static const int kPairs[][2] = {{8, 16},     {4096, 8192},   {16384, 16392}, {65536, 131072},
                                {8, 131072}, {8192, 262144}, {0, 64},        {1 << 20, 2 << 20}};
enum { kPairCount = sizeof kPairs / sizeof *kPairs };

static int length_of(const struct Lengths* l, int rank) { return rank == l->odd_rank ? l->odd : l->usual; }

// Served by zerohop's teams.
static bool served(void) { return coll_one_node() && coll_served(); }

// Whether `rank` is sent more than it has room for or, in a reduction, lacks a result.
static bool harmed(enum CollWhat what, enum CollForm form, const struct Lengths* l, int rank, int size) {
  const int mine = length_of(l, rank);
  bool more = false, others = false, lower = false;
  for (int i = 0; i < size; ++i) {
    const int theirs = length_of(l, i);
    // A schedule may leave operands that nobody waits for: the result is right.
    const bool differs = form == kBlocking ? theirs != mine : theirs < mine;
    more |= theirs > mine;
    others |= differs;
    lower |= i < rank && differs;
  }
  switch (what) {
    case kBcast:
    case kScatter:
    case kScatterv:
      return length_of(l, kRoot) > mine;
    case kGather:
    case kGatherv:
      return rank == kRoot && more;
    case kReduce:
      return rank == kRoot && others;
    case kScan:
    case kExscan:
      return lower;
    case kAllreduce:
    case kReduceScatter:
    case kReduceScatterBlock:
      return others;
    default:
      return more;
  }
}

static size_t received_bytes(enum CollWhat what, int bytes, int rank, int size) {
  const bool all = what == kAllgather || what == kAllgatherv || what == kAlltoall || what == kAlltoallv ||
                   what == kAlltoallw || ((what == kGather || what == kGatherv) && rank == kRoot);
  if ((what == kGather || what == kGatherv || what == kReduce) && rank != kRoot) return 0;
  return all ? (size_t)bytes * (size_t)size : (size_t)bytes;
}

// The call with pieces of `bytes` at `send` and `recv`.
static int call(MPI_Comm comm, int size, enum CollWhat what, enum CollForm form, int bytes, void* send, void* recv) {
  const bool reduces = what >= kReduce;
  const int count = reduces ? bytes / 8 : bytes;
  MPI_Datatype type = reduces ? MPI_UINT64_T : MPI_BYTE, types[kMostRanks];
  int counts[kMostRanks], places[kMostRanks];
  for (int i = 0; i < size; ++i) {
    counts[i] = count;
    places[i] = count * i;
    types[i] = type;
  }
  const struct CollCall c = {.what = what,
                             .form = form,
                             .starts = 1,
                             .comm = comm,
                             .root = kRoot,
                             .send = send,
                             .recv = recv,
                             .sendcount = count,
                             .recvcount = count,
                             .sendtype = type,
                             .recvtype = type,
                             .sendcounts = counts,
                             .sdispls = places,
                             .recvcounts = counts,
                             .rdispls = places,
                             .sendtypes = types,
                             .recvtypes = types,
                             .op = MPI_SUM};
  return coll_call(&c);
}

static void disagree(MPI_Comm comm, int rank, int size, enum CollWhat what, enum CollForm form,
                     const struct Lengths* l) {
  const int bytes = length_of(l, rank);
  const size_t most = (size_t)bytes * (size_t)size, room = received_bytes(what, bytes, rank, size);
  unsigned char *send = malloc(most + 1), *area = malloc(most + 2 * kGuard);
  memset(send, 1, most + 1);
  memset(area, UNTOUCHED, most + 2 * kGuard);
  const int class = check_class(call(comm, size, what, form, bytes, send, area + kGuard));
  EXPECT(class == MPI_SUCCESS || class == MPI_ERR_TRUNCATE || class == MPI_ERR_OTHER, "%d bytes, rank %d has %d: %s",
         l->usual, l->odd_rank, l->odd, check_class_name(class));
  int found[2] = {class != MPI_SUCCESS, harmed(what, form, l, rank, size)};
  if (form != kBlocking) MPI_Allreduce(MPI_IN_PLACE, found, 2, MPI_INT, MPI_LOR, coll_host());
  EXPECT(found[0] || !found[1], "%d bytes, rank %d has %d: no error", l->usual, l->odd_rank, l->odd);
  EXPECT_BYTES(area, kGuard, UNTOUCHED);
  EXPECT_BYTES(area + kGuard + room, most - room + kGuard, UNTOUCHED);
  coll_expect_works(comm, l->odd);
  free(send);
  free(area);
}

static void disagreements(MPI_Comm comm, int rank, int size, enum CollWhat what, enum CollForm form) {
  NEED_RANKS(2);
  if (!served()) SKIP("hosts alone may wait for ever");
  // A rank of a schedule looks for the others' lengths when it has waited for a while.
  const int step = form == kBlocking ? 1 : 5;
  for (int i = 0; i < 4 * kPairCount; i += step) {
    const int *pair = kPairs[i / 4], more = i % 2;
    // Lists: without bytes there is no message, and nobody who knows of another one.
    if (form != kBlocking && pair[0] == 0 && what != kReduceScatter) continue;
    const struct Lengths l = {pair[1 - more], pair[more], i / 2 % 2 ? kRoot : size - 1};
    disagree(comm, rank, size, what, form, &l);
  }
}

// One buffer for both: hosts of the MPICH family refuse it, and the others of a rooted collective do not know.
static void alias(MPI_Comm comm, int rank, int size, enum CollWhat what, enum CollForm form) {
  NEED_RANKS(2);
  const bool rooted = what == kGather || what == kGatherv || what == kScatter || what == kScatterv || what == kReduce;
  if (!served() || (rooted && form != kBlocking)) SKIP("the other ranks may wait for ever");
  const int kBytes[] = {8, 4096, 65536, 1 << 20};
  for (int i = 0; i < 4; ++i) {
    const int bytes = kBytes[i];
    unsigned char* area = calloc((size_t)bytes, (size_t)size + 1);
    unsigned char *own = area + (size_t)bytes * (size_t)rank, *send = area, *recv = area;
    if (what == kGather || what == kGatherv || what == kAllgather || what == kAllgatherv) send = own;
    if (what == kScatter || what == kScatterv) recv = own;
    const int class = check_class(call(comm, size, what, form, bytes, send, recv));
#if defined(MPICH_NAME) || defined(I_MPI_VERSION)
    EXPECT(class == MPI_ERR_BUFFER || (rooted && rank != kRoot), "%d bytes: %s", bytes, check_class_name(class));
#else
    (void)class;
#endif
    coll_expect_works(comm, bytes);
    free(area);
  }
}

#define LENGTHS(name, what)                            \
  COLL_CASES(coll_lengths, name, what, disagreements); \
  COLL_CASES(coll_aliases, name, what, alias)
COLL_CASES(coll_lengths, bcast, kBcast, disagreements);
LENGTHS(gather, kGather);
LENGTHS(gatherv, kGatherv);
LENGTHS(scatter, kScatter);
LENGTHS(scatterv, kScatterv);
LENGTHS(allgather, kAllgather);
LENGTHS(allgatherv, kAllgatherv);
LENGTHS(alltoall, kAlltoall);
LENGTHS(alltoallv, kAlltoallv);
LENGTHS(alltoallw, kAlltoallw);
LENGTHS(reduce, kReduce);
LENGTHS(allreduce, kAllreduce);
LENGTHS(reduce_scatter, kReduceScatter);
LENGTHS(reduce_scatter_block, kReduceScatterBlock);
LENGTHS(scan, kScan);
LENGTHS(exscan, kExscan);
