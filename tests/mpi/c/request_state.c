// List forms of Request_get_status (request_matrix.c has the form for one), its progress, and Request_free of requests
// that are still under way.
#include "check.h"

// A rank that only polls by Request_get_status makes progress for its large messages.
CASE(request_state, get_status_makes_progress) {
  enum { kBytes = 2000000 };
  unsigned char *in = check_buffer(kBytes), *out = check_buffer(kBytes);
  check_fill(out, kBytes, check_key(rank, 0, 3, 0));
  MPI_Request list[2];
  OK(MPI_Irecv(in, kBytes, MPI_BYTE, left, 4, comm, &list[0]));
  OK(MPI_Isend(out, kBytes, MPI_BYTE, right, 4, comm, &list[1]));
  for (int i = 0; i < 2; ++i) {
    for (int flag = 0; !flag;) OK(MPI_Request_get_status(list[i], &flag, MPI_STATUS_IGNORE));
  }
  EXPECT_FILL(in, kBytes, check_key(left, 0, 3, 0));
  OK(MPI_Waitall(2, list, MPI_STATUSES_IGNORE));
}

CASE(request_state, free_active_sends) {
  for (int i = 0; i < check_sizes_count; ++i) {
    size_t len_bytes = check_sizes[i];
    unsigned char *out = check_buffer(len_bytes), *in = check_buffer(len_bytes);
    check_fill(out, len_bytes, check_key(rank, i, 2, 0));
    MPI_Request send;
    if (i % 2) {
      OK(MPI_Isend(out, (int)len_bytes, MPI_BYTE, right, i, comm, &send));
    } else {
      OK(MPI_Issend(out, (int)len_bytes, MPI_BYTE, right, i, comm, &send));
    }
    OK(MPI_Request_free(&send));
    EXPECT(send == MPI_REQUEST_NULL, "not null after Request_free");
    OK(MPI_Recv(in, (int)len_bytes, MPI_BYTE, left, i, comm, MPI_STATUS_IGNORE));
    EXPECT_FILL(in, len_bytes, check_key(left, i, 2, 0));
  }
  OK(MPI_Barrier(comm));  // after it every freed send is delivered, its buffer may go
}

CASE(request_state, free_active_receive) {
  enum { kBytes = 100000 };
  unsigned char *in = check_buffer(kBytes), *out = check_buffer(kBytes);
  check_fill(out, kBytes, check_key(rank, 3, 2, 0));
  MPI_Request receive;
  OK(MPI_Irecv(in, kBytes, MPI_BYTE, left, 1, comm, &receive));
  OK(MPI_Request_free(&receive));
  OK(MPI_Barrier(comm));
  OK(MPI_Send(out, kBytes, MPI_BYTE, right, 1, comm));
  // The freed receive is done when a later message of the same source has been received and the data is there.
  OK(MPI_Sendrecv(NULL, 0, MPI_BYTE, right, 2, NULL, 0, MPI_BYTE, left, 2, comm, MPI_STATUS_IGNORE));
  for (int turn = 0; turn < 100 && in[kBytes - 1] == UNTOUCHED; ++turn) {
    int flag;
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE));
  }
  OK(MPI_Barrier(comm));
  EXPECT_FILL(in, kBytes, check_key(left, 3, 2, 0));
}

CASE(request_state, free_active_persistent) {
  enum { kBytes = 200000 };
  unsigned char *in = check_buffer(kBytes), *out = check_buffer(kBytes);
  check_fill(out, kBytes, check_key(rank, 4, 2, 0));
  MPI_Request send;
  OK(MPI_Send_init(out, kBytes, MPI_BYTE, right, 1, comm, &send));
  OK(MPI_Start(&send));
  OK(MPI_Request_free(&send));
  OK(MPI_Recv(in, kBytes, MPI_BYTE, left, 1, comm, MPI_STATUS_IGNORE));
  EXPECT_FILL(in, kBytes, check_key(left, 4, 2, 0));
  OK(MPI_Barrier(comm));
}

CASE(request_state, free_never_started_persistent) {
  int value = 0;
  for (int i = 0; i < 100; ++i) {
    MPI_Request request;
    OK(i % 2 ? MPI_Send_init(&value, 1, MPI_INT, rank, i, comm, &request)
             : MPI_Recv_init(&value, 1, MPI_INT, rank, i, comm, &request));
    OK(MPI_Request_free(&request));
  }
}

CASE(request_state, free_of_null_is_an_error) {
  MPI_Request request = MPI_REQUEST_NULL;
  EXPECT_CLASS(MPI_Request_free(&request), MPI_ERR_REQUEST);
}

#if HAVE_MPI41
CASE(request_state, get_status_lists) {
  int in[4] = {-1, -1, -1, -1}, flag = 1, index = 7, count = 7, indices[4];
  MPI_Request list[4];
  MPI_Status statuses[4], status;
  for (int i = 0; i < 4; ++i) OK(MPI_Irecv(&in[i], 1, MPI_INT, left, i, comm, &list[i]));
  OK(MPI_Request_get_status_all(4, list, &flag, MPI_STATUSES_IGNORE));
  EXPECT_EQ(flag, 0);
  OK(MPI_Request_get_status_any(4, list, &index, &flag, MPI_STATUS_IGNORE));
  EXPECT_EQ(flag, 0);
  OK(MPI_Request_get_status_some(4, list, &count, indices, MPI_STATUSES_IGNORE));
  EXPECT_EQ(count, 0);
  OK(MPI_Barrier(comm));
  int out = rank * 10 + 2;
  OK(MPI_Send(&out, 1, MPI_INT, right, 2, comm));
  status = check_blank_status();
  for (flag = 0; !flag;) OK(MPI_Request_get_status_any(4, list, &index, &flag, &status));
  EXPECT_EQ(index, 2);
  EXPECT_STATUS(&status, left, 2, MPI_INT, 1);
  OK(MPI_Request_get_status_some(4, list, &count, indices, statuses));
  EXPECT_EQ(count, 1);
  EXPECT_EQ(indices[0], 2);
  EXPECT_STATUS(&statuses[0], left, 2, MPI_INT, 1);
  OK(MPI_Request_get_status_all(4, list, &flag, statuses));
  EXPECT_EQ(flag, 0);
  OK(MPI_Barrier(comm));
  for (int i = 0; i < 4; ++i) {
    int value = rank * 10 + i;
    if (i != 2) OK(MPI_Send(&value, 1, MPI_INT, right, i, comm));
  }
  for (flag = 0; !flag;) OK(MPI_Request_get_status_all(4, list, &flag, statuses));
  for (int i = 0; i < 4; ++i) {
    EXPECT_STATUS(&statuses[i], left, i, MPI_INT, 1);
    EXPECT_EQ(in[i], left * 10 + i);
    EXPECT(list[i] != MPI_REQUEST_NULL, "a request is gone");
  }
  OK(MPI_Waitall(4, list, MPI_STATUSES_IGNORE));
  OK(MPI_Request_get_status_any(4, list, &index, &flag, MPI_STATUS_IGNORE));
  EXPECT_EQ(flag, 1);
  EXPECT_EQ(index, MPI_UNDEFINED);
}
#endif
