// Combined send and receive, blocking and nonblocking, separate buffers and in place.
#include "check.h"

CASE(sendrecv, ring_all_sizes) {
  for (int i = 0; i < check_sizes_count; ++i) {
    size_t len_bytes = check_sizes[i];
    unsigned char *out = check_buffer(len_bytes), *in = check_buffer(len_bytes);
    check_fill(out, len_bytes, check_key(rank, i, 0, 0));
    MPI_Status status = check_blank_status();
    OK(MPI_Sendrecv(out, (int)len_bytes, MPI_BYTE, right, 20 + i, in, (int)len_bytes, MPI_BYTE, left, 20 + i, comm,
                    &status));
    EXPECT_STATUS(&status, left, 20 + i, MPI_BYTE, (int)len_bytes);
    EXPECT_EQ(status.MPI_ERROR, -7777);
    EXPECT_FILL(in, len_bytes, check_key(left, i, 0, 0));
    EXPECT_FILL(out, len_bytes, check_key(rank, i, 0, 0));
  }
}

CASE(sendrecv, different_counts_and_types) {
  // Everybody sends a number of ints that depends on its rank into a larger receive.
  int count = 100 + 1000 * (rank % 3), expected = 100 + 1000 * (left % 3);
  int *out = check_buffer((size_t)count * 4), *in = check_buffer(4000 * 4);
  for (int i = 0; i < count; ++i) out[i] = rank * 7 + i;
  MPI_Status status = check_blank_status();
  OK(MPI_Sendrecv(out, count, MPI_INT, right, 1, in, 4000, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status));
  EXPECT_STATUS(&status, left, 1, MPI_INT, expected);
  for (int i = 0; i < expected; ++i) EXPECT(in[i] == left * 7 + i, "element %d is %d", i, in[i]);
  EXPECT_BYTES(in + expected, (size_t)(4000 - expected) * 4, UNTOUCHED);
}

CASE(sendrecv, replace_all_sizes) {
  for (int i = 0; i < check_sizes_count; ++i) {
    size_t len_bytes = check_sizes[i];
    unsigned char* data = check_buffer(len_bytes);
    check_fill(data, len_bytes, check_key(rank, i, 1, 0));
    MPI_Status status = check_blank_status();
    OK(MPI_Sendrecv_replace(data, (int)len_bytes, MPI_BYTE, right, i, left, i, comm, &status));
    EXPECT_STATUS(&status, left, i, MPI_BYTE, (int)len_bytes);
    EXPECT_FILL(data, len_bytes, check_key(left, i, 1, 0));
  }
}

CASE(sendrecv, replace_derived_type) {
  MPI_Datatype type;
  OK(MPI_Type_vector(3000, 3, 7, MPI_INT, &type));
  OK(MPI_Type_commit(&type));
  int elements = 2999 * 7 + 3;
  int* data = check_buffer((size_t)elements * 4);
  for (int i = 0; i < elements; ++i) data[i] = i % 7 < 3 ? rank * 100000 + i : -1;
  OK(MPI_Sendrecv_replace(data, 1, type, right, 2, left, 2, comm, MPI_STATUS_IGNORE));
  EXPECT_EACH(elements, data[i] == (i % 7 < 3 ? left * 100000 + i : -1), "element %d is %d", i, data[i]);
  OK(MPI_Type_free(&type));
}

CASE(sendrecv, matches_plain_send_and_recv) {
  NEED_RANKS(2);
  int peer = rank ^ 1;
  if (peer >= size) return;
  int len_bytes = 200000;
  unsigned char *out = check_buffer((size_t)len_bytes), *in = check_buffer((size_t)len_bytes);
  check_fill(out, (size_t)len_bytes, check_key(rank, 0, 0, 4));
  if (rank < peer) {
    OK(MPI_Sendrecv(out, len_bytes, MPI_BYTE, peer, 1, in, len_bytes, MPI_BYTE, peer, 2, comm, MPI_STATUS_IGNORE));
  } else {
    OK(MPI_Recv(in, len_bytes, MPI_BYTE, peer, 1, comm, MPI_STATUS_IGNORE));
    OK(MPI_Send(out, len_bytes, MPI_BYTE, peer, 2, comm));
  }
  EXPECT_FILL(in, (size_t)len_bytes, check_key(peer, 0, 0, 4));
}

