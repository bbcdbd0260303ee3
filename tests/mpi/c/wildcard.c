// ANY_SOURCE and ANY_TAG from all ranks, and the whole range of tags.
#include "check.h"

CASE(wildcard, all_to_all_any_source) {
  // Everybody sends one message of each size to everybody (itself too), all received by wildcards.
  int count = 4, total = size * count;
  static const int kSizes[] = {4, 1000, 20000, 200000};
  MPI_Request* requests = malloc((size_t)total * 2 * sizeof *requests);
  MPI_Status* statuses = malloc((size_t)total * 2 * sizeof *statuses);
  unsigned char** in = malloc((size_t)total * sizeof *in);
  for (int i = 0; i < total; ++i) {
    in[i] = check_buffer(200000);
    OK(MPI_Irecv(in[i], 200000, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &requests[i]));
  }
  for (int step = 0; step < size; ++step) {
    for (int k = 0; k < count; ++k) {
      int peer = (rank + step) % size;
      unsigned char* out = check_buffer((size_t)kSizes[k]);
      check_fill(out, (size_t)kSizes[k], check_key(rank, peer, k, 3));
      OK(MPI_Isend(out, kSizes[k], MPI_BYTE, peer, k, comm, &requests[total + step * count + k]));
    }
  }
  OK(MPI_Waitall(2 * total, requests, statuses));
  int* next = calloc((unsigned)size, sizeof *next);
  for (int i = 0; i < total; ++i) {
    int source = statuses[i].MPI_SOURCE, k = statuses[i].MPI_TAG;
    if (source < 0 || source >= size || k < 0 || k >= count) {
      EXPECT(false, "status %d says source %d, tag %d", i, source, k);
      continue;
    }
    EXPECT_EQ(k, next[source]);  // receives are matched in posted order, so tags of one source rise
    ++next[source];
    EXPECT_STATUS(&statuses[i], source, k, MPI_BYTE, kSizes[k]);
    EXPECT_FILL(in[i], (size_t)kSizes[k], check_key(source, rank, k, 3));
  }
  free(next);
  free(requests);
  free(statuses);
  free(in);
}

CASE(wildcard, any_tag_with_exact_source) {
  int tag = 100 + rank;
  for (int step = 0; step < size; ++step) {
    int to = (rank + step) % size, from = (rank + size - step) % size, in = -1;
    MPI_Request send;
    OK(MPI_Isend(&rank, 1, MPI_INT, to, tag, comm, &send));
    MPI_Status status = check_blank_status();
    OK(MPI_Recv(&in, 1, MPI_INT, from, MPI_ANY_TAG, comm, &status));
    EXPECT_STATUS(&status, from, 100 + from, MPI_INT, 1);
    EXPECT_EQ(in, from);
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
  }
}

CASE(wildcard, any_source_with_exact_tag) {
  // Two senders' tags tell them apart although the source is open.
  NEED_RANKS(2);
  if (rank != 0) {
    OK(MPI_Send(&rank, 1, MPI_INT, 0, rank, comm));
  } else {
    for (int from = size - 1; from > 0; --from) {
      int in = -1;
      MPI_Status status = check_blank_status();
      OK(MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, from, comm, &status));
      EXPECT_STATUS(&status, from, from, MPI_INT, 1);
      EXPECT_EQ(in, from);
    }
  }
}

CASE(wildcard, tag_range) {
  int* bound = NULL;
  int flag = 0;
  OK(MPI_Comm_get_attr(comm, MPI_TAG_UB, &bound, &flag));
  EXPECT(flag && *bound >= 32767, "MPI_TAG_UB");
  if (!flag) return;
  int tags[] = {0, 1, 32767, *bound / 2, *bound - 1, *bound};
  MPI_Request sends[6];
  for (int i = 0; i < 6; ++i) OK(MPI_Isend(&tags[i], 1, MPI_INT, right, tags[i], comm, &sends[i]));
  for (int i = 5; i >= 0; --i) {
    int in = -1;
    MPI_Status status = check_blank_status();
    OK(MPI_Recv(&in, 1, MPI_INT, left, tags[i], comm, &status));
    EXPECT_STATUS(&status, left, tags[i], MPI_INT, 1);
    EXPECT_EQ(in, tags[i]);
  }
  OK(MPI_Waitall(6, sends, MPI_STATUSES_IGNORE));
}

// A wildcard receive is open while exact ones are posted behind it, and the collective goes on beside it.
CASE(wildcard, open_over_collectives) {
  int in = -1, exact = -1, out[2] = {rank, rank + 100};
  MPI_Request any, receive;
  OK(MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &any));
  OK(MPI_Irecv(&exact, 1, MPI_INT, left, 2, comm, &receive));
  int sum = 0, flag = 1;
  OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
  EXPECT_EQ(sum, size * (size - 1) / 2);
  OK(MPI_Bcast(&sum, 1, MPI_INT, 0, comm));
  OK(MPI_Barrier(comm));
  OK(MPI_Test(&any, &flag, MPI_STATUS_IGNORE));
  EXPECT_EQ(flag, 0);  // collectives must not feed it
  OK(MPI_Barrier(comm));
  OK(MPI_Send(&out[0], 1, MPI_INT, right, 2, comm));
  OK(MPI_Send(&out[1], 1, MPI_INT, right, 2, comm));
  OK(MPI_Wait(&any, MPI_STATUS_IGNORE));
  OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
  EXPECT_EQ(in, left);
  EXPECT_EQ(exact, left + 100);
}

// On the world itself, which every library shares.
CASE(wildcard, world) {
  int in = -1;
  MPI_Request receive;
  OK(MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 4711, MPI_COMM_WORLD, &receive));
  OK(MPI_Barrier(comm));
  OK(MPI_Send(&rank, 1, MPI_INT, right, 4711, MPI_COMM_WORLD));
  MPI_Status status = check_blank_status();
  OK(MPI_Wait(&receive, &status));
  EXPECT_STATUS(&status, left, 4711, MPI_INT, 1);
  EXPECT_EQ(in, left);
}
