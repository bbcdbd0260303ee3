// The buffer of buffered sends: attach, detach, flush, exhaustion, and that a buffered send never needs its receiver.
#include "check.h"

// Attaches memory for messages of `bytes` in all; detach() gets it back when they are delivered.
static void* attach(int bytes) {
  void* memory = check_buffer((size_t)bytes + MPI_BSEND_OVERHEAD);
  OK(MPI_Buffer_attach(memory, bytes + MPI_BSEND_OVERHEAD));
  return memory;
}

static void detach(const void* memory, int bytes) {
  void* detached = NULL;
  int detached_bytes = 0;
  OK(MPI_Buffer_detach(&detached, &detached_bytes));
  EXPECT(detached == memory, "detach gives another address");
  EXPECT_EQ(detached_bytes, bytes + MPI_BSEND_OVERHEAD);
}

CASE(bsend_buffer, completes_without_receiver) {
  int len_bytes = 1 << 20;
  void* memory = attach(len_bytes);
  unsigned char* data = check_buffer((size_t)len_bytes);
  check_fill(data, (size_t)len_bytes, check_key(rank, 1, 2, 3));
  OK(MPI_Bsend(data, len_bytes, MPI_BYTE, right, 3, comm));
  memset(data, 0, (size_t)len_bytes);
  OK(MPI_Barrier(comm));  // nobody has posted a receive up to here
  OK(MPI_Recv(data, len_bytes, MPI_BYTE, left, 3, comm, MPI_STATUS_IGNORE));
  EXPECT_FILL(data, (size_t)len_bytes, check_key(left, 1, 2, 3));
  detach(memory, len_bytes);
}

CASE(bsend_buffer, detach_waits_for_delivery) {
  NEED_RANKS(2);
  int len_bytes = 300000;
  unsigned char* data = check_buffer((size_t)len_bytes);
  if (rank == 0) {
    void* memory = attach(len_bytes);
    check_fill(data, (size_t)len_bytes, 77);
    OK(MPI_Bsend(data, len_bytes, MPI_BYTE, 1, 3, comm));
    detach(memory, len_bytes);
    memset(memory, 0, (size_t)len_bytes);  // it is ours again: nothing of it may be read any more
    OK(MPI_Send(NULL, 0, MPI_BYTE, 1, 4, comm));
  } else if (rank == 1) {
    check_stay_away_ms(20);
    OK(MPI_Recv(data, len_bytes, MPI_BYTE, 0, 3, comm, MPI_STATUS_IGNORE));
    EXPECT_FILL(data, (size_t)len_bytes, 77);
    OK(MPI_Recv(NULL, 0, MPI_BYTE, 0, 4, comm, MPI_STATUS_IGNORE));
  }
}

CASE(bsend_buffer, space_is_reused) {
  int len_bytes = 3000, room = 2 * len_bytes + MPI_BSEND_OVERHEAD, rounds = check_reps(100);  // for two
  void* memory = attach(room);
  unsigned char* data = check_buffer((size_t)len_bytes);
  for (int round = 0; round < rounds; ++round) {
    check_fill(data, (size_t)len_bytes, check_key(rank, round, 0, 0));
    OK(MPI_Bsend(data, len_bytes, MPI_BYTE, right, 1, comm));
    OK(MPI_Recv(data, len_bytes, MPI_BYTE, left, 1, comm, MPI_STATUS_IGNORE));
    EXPECT_FILL(data, (size_t)len_bytes, check_key(left, round, 0, 0));
    // The message of this round is delivered when the receiver says so; only then the space is certainly free.
    OK(MPI_Sendrecv(NULL, 0, MPI_BYTE, left, 2, NULL, 0, MPI_BYTE, right, 2, comm, MPI_STATUS_IGNORE));
  }
  detach(memory, room);
}

// Without room a buffered send is an error, and then nothing has been sent; a host may still deliver it otherwise.
// On communicators of their own: in Open MPI a refused send leaves a gap in the numbers of its communicator's messages.
static void refused_or_sent(MPI_Comm comm, int rank, int len_bytes) {
  unsigned char* data = check_buffer((size_t)len_bytes);
  check_fill(data, (size_t)len_bytes, 5);
  int flag = 0, error_class = check_class(MPI_Bsend(data, len_bytes, MPI_BYTE, rank, 1, comm));
  memset(data, 0, (size_t)len_bytes);
  if (error_class == MPI_SUCCESS) {
    OK(MPI_Recv(data, len_bytes, MPI_BYTE, rank, 1, comm, MPI_STATUS_IGNORE));
    EXPECT_FILL(data, (size_t)len_bytes, 5);
  } else {
    EXPECT(error_class == MPI_ERR_BUFFER, "Bsend gives %s", check_class_name(error_class));
    OK(MPI_Iprobe(rank, 1, comm, &flag, MPI_STATUS_IGNORE));
    EXPECT_EQ(flag, 0);
  }
}

CASE(bsend_buffer, no_buffer) {
  MPI_Comm own;
  OK(MPI_Comm_dup(comm, &own));
  refused_or_sent(own, rank, 100);
  refused_or_sent(own, rank, 200000);
  OK(MPI_Comm_free(&own));
}

