// Cancelling receives: unmatched ones go away without a trace, matched ones complete as if nothing had happened.
#include "check.h"

CASE(cancel, unmatched_receive) {
  unsigned char* in = check_buffer(1000);
  for (int round = 0; round < 20; ++round) {
    MPI_Request receive;
    OK(MPI_Irecv(in, 1000, MPI_BYTE, round % 2 ? MPI_ANY_SOURCE : rank, 900 + round, comm, &receive));
    OK(MPI_Cancel(&receive));
    EXPECT(receive != MPI_REQUEST_NULL, "Cancel must leave the request to be completed");
    MPI_Status status = check_blank_status();
    int flag = 0, cancelled = 0;
    if (round % 3) {
      OK(MPI_Wait(&receive, &status));
    } else {
      while (!flag) OK(MPI_Test(&receive, &flag, &status));
    }
    EXPECT(receive == MPI_REQUEST_NULL, "not null after completion");
    OK(MPI_Test_cancelled(&status, &cancelled));
    EXPECT_EQ(cancelled, 1);
  }
  EXPECT_BYTES(in, 1000, UNTOUCHED);
}

// What the cancelled receive would have taken goes to the next one.
CASE(cancel, message_is_left_for_the_next) {
  for (int len_bytes = 10; len_bytes < 3000000; len_bytes *= 20) {
    unsigned char *first = check_buffer((size_t)len_bytes), *second = check_buffer((size_t)len_bytes);
    unsigned char* out = check_buffer((size_t)len_bytes);
    check_fill(out, (size_t)len_bytes, check_key(rank, len_bytes, 0, 0));
    MPI_Request receives[2];
    OK(MPI_Irecv(first, len_bytes, MPI_BYTE, left, 1, comm, &receives[0]));
    OK(MPI_Irecv(second, len_bytes, MPI_BYTE, left, 1, comm, &receives[1]));
    OK(MPI_Cancel(&receives[0]));
    MPI_Status status;
    OK(MPI_Wait(&receives[0], &status));
    int cancelled = 0;
    OK(MPI_Test_cancelled(&status, &cancelled));
    EXPECT_EQ(cancelled, 1);
    OK(MPI_Barrier(comm));
    OK(MPI_Send(out, len_bytes, MPI_BYTE, right, 1, comm));
    OK(MPI_Wait(&receives[1], &status));
    EXPECT_STATUS(&status, left, 1, MPI_BYTE, len_bytes);
    EXPECT_BYTES(first, (size_t)len_bytes, UNTOUCHED);
    EXPECT_FILL(second, (size_t)len_bytes, check_key(left, len_bytes, 0, 0));
  }
}

CASE(cancel, completed_receive) {
  int in = -1, out = rank + 70, flag = 0, cancelled = 1;
  MPI_Request receive;
  OK(MPI_Irecv(&in, 1, MPI_INT, left, 1, comm, &receive));
  OK(MPI_Send(&out, 1, MPI_INT, right, 1, comm));
  while (!flag) OK(MPI_Request_get_status(receive, &flag, MPI_STATUS_IGNORE));
  OK(MPI_Cancel(&receive));
  MPI_Status status = check_blank_status();
  OK(MPI_Wait(&receive, &status));
  OK(MPI_Test_cancelled(&status, &cancelled));
  EXPECT_EQ(cancelled, 0);
  EXPECT_STATUS(&status, left, 1, MPI_INT, 1);
  EXPECT_EQ(in, left + 70);
}

// A race on purpose: either the receive was cancelled and the message is still there, or it was received; never both.
CASE(cancel, race_with_the_message) {
  int rounds = check_reps(100);
  for (int round = 0; round < rounds; ++round) {
    int len_bytes = round % 4 == 3 ? 150000 : 1 << round % 14;
    unsigned char *in = malloc((size_t)len_bytes), *out = malloc((size_t)len_bytes);
    check_fill(out, (size_t)len_bytes, check_key(rank, round, 5, 0));
    MPI_Request receive, send;
    OK(MPI_Irecv(in, len_bytes, MPI_BYTE, left, round, comm, &receive));
    OK(MPI_Isend(out, len_bytes, MPI_BYTE, right, round, comm, &send));
    int flag, cancelled = -1;
    for (int i = 0; i < round % 5; ++i) OK(MPI_Iprobe(MPI_ANY_SOURCE, 30000, comm, &flag, MPI_STATUS_IGNORE));
    OK(MPI_Cancel(&receive));
    MPI_Status status;
    OK(MPI_Wait(&receive, &status));
    OK(MPI_Test_cancelled(&status, &cancelled));
    if (cancelled) OK(MPI_Recv(in, len_bytes, MPI_BYTE, left, round, comm, MPI_STATUS_IGNORE));
    EXPECT_FILL(in, (size_t)len_bytes, check_key(left, round, 5, 0));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    free(in);
    free(out);
  }
}

