// Collectives back to back, with roots that run ahead and ranks that come late, beside messages of the same
// communicator, and on communicators that come and go.
#include "coll.h"

enum { kWords = 3000 };

static uint32_t word(int round, int rank, int index) { return (uint32_t)check_key(round, rank, index, 77); }

static void fill_words(uint32_t* out, int count, int round, int rank) {
  for (int i = 0; i < count; ++i) out[i] = word(round, rank, i);
}

static void expect_words(const uint32_t* in, int count, int round, int rank, const char* what) {
  for (int i = 0; i < count; ++i) {
    if (in[i] == word(round, rank, i)) continue;
    EXPECT(false, "%s, round %d: word %d of %d of rank %d is wrong", what, round, i, count, rank);
    return;
  }
}

// One collective of the round's kind, root and size, on `comm`, checked at once.
static void one_round(MPI_Comm comm, int round, uint64_t draw) {
  static _Thread_local uint32_t out[kWords], in[kWords * kMostRanks];
  int rank, size, count = (int)(draw >> 8 & 3) == 0 ? kWords : 1 + (int)(draw >> 16 & 31);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  int root = (int)(draw >> 33) % size;
  uint32_t sum = 0, part = 0;
  for (int r = 0; r < size; ++r) {
    sum += word(round, r, count - 1);
    if (r <= rank) part += word(round, r, count - 1);
  }
  fill_words(out, count, round, rank);
  switch (draw % 8) {
    case 0:
      OK(MPI_Bcast(out, count, MPI_UNSIGNED, root, comm));
      expect_words(out, count, round, root, "Bcast");
      break;
    case 1:
      OK(MPI_Reduce(out, in, count, MPI_UNSIGNED, MPI_SUM, root, comm));
      if (rank == root) EXPECT(in[count - 1] == sum, "Reduce, round %d, root %d", round, root);
      break;
    case 2:
      OK(MPI_Gather(out, count, MPI_UNSIGNED, in, count, MPI_UNSIGNED, root, comm));
      for (int r = 0; rank == root && r < size; ++r) expect_words(in + r * count, count, round, r, "Gather");
      break;
    case 3:
      for (int r = 0; rank == root && r < size; ++r) fill_words(in + r * count, count, round, r);
      OK(MPI_Scatter(in, count, MPI_UNSIGNED, out, count, MPI_UNSIGNED, root, comm));
      expect_words(out, count, round, rank, "Scatter");
      break;
    case 4:
      OK(MPI_Allreduce(out, in, count, MPI_UNSIGNED, MPI_SUM, comm));
      EXPECT(in[count - 1] == sum, "Allreduce, round %d", round);
      break;
    case 5:
      OK(MPI_Allgather(out, count, MPI_UNSIGNED, in, count, MPI_UNSIGNED, comm));
      for (int r = 0; r < size; ++r) expect_words(in + r * count, count, round, r, "Allgather");
      break;
    case 6:
      OK(MPI_Barrier(comm));
      break;
    default:
      OK(MPI_Scan(out, in, count, MPI_UNSIGNED, MPI_SUM, comm));
      EXPECT(in[count - 1] == part, "Scan, round %d", round);
  }
}

// Few kinds only: in a run of Bcasts a root leaves before the others come, in a run of Gathers or Reduces the others.
static void back_to_back(MPI_Comm comm, uint64_t key, const int* kinds, int n) {
  struct CollLoop loop = coll_loop(key, 3, 300);
  while (coll_next(&loop)) {
    for (int i = 0; i < 20; ++i) {
      uint64_t draw = check_random(&loop.shared) & ~(uint64_t)7;
      if (coll_chance(&loop.own, 2)) check_stay_away_ms(1);
      one_round(comm, loop.item * 100 + i, draw | (uint64_t)kinds[coll_pick(&loop.shared, n)]);
    }
  }
}
CASE(coll_order, bcasts) { back_to_back(comm, 11, (int[]){0}, 1); }
CASE(coll_order, reduces) { back_to_back(comm, 12, (int[]){1}, 1); }
CASE(coll_order, gathers_scatters) { back_to_back(comm, 13, (int[]){2, 3}, 2); }
CASE(coll_order, rooted) { back_to_back(comm, 14, (int[]){0, 1, 2, 3}, 4); }
CASE(coll_order, all) { back_to_back(comm, 15, (int[]){0, 1, 2, 3, 4, 5, 6, 7}, 8); }

