// Messages of one source and communicator do not overtake one another, whatever their sizes, modes and wildcards.
#include "check.h"

// A sequence of sizes that crosses all likely protocol thresholds in both directions.
static int size_of(int i) {
  static const int kSizes[] = {4, 70000, 8, 300, 20000, 4, 1200000, 16, 9000, 5, 65537, 4, 40, 131072, 200};
  return kSizes[i % 15];
}

static void stream(MPI_Comm comm, int rank, int size, int count, bool early, int source_kind, int tag_kind) {
  int left = (rank + size - 1) % size, right = (rank + 1) % size;
  MPI_Request* requests = malloc(2 * (size_t)count * sizeof *requests);
  unsigned char** in = malloc((size_t)count * sizeof *in);
  MPI_Status* statuses = malloc(2 * (size_t)count * sizeof *statuses);
  for (int i = 0; i < count; ++i) in[i] = check_buffer(1200000);
  for (int phase = 0; phase < 2; ++phase) {
    if ((phase == 0) == early) {
      for (int i = 0; i < count; ++i) {
        int source = source_kind == 2 ? (i % 3 ? MPI_ANY_SOURCE : left) : source_kind ? MPI_ANY_SOURCE : left;
        int tag = tag_kind == 2 ? (i % 2 ? MPI_ANY_TAG : 6) : tag_kind ? MPI_ANY_TAG : 6;
        OK(MPI_Irecv(in[i], 1200000, MPI_BYTE, source, tag, comm, &requests[i]));
      }
    } else {
      for (int i = 0; i < count; ++i) {
        unsigned char* out = check_buffer((size_t)size_of(i));
        check_fill(out, (size_t)size_of(i), check_key(rank, i, 0, 9));
        OK(i % 7 == 5 ? MPI_Issend(out, size_of(i), MPI_BYTE, right, 6, comm, &requests[count + i])
                      : MPI_Isend(out, size_of(i), MPI_BYTE, right, 6, comm, &requests[count + i]));
      }
    }
    if (phase == 0) OK(MPI_Barrier(comm));
  }
  OK(MPI_Waitall(2 * count, requests, statuses));
  for (int i = 0; i < count; ++i) {
    EXPECT_STATUS(&statuses[i], left, 6, MPI_BYTE, size_of(i));
    EXPECT_FILL(in[i], (size_t)size_of(i), check_key(left, i, 0, 9));
    if (size_of(i) < 1200000) EXPECT_BYTES(in[i] + size_of(i), 64, UNTOUCHED);
  }
  free(requests);
  free(in);
  free(statuses);
}

#define STREAM_COUNT (check_reps(30) < 30 ? 15 : 45)
CASE(order, posted_exact) { stream(comm, rank, size, STREAM_COUNT, true, 0, 0); }
CASE(order, posted_any_source) { stream(comm, rank, size, STREAM_COUNT, true, 1, 0); }
CASE(order, posted_any_tag) { stream(comm, rank, size, STREAM_COUNT, true, 0, 1); }
CASE(order, posted_any_both) { stream(comm, rank, size, STREAM_COUNT, true, 1, 1); }
CASE(order, posted_mixed_wildcards) { stream(comm, rank, size, STREAM_COUNT, true, 2, 2); }
CASE(order, unexpected_exact) { stream(comm, rank, size, STREAM_COUNT, false, 0, 0); }
CASE(order, unexpected_any_both) { stream(comm, rank, size, STREAM_COUNT, false, 1, 1); }
CASE(order, unexpected_mixed_wildcards) { stream(comm, rank, size, STREAM_COUNT, false, 2, 2); }

// Blocking stream, eager and rendezvous mixed, receiver and sender running freely against each other.
CASE(order, free_running_stream) {
  NEED_RANKS(2);
  int peer = rank ^ 1, count = check_reps(600);
  if (peer >= size) return;
  unsigned char *in = check_buffer(1200000), *out = check_buffer(1200000);
  for (int i = 0; i < count; ++i) {
    int len_bytes = size_of(i * 7 % 15 + i / 15);
    if (len_bytes == 1200000 && i % 4) len_bytes = 12;
    if (rank < peer) {
      memcpy(out, &i, sizeof i);
      memset(out + 4, i & 0xff, (size_t)len_bytes - 4);
      OK(MPI_Send(out, len_bytes, MPI_BYTE, peer, i & 1, comm));
    } else {
      MPI_Status status;
      OK(MPI_Recv(in, 1200000, MPI_BYTE, i % 5 ? peer : MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status));
      int number;
      memcpy(&number, in, sizeof number);
      EXPECT_EQ(number, i);
      EXPECT_STATUS(&status, peer, i & 1, MPI_BYTE, len_bytes);
      EXPECT(in[len_bytes - 1] == (len_bytes > 4 ? (i & 0xff) : in[len_bytes - 1]), "end of message %d", i);
    }
  }
}