CASE(cancel, persistent_receive_can_start_again) {
  int in = -1, out = rank, cancelled = 0;
  MPI_Request receive;
  OK(MPI_Recv_init(&in, 1, MPI_INT, left, 2, comm, &receive));
  OK(MPI_Start(&receive));
  OK(MPI_Cancel(&receive));
  MPI_Status status;
  OK(MPI_Wait(&receive, &status));
  OK(MPI_Test_cancelled(&status, &cancelled));
  EXPECT_EQ(cancelled, 1);
  EXPECT(receive != MPI_REQUEST_NULL, "a cancelled persistent request became null");
  OK(MPI_Start(&receive));
  OK(MPI_Barrier(comm));
  OK(MPI_Send(&out, 1, MPI_INT, right, 2, comm));
  OK(MPI_Wait(&receive, &status));
  EXPECT_STATUS(&status, left, 2, MPI_INT, 1);
  EXPECT_EQ(in, left);
  OK(MPI_Request_free(&receive));
}

CASE(cancel, among_others_in_waitall) {
  int in[3] = {-1, -1, -1}, out[3] = {rank, rank + 1, rank + 2}, cancelled;
  MPI_Request receives[3];
  MPI_Status statuses[3];
  for (int i = 0; i < 3; ++i) OK(MPI_Irecv(&in[i], 1, MPI_INT, left, i, comm, &receives[i]));
  OK(MPI_Cancel(&receives[1]));
  OK(MPI_Barrier(comm));
  OK(MPI_Send(&out[0], 1, MPI_INT, right, 0, comm));
  OK(MPI_Send(&out[2], 1, MPI_INT, right, 2, comm));
  OK(MPI_Waitall(3, receives, statuses));
  for (int i = 0; i < 3; ++i) {
    OK(MPI_Test_cancelled(&statuses[i], &cancelled));
    EXPECT_EQ(cancelled, i == 1);
    EXPECT_EQ(in[i], i == 1 ? -1 : left + i);
  }
}

CASE(cancel, then_request_free) {
  int value = -1;
  MPI_Request receive;
  OK(MPI_Irecv(&value, 1, MPI_INT, rank, 77, comm, &receive));
  OK(MPI_Cancel(&receive));
  OK(MPI_Request_free(&receive));
  int out = 5;
  MPI_Request send;
  OK(MPI_Isend(&out, 1, MPI_INT, rank, 77, comm, &send));
  int in = -1;
  OK(MPI_Recv(&in, 1, MPI_INT, rank, 77, comm, MPI_STATUS_IGNORE));
  OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
  EXPECT_EQ(in, 5);
  EXPECT_EQ(value, -1);
}

CASE(cancel, thousand_posted_from_the_middle) {
  int count = check_reps(1000);
  MPI_Request* receives = malloc((size_t)count * sizeof *receives);
  int* in = check_buffer((size_t)count * 4);
  for (int i = 0; i < count; ++i) {
    in[i] = -1;
    OK(MPI_Irecv(&in[i], 1, MPI_INT, left, i / 2, comm, &receives[i]));
  }
  for (int i = 0; i < count; i += 2) {  // the first of each two with equal tags
    MPI_Status status;
    int cancelled = 0;
    OK(MPI_Cancel(&receives[i]));
    OK(MPI_Wait(&receives[i], &status));
    OK(MPI_Test_cancelled(&status, &cancelled));
    EXPECT_EQ(cancelled, 1);
  }
  OK(MPI_Barrier(comm));
  for (int i = 1; i < count; i += 2) OK(MPI_Send(&i, 1, MPI_INT, right, i / 2, comm));
  OK(MPI_Waitall(count, receives, MPI_STATUSES_IGNORE));
  for (int i = 0; i < count / 2 * 2; ++i) EXPECT_EQ(in[i], i % 2 ? i : -1);
  if (count % 2) EXPECT_EQ(in[count - 1], -1);
  free(receives);
}