// One rank, in turn, comes 3 ms late to each collective: the others must wait for what they need and no longer matter.
CASE(coll_order, late_rank) {
  struct CollLoop loop = coll_loop(16, 8, 200);
  while (coll_next(&loop)) {
    if (rank == loop.item / 8 % size) check_stay_away_ms(3);
    one_round(comm, loop.item, (check_random(&loop.shared) & ~(uint64_t)7) | (uint64_t)(loop.item % 8));
  }
}

// Small and large messages are under way, receives of all kinds are open, and collectives go on between them.
static void beside_messages(MPI_Comm comm, int rank, int size, int len_bytes, bool wildcard) {
  struct CollLoop loop = coll_loop(check_key(len_bytes, wildcard, 17, 17), 3, 100);
  int left = (rank + size - 1) % size, right = (rank + 1) % size;
  while (coll_next(&loop)) {
    unsigned char *out = check_buffer((size_t)len_bytes), *in = check_buffer((size_t)len_bytes);
    MPI_Request requests[2];
    MPI_Status status = check_blank_status();
    check_fill(out, (size_t)len_bytes, check_key(rank, loop.item, 0, 0));
    int source = wildcard ? MPI_ANY_SOURCE : left, tag = wildcard ? MPI_ANY_TAG : 3, flag = 1;
    OK(MPI_Irecv(in, len_bytes, MPI_BYTE, source, tag, comm, &requests[0]));
    for (int i = 0; i < 4; ++i) one_round(comm, i, check_random(&loop.shared));
    OK(MPI_Barrier(comm));
    if (wildcard) OK(MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE));
    if (wildcard) EXPECT(flag == 0, "a wildcard receive took a message of a collective");
    OK(MPI_Barrier(comm));
    OK(MPI_Isend(out, len_bytes, MPI_BYTE, right, 3, comm, &requests[1]));
    for (int i = 0; i < 4; ++i) one_round(comm, i, check_random(&loop.shared));
    if (requests[0] != MPI_REQUEST_NULL) OK(MPI_Wait(&requests[0], &status));
    EXPECT_STATUS(&status, left, 3, MPI_BYTE, len_bytes);
    EXPECT_FILL(in, (size_t)len_bytes, check_key(left, loop.item, 0, 0));
    OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
  }
}
CASE(coll_order, beside_small_messages) { beside_messages(comm, rank, size, 100, false); }
CASE(coll_order, beside_large_messages) { beside_messages(comm, rank, size, 700000, false); }
CASE(coll_order, beside_small_wildcards) { beside_messages(comm, rank, size, 100, true); }
CASE(coll_order, beside_large_wildcards) { beside_messages(comm, rank, size, 700000, true); }

// Rank 0 waits in a collective for rank 1, which first wants a large message of rank 0 that only progress can bring.
CASE(coll_order, progress_while_waiting) {
  NEED_RANKS(2);
  enum { kBytes = 3000000 };
  struct CollLoop loop = coll_loop(18, 2, 30);
  unsigned char *out = check_buffer(kBytes), *in = check_buffer(kBytes);
  while (coll_next(&loop)) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank == 0) {
      check_fill(out, kBytes, (uint64_t)loop.item);
      OK(MPI_Isend(out, kBytes, MPI_BYTE, size - 1, 5, comm, &request));
    } else if (rank == size - 1) {
      check_stay_away_ms(1);
      OK(MPI_Recv(in, kBytes, MPI_BYTE, 0, 5, comm, MPI_STATUS_IGNORE));
      EXPECT_FILL(in, kBytes, (uint64_t)loop.item);
    }
    one_round(comm, loop.item, 4 + 2 * (uint64_t)(loop.item % 2));  // Allreduce, Barrier
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  }
}

