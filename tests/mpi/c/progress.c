// A rank that sits in a blocking call still serves its peers: transfers that it has started complete without a further
// call of it. One case for each kind of blocking call, with the pending operation on either side of it.
#include "check.h"

enum { kBytes = 3000000 };

// What is pending while the even rank blocks in `call` and its odd peer works first and blocks later: one message of
// many pieces, with gaps where it is `derived`.
static void pending(MPI_Comm comm, int rank, int size, CheckCall* call, bool even_sends, bool derived) {
  enum { kPiece = 1000, kPieces = kBytes / kPiece };
  int peer = rank ^ 1, count = derived ? 1 : kBytes, step = derived ? 2 * kPiece : kPiece;
  bool late = rank % 2 == 1, paired = peer < size, sends = late ? !even_sends : even_sends;
  unsigned char* data = check_buffer((size_t)(kPieces * step));
  MPI_Datatype type = MPI_BYTE;
  if (derived) {
    OK(MPI_Type_vector(kPieces, kPiece, step, MPI_BYTE, &type));
    OK(MPI_Type_commit(&type));
  }
  for (int i = 0; i < kPieces && sends; ++i) check_fill(data + i * step, kPiece, check_key(rank, i, 0, 0));
  if (!late) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (paired) {
      OK(sends ? MPI_Isend(data, count, type, peer, 2, comm, &request)
               : MPI_Irecv(data, count, type, peer, 2, comm, &request));
    }
    call(comm, rank, size);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  } else {
    // Blocking: the peer, which is in its call by now or soon, must be able to do its part.
    OK(sends ? MPI_Ssend(data, count, type, peer, 2, comm)
             : MPI_Recv(data, count, type, peer, 2, comm, MPI_STATUS_IGNORE));
    call(comm, rank, size);
  }
  for (int i = 0; i < kPieces && !sends && paired; ++i) {
    if (!EXPECT_FILL(data + i * step, kPiece, check_key(peer, i, 0, 0))) break;
  }
  if (derived) OK(MPI_Type_free(&type));
}

static void all_pending(MPI_Comm comm, int rank, int size, CheckCall* call) {
  NEED_RANKS(2);
  for (int kind = 0; kind < 4; ++kind) pending(comm, rank, size, call, kind & 1, kind & 2);
}

