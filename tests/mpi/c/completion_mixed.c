// Wait and Test over lists in which the library's own requests stand beside the host's: collectives, generalized
// requests, duplicates of communicators.
#include "check.h"

static int query(void* state, MPI_Status* status) {
  MPI_Status_set_elements(status, MPI_INT, *(int*)state);
  MPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = 4242;
  status->MPI_TAG = 2424;
  return MPI_SUCCESS;
}
static int release(void* state) {
  ++*(int*)state;
  return MPI_SUCCESS;
}
static int cancel(void* state, int complete) {
  (void)state;
  (void)complete;
  return MPI_SUCCESS;
}

enum { kOwn = 4, kAll = 9 };

// own receive, Ibarrier, null, own send, Iallreduce, grequest, own large receive, own large send, Ibcast
struct Mixed {
  MPI_Request list[kAll];
  int small_in, small_out, sum_in, sum_out, state, cast;
  unsigned char *large_in, *large_out;
  int left, right;
};
enum { kLarge = 300000 };

static void mixed_open(struct Mixed* m, MPI_Comm comm, int rank, int size) {
  m->left = (rank + size - 1) % size;
  m->right = (rank + 1) % size;
  m->small_in = -1;
  m->small_out = rank + 7;
  m->sum_in = 0;
  m->sum_out = rank + 1;
  m->state = 3;
  m->cast = rank == 0 ? 99 : -1;
  m->large_in = check_buffer(kLarge);
  m->large_out = check_buffer(kLarge);
  check_fill(m->large_out, kLarge, check_key(rank, 1, 1, 1));
  OK(MPI_Irecv(&m->small_in, 1, MPI_INT, m->left, 1, comm, &m->list[0]));
  OK(MPI_Ibarrier(comm, &m->list[1]));
  m->list[2] = MPI_REQUEST_NULL;
  OK(MPI_Isend(&m->small_out, 1, MPI_INT, m->right, 1, comm, &m->list[3]));
  OK(MPI_Iallreduce(&m->sum_out, &m->sum_in, 1, MPI_INT, MPI_SUM, comm, &m->list[4]));
  OK(MPI_Grequest_start(query, release, cancel, &m->state, &m->list[5]));
  OK(MPI_Irecv(m->large_in, kLarge, MPI_BYTE, m->left, 2, comm, &m->list[6]));
  OK(MPI_Isend(m->large_out, kLarge, MPI_BYTE, m->right, 2, comm, &m->list[7]));
  OK(MPI_Ibcast(&m->cast, 1, MPI_INT, 0, comm, &m->list[8]));
}

static void mixed_verify(struct Mixed* m, int size) {
  for (int i = 0; i < kAll; ++i) EXPECT(m->list[i] == MPI_REQUEST_NULL, "request %d is not null", i);
  EXPECT_EQ(m->small_in, m->left + 7);
  EXPECT_EQ(m->sum_in, size * (size + 1) / 2);
  EXPECT_EQ(m->cast, 99);
  EXPECT_EQ(m->state, 4);  // the free function ran once
  EXPECT_FILL(m->large_in, kLarge, check_key(m->left, 1, 1, 1));
}

static void verify_status(struct Mixed* m, int index, const MPI_Status* status) {
  if (index == 0) EXPECT_STATUS(status, m->left, 1, MPI_INT, 1);
  if (index == 5) EXPECT_STATUS(status, 4242, 2424, MPI_INT, 3);
  if (index == 6) EXPECT_STATUS(status, m->left, 2, MPI_BYTE, kLarge);
}

CASE(completion_mixed, waitall) {
  struct Mixed m;
  mixed_open(&m, comm, rank, size);
  OK(MPI_Grequest_complete(m.list[5]));
  MPI_Status statuses[kAll];
  for (int i = 0; i < kAll; ++i) statuses[i] = check_blank_status();
  OK(MPI_Waitall(kAll, m.list, statuses));
  for (int i = 0; i < kAll; ++i) verify_status(&m, i, &statuses[i]);
  EXPECT_EMPTY_STATUS(&statuses[2]);
  mixed_verify(&m, size);
}

CASE(completion_mixed, waitall_ignoring_statuses) {
  struct Mixed m;
  mixed_open(&m, comm, rank, size);
  OK(MPI_Grequest_complete(m.list[5]));
  OK(MPI_Waitall(kAll, m.list, MPI_STATUSES_IGNORE));
  mixed_verify(&m, size);
}

