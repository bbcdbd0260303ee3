// Every send mode, blocking, nonblocking and persistent, into posted receives and into receives that come late.
#include "check.h"

typedef int BlockingSend(const void*, int, MPI_Datatype, int, int, MPI_Comm);
typedef int StartingSend(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);

enum { kMaxSizes = 32 };

struct Ring {
  int left, right;
  int count;
  unsigned char* out[kMaxSizes];
  unsigned char* in[kMaxSizes];
  MPI_Request receives[kMaxSizes];
  void* bsend_memory;
};

static void ring_open(struct Ring* ring, int rank, int size, int tag) {
  ring->left = (rank + size - 1) % size;
  ring->right = (rank + 1) % size;
  ring->count = check_sizes_count;
  size_t total = 0;
  for (int i = 0; i < ring->count; ++i) {
    ring->out[i] = check_buffer(check_sizes[i]);
    ring->in[i] = check_buffer(check_sizes[i]);
    check_fill(ring->out[i], check_sizes[i], check_key(rank, ring->right, tag, i));
    total += check_sizes[i] + MPI_BSEND_OVERHEAD + 64;
  }
  ring->bsend_memory = check_buffer(total);
  OK(MPI_Buffer_attach(ring->bsend_memory, (int)total));
}

static void ring_post(struct Ring* ring, MPI_Comm comm, int tag) {
  for (int i = 0; i < ring->count; ++i) {
    OK(MPI_Irecv(ring->in[i], (int)check_sizes[i], MPI_BYTE, ring->left, tag, comm, &ring->receives[i]));
  }
}

static void ring_finish(struct Ring* ring, int rank, int tag) {
  for (int i = 0; i < ring->count; ++i) {
    MPI_Status status = check_blank_status();
    OK(MPI_Wait(&ring->receives[i], &status));
    EXPECT_EQ(ring->receives[i] == MPI_REQUEST_NULL, 1);
    EXPECT_STATUS(&status, ring->left, tag, MPI_BYTE, (int)check_sizes[i]);
    EXPECT_FILL(ring->in[i], check_sizes[i], check_key(ring->left, rank, tag, i));
  }
}

static void ring_close(void) {
  void* memory;
  int len_bytes;
  OK(MPI_Buffer_detach(&memory, &len_bytes));
}

static void blocking(BlockingSend* send, MPI_Comm comm, int rank, int size) {
  struct Ring ring;
  ring_open(&ring, rank, size, 11);
  ring_post(&ring, comm, 11);
  OK(MPI_Barrier(comm));  // ready mode needs the receives to be posted
  for (int i = 0; i < ring.count; ++i) {
    OK(send(ring.out[i], (int)check_sizes[i], MPI_BYTE, ring.right, 11, comm));
    memset(ring.out[i], 0, check_sizes[i]);  // ours again as soon as the call returns
  }
  ring_finish(&ring, rank, 11);
  ring_close();
}

static void starting(StartingSend* send, MPI_Comm comm, int rank, int size, bool late) {
  struct Ring ring;
  ring_open(&ring, rank, size, 12);
  if (!late) ring_post(&ring, comm, 12);
  OK(MPI_Barrier(comm));
  MPI_Request sends[kMaxSizes];
  for (int i = 0; i < ring.count; ++i) {
    OK(send(ring.out[i], (int)check_sizes[i], MPI_BYTE, ring.right, 12, comm, &sends[i]));
  }
  if (late) {
    OK(MPI_Barrier(comm));
    ring_post(&ring, comm, 12);
  }
  ring_finish(&ring, rank, 12);
  OK(MPI_Waitall(ring.count, sends, MPI_STATUSES_IGNORE));
  for (int i = 0; i < ring.count; ++i) EXPECT(sends[i] == MPI_REQUEST_NULL, "send %d is not null after Waitall", i);
  ring_close();
}

