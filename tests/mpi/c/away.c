// See away.h: the traffic itself, and what else a neighbour may send or fetch while a rank is inside.
#include "away.h"

const struct AwayKind away_kinds[kAwayKinds] = {
    {kAwayMany, 8, false}, {1, 65536, false}, {1, 4 << 20, false}, {20, 8, true}, {1, 65536, true}, {1, 4 << 20, true},
};

void away_post(MPI_Comm comm, int peer, int k, unsigned char* data, MPI_Request* requests) {
  int bytes = away_kinds[k].bytes;
  for (int i = 0; i < away_kinds[k].count; ++i) {
    OK(MPI_Irecv(data + (size_t)i * (size_t)bytes, bytes, MPI_BYTE, peer, k, comm, &requests[i]));
  }
}

void away_check(int peer, int k, unsigned char* data, MPI_Request* requests) {
  size_t bytes = (size_t)away_kinds[k].bytes;
  OK(MPI_Waitall(away_kinds[k].count, requests, MPI_STATUSES_IGNORE));
  for (int i = 0; i < away_kinds[k].count; ++i) {
    if (!EXPECT_FILL(data + (size_t)i * bytes, bytes, check_key(peer, k, i, 0))) break;
  }
}

void away_send(MPI_Comm comm, int rank, int k, unsigned char* data) {
  int count = away_kinds[k].count, bytes = away_kinds[k].bytes;
  for (int i = 0; i < count; ++i) {
    check_fill(data + (size_t)i * (size_t)bytes, (size_t)bytes, check_key(rank, k, i, 0));
  }
  check_stay_away_ms(2);
  for (int i = 0; i < count; ++i) {
    unsigned char* one = data + (size_t)i * (size_t)bytes;
    OK(away_kinds[k].synchronous ? MPI_Ssend(one, bytes, MPI_BYTE, rank ^ 1, k, comm)
                                 : MPI_Send(one, bytes, MPI_BYTE, rank ^ 1, k, comm));
  }
}

static void beside(MPI_Comm comm, int rank, int size, CheckCall* call, int k) {
  int peer = rank ^ 1;
  unsigned char* data = check_buffer((size_t)away_kinds[k].count * (size_t)away_kinds[k].bytes);
  if (rank % 2 == 0) {
    MPI_Request requests[kAwayMany];
    if (peer < size) away_post(comm, peer, k, data, requests);
    call(comm, rank, size);
    if (peer < size) away_check(peer, k, data, requests);
  } else {
    away_send(comm, rank, k, data);
    call(comm, rank, size);
  }
}

void away_beside(MPI_Comm comm, int rank, int size, CheckCall* call, int kind_count) {
  for (int k = 0; k < kind_count; ++k) beside(comm, rank, size, call, k);
}

static MPI_Win window;
static int cell;
static void open_window(MPI_Comm comm) { OK(MPI_Win_create(&cell, sizeof cell, 1, MPI_INFO_NULL, comm, &window)); }

// Nothing is posted: small messages are kept for the receiver, whoever has to find room for them.
CASE(away, unexpected_messages) {
  NEED_RANKS(2);
  enum { kSmall = 3000, kMedium = 600, kBytes = 1000 };
  int peer = rank ^ 1;
  unsigned char* data = check_buffer(kBytes);
  open_window(comm);
  if (rank % 2 != 0) {
    check_stay_away_ms(5);
    for (int i = 0; i < kSmall; ++i) OK(MPI_Send(&i, 1, MPI_INT, peer, 1, comm));
    check_fill(data, kBytes, check_key(rank, 0, 0, 9));
    for (int i = 0; i < kMedium; ++i) OK(MPI_Send(data, kBytes, MPI_BYTE, peer, 2, comm));
  }
  OK(MPI_Win_fence(0, window));
  for (int i = 0; i < kSmall && rank % 2 == 0 && peer < size; ++i) {
    int in = -1;
    OK(MPI_Recv(&in, 1, MPI_INT, peer, 1, comm, MPI_STATUS_IGNORE));
    EXPECT_EQ(in, i);
  }
  for (int i = 0; i < kMedium && rank % 2 == 0 && peer < size; ++i) {
    OK(MPI_Recv(data, kBytes, MPI_BYTE, peer, 2, comm, MPI_STATUS_IGNORE));
    EXPECT_FILL(data, kBytes, check_key(peer, 0, 0, 9));
  }
  OK(MPI_Win_free(&window));
}

