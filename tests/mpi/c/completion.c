// Wait and Test: one, all, any, some, over active, inactive, null and persistent requests.
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

CASE(completion, test_one) {
  int in[kRequests], left = (rank + size - 1) % size;
  MPI_Request receives[kRequests];
  post(comm, rank, size, in, receives);
  for (int i = 0; i < kRequests; ++i) {
    int flag = 1;
    OK(MPI_Test(&receives[i], &flag, MPI_STATUS_IGNORE));
    EXPECT_EQ(flag, 0);
    EXPECT(receives[i] != MPI_REQUEST_NULL, "an open request became null");
  }
  OK(MPI_Barrier(comm));
  for (int i = 0; i < kRequests; ++i) {
    int tag = kOrder[i], flag = 0;
    send_one(comm, rank, size, tag);
    MPI_Status status = check_blank_status();
    while (!flag) OK(MPI_Test(&receives[tag], &flag, &status));
    EXPECT(receives[tag] == MPI_REQUEST_NULL, "a completed request is not null");
    EXPECT_STATUS(&status, left, tag, MPI_INT, 1);
    EXPECT_EQ(status.MPI_ERROR, -7777);
    EXPECT_EQ(in[tag], left * 100 + tag);
    OK(MPI_Barrier(comm));
  }
}

CASE(completion, null_requests) {
  MPI_Request nothing[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Status status = check_blank_status(), statuses[3];
  int flag = 0, index = 5, count = 5, indices[3];
  OK(MPI_Wait(&nothing[0], &status));
  EXPECT_EMPTY_STATUS(&status);
  status = check_blank_status();
  OK(MPI_Test(&nothing[0], &flag, &status));
  EXPECT_EQ(flag, 1);
  EXPECT_EMPTY_STATUS(&status);
  for (int i = 0; i < 3; ++i) statuses[i] = check_blank_status();
  OK(MPI_Waitall(3, nothing, statuses));
  for (int i = 0; i < 3; ++i) EXPECT_EMPTY_STATUS(&statuses[i]);
  flag = 0;
  OK(MPI_Testall(3, nothing, &flag, statuses));
  EXPECT_EQ(flag, 1);
  status = check_blank_status();
  OK(MPI_Waitany(3, nothing, &index, &status));
  EXPECT_EQ(index, MPI_UNDEFINED);
  EXPECT_EMPTY_STATUS(&status);
  flag = 0;
  index = 5;
  OK(MPI_Testany(3, nothing, &index, &flag, &status));
  EXPECT_EQ(flag, 1);
  EXPECT_EQ(index, MPI_UNDEFINED);
  OK(MPI_Waitsome(3, nothing, &count, indices, statuses));
  EXPECT_EQ(count, MPI_UNDEFINED);
  count = 5;
  OK(MPI_Testsome(3, nothing, &count, indices, statuses));
  EXPECT_EQ(count, MPI_UNDEFINED);
}

CASE(completion, empty_lists) {
  int flag = 0, index = 5, count = 5;
  OK(MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE));
  OK(MPI_Testall(0, NULL, &flag, MPI_STATUSES_IGNORE));
  EXPECT_EQ(flag, 1);
  OK(MPI_Waitany(0, NULL, &index, MPI_STATUS_IGNORE));
  EXPECT_EQ(index, MPI_UNDEFINED);
  flag = 0;
  index = 5;
  OK(MPI_Testany(0, NULL, &index, &flag, MPI_STATUS_IGNORE));
  EXPECT_EQ(flag, 1);
  EXPECT_EQ(index, MPI_UNDEFINED);
  OK(MPI_Waitsome(0, NULL, &count, NULL, MPI_STATUSES_IGNORE));
  EXPECT_EQ(count, MPI_UNDEFINED);
  count = 5;
  OK(MPI_Testsome(0, NULL, &count, NULL, MPI_STATUSES_IGNORE));
  EXPECT_EQ(count, MPI_UNDEFINED);
}