static void persistent(StartingSend* init, MPI_Comm comm, int rank, int size) {
  struct Ring ring;
  ring_open(&ring, rank, size, 13);
  MPI_Request sends[kMaxSizes], receives[kMaxSizes];
  for (int i = 0; i < ring.count; ++i) {
    OK(init(ring.out[i], (int)check_sizes[i], MPI_BYTE, ring.right, 13, comm, &sends[i]));
    OK(MPI_Recv_init(ring.in[i], (int)check_sizes[i], MPI_BYTE, ring.left, 13, comm, &receives[i]));
  }
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < ring.count; ++i) {
      check_fill(ring.out[i], check_sizes[i], check_key(rank, ring.right, round, i));
      memset(ring.in[i], UNTOUCHED, check_sizes[i]);
    }
    if (round == 1) {
      for (int i = 0; i < ring.count; ++i) OK(MPI_Start(&receives[i]));
    } else {
      OK(MPI_Startall(ring.count, receives));
    }
    OK(MPI_Barrier(comm));
    if (round == 1) {
      for (int i = 0; i < ring.count; ++i) OK(MPI_Start(&sends[i]));
    } else {
      OK(MPI_Startall(ring.count, sends));
    }
    OK(MPI_Waitall(ring.count, sends, MPI_STATUSES_IGNORE));
    MPI_Status statuses[kMaxSizes];
    OK(MPI_Waitall(ring.count, receives, statuses));
    for (int i = 0; i < ring.count; ++i) {
      EXPECT(sends[i] != MPI_REQUEST_NULL && receives[i] != MPI_REQUEST_NULL, "a persistent request became null");
      EXPECT_STATUS(&statuses[i], ring.left, 13, MPI_BYTE, (int)check_sizes[i]);
      EXPECT_FILL(ring.in[i], check_sizes[i], check_key(ring.left, rank, round, i));
    }
    // Every rank refills its buffers only now: the messages are through on this side, and the peer's copy is its own.
  }
  for (int i = 0; i < ring.count; ++i) {
    OK(MPI_Request_free(&sends[i]));
    OK(MPI_Request_free(&receives[i]));
    EXPECT(sends[i] == MPI_REQUEST_NULL && receives[i] == MPI_REQUEST_NULL, "Request_free leaves the handle");
  }
  ring_close();
}

CASE(send_modes, send) { blocking(MPI_Send, comm, rank, size); }
CASE(send_modes, bsend) { blocking(MPI_Bsend, comm, rank, size); }
CASE(send_modes, ssend) { blocking(MPI_Ssend, comm, rank, size); }
CASE(send_modes, rsend) { blocking(MPI_Rsend, comm, rank, size); }
CASE(send_modes, isend) { starting(MPI_Isend, comm, rank, size, false); }
CASE(send_modes, ibsend) { starting(MPI_Ibsend, comm, rank, size, false); }
CASE(send_modes, issend) { starting(MPI_Issend, comm, rank, size, false); }
CASE(send_modes, irsend) { starting(MPI_Irsend, comm, rank, size, false); }
CASE(send_modes, isend_late) { starting(MPI_Isend, comm, rank, size, true); }
CASE(send_modes, ibsend_late) { starting(MPI_Ibsend, comm, rank, size, true); }
CASE(send_modes, issend_late) { starting(MPI_Issend, comm, rank, size, true); }
CASE(send_modes, send_init) { persistent(MPI_Send_init, comm, rank, size); }
CASE(send_modes, bsend_init) { persistent(MPI_Bsend_init, comm, rank, size); }
CASE(send_modes, ssend_init) { persistent(MPI_Ssend_init, comm, rank, size); }
CASE(send_modes, rsend_init) { persistent(MPI_Rsend_init, comm, rank, size); }