CASE(completion_mixed, testall) {
  struct Mixed m;
  mixed_open(&m, comm, rank, size);
  int flag = 1;
  for (int turn = 0; turn < 50; ++turn) {
    OK(MPI_Testall(kAll, m.list, &flag, MPI_STATUSES_IGNORE));
    EXPECT_EQ(flag, 0);  // the generalized request is open
  }
  OK(MPI_Grequest_complete(m.list[5]));
  MPI_Status statuses[kAll];
  for (flag = 0; !flag;) OK(MPI_Testall(kAll, m.list, &flag, statuses));
  for (int i = 0; i < kAll; ++i) verify_status(&m, i, &statuses[i]);
  mixed_verify(&m, size);
}

static void any(MPI_Comm comm, int rank, int size, bool test) {
  struct Mixed m;
  mixed_open(&m, comm, rank, size);
  int seen = 0;
  for (int done = 0; done < kAll - 1; ++done) {
    if (done == kAll - 2) {
      // Everything else is through, the generalized request must be what is left.
      EXPECT_EQ(seen & 1 << 5, 0);
      OK(MPI_Grequest_complete(m.list[5]));
    }
    int index = -1, flag = 0;
    MPI_Status status = check_blank_status();
    if (test) {
      while (!flag) OK(MPI_Testany(kAll, m.list, &index, &flag, &status));
    } else {
      OK(MPI_Waitany(kAll, m.list, &index, &status));
    }
    EXPECT(index >= 0 && index < kAll && index != 2 && !(seen >> index & 1), "index %d", index);
    if (index < 0 || index >= kAll) return;
    seen |= 1 << index;
    verify_status(&m, index, &status);
  }
  mixed_verify(&m, size);
}
CASE(completion_mixed, waitany) { any(comm, rank, size, false); }
CASE(completion_mixed, testany) { any(comm, rank, size, true); }

static void some(MPI_Comm comm, int rank, int size, bool test) {
  struct Mixed m;
  mixed_open(&m, comm, rank, size);
  int seen = 0, done = 0;
  bool completed = false;
  while (done < kAll - 1) {
    if (done == kAll - 2 && !completed) {
      OK(MPI_Grequest_complete(m.list[5]));
      completed = true;
    }
    int count = -1, indices[kAll];
    MPI_Status statuses[kAll];
    if (test) {
      OK(MPI_Testsome(kAll, m.list, &count, indices, statuses));
    } else {
      OK(MPI_Waitsome(kAll, m.list, &count, indices, statuses));
      EXPECT(count > 0, "Waitsome gives %d", count);
    }
    if (count < 0 || count > kAll) {
      EXPECT(false, "count is %d", count);
      return;
    }
    for (int i = 0; i < count; ++i) {
      EXPECT(!(seen >> indices[i] & 1), "index %d twice", indices[i]);
      seen |= 1 << indices[i];
      verify_status(&m, indices[i], &statuses[i]);
    }
    done += count;
  }
  mixed_verify(&m, size);
}
CASE(completion_mixed, waitsome) { some(comm, rank, size, false); }
CASE(completion_mixed, testsome) { some(comm, rank, size, true); }

// A host request alone completes the list although own ones stay open, and the other way round.
CASE(completion_mixed, waitany_returns_for_either_side) {
  int left = (rank + size - 1) % size, right = (rank + 1) % size;
  int in = -1, out = rank, index = -1;
  MPI_Request list[2];
  OK(MPI_Irecv(&in, 1, MPI_INT, left, 1, comm, &list[0]));
  OK(MPI_Ibarrier(comm, &list[1]));
  OK(MPI_Waitany(2, list, &index, MPI_STATUS_IGNORE));
  EXPECT_EQ(index, 1);
  OK(MPI_Barrier(comm));
  OK(MPI_Send(&out, 1, MPI_INT, right, 1, comm));
  OK(MPI_Wait(&list[0], MPI_STATUS_IGNORE));
  EXPECT_EQ(in, left);

  int state = 1;
  OK(MPI_Grequest_start(query, release, cancel, &state, &list[0]));
  OK(MPI_Irecv(&in, 1, MPI_INT, left, 2, comm, &list[1]));
  OK(MPI_Barrier(comm));
  OK(MPI_Send(&out, 1, MPI_INT, right, 2, comm));
  OK(MPI_Waitany(2, list, &index, MPI_STATUS_IGNORE));
  EXPECT_EQ(index, 1);
  OK(MPI_Grequest_complete(list[0]));
  OK(MPI_Wait(&list[0], MPI_STATUS_IGNORE));
  EXPECT_EQ(state, 2);
}

