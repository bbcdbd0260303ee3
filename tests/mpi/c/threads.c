// MPI_THREAD_MULTIPLE: threads that send, receive, probe, wait and make communicators at the same time.
#include "check.h"

#include <pthread.h>

enum { kThreads = 3 };

struct Work {
  MPI_Comm comm;
  int rank, size, number, count;
  int* shared;  // a counter of all threads of the process
  MPI_Request* requests;
};
typedef void* Body(void*);

static bool threads_allowed(void) {
  if (check_thread_level() == MPI_THREAD_MULTIPLE) return true;
  check_skip("needs --thread multiple, and a host that provides it");
  return false;
}

static void run(struct Work* work, int count, Body* body) {
  pthread_t threads[16];
  for (int i = 0; i < count; ++i) pthread_create(&threads[i], NULL, body, &work[i]);
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
}

// A ring in each thread, told apart by tag or by communicator.
static void* ring(void* argument) {
  struct Work* w = argument;
  int left = (w->rank + w->size - 1) % w->size, right = (w->rank + 1) % w->size;
  unsigned char *out = malloc(200000), *in = malloc(200000);
  for (int i = 0; i < w->count; ++i) {
    int len_bytes = i % 10 == 9 ? 200000 : 1 + i * 97 % 5000;
    check_fill(out, (size_t)len_bytes, check_key(w->rank, w->number, i, 0));
    MPI_Request requests[2];
    MPI_Status statuses[2];
    OK(MPI_Irecv(in, 200000, MPI_BYTE, left, w->number, w->comm, &requests[0]));
    OK(MPI_Isend(out, len_bytes, MPI_BYTE, right, w->number, w->comm, &requests[1]));
    OK(MPI_Waitall(2, requests, statuses));
    EXPECT_STATUS(&statuses[0], left, w->number, MPI_BYTE, len_bytes);
    EXPECT_FILL(in, (size_t)len_bytes, check_key(left, w->number, i, 0));
  }
  free(out);
  free(in);
  return NULL;
}

CASE(threads, same_communicator) {
  if (!threads_allowed()) return;
  struct Work work[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    work[i] = (struct Work){.comm = comm, .rank = rank, .size = size, .number = i, .count = check_reps(200)};
  }
  run(work, kThreads, ring);
}

// The least stack that a thread can have: 16 KiB on most systems, of which libc takes a part.
static void* send_large(void* argument) {
  struct Work* w = argument;
  MPI_Send(w->requests, w->count, MPI_BYTE, w->number, 3, w->comm);
  return NULL;
}

CASE(threads, messages_of_a_thread_with_a_small_stack) {
  if (!threads_allowed()) return;
  NEED_RANKS(2);
  const int peer = rank ^ 1;
  if (peer >= size) return;
  const size_t bytes = 2 << 20;
  char* out = check_buffer(bytes);
  char* in = check_buffer(bytes);
  for (int i = 0; i < check_reps(30); ++i) {
    check_fill(out, bytes, check_key(rank, i, 0, 0));
    struct Work work = {.comm = comm, .number = peer, .count = (int)bytes, .requests = (MPI_Request*)(void*)out};
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 16384 < PTHREAD_STACK_MIN ? (size_t)PTHREAD_STACK_MIN : 16384);
    EXPECT_EQ(pthread_create(&thread, &attributes, send_large, &work), 0);
    OK(MPI_Recv(in, (int)bytes, MPI_BYTE, peer, 3, comm, MPI_STATUS_IGNORE));
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    EXPECT_FILL(in, bytes, check_key(peer, i, 0, 0));
  }
}

CASE(threads, own_communicators) {
  if (!threads_allowed()) return;
  struct Work work[kThreads];
  MPI_Comm made[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    OK(MPI_Comm_dup(comm, &made[i]));
    work[i] = (struct Work){.comm = made[i], .rank = rank, .size = size, .number = i, .count = check_reps(200)};
  }
  run(work, kThreads, ring);
  for (int i = 0; i < kThreads; ++i) OK(MPI_Comm_free(&made[i]));
}

// Everybody sends `count` messages per thread to everybody, all on one tag; receiving threads share them out by matched
// probes, so that each message is received exactly once, by the thread that probed it.
static void* send_all(void* argument) {
  struct Work* w = argument;
  unsigned char* out = malloc(70000);
  for (int i = 0; i < w->count; ++i) {
    for (int to = 0; to < w->size; ++to) {
      int header[3] = {w->rank, i, i % 6 == 5 ? 70000 : 12 + i % 1000};
      memcpy(out, header, sizeof header);
      check_fill(out + 12, (size_t)header[2] - 12, check_key(w->rank, to, i, 1));
      OK(MPI_Send(out, header[2], MPI_BYTE, to, 77, w->comm));
    }
  }
  free(out);
  return NULL;
}