// Blocking receives that wait for their message, in both directions of a pair, without any nonblocking call.
CASE(send_modes, blocking_pingpong) {
  int peer = rank ^ 1;
  if (size < 2) SKIP("needs 2 ranks");
  if (peer >= size) return;
  for (int i = 0; i < check_sizes_count; ++i) {
    size_t len_bytes = check_sizes[i];
    unsigned char* data = check_buffer(len_bytes);
    for (int round = 0; round < 2; ++round) {
      if (rank < peer) {
        check_fill(data, len_bytes, check_key(rank, peer, i, round));
        OK(MPI_Send(data, (int)len_bytes, MPI_BYTE, peer, i, comm));
      }
      memset(data, 0, len_bytes);
      MPI_Status status = check_blank_status();
      OK(MPI_Recv(data, (int)len_bytes, MPI_BYTE, peer, i, comm, &status));
      EXPECT_STATUS(&status, peer, i, MPI_BYTE, (int)len_bytes);
      EXPECT_FILL(data, len_bytes, check_key(peer, rank, i, round));
      if (rank > peer) {
        check_fill(data, len_bytes, check_key(rank, peer, i, round));
        OK(MPI_Send(data, (int)len_bytes, MPI_BYTE, peer, i, comm));
      }
    }
  }
}

// A synchronous send must not complete before its receive has started, however often it is tested.
CASE(send_modes, issend_completes_only_after_match) {
  NEED_RANKS(2);
  int peer = rank ^ 1;
  int sizes[] = {0, 1, 4096, 100000, 1048576};
  for (int i = 0; i < 5; ++i) {
    unsigned char* data = check_buffer((size_t)sizes[i]);
    MPI_Request request = MPI_REQUEST_NULL;
    int flag = 1;
    if (rank < peer && peer < size) {
      check_fill(data, (size_t)sizes[i], check_key(rank, i, 0, 0));
      OK(MPI_Issend(data, sizes[i], MPI_BYTE, peer, 5, comm, &request));
      for (int turn = 0; turn < 50; ++turn) {
        OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        EXPECT_EQ(flag, 0);
      }
    }
    OK(MPI_Barrier(comm));
    if (rank < peer && peer < size) {
      OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
      EXPECT_EQ(flag, 0);
    }
    OK(MPI_Barrier(comm));
    if (rank > peer) {
      OK(MPI_Recv(data, sizes[i], MPI_BYTE, peer, 5, comm, MPI_STATUS_IGNORE));
      EXPECT_FILL(data, (size_t)sizes[i], check_key(peer, i, 0, 0));
    } else if (peer < size) {
      OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
  }
}

// Eager and synchronous sends interleaved to a receiver that takes them in reverse tag order.
CASE(send_modes, all_modes_reverse_order) {
  enum { kMessages = 24 };
  void* attached = check_buffer(kMessages * (70000 + MPI_BSEND_OVERHEAD));
  OK(MPI_Buffer_attach(attached, kMessages * (70000 + MPI_BSEND_OVERHEAD)));
  MPI_Request sends[kMessages];
  StartingSend* modes[] = {MPI_Isend, MPI_Issend, MPI_Ibsend};
  for (int i = 0; i < kMessages; ++i) {
    int len_bytes = (i * 2971) % 70000;
    unsigned char* out = check_buffer((size_t)len_bytes);
    check_fill(out, (size_t)len_bytes, check_key(rank, right, i, 1));
    OK(modes[i % 3](out, len_bytes, MPI_BYTE, right, i, comm, &sends[i]));
  }
  for (int i = kMessages - 1; i >= 0; --i) {
    int len_bytes = (i * 2971) % 70000;
    unsigned char* in = check_buffer((size_t)len_bytes);
    MPI_Status status = check_blank_status();
    OK(MPI_Recv(in, len_bytes, MPI_BYTE, left, i, comm, &status));
    EXPECT_STATUS(&status, left, i, MPI_BYTE, len_bytes);
    EXPECT_FILL(in, (size_t)len_bytes, check_key(left, rank, i, 1));
  }
  OK(MPI_Waitall(kMessages, sends, MPI_STATUSES_IGNORE));
  void* memory;
  int memory_bytes;
  OK(MPI_Buffer_detach(&memory, &memory_bytes));
}