CASE(sendrecv, shift_with_open_ends) {
  right = rank + 1 < size ? right : MPI_PROC_NULL, left = rank > 0 ? left : MPI_PROC_NULL;
  int len_bytes = 5000;
  unsigned char *out = check_buffer((size_t)len_bytes), *in = check_buffer((size_t)len_bytes);
  check_fill(out, (size_t)len_bytes, check_key(rank, 0, 0, 5));
  MPI_Status status = check_blank_status();
  OK(MPI_Sendrecv(out, len_bytes, MPI_BYTE, right, 3, in, len_bytes, MPI_BYTE, left, 3, comm, &status));
  if (left == MPI_PROC_NULL) {
    EXPECT_STATUS(&status, MPI_PROC_NULL, MPI_ANY_TAG, MPI_BYTE, 0);
    EXPECT_BYTES(in, (size_t)len_bytes, UNTOUCHED);
  } else {
    EXPECT_STATUS(&status, left, 3, MPI_BYTE, len_bytes);
    EXPECT_FILL(in, (size_t)len_bytes, check_key(left, 0, 0, 5));
  }
  unsigned char* data = out;
  OK(MPI_Sendrecv_replace(data, len_bytes, MPI_BYTE, right, 4, left, 4, comm, &status));
  EXPECT_FILL(data, (size_t)len_bytes, check_key(left == MPI_PROC_NULL ? rank : left, 0, 0, 5));
}

CASE(sendrecv, many_in_a_row) {
  int rounds = check_reps(500);
  for (int round = 0; round < rounds; ++round) {
    int out[3] = {rank, round, rank ^ round}, in[3] = {0};
    OK(MPI_Sendrecv(out, 3, MPI_INT, right, round & 7, in, 3, MPI_INT, left, round & 7, comm, MPI_STATUS_IGNORE));
    EXPECT(in[0] == left && in[1] == round && in[2] == (left ^ round), "round %d got %d %d %d", round, in[0], in[1],
           in[2]);
  }
}

#if HAVE_MPI4_CORE
// The status is a case of its own: MPICH and Intel MPI deliver the data and fill the status with something else.
CASE(sendrecv, isendrecv) {
  MPI_Request requests[32];
  unsigned char *out[32], *in[32];
  for (int i = 0; i < check_sizes_count; ++i) {
    int len_bytes = (int)check_sizes[i];
    out[i] = check_buffer(check_sizes[i]);
    in[i] = check_buffer(check_sizes[i]);
    check_fill(out[i], check_sizes[i], check_key(rank, i, 6, 0));
    OK(MPI_Isendrecv(out[i], len_bytes, MPI_BYTE, right, i, in[i], len_bytes, MPI_BYTE, left, i, comm, &requests[i]));
  }
  for (int i = check_sizes_count - 1; i >= 0; --i) {
    OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
    EXPECT_FILL(in[i], check_sizes[i], check_key(left, i, 6, 0));
  }
}

CASE(sendrecv, isendrecv_replace) {
  MPI_Request requests[32];
  unsigned char* data[32];
  for (int i = 0; i < check_sizes_count; ++i) {
    data[i] = check_buffer(check_sizes[i]);
    check_fill(data[i], check_sizes[i], check_key(rank, i, 7, 0));
    OK(MPI_Isendrecv_replace(data[i], (int)check_sizes[i], MPI_BYTE, right, i, left, i, comm, &requests[i]));
  }
  OK(MPI_Waitall(check_sizes_count, requests, MPI_STATUSES_IGNORE));
  for (int i = 0; i < check_sizes_count; ++i) {
    EXPECT_FILL(data[i], check_sizes[i], check_key(left, i, 7, 0));
  }
}

CASE(sendrecv, isendrecv_status) {
  int out[3] = {1, 2, 3}, in[5];
  MPI_Request requests[2];
  MPI_Status statuses[2] = {check_blank_status(), check_blank_status()};
  OK(MPI_Isendrecv(out, 3, MPI_INT, right, 1, in, 5, MPI_INT, left, 1, comm, &requests[0]));
  OK(MPI_Isendrecv_replace(out, 2, MPI_INT, right, 2, left, MPI_ANY_TAG, comm, &requests[1]));
  OK(MPI_Waitall(2, requests, statuses));
  EXPECT_STATUS(&statuses[0], left, 1, MPI_INT, 3);
  EXPECT_STATUS(&statuses[1], left, 2, MPI_INT, 2);
}

CASE(sendrecv, isendrecv_with_proc_null_ends) {
  right = rank + 1 < size ? right : MPI_PROC_NULL, left = rank > 0 ? left : MPI_PROC_NULL;
  int out = rank + 1000, in = -1;
  MPI_Request request;
  OK(MPI_Isendrecv(&out, 1, MPI_INT, right, 1, &in, 1, MPI_INT, left, 1, comm, &request));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT_EQ(in, left == MPI_PROC_NULL ? -1 : left + 1000);
}
#endif
