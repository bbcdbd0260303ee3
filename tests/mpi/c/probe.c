// Probe, Iprobe, matched probes and matched receives.
#include "check.h"

CASE(probe, probe_all_sizes) {
  for (int i = 0; i < check_sizes_count; ++i) {
    size_t len_bytes = check_sizes[i];
    unsigned char *out = check_buffer(len_bytes), *in = check_buffer(len_bytes);
    check_fill(out, len_bytes, check_key(rank, i, 0, 0));
    MPI_Request send;
    OK(MPI_Isend(out, (int)len_bytes, MPI_BYTE, right, i, comm, &send));
    MPI_Status status = check_blank_status();
    OK(MPI_Probe(left, i, comm, &status));
    EXPECT_PROBED(&status, left, i, MPI_BYTE, (int)len_bytes);
    // Probing leaves the message where it is.
    int flag = 0;
    status = check_blank_status();
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &status));
    EXPECT_EQ(flag, 1);
    EXPECT_PROBED(&status, left, i, MPI_BYTE, (int)len_bytes);
    OK(MPI_Recv(in, (int)len_bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm, &status));
    EXPECT_FILL(in, len_bytes, check_key(left, i, 0, 0));
    OK(MPI_Iprobe(left, i, comm, &flag, MPI_STATUS_IGNORE));
    EXPECT_EQ(flag, 0);
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
  }
}

CASE(probe, status_is_not_cancelled) {
  MPI_Request send;
  MPI_Status status = check_blank_status();
  OK(MPI_Isend(&rank, 1, MPI_INT, rank, 1, comm, &send));
  OK(MPI_Probe(rank, 1, comm, &status));
  EXPECT_STATUS(&status, rank, 1, MPI_INT, 1);
  int in;
  OK(MPI_Recv(&in, 1, MPI_INT, rank, 1, comm, MPI_STATUS_IGNORE));
  OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
}

CASE(probe, iprobe_finds_nothing_wrong) {
  int flag = 1;
  OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE));
  EXPECT_EQ(flag, 0);
  OK(MPI_Barrier(comm));
  MPI_Request send;
  int value = rank, in = -1;
  OK(MPI_Isend(&value, 1, MPI_INT, right, 30, comm, &send));
  MPI_Status status;
  OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status));
  OK(MPI_Iprobe(left, 31, comm, &flag, MPI_STATUS_IGNORE));  // right source, another tag
  EXPECT_EQ(flag, 0);
  if (size > 2) {
    OK(MPI_Iprobe(right, 30, comm, &flag, MPI_STATUS_IGNORE));  // right tag, another source
    EXPECT_EQ(flag, 0);
  }
  OK(MPI_Recv(&in, 1, MPI_INT, left, 30, comm, MPI_STATUS_IGNORE));
  EXPECT_EQ(in, left);
  OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
}

CASE(probe, sees_the_first_of_a_source) {
  enum { kMessages = 12 };
  MPI_Request sends[kMessages];
  for (int i = 0; i < kMessages; ++i) {
    int len_bytes = i % 2 ? 90000 + i : 10 + i;  // rendezvous and eager, alternating
    unsigned char* out = check_buffer((size_t)len_bytes);
    check_fill(out, (size_t)len_bytes, check_key(rank, i, 2, 0));
    OK(MPI_Isend(out, len_bytes, MPI_BYTE, right, 100 + i, comm, &sends[i]));
  }
  for (int i = 0; i < kMessages; ++i) {
    int len_bytes = i % 2 ? 90000 + i : 10 + i;
    MPI_Status status = check_blank_status();
    OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status));
    EXPECT_PROBED(&status, left, 100 + i, MPI_BYTE, len_bytes);
    unsigned char* in = check_buffer((size_t)len_bytes);
    OK(MPI_Recv(in, len_bytes, MPI_BYTE, left, 100 + i, comm, MPI_STATUS_IGNORE));
    EXPECT_FILL(in, (size_t)len_bytes, check_key(left, i, 2, 0));
  }
  OK(MPI_Waitall(kMessages, sends, MPI_STATUSES_IGNORE));
}

CASE(probe, mprobe_mrecv_all_sizes) {
  for (int i = 0; i < check_sizes_count; ++i) {
    size_t len_bytes = check_sizes[i];
    unsigned char *out = check_buffer(len_bytes), *in = check_buffer(len_bytes);
    check_fill(out, len_bytes, check_key(rank, i, 3, 0));
    MPI_Request send;
    OK(MPI_Isend(out, (int)len_bytes, MPI_BYTE, right, i, comm, &send));
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status = check_blank_status();
    OK(MPI_Mprobe(left, i, comm, &message, &status));
    EXPECT(message != MPI_MESSAGE_NULL && message != MPI_MESSAGE_NO_PROC, "Mprobe gives no message");
    EXPECT_PROBED(&status, left, i, MPI_BYTE, (int)len_bytes);
    // The message is taken out of matching: neither a probe nor a receive finds it.
    int flag = 1;
    OK(MPI_Iprobe(left, i, comm, &flag, MPI_STATUS_IGNORE));
    EXPECT_EQ(flag, 0);
    status = check_blank_status();
    OK(MPI_Mrecv(in, (int)len_bytes, MPI_BYTE, &message, &status));
    EXPECT(message == MPI_MESSAGE_NULL, "Mrecv leaves the handle");
    EXPECT_STATUS(&status, left, i, MPI_BYTE, (int)len_bytes);
    EXPECT_FILL(in, len_bytes, check_key(left, i, 3, 0));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
  }
}