// The case of one call, which is what follows.
#define BLOCKED(name)                                                     \
  static CheckCall name;                                                  \
  CASE(progress, blocked_##name) { all_pending(comm, rank, size, name); } \
  CHECK_CALL(name)

BLOCKED(in_barrier) { OK(MPI_Barrier(comm)); }
BLOCKED(in_allreduce) {
  int sum = -1;
  OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
  EXPECT_EQ(sum, size * (size - 1) / 2);
}
BLOCKED(in_large_bcast) {
  // The last rank, which comes late where it is an odd one, is the root: everybody waits for it.
  unsigned char* data = check_buffer(500000);
  if (rank == size - 1) check_fill(data, 500000, 9);
  OK(MPI_Bcast(data, 500000, MPI_BYTE, size - 1, comm));
  EXPECT_FILL(data, 500000, 9);
}
BLOCKED(in_wait_ibarrier) {
  MPI_Request request;
  OK(MPI_Ibarrier(comm, &request));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}
BLOCKED(in_test_ibarrier) {
  MPI_Request request;
  OK(MPI_Ibarrier(comm, &request));
  for (int flag = 0; !flag;) OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
}
BLOCKED(in_comm_dup) {
  MPI_Comm made;
  OK(MPI_Comm_dup(comm, &made));
  OK(MPI_Comm_free(&made));
}
BLOCKED(in_comm_split) {
  MPI_Comm made;
  OK(MPI_Comm_split(comm, 0, size - rank, &made));
  OK(MPI_Comm_free(&made));
}
BLOCKED(in_cart_create) {
  MPI_Comm made;
  int periods[1] = {1};
  OK(MPI_Cart_create(comm, 1, &size, periods, 0, &made));
  OK(MPI_Comm_free(&made));
}
BLOCKED(in_win_create) {
  int cell = 0;
  MPI_Win window;
  OK(MPI_Win_create(&cell, sizeof cell, 1, MPI_INFO_NULL, comm, &window));
  OK(MPI_Win_free(&window));
}
BLOCKED(in_file) {
  char path[300];
  if (rank == 0) check_temp_path(path, sizeof path);
  OK(MPI_Bcast(path, sizeof path, MPI_CHAR, 0, comm));
  MPI_File file;
  if (!OK(MPI_File_open(comm, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                        &file))) {
    return;
  }
  int back = -1;
  OK(MPI_File_write_at_all(file, rank * (MPI_Offset)sizeof rank, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
  OK(MPI_File_sync(file));
  OK(MPI_File_read_at_all(file, rank * (MPI_Offset)sizeof rank, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
  EXPECT_EQ(back, rank);
  OK(MPI_File_close(&file));
}

// The last rank gives the word; with an odd number of ranks it has no peer and gives it at once, which is right too.
BLOCKED(in_receive) {
  // Everybody waits for a word of the last rank, on another communicator context: MPI_COMM_WORLD.
  int word = 0;
  if (rank == size - 1) {
    for (int i = 0; i < size - 1; ++i) OK(MPI_Send(&rank, 1, MPI_INT, i, 31000, MPI_COMM_WORLD));
  } else {
    OK(MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 31000, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  }
}
BLOCKED(in_probe) {
  if (rank != size - 1) OK(MPI_Probe(size - 1, 31000, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  in_receive(comm, rank, size);
}
BLOCKED(in_iprobe_loop) {
  for (int flag = rank == size - 1; !flag;) {
    OK(MPI_Iprobe(MPI_ANY_SOURCE, 31000, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
  }
  in_receive(comm, rank, size);
}

static MPI_Win fence_window;
CHECK_CALL(in_fence) { OK(MPI_Win_fence(0, fence_window)); }
CASE(progress, blocked_in_fence) {
  NEED_RANKS(2);
  int cell = 0;
  OK(MPI_Win_create(&cell, sizeof cell, sizeof cell, MPI_INFO_NULL, comm, &fence_window));
  OK(MPI_Win_fence(0, fence_window));
  for (int kind = 0; kind < 4; ++kind) {
    pending(comm, rank, size, in_fence, kind & 1, kind & 2);
    OK(MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, fence_window));
    OK(MPI_Win_fence(0, fence_window));
    EXPECT_EQ(cell, (rank + size - 1) % size);
  }
  OK(MPI_Win_free(&fence_window));
}

// Isend large; Barrier; the peer receives; Barrier: the sender is in the second barrier while its data is fetched.
CASE(progress, isend_fetched_during_barrier) {
  NEED_RANKS(2);
  int peer = rank ^ 1;
  unsigned char* data = check_buffer(kBytes);
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank % 2 == 0 && peer < size) {
    check_fill(data, kBytes, check_key(rank, 7, 0, 0));
    OK(MPI_Isend(data, kBytes, MPI_BYTE, peer, 1, comm, &request));
  }
  OK(MPI_Barrier(comm));
  if (rank % 2 == 1) {
    OK(MPI_Recv(data, kBytes, MPI_BYTE, peer, 1, comm, MPI_STATUS_IGNORE));
    EXPECT_FILL(data, kBytes, check_key(peer, 7, 0, 0));
  }
  OK(MPI_Barrier(comm));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

// Many eager messages pile up while the receiver is away; the sender may not need more than the receiver's return.
CASE(progress, flood_of_an_absent_receiver) {
  NEED_RANKS(2);
  int peer = rank ^ 1, count = check_reps(5000);
  if (peer >= size) return;
  if (rank % 2 == 0) {
    for (int i = 0; i < count; ++i) OK(MPI_Send(&i, 1, MPI_INT, peer, 1, comm));
  } else {
    check_stay_away_ms(50);
    for (int i = 0; i < count; ++i) {
      int in = -1;
      OK(MPI_Recv(&in, 1, MPI_INT, peer, 1, comm, MPI_STATUS_IGNORE));
      EXPECT_EQ(in, i);
    }
  }
}

// The same with medium sizes, in both directions at once: nobody may wait for the other's receive calls.
CASE(progress, mutual_flood) {
  NEED_RANKS(2);
  int peer = rank ^ 1, count = check_reps(200);
  if (peer >= size) return;
  MPI_Request* requests = malloc((size_t)count * sizeof *requests);
  unsigned char *out = check_buffer(30000), *in = check_buffer(30000);
  check_fill(out, 30000, check_key(rank, 3, 3, 3));
  for (int i = 0; i < count; ++i) OK(MPI_Isend(out, 100 + i * 149 % 29000, MPI_BYTE, peer, 1, comm, &requests[i]));
  for (int i = 0; i < count; ++i) {
    MPI_Status status;
    OK(MPI_Recv(in, 30000, MPI_BYTE, peer, 1, comm, &status));
    EXPECT_STATUS(&status, peer, 1, MPI_BYTE, 100 + i * 149 % 29000);
    EXPECT_FILL(in, (size_t)(100 + i * 149 % 29000) / 8 * 8, check_key(peer, 3, 3, 3));
  }
  OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
  free(requests);
}

// A chain: each rank waits for its left neighbour before it serves its right one, large messages all the way.
CASE(progress, chain_of_dependencies) {
  unsigned char *data = check_buffer(kBytes), *in = check_buffer(kBytes);
  MPI_Request receive = MPI_REQUEST_NULL;
  if (rank > 0) OK(MPI_Irecv(in, kBytes, MPI_BYTE, rank - 1, 1, comm, &receive));
  if (rank == 0) check_fill(data, kBytes, 99);
  OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
  if (rank + 1 < size) OK(MPI_Ssend(rank ? in : data, kBytes, MPI_BYTE, rank + 1, 1, comm));
  if (rank > 0) EXPECT_FILL(in, kBytes, 99);
  OK(MPI_Barrier(comm));
}
