// Wait and Test: one, all, any, some, over lists that request_matrix.c has not: empty, long, of one kind, and of the
// library's requests beside the host's.
#include "check.h"

enum { kRequests = 8 };

// Own messages on `comm`: each rank receives kRequests ints from its left neighbour, tags 0..7.
static void post(MPI_Comm comm, int rank, int size, int* in, MPI_Request* receives) {
  int left = (rank + size - 1) % size;
  for (int i = 0; i < kRequests; ++i) {
    in[i] = -1;
    OK(MPI_Irecv(&in[i], 1, MPI_INT, left, i, comm, &receives[i]));
  }
}

static void send_one(MPI_Comm comm, int rank, int size, int tag) {
  int value = rank * 100 + tag;
  OK(MPI_Send(&value, 1, MPI_INT, (rank + 1) % size, tag, comm));
}

static const int kOrder[kRequests] = {5, 0, 7, 2, 1, 6, 4, 3};

// What every function says of `n` requests of which none is under way.
static void nothing_to_complete(int n, MPI_Request* list) {
  int flag = 0, index = 5, count = 5, places[3], *indices = n > 0 ? places : NULL;
  MPI_Status status = check_blank_status(), three[3], *statuses = n > 0 ? three : MPI_STATUSES_IGNORE;
  for (int i = 0; i < n; ++i) {
    OK(MPI_Wait(&list[i], &status));
    EXPECT_EMPTY_STATUS(&status);
    status = check_blank_status();
    OK(MPI_Test(&list[i], &flag, &status));
    EXPECT_EQ(flag, 1);
    EXPECT_EMPTY_STATUS(&status);
    statuses[i] = status = check_blank_status();
    flag = 0;
  }
  OK(MPI_Waitall(n, list, statuses));
  for (int i = 0; i < n; ++i) EXPECT_EMPTY_STATUS(&statuses[i]);
  OK(MPI_Testall(n, list, &flag, statuses));
  EXPECT_EQ(flag, 1);
  OK(MPI_Waitany(n, list, &index, &status));
  EXPECT_EQ(index, MPI_UNDEFINED);
  EXPECT_EMPTY_STATUS(&status);
  flag = 0;
  index = 5;
  OK(MPI_Testany(n, list, &index, &flag, &status));
  EXPECT_EQ(flag, 1);
  EXPECT_EQ(index, MPI_UNDEFINED);
  OK(MPI_Waitsome(n, list, &count, indices, statuses));
  EXPECT_EQ(count, MPI_UNDEFINED);
  count = 5;
  OK(MPI_Testsome(n, list, &count, indices, statuses));
  EXPECT_EQ(count, MPI_UNDEFINED);
}