CASE(completion, waitall_statuses) {
  int in[kRequests], left = (rank + size - 1) % size;
  MPI_Request receives[kRequests + 1];
  post(comm, rank, size, in, receives + 1);
  receives[0] = MPI_REQUEST_NULL;
  OK(MPI_Barrier(comm));
  for (int i = 0; i < kRequests; ++i) send_one(comm, rank, size, kOrder[i]);
  MPI_Status statuses[kRequests + 1];
  for (int i = 0; i <= kRequests; ++i) statuses[i] = check_blank_status();
  OK(MPI_Waitall(kRequests + 1, receives, statuses));
  EXPECT_EMPTY_STATUS(&statuses[0]);
  for (int i = 0; i < kRequests; ++i) {
    EXPECT(receives[i + 1] == MPI_REQUEST_NULL, "request %d is not null", i);
    EXPECT_STATUS(&statuses[i + 1], left, i, MPI_INT, 1);
    EXPECT_EQ(in[i], left * 100 + i);
  }
}

CASE(completion, testall_is_all_or_nothing) {
  int in[kRequests], flag = 1;
  MPI_Request receives[kRequests];
  post(comm, rank, size, in, receives);
  OK(MPI_Barrier(comm));
  for (int i = 0; i < kRequests - 1; ++i) send_one(comm, rank, size, i);
  OK(MPI_Barrier(comm));
  for (int turn = 0; turn < 20; ++turn) {
    OK(MPI_Testall(kRequests, receives, &flag, MPI_STATUSES_IGNORE));
    EXPECT_EQ(flag, 0);
  }
  for (int i = 0; i < kRequests; ++i) {
    EXPECT(receives[i] != MPI_REQUEST_NULL, "Testall without success completed request %d", i);
  }
  OK(MPI_Barrier(comm));
  send_one(comm, rank, size, kRequests - 1);
  flag = 0;
  while (!flag) OK(MPI_Testall(kRequests, receives, &flag, MPI_STATUSES_IGNORE));
  for (int i = 0; i < kRequests; ++i) {
    EXPECT(receives[i] == MPI_REQUEST_NULL, "request %d is not null", i);
    EXPECT_EQ(in[i], (rank + size - 1) % size * 100 + i);
  }
}

CASE(completion, waitany_each) {
  int in[kRequests], left = (rank + size - 1) % size;
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

CASE(completion, waitsome_collects_all) {
  int in[kRequests], left = (rank + size - 1) % size, seen = 0, done = 0;
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
  int right = (rank + 1) % size, left = (rank + size - 1) % size;
  int in = -1, out = rank + 50, flag = 0, index = 0, count = 0, indices[3];
  MPI_Request list[3];
  MPI_Status status = check_blank_status(), statuses[3];
  OK(MPI_Recv_init(&in, 1, MPI_INT, left, 1, comm, &list[0]));
  OK(MPI_Send_init(&out, 1, MPI_INT, right, 1, comm, &list[1]));
  list[2] = MPI_REQUEST_NULL;
  MPI_Request before[2] = {list[0], list[1]};
  OK(MPI_Wait(&list[0], &status));
  EXPECT_EMPTY_STATUS(&status);
  status = check_blank_status();
  OK(MPI_Test(&list[1], &flag, &status));
  EXPECT_EQ(flag, 1);
  EXPECT_EMPTY_STATUS(&status);
  OK(MPI_Waitall(3, list, statuses));
  for (int i = 0; i < 3; ++i) EXPECT_EMPTY_STATUS(&statuses[i]);
  OK(MPI_Waitany(3, list, &index, &status));
  EXPECT_EQ(index, MPI_UNDEFINED);
  OK(MPI_Testany(3, list, &index, &flag, &status));
  EXPECT_EQ(index, MPI_UNDEFINED);
  EXPECT_EQ(flag, 1);
  OK(MPI_Waitsome(3, list, &count, indices, statuses));
  EXPECT_EQ(count, MPI_UNDEFINED);
  OK(MPI_Testsome(3, list, &count, indices, statuses));
  EXPECT_EQ(count, MPI_UNDEFINED);
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
CASE(completion, thousand_requests) {
  int count = check_reps(1000);
  int right = (rank + 1) % size, left = (rank + size - 1) % size;
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