// Small started reductions of a few kinds, again and again and several at once, which end in one of three ways; the
// communicator is freed before the last ones have ended, where all ranks are on one node: Open MPI's own, which serve
// the others, use it after that.
CASE(coll_order, reductions_again) {
  enum { kAtOnce = 3, kMost = 24 };
  MPI_Comm own;
  OK(MPI_Comm_dup(comm, &own));
  OK(MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN));
  const int rounds = check_reps(120);
  for (int i = 0; i < rounds; ++i) {
    int out[kAtOnce][kMost], in[kAtOnce][kMost], kind[kAtOnce], count[kAtOnce];
    MPI_Request requests[kAtOnce];
    for (int k = 0; k < kAtOnce; ++k) {
      const uint64_t draw = check_key(i, k, 5, 5);
      kind[k] = (int)(draw & 3);
      count[k] = 1 + (int)(draw >> 8 & 3) * 7;
      for (int j = 0; j < count[k]; ++j) out[k][j] = in[k][j] = (rank + 1) * (j + 1) + i;
      const void* from = kind[k] == 2 ? MPI_IN_PLACE : out[k];
      if (kind[k] == 3) OK(MPI_Iscan(from, in[k], count[k], MPI_INT, MPI_SUM, own, &requests[k]));
      if (kind[k] == 3) continue;
      OK(MPI_Iallreduce(from, in[k], count[k], MPI_INT, kind[k] == 1 ? MPI_MAX : MPI_SUM, own, &requests[k]));
    }
    if (i == rounds - 1 && size < 4) OK(MPI_Comm_free(&own));
    if (i % 3 == 0) OK(MPI_Waitall(kAtOnce, requests, MPI_STATUSES_IGNORE));
    for (int k = kAtOnce; k-- != 0;) {
      int ended = i % 3 != 2;
      if (i % 3 == 1) OK(MPI_Wait(&requests[k], MPI_STATUS_IGNORE));
      while (!ended) OK(MPI_Test(&requests[k], &ended, MPI_STATUS_IGNORE));
      EXPECT(requests[k] == MPI_REQUEST_NULL, "round %d: request %d has ended", i, k);
      for (int j = 0; j < count[k]; ++j) {
        const int n = kind[k] == 3 ? rank + 1 : size;
        const int wanted = kind[k] == 1 ? size * (j + 1) + i : (j + 1) * n * (n + 1) / 2 + n * i;
        EXPECT(in[k][j] == wanted, "round %d, kind %d: got %d instead of %d", i, kind[k], in[k][j], wanted);
      }
    }
  }
  if (own != MPI_COMM_NULL) OK(MPI_Comm_free(&own));
}

// Several communicators of other members and orders; the ranks use them in turns that overlap.
CASE(coll_comms, overlapping) {
  MPI_Comm made[5];
  OK(MPI_Comm_dup(comm, &made[0]));
  OK(MPI_Comm_split(comm, rank % 2, rank, &made[1]));
  OK(MPI_Comm_split(comm, 0, -rank, &made[2]));
  OK(MPI_Comm_split(comm, rank < (size + 1) / 2, -rank, &made[3]));
  OK(MPI_Comm_split(comm, rank == 0 ? 0 : rank < 4 ? 1 : 2, rank, &made[4]));
  for (int i = 0; i < 5; ++i) OK(MPI_Comm_set_errhandler(made[i], MPI_ERRORS_RETURN));
  struct CollLoop loop = coll_loop(21, 4, 500);
  while (coll_next(&loop)) {
    for (int i = 0; i < 10; ++i) {
      uint64_t draw = check_random(&loop.shared);
      one_round(made[coll_pick(&loop.shared, 5)], loop.item * 10 + i, draw);
    }
  }
  for (int i = 0; i < 5; ++i) OK(MPI_Comm_free(&made[i]));
}

CASE(coll_comms, sizes_1_2_3) {
  for (int members = 1; members <= 3 && members <= size; ++members) {
    MPI_Comm made;
    OK(MPI_Comm_split(comm, rank < members ? 0 : MPI_UNDEFINED, 100 - rank, &made));
    for (int i = 0; made != MPI_COMM_NULL && i < 64; ++i) {
      one_round(made, i, (check_key(i, members, 0, 1) & ~(uint64_t)7) | (uint64_t)(i % 8));
    }
    if (made != MPI_COMM_NULL) OK(MPI_Comm_free(&made));
  }
}

