// What the tests of collectives share: loops bounded in time, memory of every kind with its expected image, datatypes
// whose layout the test knows by itself, and one call that issues any collective in any of its three forms.
// Used by coll_*.c only, which make up the program `collectives` together with check.c.
//
// A communicator with the info key zerohop=off stays with the host, so a result can be compared with the host's own
// within one run (coll_host()). Random items come from a state that all ranks share; what may differ between ranks
// (kinds of memory, layouts) comes from a state of each rank's own.
#ifndef ZEROHOP_TESTS_MPI_COLL_H
#define ZEROHOP_TESTS_MPI_COLL_H

#include "check.h"

#define COLL_PERSISTENT HAVE_MPI4_CORE  // Open MPI 5 declares them too
enum { kMostRanks = 16 };

// ---- loops

struct CollLoop {
  uint64_t shared;  // random state, the same on all ranks
  uint64_t own;     // random state of this rank
  int item, granted, least, most;
  double begin_s, limit_s;
};
/// A loop of at least `least` and at most `most` items; how many lie between is a matter of the time that they take.
/// (MPICH with more ranks than processors takes 20 ms for what others do in 20 us.)
struct CollLoop coll_loop(uint64_t key, int least, int most);
bool coll_next(struct CollLoop* loop);  // collective
int coll_pick(uint64_t* state, int n);  // 0 .. n - 1
bool coll_chance(uint64_t* state, int percent);
void coll_shuffle(int* list, int count, uint64_t* state);

MPI_Comm coll_host(void);  // the ranks of the world, served by the host whatever zerohop does
bool coll_named(const char* collective, const char* algorithm);  // by ZEROHOP_ALGORITHM; null: any
int coll_node_ranks(void);  // ranks of a node that zerohop is to pretend; 0: none are pretended
bool coll_served(void);     // zerohop is there and told to serve collectives
bool coll_one_node(void);   // all ranks have one node, in truth and as zerohop is told; first asked by all of them
/// Verifies on a communicator of the host that all ranks hold the same value.
void coll_expect_same(uint64_t value, const char* what);
uint64_t coll_hash(const void* data, size_t len_bytes);
void coll_expect_works(MPI_Comm comm, int key);  // a sum, and a broadcast from a rank that `key` picks

// ---- memory

struct CollBuffer {
  unsigned char* area;   // with the guards
  unsigned char* image;  // what the area has to hold
  size_t len_bytes;
  unsigned char* base;  // what MPI is given
  void* memory;         // what is given back
  int kind;
};
/// Memory for the bytes [low, high) around `base`, of a kind that `state` picks, filled with UNTOUCHED.
void coll_make(struct CollBuffer* buffer, MPI_Aint low, MPI_Aint high, uint64_t* state);
unsigned char* coll_image(const struct CollBuffer* buffer, MPI_Aint at);  // image of base + at
bool coll_verify(const struct CollBuffer* buffer, const char* what);      // area == image
/// What MPI may have written is taken for expected.
void coll_accept(struct CollBuffer* buffer, MPI_Aint at, size_t len_bytes);
void coll_free(struct CollBuffer* buffer);
const char* coll_kind(const struct CollBuffer* buffer);
/// Lends stack memory of the caller's frame to coll_make() until it is taken back by a null pointer.
void coll_lend_stack(unsigned char* stack, size_t len_bytes);

// ---- datatypes

// The pieces of which all layouts of an item consist; a message is a sequence of units, whatever types carry it.
enum { kUnitByte, kUnitShort, kUnitInt, kUnitDouble, kUnitMixed, kUnits };
struct CollBlock {
  MPI_Aint at;
  int len_bytes;
};
struct CollType {
  MPI_Datatype type;
  int unit, units;  // units in one element
  MPI_Aint extent, low, high;
  int blocks;
  struct CollBlock* map;  // in the order of the type map
};
int coll_unit_bytes(int unit);
/// Whether coll_type() may use what Open MPI 5.0 gets wrong when it cuts a message in pieces: contiguous elements with
/// a gap behind each, and vectors of single elements. It loses bytes of them, or writes them elsewhere. Elsewhere:
/// always.
extern bool coll_all_constructors;
/// A datatype of `units` units: predefined, or nested at random from all constructors. Elements in a row do not
/// overlap.
struct CollType coll_type(int unit, int units, uint64_t* state);
/// The same with the layout of units one behind the other.
struct CollType coll_type_plain(int unit, int units);
void coll_type_free(struct CollType* type);
/// Bytes that `count` elements reach from their address: [low, high).
void coll_span(const struct CollType* type, int count, MPI_Aint* low, MPI_Aint* high);
/// Writes the message of `key` to where `count` elements at `at` lie.
void coll_put(unsigned char* at, const struct CollType* type, int count, uint64_t key);

// ---- sides

// What one rank gives or takes in a call: a piece for, or from, each peer.
enum { kMostPieces = 2 * kMostRanks };
struct CollSide {
  int pieces;
  bool listed, typed;  // counts and displacements; a type for each piece, too
  int units[kMostPieces], counts[kMostPieces], displs[kMostPieces];
  MPI_Aint at[kMostPieces];            // bytes from the base
  struct CollType types[kMostPieces];  // one for all if not typed
  MPI_Datatype handles[kMostPieces];
  struct CollBuffer buffer;
};
/// Lays out pieces of side->units: one behind the other or, if listed, in any order with gaps. `types` picks their
/// types, of as many units as one of the `n` in `each`.
void coll_side_make(struct CollSide* side, int unit, const int* each, int n, uint64_t* types, uint64_t* own);
void coll_side_put(struct CollSide* side, int piece, uint64_t key);  // writes a message into the image
void coll_side_free(struct CollSide* side);

// ---- calls

enum CollWhat {
  kBarrier,
  kBcast,
  kGather,
  kGatherv,
  kScatter,
  kScatterv,
  kAllgather,
  kAllgatherv,
  kAlltoall,
  kAlltoallv,
  kAlltoallw,
  kReduce,
  kAllreduce,
  kReduceScatter,
  kReduceScatterBlock,
  kScan,
  kExscan,
  kWhats
};
enum CollForm { kBlocking, kNonblocking, kPersistent, kForms };
struct CollCall {
  enum CollWhat what;
  enum CollForm form;
  int starts;  // of the persistent form
  MPI_Comm comm;
  int root;
  const void* send;
  void* recv;
  int sendcount, recvcount;
  MPI_Datatype sendtype, recvtype;
  const int *sendcounts, *sdispls, *recvcounts, *rdispls;
  const MPI_Datatype *sendtypes, *recvtypes;
  MPI_Op op;
};
int coll_call(const struct CollCall* call);
const char* coll_what_name(enum CollWhat what);
const char* coll_form_name(enum CollForm form);
/// Registers one case "subject.what_form" for each form; `body` gets what and form.
#define COLL_CASE(subject, name, form, what, kind, body) \
  CASE(subject, name##_##form) { body(comm, rank, size, what, kind); }
#if COLL_PERSISTENT
#define COLL_CASES(subject, name, what, body)                     \
  COLL_CASE(subject, name, blocking, what, kBlocking, body)       \
  COLL_CASE(subject, name, nonblocking, what, kNonblocking, body) \
  COLL_CASE(subject, name, persistent, what, kPersistent, body)   \
  _Static_assert(1, "")
#else
#define COLL_CASES(subject, name, what, body)                     \
  COLL_CASE(subject, name, blocking, what, kBlocking, body)       \
  COLL_CASE(subject, name, nonblocking, what, kNonblocking, body) \
  _Static_assert(1, "")
#endif
#endif
