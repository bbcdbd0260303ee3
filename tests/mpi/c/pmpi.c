// The PMPI_ names called directly, as profiling tools and Fortran bindings do, mixed freely with the MPI_ names.
#include "check.h"

CASE(pmpi, blocking_mixed_with_mpi) {
  for (int i = 0; i < check_sizes_count; ++i) {
    size_t len_bytes = check_sizes[i];
    unsigned char *out = check_buffer(len_bytes), *in = check_buffer(len_bytes);
    check_fill(out, len_bytes, check_key(rank, i, 0, 0));
    MPI_Request receive, send;
    MPI_Status status = check_blank_status();
    OK(i % 2 ? PMPI_Irecv(in, (int)len_bytes, MPI_BYTE, left, i, comm, &receive)
             : MPI_Irecv(in, (int)len_bytes, MPI_BYTE, left, i, comm, &receive));
    OK(i % 3 ? PMPI_Isend(out, (int)len_bytes, MPI_BYTE, right, i, comm, &send)
             : MPI_Isend(out, (int)len_bytes, MPI_BYTE, right, i, comm, &send));
    OK(i % 2 ? MPI_Wait(&receive, &status) : PMPI_Wait(&receive, &status));
    OK(i % 3 ? MPI_Wait(&send, MPI_STATUS_IGNORE) : PMPI_Wait(&send, MPI_STATUS_IGNORE));
    EXPECT_STATUS(&status, left, i, MPI_BYTE, (int)len_bytes);
    EXPECT_FILL(in, len_bytes, check_key(left, i, 0, 0));
  }
}

CASE(pmpi, send_recv_and_sendrecv) {
  int in = -1;
  OK(PMPI_Sendrecv(&rank, 1, MPI_INT, right, 1, &in, 1, MPI_INT, left, 1, comm, MPI_STATUS_IGNORE));
  EXPECT_EQ(in, left);
  MPI_Request request;
  OK(PMPI_Isend(&rank, 1, MPI_INT, right, 2, comm, &request));
  in = -1;
  OK(PMPI_Recv(&in, 1, MPI_INT, left, 2, comm, MPI_STATUS_IGNORE));
  EXPECT_EQ(in, left);
  OK(PMPI_Wait(&request, MPI_STATUS_IGNORE));
  OK(PMPI_Irecv(&in, 1, MPI_INT, left, 3, comm, &request));
  OK(MPI_Barrier(comm));
  OK(PMPI_Rsend(&rank, 1, MPI_INT, right, 3, comm));
  OK(PMPI_Waitall(1, &request, MPI_STATUSES_IGNORE));
  int value = rank;
  OK(PMPI_Sendrecv_replace(&value, 1, MPI_INT, right, 4, left, 4, comm, MPI_STATUS_IGNORE));
  EXPECT_EQ(value, left);
}

CASE(pmpi, probes_and_lists) {
  int in[4] = {-1, -1, -1, -1}, index, flag = 0, count;
  MPI_Request list[4];
  MPI_Status status;
  MPI_Message message;
  OK(PMPI_Isend(&rank, 1, MPI_INT, right, 1, comm, &list[0]));
  OK(PMPI_Probe(left, 1, comm, &status));
  OK(PMPI_Iprobe(left, 1, comm, &flag, &status));
  EXPECT_EQ(flag, 1);
  OK(PMPI_Mprobe(left, 1, comm, &message, &status));
  OK(PMPI_Mrecv(&in[0], 1, MPI_INT, &message, &status));
  EXPECT_EQ(in[0], left);
  OK(PMPI_Wait(&list[0], MPI_STATUS_IGNORE));
  for (int i = 0; i < 4; ++i) OK(PMPI_Irecv(&in[i], 1, MPI_INT, left, 2 + i, comm, &list[i]));
  for (int i = 0; i < 4; ++i) OK(PMPI_Send(&rank, 1, MPI_INT, right, 2 + i, comm));
  OK(PMPI_Waitany(4, list, &index, &status));
  int indices[4];
  OK(PMPI_Waitsome(4, list, &count, indices, MPI_STATUSES_IGNORE));
  for (flag = 0; !flag;) OK(PMPI_Testall(4, list, &flag, MPI_STATUSES_IGNORE));
  for (int i = 0; i < 4; ++i) EXPECT(list[i] == MPI_REQUEST_NULL && in[i] == left, "receive %d", i);
}

CASE(pmpi, persistent_and_communicators) {
  int in = -1;
  MPI_Comm made;
  MPI_Request list[2];
  OK(PMPI_Comm_dup(comm, &made));
  OK(PMPI_Recv_init(&in, 1, MPI_INT, left, 1, made, &list[0]));
  OK(PMPI_Send_init(&rank, 1, MPI_INT, right, 1, made, &list[1]));
  for (int i = 0; i < 3; ++i) {
    in = -1;
    OK(i % 2 ? MPI_Startall(2, list) : PMPI_Startall(2, list));
    OK(i % 2 ? PMPI_Waitall(2, list, MPI_STATUSES_IGNORE) : MPI_Waitall(2, list, MPI_STATUSES_IGNORE));
    EXPECT_EQ(in, left);
  }
  OK(PMPI_Request_free(&list[0]));
  OK(MPI_Request_free(&list[1]));
  OK(PMPI_Comm_free(&made));
}