CASE(completion, null_requests) {
  MPI_Request list[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  nothing_to_complete(3, list);
}

CASE(completion, empty_lists) { nothing_to_complete(0, NULL); }

CASE(completion, waitany_each) {
  int in[kRequests];
  MPI_Request receives[kRequests];
  post(comm, rank, size, in, receives);
  OK(MPI_Barrier(comm));
  for (int i = 0; i < kRequests; ++i) {
    int tag = kOrder[i], index = -1, flag = 1;
    OK(MPI_Testany(kRequests, receives, &index, &flag, MPI_STATUS_IGNORE));
    EXPECT_EQ(flag, 0);
    EXPECT_EQ(index, MPI_UNDEFINED);
    OK(MPI_Barrier(comm));
    send_one(comm, rank, size, tag);
    MPI_Status status = check_blank_status();
    if (i % 2) {
      OK(MPI_Waitany(kRequests, receives, &index, &status));
    } else {
      flag = 0;
      while (!flag) OK(MPI_Testany(kRequests, receives, &index, &flag, &status));
    }
    EXPECT_EQ(index, tag);
    EXPECT(receives[tag] == MPI_REQUEST_NULL, "request %d is not null", tag);
    EXPECT_STATUS(&status, left, tag, MPI_INT, 1);
    EXPECT_EQ(status.MPI_ERROR, -7777);
    EXPECT_EQ(in[tag], left * 100 + tag);
    OK(MPI_Barrier(comm));
  }
  int index = 0;
  OK(MPI_Waitany(kRequests, receives, &index, MPI_STATUS_IGNORE));
  EXPECT_EQ(index, MPI_UNDEFINED);
}

// A pending receive is given up, and its handle is used again, for a receive whose message is there or for a
// collective: an array that looks as it did.
CASE(completion, handles_used_again) {
  static int in[kRequests];  // the receive that is given up may still write there
  for (int round = 0; round < 4; ++round) {
    const int some = round % 2, collective = round / 2;
    int early = -1, index = -1, flag = 1, count = 1, indices[kRequests];
    MPI_Request receives[kRequests];
    post(comm, rank, size, in, receives);
    int left = (rank + size - 1) % size;
    send_one(comm, rank, size, kRequests);
    OK(MPI_Probe(left, kRequests, comm, MPI_STATUS_IGNORE));
    OK(MPI_Testany(kRequests, receives, &index, &flag, MPI_STATUS_IGNORE));
    EXPECT_EQ(flag, 0);
    OK(MPI_Testsome(kRequests, receives, &count, indices, MPI_STATUSES_IGNORE));
    EXPECT_EQ(count, 0);
    OK(MPI_Request_free(&receives[3]));
    if (collective) {
      OK(MPI_Ibarrier(comm, &receives[3]));
    } else {
      OK(MPI_Irecv(&early, 1, MPI_INT, left, kRequests, comm, &receives[3]));
    }
    if (some) {
      OK(MPI_Waitsome(kRequests, receives, &count, indices, MPI_STATUSES_IGNORE));
      EXPECT_EQ(count, 1);
      EXPECT_EQ(indices[0], 3);
    } else {
      OK(MPI_Waitany(kRequests, receives, &index, MPI_STATUS_IGNORE));
      EXPECT_EQ(index, 3);
    }
    if (collective) OK(MPI_Recv(&early, 1, MPI_INT, left, kRequests, comm, MPI_STATUS_IGNORE));
    EXPECT_EQ(early, left * 100 + kRequests);
    OK(MPI_Barrier(comm));
    for (int tag = 0; tag < kRequests; ++tag) send_one(comm, rank, size, tag);
    OK(MPI_Waitall(kRequests, receives, MPI_STATUSES_IGNORE));
    OK(MPI_Barrier(comm));
    for (int i = 0; i < kRequests; ++i) {
      if (i != 3) EXPECT_EQ(in[i], left * 100 + i);
    }
  }
}

CASE(completion, waitsome_collects_all) {
  int in[kRequests], seen = 0, done = 0;
  MPI_Request receives[kRequests];
  post(comm, rank, size, in, receives);
  OK(MPI_Barrier(comm));
  for (int i = 0; i < kRequests; ++i) send_one(comm, rank, size, kOrder[i]);
  while (done < kRequests) {
    int count = -1, indices[kRequests];
    MPI_Status statuses[kRequests];
    if (done % 2) {
      OK(MPI_Waitsome(kRequests, receives, &count, indices, statuses));
      EXPECT(count >= 1, "Waitsome gives %d", count);
    } else {
      OK(MPI_Testsome(kRequests, receives, &count, indices, statuses));
      EXPECT(count >= 0, "Testsome gives %d", count);
    }
    if (count < 0 || count > kRequests) return;
    for (int i = 0; i < count; ++i) {
      int tag = indices[i];
      EXPECT(!(seen >> tag & 1), "index %d twice", tag);
      seen |= 1 << tag;
      EXPECT(receives[tag] == MPI_REQUEST_NULL, "request %d is not null", tag);
      EXPECT_STATUS(&statuses[i], left, tag, MPI_INT, 1);
      EXPECT_EQ(in[tag], left * 100 + tag);
    }
    done += count;
  }
  int count = 0, indices[kRequests];
  OK(MPI_Waitsome(kRequests, receives, &count, indices, MPI_STATUSES_IGNORE));
  EXPECT_EQ(count, MPI_UNDEFINED);
}

// Persistent requests which are not started count as null ones, and keep their handle.
CASE(completion, inactive_persistent) {
  int in = -1, out = rank + 50, index = 0;
  MPI_Request list[3];
  MPI_Status status, statuses[3];
  OK(MPI_Recv_init(&in, 1, MPI_INT, left, 1, comm, &list[0]));
  OK(MPI_Send_init(&out, 1, MPI_INT, right, 1, comm, &list[1]));
  list[2] = MPI_REQUEST_NULL;
  MPI_Request before[2] = {list[0], list[1]};
  nothing_to_complete(3, list);
  EXPECT(list[0] == before[0] && list[1] == before[1], "an inactive handle changed");

  // Now one after the other is started: only the started one completes.
  OK(MPI_Startall(2, list));
  OK(MPI_Waitall(2, list, statuses));
  EXPECT_STATUS(&statuses[0], left, 1, MPI_INT, 1);
  EXPECT_EQ(in, left + 50);
  EXPECT(list[0] == before[0] && list[1] == before[1], "a completed persistent handle changed");
  in = -1;
  OK(MPI_Start(&list[0]));
  OK(MPI_Barrier(comm));
  OK(MPI_Start(&list[1]));
  int done = 0;
  while (done < 2) {
    OK(MPI_Waitany(3, list, &index, &status));
    EXPECT(index == 0 || index == 1, "Waitany gives %d", index);
    if (index != 0 && index != 1) return;
    if (index == 0) EXPECT_STATUS(&status, left, 1, MPI_INT, 1);
    ++done;
  }
  OK(MPI_Waitany(3, list, &index, &status));
  EXPECT_EQ(index, MPI_UNDEFINED);
  EXPECT_EQ(in, left + 50);
  OK(MPI_Request_free(&list[0]));
  OK(MPI_Request_free(&list[1]));
}

// Many requests at once, in and out of order, of all sizes.
CASE(completion, thousands_of_requests) {
  int count = check_reps(3000);
  MPI_Request* requests = malloc(2 * (size_t)count * sizeof *requests);
  int *in = check_buffer((size_t)count * 4), *out = check_buffer((size_t)count * 4);
  for (int i = 0; i < count; ++i) {
    OK(MPI_Irecv(&in[i], 1, MPI_INT, left, count - 1 - i, comm, &requests[2 * i]));
    out[i] = rank * 10000 + i;
  }
  for (int i = 0; i < count; ++i) OK(MPI_Isend(&out[i], 1, MPI_INT, right, i, comm, &requests[2 * i + 1]));
  OK(MPI_Waitall(2 * count, requests, MPI_STATUSES_IGNORE));
  for (int i = 0; i < count; ++i) {
    EXPECT(in[i] == left * 10000 + count - 1 - i, "receive %d got %d", i, in[i]);
    EXPECT(requests[2 * i] == MPI_REQUEST_NULL && requests[2 * i + 1] == MPI_REQUEST_NULL, "request %d not null", i);
  }
  free(requests);
}

CASE(completion, send_status_is_harmless) {
  int value = rank, in = -1;
  MPI_Request requests[2];
  MPI_Status statuses[2] = {check_blank_status(), check_blank_status()};
  OK(MPI_Irecv(&in, 1, MPI_INT, rank, 0, comm, &requests[0]));
  OK(MPI_Isend(&value, 1, MPI_INT, rank, 0, comm, &requests[1]));
  OK(MPI_Waitall(2, requests, statuses));
  int cancelled = 1;
  OK(MPI_Test_cancelled(&statuses[1], &cancelled));
  EXPECT_EQ(cancelled, 0);
  EXPECT_EQ(in, rank);
}

// ---- beside requests of the host

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

// A host request alone completes the list although own ones stay open, and the other way round.
CASE(completion, waitany_returns_for_either_side) {
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

CASE(completion, persistent_beside_host) {
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

CASE(completion, list_of_host_requests_only) {
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
CASE(completion, waitall_over_other_kinds) {
  enum { kParts = 4, kDoubles = 16, kMost = 8 };  // parts where the host has them
  int periods[1] = {1};
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