CASE(bsend_buffer, exhausted_buffer) {
  unsigned char* data = check_buffer(1500);
  void* memory = attach(2000);
  MPI_Comm own;
  OK(MPI_Comm_dup(comm, &own));
  refused_or_sent(own, rank, 100000);
  // What fits is still sent.
  check_fill(data, 1500, 5);
  OK(MPI_Bsend(data, 1500, MPI_BYTE, rank, 1, own));
  memset(data, 0, 1500);
  OK(MPI_Recv(data, 1500, MPI_BYTE, rank, 1, own, MPI_STATUS_IGNORE));
  EXPECT_FILL(data, 1500, 5);
  detach(memory, 2000);
  OK(MPI_Comm_free(&own));
}

CASE(bsend_buffer, derived_type) {
  MPI_Datatype column;
  OK(MPI_Type_vector(500, 2, 5, MPI_INT, &column));
  OK(MPI_Type_commit(&column));
  int pack_bytes = 0;
  OK(MPI_Pack_size(1, column, comm, &pack_bytes));
  void* memory = attach(pack_bytes);
  int* out = check_buffer(2500 * sizeof(int));
  int* in = check_buffer(1000 * sizeof(int));
  for (int i = 0; i < 2500; ++i) out[i] = rank * 10000 + i;
  OK(MPI_Bsend(out, 1, column, right, 9, comm));
  memset(out, 0, 2500 * sizeof(int));
  OK(MPI_Recv(in, 1000, MPI_INT, left, 9, comm, MPI_STATUS_IGNORE));
  EXPECT_EACH(1000, in[i] == left * 10000 + i / 2 * 5 + i % 2, "element %d is %d", i, in[i]);
  detach(memory, pack_bytes);
  OK(MPI_Type_free(&column));
}

#if HAVE_MPI41
CASE(bsend_buffer, flush_and_iflush) {
  int len_bytes = 100000;
  void* memory = attach(len_bytes);
  unsigned char* data = check_buffer((size_t)len_bytes);
  for (int round = 0; round < 2; ++round) {
    MPI_Request receive;
    unsigned char* in = check_buffer((size_t)len_bytes);
    OK(MPI_Irecv(in, len_bytes, MPI_BYTE, left, round, comm, &receive));
    check_fill(data, (size_t)len_bytes, check_key(rank, round, 0, 0));
    OK(MPI_Bsend(data, len_bytes, MPI_BYTE, right, round, comm));
    if (round == 0) {
      OK(MPI_Buffer_flush());
    } else {
      MPI_Request flush;
      OK(MPI_Buffer_iflush(&flush));
      OK(MPI_Wait(&flush, MPI_STATUS_IGNORE));
    }
    OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    EXPECT_FILL(in, (size_t)len_bytes, check_key(left, round, 0, 0));
  }
  detach(memory, len_bytes);
}

CASE(bsend_buffer, communicator_buffer) {
  int len_bytes = 50000;
  MPI_Comm own;
  OK(MPI_Comm_dup(comm, &own));
  void* memory = check_buffer((size_t)len_bytes + MPI_BSEND_OVERHEAD);
  unsigned char* data = check_buffer((size_t)len_bytes);
  OK(MPI_Comm_attach_buffer(own, memory, len_bytes + MPI_BSEND_OVERHEAD));
  check_fill(data, (size_t)len_bytes, check_key(rank, 9, 0, 0));
  OK(MPI_Bsend(data, len_bytes, MPI_BYTE, right, 1, own));
  OK(MPI_Barrier(comm));
  OK(MPI_Recv(data, len_bytes, MPI_BYTE, left, 1, own, MPI_STATUS_IGNORE));
  EXPECT_FILL(data, (size_t)len_bytes, check_key(left, 9, 0, 0));
  OK(MPI_Comm_flush_buffer(own));
  void* detached = NULL;
  int detached_bytes = 0;
  OK(MPI_Comm_detach_buffer(own, &detached, &detached_bytes));
  EXPECT(detached == memory, "Comm_detach_buffer gives another address");
  OK(MPI_Comm_free(&own));
}

// A communicator may be freed with its buffer attached; the next one, whose handle may be the same, has none.
CASE(bsend_buffer, communicator_freed_with_its_buffer) {
  for (int i = 0; i < 10; ++i) {
    MPI_Comm own;
    int in = -1, out = rank * 100 + i;
    OK(MPI_Comm_dup(comm, &own));
    OK(MPI_Comm_attach_buffer(own, check_buffer(200 + MPI_BSEND_OVERHEAD), 200 + MPI_BSEND_OVERHEAD));
    OK(MPI_Bsend(&out, 1, MPI_INT, right, 1, own));
    OK(MPI_Recv(&in, 1, MPI_INT, left, 1, own, MPI_STATUS_IGNORE));
    EXPECT_EQ(in, left * 100 + i);
    OK(MPI_Comm_free(&own));
  }
  OK(MPI_Barrier(comm));
}
#endif