static void verify_and_count(struct Work* w, const unsigned char* in, const MPI_Status* status) {
  int header[3], received = -1;
  memcpy(header, in, sizeof header);
  OK(MPI_Get_count(status, MPI_BYTE, &received));
  EXPECT_EQ(header[0], status->MPI_SOURCE);
  EXPECT_EQ(header[2], received);
  if (header[0] == status->MPI_SOURCE && header[2] == received) {
    EXPECT_FILL(in + 12, (size_t)received - 12, check_key(header[0], w->rank, header[1], 1));
    if (header[1] >= 0 && header[1] < w->count) {
      __atomic_fetch_add(&w->shared[header[0] * w->count + header[1]], 1, __ATOMIC_RELAXED);
    }
  }
}

static void* take_by_mprobe(void* argument) {
  struct Work* w = argument;
  unsigned char* in = malloc(70000);
  for (int i = w->number; i < w->count * w->size; i += kThreads) {
    MPI_Message message;
    MPI_Status status;
    if (i % 2) {
      OK(MPI_Mprobe(MPI_ANY_SOURCE, 77, w->comm, &message, &status));
    } else {
      for (int flag = 0; !flag;) OK(MPI_Improbe(MPI_ANY_SOURCE, 77, w->comm, &flag, &message, &status));
    }
    int expected = -1;
    OK(MPI_Get_count(&status, MPI_BYTE, &expected));
    OK(MPI_Mrecv(in, expected, MPI_BYTE, &message, &status));
    verify_and_count(w, in, &status);
  }
  free(in);
  return NULL;
}

static void* take_by_wildcard(void* argument) {
  struct Work* w = argument;
  unsigned char* in = malloc(70000);
  for (int i = w->number; i < w->count * w->size; i += kThreads) {
    MPI_Status status;
    OK(MPI_Recv(in, 70000, MPI_BYTE, MPI_ANY_SOURCE, i % 2 ? MPI_ANY_TAG : 77, w->comm, &status));
    verify_and_count(w, in, &status);
  }
  free(in);
  return NULL;
}

static Body* taking;
static void* send_or_take(void* argument) {
  struct Work* w = argument;
  return w->number < 0 ? send_all(w) : taking(w);
}

static void share_out(MPI_Comm comm, int rank, int size, Body* body) {
  struct Work work[kThreads + 1];
  int count = check_reps(60);
  int* seen = calloc((unsigned)size * (unsigned)count, sizeof *seen);
  for (int i = 0; i <= kThreads; ++i) {
    work[i] = (struct Work){.comm = comm, .rank = rank, .size = size, .number = i - 1, .count = count, .shared = seen};
  }
  taking = body;
  run(work, kThreads + 1, send_or_take);
  for (int i = 0; i < size * count; ++i) EXPECT(seen[i] == 1, "message %d came %d times", i, seen[i]);
  free(seen);
}

CASE(threads, mprobe_shares_messages_out) {
  if (threads_allowed()) share_out(comm, rank, size, take_by_mprobe);
}
CASE(threads, wildcard_receives_share_messages_out) {
  if (threads_allowed()) share_out(comm, rank, size, take_by_wildcard);
}

// One thread blocks in a receive that another thread of the same process satisfies by a send to itself.
static void* receive_own(void* argument) {
  struct Work* w = argument;
  int in = -1;
  if (w->number == 0) {
    OK(MPI_Recv(&in, 1, MPI_INT, w->rank, 5, w->comm, MPI_STATUS_IGNORE));
    EXPECT_EQ(in, 12);
  } else {
    in = 12;
    check_stay_away_ms(5);
    OK(MPI_Send(&in, 1, MPI_INT, w->rank, 5, w->comm));
  }
  return NULL;
}
CASE(threads, blocked_receive_woken_by_own_send) {
  if (!threads_allowed()) return;
  for (int round = 0; round < check_reps(10); ++round) {
    struct Work work[2];
    for (int i = 0; i < 2; ++i) work[i] = (struct Work){.comm = comm, .rank = rank, .size = size, .number = i};
    run(work, 2, receive_own);
  }
}