// Posted order among receives that could all take the message: the first posted one gets it.
CASE(order, first_posted_wins) {
  int in[8], out[8];
  MPI_Request receives[8], sends[8];
  int sources[] = {MPI_ANY_SOURCE, left, MPI_ANY_SOURCE, left, left, MPI_ANY_SOURCE, left, MPI_ANY_SOURCE};
  int tags[] = {7, MPI_ANY_TAG, MPI_ANY_TAG, 7, 8, 8, MPI_ANY_TAG, MPI_ANY_TAG};
  for (int i = 0; i < 8; ++i) {
    in[i] = -1;
    OK(MPI_Irecv(&in[i], 1, MPI_INT, sources[i], tags[i], comm, &receives[i]));
  }
  OK(MPI_Barrier(comm));
  // tag 8 first: receive 1 (any tag); 8: 2; 8: 4; 7: 0; 7: 3; 8: 5; 7: 6; 8: 7
  int send_tags[] = {8, 8, 8, 7, 7, 8, 7, 8}, expected[] = {1, 2, 4, 0, 3, 5, 6, 7};
  for (int i = 0; i < 8; ++i) {
    out[i] = i;
    OK(MPI_Isend(&out[i], 1, MPI_INT, right, send_tags[i], comm, &sends[i]));
  }
  OK(MPI_Waitall(8, receives, MPI_STATUSES_IGNORE));
  OK(MPI_Waitall(8, sends, MPI_STATUSES_IGNORE));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(in[expected[i]], i);
}

// The same on the unexpected side: the first message that fits goes to a receive.
CASE(order, first_unexpected_wins) {
  int out[6], in = -1;
  MPI_Request sends[6];
  int tags[] = {3, 4, 3, 5, 4, 3};
  for (int i = 0; i < 6; ++i) {
    out[i] = i;
    OK(MPI_Isend(&out[i], 1, MPI_INT, right, tags[i], comm, &sends[i]));
  }
  OK(MPI_Barrier(comm));
  int take_source[] = {left, MPI_ANY_SOURCE, MPI_ANY_SOURCE, left, left, MPI_ANY_SOURCE};
  int take_tag[] = {4, MPI_ANY_TAG, 5, MPI_ANY_TAG, 3, 4}, expected[] = {1, 0, 3, 2, 5, 4};
  for (int i = 0; i < 6; ++i) {
    OK(MPI_Recv(&in, 1, MPI_INT, take_source[i], take_tag[i], comm, MPI_STATUS_IGNORE));
    EXPECT_EQ(in, expected[i]);
  }
  OK(MPI_Waitall(6, sends, MPI_STATUSES_IGNORE));
}

// Many messages wait unexpected; a late one with a tag of its own is found, and the others keep their order.
CASE(order, long_unexpected_queue) {
  int count = check_reps(3000), in = -1;
  MPI_Request* sends = malloc((size_t)(count + 1) * sizeof *sends);
  int* out = check_buffer((size_t)(count + 1) * 4);
  for (int i = 0; i <= count; ++i) {
    out[i] = i;
    OK(MPI_Isend(&out[i], 1, MPI_INT, right, i == count ? 1 : 2 + i % 3, comm, &sends[i]));
  }
  OK(MPI_Recv(&in, 1, MPI_INT, left, 1, comm, MPI_STATUS_IGNORE));
  EXPECT_EQ(in, count);
  for (int tag = 4; tag >= 2; --tag) {
    for (int i = tag - 2; i < count; i += 3) {
      OK(MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, tag, comm, MPI_STATUS_IGNORE));
      EXPECT_EQ(in, i);
    }
  }
  OK(MPI_Waitall(count + 1, sends, MPI_STATUSES_IGNORE));
  free(sends);
}

// All to one: the messages of each source arrive in order, each exactly once.
CASE(order, funnel_any_source) {
  int count = check_reps(200);
  if (rank == 0) {
    int* next = calloc((unsigned)size, sizeof *next);
    unsigned char* in = check_buffer(100000);
    for (int i = 0; i < count * (size - 1); ++i) {
      MPI_Status status;
      OK(MPI_Recv(in, 100000, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status));
      int number;
      memcpy(&number, in, sizeof number);
      if (status.MPI_SOURCE < 1 || status.MPI_SOURCE >= size) {
        EXPECT(false, "source %d", status.MPI_SOURCE);
        break;
      }
      EXPECT_EQ(number, next[status.MPI_SOURCE]);
      EXPECT_EQ(status.MPI_TAG, number % 11);
      ++next[status.MPI_SOURCE];
    }
    free(next);
  } else {
    unsigned char* out = check_buffer(100000);
    for (int i = 0; i < count; ++i) {
      memcpy(out, &i, sizeof i);
      OK(MPI_Send(out, i % 10 == 9 ? 100000 : 4 + i % 50, MPI_BYTE, 0, i % 11, comm));
    }
  }
}
