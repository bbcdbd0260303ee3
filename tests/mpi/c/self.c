// Messages of a rank to itself, on MPI_COMM_SELF and on a larger communicator.
#include "check.h"

static void to_myself(MPI_Comm comm, int me, bool posted_first) {
  for (int i = 0; i < check_sizes_count; ++i) {
    size_t len_bytes = check_sizes[i];
    unsigned char *out = check_buffer(len_bytes), *in = check_buffer(len_bytes);
    check_fill(out, len_bytes, check_key(me, i, 0, 1));
    MPI_Request list[2];
    MPI_Status statuses[2];
    if (posted_first) OK(MPI_Irecv(in, (int)len_bytes, MPI_BYTE, me, i, comm, &list[0]));
    OK(MPI_Isend(out, (int)len_bytes, MPI_BYTE, me, i, comm, &list[1]));
    if (!posted_first) OK(MPI_Irecv(in, (int)len_bytes, MPI_BYTE, me, i, comm, &list[0]));
    OK(MPI_Waitall(2, list, statuses));
    EXPECT_STATUS(&statuses[0], me, i, MPI_BYTE, (int)len_bytes);
    EXPECT_FILL(in, len_bytes, check_key(me, i, 0, 1));
  }
}

CASE(self, comm_self_posted) { to_myself(MPI_COMM_SELF, 0, true); }
CASE(self, comm_self_unexpected) { to_myself(MPI_COMM_SELF, 0, false); }
CASE(self, own_rank_posted) { to_myself(comm, rank, true); }
CASE(self, own_rank_unexpected) { to_myself(comm, rank, false); }

CASE(self, blocking_send_to_posted_receive) {
  enum { kBytes = 3000000 };
  unsigned char *out = check_buffer(kBytes), *in = check_buffer(kBytes);
  MPI_Request receive;
  for (int mode = 0; mode < 3; ++mode) {
    check_fill(out, kBytes, (uint64_t)mode);
    OK(MPI_Irecv(in, kBytes, MPI_BYTE, rank, 1, comm, &receive));
    OK(mode == 0   ? MPI_Send(out, kBytes, MPI_BYTE, rank, 1, comm)
       : mode == 1 ? MPI_Ssend(out, kBytes, MPI_BYTE, rank, 1, comm)
                   : MPI_Rsend(out, kBytes, MPI_BYTE, rank, 1, comm));
    OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    EXPECT_FILL(in, kBytes, (uint64_t)mode);
  }
}

CASE(self, ordered_with_wildcards) {
  int out[100], in;
  MPI_Request sends[100];
  for (int i = 0; i < 100; ++i) {
    out[i] = i;
    OK(MPI_Isend(&out[i], 1, MPI_INT, rank, i % 3, comm, &sends[i]));
  }
  for (int i = 0; i < 100; ++i) {
    MPI_Status status;
    OK(MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status));
    EXPECT_EQ(in, i);
    EXPECT_STATUS(&status, rank, i % 3, MPI_INT, 1);
  }
  OK(MPI_Waitall(100, sends, MPI_STATUSES_IGNORE));
}

CASE(self, derived_types_differ) {
  double* out = check_buffer(3000 * sizeof(double));
  double* in = check_buffer(1000 * sizeof(double));
  MPI_Datatype strided;
  OK(MPI_Type_vector(1000, 1, 3, MPI_DOUBLE, &strided));
  OK(MPI_Type_commit(&strided));
  for (int i = 0; i < 3000; ++i) out[i] = i;
  OK(MPI_Sendrecv(out, 1, strided, rank, 2, in, 1000, MPI_DOUBLE, rank, 2, comm, MPI_STATUS_IGNORE));
  for (int i = 0; i < 1000; ++i) EXPECT(in[i] == 3 * i, "element %d is %g", i, in[i]);
  OK(MPI_Type_free(&strided));
}

CASE(self, probe_and_mrecv) {
  int out = rank + 1, in = -1;
  MPI_Request send;
  OK(MPI_Issend(&out, 1, MPI_INT, rank, 2, comm, &send));
  MPI_Message message;
  OK(MPI_Mprobe(MPI_ANY_SOURCE, 2, comm, &message, MPI_STATUS_IGNORE));
  OK(MPI_Mrecv(&in, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
  EXPECT_EQ(in, rank + 1);
  OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
}