// Freed right behind a collective that a peer may not have left, and made anew: hundreds of times.
CASE(coll_comms, made_and_freed) {
  struct CollLoop loop = coll_loop(22, 5, 400);
  while (coll_next(&loop)) {
    MPI_Comm made;
    if (loop.item % 2) {
      OK(MPI_Comm_dup(comm, &made));
    } else {
      OK(MPI_Comm_split(comm, 0, -rank, &made));
    }
    one_round(made, loop.item, check_random(&loop.shared));
    OK(MPI_Comm_free(&made));
  }
}

CASE(coll_comms, many_at_once) {
  enum { kMany = 60 };
  int count = check_reps(10) < 10 ? 10 : kMany;
  MPI_Comm made[kMany];
  for (int i = 0; i < count; ++i) {
    OK(MPI_Comm_dup(comm, &made[i]));
    one_round(made[i], i, check_key(i, 5, 5, 5));
  }
  for (int i = count - 1; i >= 0; --i) one_round(made[i], i, check_key(i, 6, 6, 6));
  for (int i = 0; i < count; ++i) OK(MPI_Comm_free(&made[i]));
}

// Two nonblocking collectives of one communicator and a blocking one of another are under way together.
CASE(coll_comms, nonblocking_beside_blocking) {
  MPI_Comm other;
  OK(MPI_Comm_dup(comm, &other));
  struct CollLoop loop = coll_loop(23, 3, 200);
  while (coll_next(&loop)) {
    MPI_Request requests[2];
    int mine = rank + loop.item, sum = 0, token = rank == 0 ? loop.item : -1;
    OK(MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm, &requests[0]));
    OK(MPI_Ibcast(&token, 1, MPI_INT, 0, comm, &requests[1]));
    one_round(other, loop.item, check_random(&loop.shared));
    one_round(comm, loop.item, check_random(&loop.shared));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    EXPECT_EQ(token, loop.item);
    EXPECT_EQ(sum, size * (size - 1) / 2 + size * loop.item);
  }
  OK(MPI_Comm_free(&other));
}

// Neighbourhood collectives amid others of the same communicator, which may go another way.
CASE(coll_comms, neighbourhood) {
  MPI_Comm ring;
  OK(MPI_Cart_create(comm, 1, &size, &(int){1}, 0, &ring));
  OK(MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN));
  for (int i = 0; i < check_reps(20); ++i) {
    int mine = rank * 100 + i, got[2] = {-1, -1}, out[2] = {rank * 10, rank * 10 + 1}, in[2] = {-1, -1};
    one_round(ring, i, check_key(i, 3, 3, 3));
    OK(MPI_Neighbor_allgather(&mine, 1, MPI_INT, got, 1, MPI_INT, ring));
    EXPECT(got[0] == left * 100 + i && got[1] == right * 100 + i, "Neighbor_allgather got %d %d", got[0], got[1]);
    OK(MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, ring));
    // With two ranks both neighbours are the same one, and hosts differ in which of its two pieces comes first.
    if (size > 2) EXPECT(in[0] == left * 10 + 1 && in[1] == right * 10, "Neighbor_alltoall got %d %d", in[0], in[1]);
  }
  OK(MPI_Comm_free(&ring));
}

// Threads of one process, each with collectives on a communicator of its own (program collectives-mt).
#include <pthread.h>
struct Work {
  MPI_Comm comm;
  int number, count;
};
static void* rounds(void* argument) {
  struct Work* w = argument;
  for (int i = 0; i < w->count; ++i) one_round(w->comm, i, check_key(i, w->number, 8, 8));
  return NULL;
}
CASE(coll_threads, own_communicators) {
  enum { kThreads = 3 };
  if (check_thread_level() != MPI_THREAD_MULTIPLE) SKIP("needs --thread multiple, and a host that provides it");
  struct Work work[kThreads];
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    work[i] = (struct Work){.number = i, .count = check_reps(100)};
    OK(MPI_Comm_dup(comm, &work[i].comm));
    OK(MPI_Comm_set_errhandler(work[i].comm, MPI_ERRORS_RETURN));
  }
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, rounds, &work[i]);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < kThreads; ++i) OK(MPI_Comm_free(&work[i].comm));
}
