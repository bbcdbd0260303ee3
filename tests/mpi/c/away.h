// The traffic of the away cases: a rank that blocks in a call which waits for others still takes what it has asked for,
// so that its neighbour's blocking sends end while it is inside (MPI standard 2.9, 3.5). Odd ranks send first and enter
// the call afterwards; even ones post their receives and are inside meanwhile.
#ifndef ZEROHOP_TESTS_MPI_AWAY_H
#define ZEROHOP_TESTS_MPI_AWAY_H

#include "check.h"

enum { kAwayMany = 2500, kAwayKinds = 6, kAwaySmallOnly = 1 };  // small messages: more than a ring holds
struct AwayKind {
  int count, bytes;
  bool synchronous;
};
extern const struct AwayKind away_kinds[kAwayKinds];

// The first `kind_count` kinds of traffic, each while even ranks are inside `call`.
void away_beside(MPI_Comm comm, int rank, int size, CheckCall* call, int kind_count);
// The halves of it: data are count * bytes long.
void away_post(MPI_Comm comm, int peer, int k, unsigned char* data, MPI_Request* requests);
void away_check(int peer, int k, unsigned char* data, MPI_Request* requests);
void away_send(MPI_Comm comm, int rank, int k, unsigned char* data);

// The case of one call, which is what follows; `before` and `after` are done by all ranks.
#define AWAY_WITHIN(name, kind_count, before, after)      \
  static CheckCall in_##name;                             \
  CASE(away, name) {                                      \
    NEED_RANKS(2);                                        \
    before;                                               \
    away_beside(comm, rank, size, in_##name, kind_count); \
    after;                                                \
  }                                                       \
  CHECK_CALL(in_##name)
#define AWAY(name) AWAY_WITHIN(name, kAwayKinds, , )

#endif