// Messages of one source are taken by matched probes, and received in another order.
CASE(probe, improbe_imrecv_out_of_order) {
  enum { kMessages = 10 };
  MPI_Request sends[kMessages], receives[kMessages];
  MPI_Message messages[kMessages];
  unsigned char* in[kMessages];
  for (int i = 0; i < kMessages; ++i) {
    int len_bytes = 1 + i * 17000;
    unsigned char* out = check_buffer((size_t)len_bytes);
    check_fill(out, (size_t)len_bytes, check_key(rank, i, 4, 0));
    OK(MPI_Isend(out, len_bytes, MPI_BYTE, right, 5, comm, &sends[i]));
  }
  for (int i = 0; i < kMessages; ++i) {
    MPI_Status status = check_blank_status();
    int flag = 0;
    while (!flag) {
      if (!OK(MPI_Improbe(MPI_ANY_SOURCE, 5, comm, &flag, &messages[i], &status))) return;
    }
    EXPECT_PROBED(&status, left, 5, MPI_BYTE, 1 + i * 17000);
  }
  for (int i = kMessages - 1; i >= 0; --i) {
    in[i] = check_buffer((size_t)(1 + i * 17000));
    OK(MPI_Imrecv(in[i], 1 + i * 17000, MPI_BYTE, &messages[i], &receives[i]));
    EXPECT(messages[i] == MPI_MESSAGE_NULL, "Imrecv leaves the handle");
  }
  MPI_Status statuses[kMessages];
  OK(MPI_Waitall(kMessages, receives, statuses));
  for (int i = 0; i < kMessages; ++i) {
    EXPECT_STATUS(&statuses[i], left, 5, MPI_BYTE, 1 + i * 17000);
    EXPECT_FILL(in[i], (size_t)(1 + i * 17000), check_key(left, i, 4, 0));
  }
  OK(MPI_Waitall(kMessages, sends, MPI_STATUSES_IGNORE));
}

CASE(probe, improbe_of_nothing) {
  int flag = 1;
  MPI_Message message = MPI_MESSAGE_NULL;
  OK(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &message, MPI_STATUS_IGNORE));
  EXPECT_EQ(flag, 0);
  EXPECT(message == MPI_MESSAGE_NULL, "a failed Improbe changed the message handle");
  OK(MPI_Barrier(comm));
}

// A receive that is posted goes before a probe: what it matches is never seen by the probe.
CASE(probe, posted_receive_wins) {
  int first = -1, second = -1, out[2] = {rank * 2, rank * 2 + 1};
  MPI_Request receive, sends[2];
  OK(MPI_Irecv(&first, 1, MPI_INT, left, 8, comm, &receive));
  OK(MPI_Barrier(comm));
  OK(MPI_Isend(&out[0], 1, MPI_INT, right, 8, comm, &sends[0]));
  OK(MPI_Isend(&out[1], 1, MPI_INT, right, 8, comm, &sends[1]));
  MPI_Message message;
  OK(MPI_Mprobe(left, 8, comm, &message, MPI_STATUS_IGNORE));
  OK(MPI_Mrecv(&second, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
  OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
  EXPECT_EQ(first, left * 2);
  EXPECT_EQ(second, left * 2 + 1);
  OK(MPI_Waitall(2, sends, MPI_STATUSES_IGNORE));
}

CASE(probe, mrecv_truncation) {
  unsigned char *out = check_buffer(500), *in = check_buffer(100);
  check_fill(out, 500, check_key(rank, 0, 5, 0));
  MPI_Request send;
  OK(MPI_Isend(out, 500, MPI_BYTE, right, 2, comm, &send));
  MPI_Message message;
  OK(MPI_Mprobe(left, 2, comm, &message, MPI_STATUS_IGNORE));
  EXPECT_CLASS(MPI_Mrecv(in, 100, MPI_BYTE, &message, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
  OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
}

CASE(probe, mrecv_derived_type) {
  enum { kCount = 20000 };
  int *out = check_buffer(kCount * 4), *in = check_buffer(kCount * 2 * 4);
  for (int i = 0; i < kCount; ++i) out[i] = rank * 100000 + i;
  MPI_Datatype spread;
  OK(MPI_Type_vector(kCount, 1, 2, MPI_INT, &spread));
  OK(MPI_Type_commit(&spread));
  MPI_Request send;
  OK(MPI_Isend(out, kCount, MPI_INT, right, 2, comm, &send));
  MPI_Message message;
  OK(MPI_Mprobe(left, 2, comm, &message, MPI_STATUS_IGNORE));
  OK(MPI_Mrecv(in, 1, spread, &message, MPI_STATUS_IGNORE));
  EXPECT_EACH(kCount, in[2 * i] == left * 100000 + i, "element %d is %d", i, in[2 * i]);
  OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
  OK(MPI_Type_free(&spread));
}