CASE(completion_mixed, persistent_beside_host) {
  int left = (rank + size - 1) % size, right = (rank + 1) % size;
  int in = -1, out = rank + 3;
  MPI_Request list[3];
  OK(MPI_Recv_init(&in, 1, MPI_INT, left, 1, comm, &list[0]));
  OK(MPI_Ssend_init(&out, 1, MPI_INT, right, 1, comm, &list[1]));
  for (int round = 0; round < 5; ++round) {
    in = -1;
    OK(MPI_Startall(2, list));
    OK(MPI_Ibarrier(comm, &list[2]));
    OK(MPI_Waitall(3, list, MPI_STATUSES_IGNORE));
    EXPECT_EQ(in, left + 3);
    EXPECT(list[2] == MPI_REQUEST_NULL && list[0] != MPI_REQUEST_NULL && list[1] != MPI_REQUEST_NULL, "handles");
  }
  OK(MPI_Request_free(&list[0]));
  OK(MPI_Request_free(&list[1]));
}

CASE(completion_mixed, list_of_host_requests_only) {
  MPI_Request list[20];
  int out[20], in[20];
  for (int i = 0; i < 20; ++i) {
    out[i] = rank + i;
    OK(MPI_Iallreduce(&out[i], &in[i], 1, MPI_INT, MPI_SUM, comm, &list[i]));
  }
  OK(MPI_Waitall(20, list, MPI_STATUSES_IGNORE));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(in[i], size * (size - 1) / 2 + size * i);
}

// MPI_Waitall over requests of files, partitioned messages, windows and neighbours, alone and beside the library's own.
CASE(completion_mixed, waitall_over_other_kinds) {
  enum { kParts = 4, kDoubles = 16, kMost = 8 };  // parts where the host has them
  int left = (rank + size - 1) % size, right = (rank + 1) % size, periods[1] = {1};
  MPI_Comm ring;
  MPI_Win window;
  int cell = -1;
  OK(MPI_Cart_create(comm, 1, &size, periods, 0, &ring));
  OK(MPI_Win_create(&cell, sizeof cell, sizeof cell, MPI_INFO_NULL, comm, &window));
  OK(MPI_Win_lock_all(0, window));
  for (int round = 0; round < 4; ++round) {
    MPI_Request list[kMost];
    MPI_Status statuses[kMost];
    int n = 0, in = -1, out = rank + round, around[2] = {-1, -1};
    if (round % 2) OK(MPI_Irecv(&in, 1, MPI_INT, left, 5, comm, &list[n++]));
    OK(MPI_Rput(&out, 1, MPI_INT, right, 0, 1, MPI_INT, window, &list[n++]));
    OK(MPI_Ineighbor_allgather(&out, 1, MPI_INT, around, 1, MPI_INT, ring, &list[n++]));
#if MPI_VERSION >= 4
    static double from[kParts * kDoubles], to[kParts * kDoubles];
    MPI_Request parts[2];
    for (int i = 0; i < kParts * kDoubles; ++i) from[i] = rank * 1000 + i;
    OK(MPI_Psend_init(from, kParts, kDoubles, MPI_DOUBLE, right, 7, comm, MPI_INFO_NULL, &parts[0]));
    OK(MPI_Precv_init(to, kParts, kDoubles, MPI_DOUBLE, left, 7, comm, MPI_INFO_NULL, &parts[1]));
    OK(MPI_Startall(2, parts));
    list[n++] = parts[0];
    list[n++] = parts[1];
#endif
    if (rank % 2) check_stay_away_ms(5);
#if MPI_VERSION >= 4
    for (int i = 0; i < kParts; ++i) OK(MPI_Pready(i, parts[0]));
#endif
    if (round % 2) OK(MPI_Send(&out, 1, MPI_INT, right, 5, comm));
    OK(round < 2 ? MPI_Waitall(n, list, statuses) : MPI_Waitall(n, list, MPI_STATUSES_IGNORE));
    if (round % 2) EXPECT_EQ(in, left + round);
    EXPECT_EQ(around[0], left + round);
    EXPECT_EQ(around[1], right + round);
#if MPI_VERSION >= 4
    EXPECT(to[kParts * kDoubles - 1] == left * 1000 + kParts * kDoubles - 1, "the last part");
    OK(MPI_Request_free(&parts[0]));
    OK(MPI_Request_free(&parts[1]));
#endif
  }
  OK(MPI_Win_unlock_all(window));
  OK(MPI_Barrier(comm));
  EXPECT_EQ(cell, left + 3);
  OK(MPI_Win_free(&window));
  OK(MPI_Comm_free(&ring));
}
