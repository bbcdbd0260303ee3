// The _c forms with MPI_Count arguments, mixed with the int forms.
#include "check.h"

#if HAVE_LARGE_COUNT
CASE(large_count, every_send_form) {
  enum { kBytes = 30000 };
  void* attached = check_buffer(4 * (kBytes + MPI_BSEND_OVERHEAD));
  OK(MPI_Buffer_attach_c(attached, 4 * (kBytes + MPI_BSEND_OVERHEAD)));
  for (int kind = 0; kind < 8; ++kind) {
    unsigned char *out = check_buffer(kBytes), *in = check_buffer(kBytes);
    check_fill(out, kBytes, check_key(rank, kind, 0, 0));
    MPI_Request receive, send = MPI_REQUEST_NULL;
    MPI_Count count = kBytes;
    OK(MPI_Irecv_c(in, count, MPI_BYTE, left, kind, comm, &receive));
    OK(MPI_Barrier(comm));
    if (kind == 0) OK(MPI_Send_c(out, count, MPI_BYTE, right, kind, comm));
    if (kind == 1) OK(MPI_Bsend_c(out, count, MPI_BYTE, right, kind, comm));
    if (kind == 2) OK(MPI_Ssend_c(out, count, MPI_BYTE, right, kind, comm));
    if (kind == 3) OK(MPI_Rsend_c(out, count, MPI_BYTE, right, kind, comm));
    if (kind == 4) OK(MPI_Isend_c(out, count, MPI_BYTE, right, kind, comm, &send));
    if (kind == 5) OK(MPI_Ibsend_c(out, count, MPI_BYTE, right, kind, comm, &send));
    if (kind == 6) OK(MPI_Issend_c(out, count, MPI_BYTE, right, kind, comm, &send));
    if (kind == 7) OK(MPI_Irsend_c(out, count, MPI_BYTE, right, kind, comm, &send));
    MPI_Status status = check_blank_status();
    OK(MPI_Wait(&receive, &status));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    EXPECT_STATUS(&status, left, kind, MPI_BYTE, kBytes);
    MPI_Count received = -1;
    OK(MPI_Get_count_c(&status, MPI_BYTE, &received));
    EXPECT_EQ(received, kBytes);
    EXPECT_FILL(in, kBytes, check_key(left, kind, 0, 0));
  }
  void* detached;
  MPI_Count detached_bytes;
  OK(MPI_Buffer_detach_c(&detached, &detached_bytes));
}

CASE(large_count, persistent) {
  typedef int Init(const void*, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
  Init* inits[] = {MPI_Send_init_c, MPI_Ssend_init_c, MPI_Rsend_init_c, MPI_Bsend_init_c};
  void* attached = check_buffer(2000 + MPI_BSEND_OVERHEAD);
  OK(MPI_Buffer_attach(attached, 2000 + MPI_BSEND_OVERHEAD));
  for (int kind = 0; kind < 4; ++kind) {
    int out[100], in[100];
    MPI_Request send, receive;
    OK(inits[kind](out, 100, MPI_INT, right, 1, comm, &send));
    OK(MPI_Recv_init_c(in, 100, MPI_INT, left, 1, comm, &receive));
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < 100; ++i) out[i] = rank * 1000 + i + round;
      OK(MPI_Start(&receive));
      OK(MPI_Barrier(comm));
      OK(MPI_Start(&send));
      OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
      OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
      for (int i = 0; i < 100; ++i) EXPECT_EQ(in[i], left * 1000 + i + round);
    }
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
  }
  void* detached;
  int detached_bytes;
  OK(MPI_Buffer_detach(&detached, &detached_bytes));
}

CASE(large_count, receives_and_combined) {
  int in = -1, value = rank;
  MPI_Request request;
  MPI_Message message;
  MPI_Status status = check_blank_status();
  OK(MPI_Isend(&rank, 1, MPI_INT, right, 1, comm, &request));
  OK(MPI_Recv_c(&in, 1, MPI_INT, left, 1, comm, &status));
  EXPECT_STATUS(&status, left, 1, MPI_INT, 1);
  EXPECT_EQ(in, left);
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  in = -1;
  OK(MPI_Sendrecv_c(&rank, 1, MPI_INT, right, 2, &in, 1, MPI_INT, left, 2, comm, MPI_STATUS_IGNORE));
  EXPECT_EQ(in, left);
  OK(MPI_Sendrecv_replace_c(&value, 1, MPI_INT, right, 3, left, 3, comm, MPI_STATUS_IGNORE));
  EXPECT_EQ(value, left);
  in = -1;
  OK(MPI_Isendrecv_c(&rank, 1, MPI_INT, right, 4, &in, 1, MPI_INT, left, 4, comm, &request));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT_EQ(in, left);
  value = rank;
  OK(MPI_Isendrecv_replace_c(&value, 1, MPI_INT, right, 5, left, 5, comm, &request));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT_EQ(value, left);
  for (int kind = 0; kind < 2; ++kind) {
    MPI_Request send, receive;
    in = -1;
    OK(MPI_Isend_c(&rank, 1, MPI_INT, right, 6, comm, &send));
    OK(MPI_Mprobe(left, 6, comm, &message, MPI_STATUS_IGNORE));
    if (kind) {
      OK(MPI_Mrecv_c(&in, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
    } else {
      OK(MPI_Imrecv_c(&in, 1, MPI_INT, &message, &receive));
      OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    }
    EXPECT_EQ(in, left);
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
  }
}

CASE(large_count, derived_type_made_by_large_counts) {
  enum { kRows = 50000 };
  MPI_Datatype type, other;
  MPI_Count lengths[2] = {kRows / 2, kRows / 2}, displacements[2] = {kRows, 0};
  OK(MPI_Type_vector_c(kRows, 1, 2, MPI_INT, &type));
  OK(MPI_Type_indexed_c(2, lengths, displacements, MPI_INT, &other));
  OK(MPI_Type_commit(&type));
  OK(MPI_Type_commit(&other));
  int *out = check_buffer(kRows * 8), *in = check_buffer(kRows * 8);
  for (int i = 0; i < 2 * kRows; ++i) out[i] = rank + i;
  OK(MPI_Sendrecv_c(out, 1, type, right, 1, in, 1, other, left, 1, comm, MPI_STATUS_IGNORE));
  EXPECT_EACH(kRows, in[i < kRows / 2 ? kRows + i : i - kRows / 2] == left + 2 * i, "item %d is wrong", i);
  OK(MPI_Type_free(&type));
  OK(MPI_Type_free(&other));
}

CASE(large_count, negative_count_is_an_error) {
  int value = 0;
  EXPECT_CLASS(MPI_Send_c(&value, -1, MPI_INT, rank, 1, comm), MPI_ERR_COUNT);
}
#else
CASE(large_count, none) { SKIP("the host's header has no _c functions"); }
#endif