// The receive's datatype is too irregular for anybody else to follow.
CASE(away, irregular_datatype) {
  NEED_RANKS(2);
  enum { kBlocks = 20000 };
  int peer = rank ^ 1;
  int *at = malloc(kBlocks * sizeof *at), *out = malloc(kBlocks * sizeof *out), *in = calloc(4 * kBlocks, sizeof *in);
  uint64_t state = 5;
  for (int i = 0; i < kBlocks; ++i) {
    at[i] = 4 * i + (int)(check_random(&state) % 4);
    out[i] = i + rank;
  }
  MPI_Datatype type;
  OK(MPI_Type_create_indexed_block(kBlocks, 1, at, MPI_INT, &type));
  OK(MPI_Type_commit(&type));
  open_window(comm);
  if (rank % 2 == 0) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (peer < size) OK(MPI_Irecv(in, 1, type, peer, 0, comm, &request));
    OK(MPI_Win_fence(0, window));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT_EACH(peer < size ? kBlocks : 0, in[at[i]] == i + peer, "int %d is %d", i, in[at[i]]);
  } else {
    check_stay_away_ms(2);
    OK(MPI_Ssend(out, kBlocks, MPI_INT, peer, 0, comm));
    OK(MPI_Win_fence(0, window));
  }
  OK(MPI_Win_free(&window));
  OK(MPI_Type_free(&type));
  free(at);
  free(out);
  free(in);
}

// Half of the ranks complete a started collective before they join one of the host, the others afterwards.
CASE(away, started_collective) {
  NEED_RANKS(2);
  enum { kCount = 20000 };
  double *in = malloc(kCount * sizeof *in), *out = malloc(kCount * sizeof *out);
  open_window(comm);
  for (int round = 0; round < 6; ++round) {
    MPI_Request requests[2];
    for (int i = 0; i < kCount; ++i) in[i] = rank + i + round;
    OK(MPI_Iallreduce(in, out, round % 2 ? kCount : 10, MPI_DOUBLE, MPI_SUM, comm, &requests[0]));
    OK(MPI_Ibarrier(comm, &requests[1]));
    bool first = (rank + round) % 2 == 0;
    if (first) {
      check_stay_away_ms(2);
      OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    }
    OK(MPI_Win_fence(0, window));
    if (!first) OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    EXPECT(out[9] == size * (9.0 + round) + size * (size - 1) / 2.0, "out[9] is %g", out[9]);
  }
  OK(MPI_Win_free(&window));
  free(in);
  free(out);
}

// Sends that the rank itself has started are fetched while it is inside.
CASE(away, own_sends) {
  NEED_RANKS(2);
  int peer = rank ^ 1;
  enum { kBytes = 3 << 20 };
  unsigned char* data = check_buffer(kBytes);
  open_window(comm);
  for (int layout = 0; layout < 2; ++layout) {
    MPI_Datatype type;
    OK(MPI_Type_vector(kBytes / 64, layout ? 32 : 64, 64, MPI_BYTE, &type));
    OK(MPI_Type_commit(&type));
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank % 2 == 0) {
      check_fill(data, kBytes, check_key(rank, layout, 2, 2));
      if (peer < size) OK(MPI_Isend(data, 1, type, peer, 0, comm, &request));
      OK(MPI_Win_fence(0, window));
      OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
      check_stay_away_ms(2);
      OK(MPI_Recv(data, 1, type, peer, 0, comm, MPI_STATUS_IGNORE));
      if (!layout) EXPECT_FILL(data, kBytes, check_key(peer, 0, 2, 2));
      OK(MPI_Win_fence(0, window));
    }
    OK(MPI_Type_free(&type));
  }
  OK(MPI_Win_free(&window));
}