// Requests started by one thread, completed by others.
static void* complete(void* argument) {
  struct Work* w = argument;
  int first = w->number * w->count;
  if (w->number == 0) {
    OK(MPI_Waitall(w->count, w->requests + first, MPI_STATUSES_IGNORE));
  } else if (w->number == 1) {
    for (int i = 0; i < w->count; ++i) {
      int index;
      OK(MPI_Waitany(w->count, w->requests + first, &index, MPI_STATUS_IGNORE));
    }
  } else {
    for (int i = 0; i < w->count; ++i) {
      for (int flag = 0; !flag;) OK(MPI_Test(&w->requests[first + i], &flag, MPI_STATUS_IGNORE));
    }
  }
  return NULL;
}
CASE(threads, completed_by_another_thread) {
  if (!threads_allowed()) return;
  enum { kEach = 50 };
  int in[kThreads * kEach], out[kThreads * kEach];
  MPI_Request receives[kThreads * kEach], sends[kThreads * kEach];
  struct Work work[kThreads];
  for (int i = 0; i < kThreads * kEach; ++i) {
    out[i] = rank * 1000 + i;
    OK(MPI_Irecv(&in[i], 1, MPI_INT, left, i, comm, &receives[i]));
  }
  for (int i = kThreads * kEach - 1; i >= 0; --i) OK(MPI_Isend(&out[i], 1, MPI_INT, right, i, comm, &sends[i]));
  for (int i = 0; i < kThreads; ++i) work[i] = (struct Work){.number = i, .count = kEach, .requests = receives};
  run(work, kThreads, complete);
  OK(MPI_Waitall(kThreads * kEach, sends, MPI_STATUSES_IGNORE));
  for (int i = 0; i < kThreads * kEach; ++i) EXPECT_EQ(in[i], left * 1000 + i);
}

// Collectives and constructors in one thread, messages in the others.
static void* collect(void* argument) {
  struct Work* w = argument;
  if (w->number != 0) return ring(w);
  for (int i = 0; i < w->count / 10 + 1; ++i) {
    MPI_Comm made;
    int sum = 0, in = -1, left = (w->rank + w->size - 1) % w->size, right = (w->rank + 1) % w->size;
    OK(MPI_Comm_dup(w->comm, &made));
    OK(MPI_Allreduce(&w->rank, &sum, 1, MPI_INT, MPI_SUM, made));
    EXPECT_EQ(sum, w->size * (w->size - 1) / 2);
    OK(MPI_Sendrecv(&w->rank, 1, MPI_INT, right, 1, &in, 1, MPI_INT, left, 1, made, MPI_STATUS_IGNORE));
    EXPECT_EQ(in, left);
    OK(MPI_Comm_free(&made));
  }
  return NULL;
}
CASE(threads, constructors_beside_messages) {
  if (!threads_allowed()) return;
  struct Work work[kThreads];
  MPI_Comm own;
  OK(MPI_Comm_dup(comm, &own));
  for (int i = 0; i < kThreads; ++i) {
    work[i] = (struct Work){.comm = i ? comm : own, .rank = rank, .size = size, .number = i, .count = check_reps(100)};
  }
  run(work, kThreads, collect);
  OK(MPI_Comm_free(&own));
}

// Ping-pong between the threads of two ranks, each pair on a tag of its own, blocking calls only.
static void* pingpong(void* argument) {
  struct Work* w = argument;
  int peer = w->rank ^ 1;
  for (int i = 0; i < w->count; ++i) {
    int out[2] = {w->number, i}, in[2] = {-1, -1};
    if (w->rank < peer) OK(MPI_Send(out, 2, MPI_INT, peer, w->number, w->comm));
    OK(MPI_Recv(in, 2, MPI_INT, peer, w->number, w->comm, MPI_STATUS_IGNORE));
    EXPECT(in[0] == w->number && in[1] == i, "round %d got %d %d", i, in[0], in[1]);
    if (w->rank > peer) OK(MPI_Send(out, 2, MPI_INT, peer, w->number, w->comm));
  }
  return NULL;
}
CASE(threads, pingpong_pairs) {
  NEED_RANKS(2);
  if (!threads_allowed() || (rank ^ 1) >= size) return;
  struct Work work[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    work[i] = (struct Work){.comm = comm, .rank = rank, .size = size, .number = i, .count = check_reps(100)};
  }
  run(work, kThreads, pingpong);
}
