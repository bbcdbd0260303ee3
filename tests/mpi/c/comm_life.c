// Contexts keep messages apart, and communicators come and go: identical tags, deep chains, hundreds, freed in use.
#include "check.h"

CASE(comm_life, identical_tags_are_isolated) {
  enum { kComms = 6 };
  MPI_Comm made[kComms];
  MPI_Request requests[2 * kComms];
  int in[kComms], out[kComms];
  made[0] = comm;
  for (int i = 1; i < kComms; ++i) OK(MPI_Comm_dup(i % 2 ? comm : made[i - 1], &made[i]));
  // Sent in one order, received in another; a wildcard of a communicator takes nothing of its siblings.
  for (int i = 0; i < kComms; ++i) {
    out[i] = rank * 10 + i;
    OK(MPI_Isend(&out[i], 1, MPI_INT, right, 1, made[i], &requests[i]));
  }
  for (int i = kComms - 1; i >= 0; --i) {
    OK(MPI_Irecv(&in[i], 1, MPI_INT, i % 2 ? MPI_ANY_SOURCE : left, i % 3 ? MPI_ANY_TAG : 1, made[i],
                 &requests[kComms + i]));
  }
  OK(MPI_Waitall(2 * kComms, requests, MPI_STATUSES_IGNORE));
  for (int i = 0; i < kComms; ++i) EXPECT_EQ(in[i], left * 10 + i);
  for (int i = 1; i < kComms; ++i) OK(MPI_Comm_free(&made[i]));
}

CASE(comm_life, deep_chain) {
  MPI_Comm chain[20];
  chain[0] = comm;
  for (int i = 1; i < 20; ++i) {
    if (i % 3 == 0) {
      OK(MPI_Comm_split(chain[i - 1], 0, size - rank, &chain[i]));
    } else {
      OK(MPI_Comm_dup(chain[i - 1], &chain[i]));
    }
  }
  for (int i = 19; i >= 0; --i) {
    int me, in = -1;
    OK(MPI_Comm_rank(chain[i], &me));
    int left = (me + size - 1) % size, right = (me + 1) % size, out = me * 100 + i;
    OK(MPI_Sendrecv(&out, 1, MPI_INT, right, 0, &in, 1, MPI_INT, left, 0, chain[i], MPI_STATUS_IGNORE));
    EXPECT_EQ(in, left * 100 + i);
    if (i > 0 && i % 2) OK(MPI_Comm_free(&chain[i]));  // children outlive their parents, and the other way round
  }
  for (int i = 2; i < 20; i += 2) OK(MPI_Comm_free(&chain[i]));
}

CASE(comm_life, two_hundred_made_and_freed) {
  int count = check_reps(200);
  for (int i = 0; i < count; ++i) {
    MPI_Comm made;
    if (i % 4 == 3) {
      OK(MPI_Comm_split(comm, 0, rank, &made));
    } else {
      OK(MPI_Comm_dup(comm, &made));
    }
    int in = -1, out = rank * 1000 + i;
    OK(MPI_Sendrecv(&out, 1, MPI_INT, right, 0, &in, 1, MPI_INT, left, 0, made, MPI_STATUS_IGNORE));
    EXPECT_EQ(in, left * 1000 + i);
    OK(MPI_Comm_free(&made));
  }
}

CASE(comm_life, hundred_alive_at_once) {
  enum { kMost = 100 };
  int count = check_reps(kMost) < kMost ? check_reps(kMost) : kMost;
  MPI_Comm made[kMost];
  MPI_Request requests[2 * kMost];
  int in[kMost], out[kMost];
  for (int i = 0; i < count; ++i) OK(MPI_Comm_dup(comm, &made[i]));
  for (int i = 0; i < count; ++i) {
    out[i] = rank + i;
    OK(MPI_Irecv(&in[i], 1, MPI_INT, left, 0, made[i], &requests[2 * i]));
  }
  for (int i = count - 1; i >= 0; --i) OK(MPI_Isend(&out[i], 1, MPI_INT, right, 0, made[i], &requests[2 * i + 1]));
  OK(MPI_Waitall(2 * count, requests, MPI_STATUSES_IGNORE));
  for (int i = 0; i < count; ++i) EXPECT_EQ(in[i], left + i);
  for (int i = 0; i < count; ++i) OK(MPI_Comm_free(&made[i]));
}

// MPI_Comm_free with operations pending: they complete as if nothing had been freed.
CASE(comm_life, freed_with_traffic_pending) {
  enum { kBytes = 400000 };
  int small_in = -1;
  unsigned char *out = check_buffer(kBytes), *in = check_buffer(kBytes);
  for (int round = 0; round < 5; ++round) {
    MPI_Comm made, next;
    MPI_Request requests[4];
    OK(MPI_Comm_dup(comm, &made));
    check_fill(out, kBytes, check_key(rank, round, 0, 0));
    OK(MPI_Irecv(in, kBytes, MPI_BYTE, left, 1, made, &requests[0]));
    OK(MPI_Irecv(&small_in, 1, MPI_INT, MPI_ANY_SOURCE, 2, made, &requests[1]));
    OK(MPI_Isend(out, kBytes, MPI_BYTE, right, 1, made, &requests[2]));
    OK(MPI_Isend(&rank, 1, MPI_INT, right, 2, made, &requests[3]));
    OK(MPI_Comm_free(&made));
    // A new communicator, perhaps under the same handle, must not see the old one's messages.
    OK(MPI_Comm_dup(comm, &next));
    int echo = -1;
    OK(MPI_Sendrecv(&round, 1, MPI_INT, right, 1, &echo, 1, MPI_INT, left, 1, next, MPI_STATUS_IGNORE));
    EXPECT_EQ(echo, round);
    OK(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
    EXPECT_FILL(in, kBytes, check_key(left, round, 0, 0));
    EXPECT_EQ(small_in, left);
    OK(MPI_Comm_free(&next));
  }
}

// One rank frees early; its peer sends to it only afterwards.
CASE(comm_life, freed_before_the_message_comes) {
  NEED_RANKS(2);
  int peer = rank ^ 1, in = -1;
  MPI_Comm made;
  OK(MPI_Comm_dup(comm, &made));
  if (rank > peer) {
    MPI_Request receive;
    OK(MPI_Irecv(&in, 1, MPI_INT, peer, 1, made, &receive));
    OK(MPI_Comm_free(&made));
    OK(MPI_Send(NULL, 0, MPI_INT, peer, 2, comm));
    OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    EXPECT_EQ(in, peer);
  } else if (peer < size) {
    OK(MPI_Recv(NULL, 0, MPI_INT, peer, 2, comm, MPI_STATUS_IGNORE));
    MPI_Request send;
    OK(MPI_Isend(&rank, 1, MPI_INT, peer, 1, made, &send));
    OK(MPI_Comm_free(&made));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
  } else {
    OK(MPI_Comm_free(&made));
  }
}

CASE(comm_life, disconnect) {
  MPI_Comm made;
  int in = -1;
  OK(MPI_Comm_dup(comm, &made));
  OK(MPI_Sendrecv(&rank, 1, MPI_INT, right, 0, &in, 1, MPI_INT, left, 0, made, MPI_STATUS_IGNORE));
  EXPECT_EQ(in, left);
  OK(MPI_Comm_disconnect(&made));
  EXPECT(made == MPI_COMM_NULL, "disconnect leaves the handle");
}

static int copies, deletions;
static int on_copy(MPI_Comm comm, int key, void* extra, void* value, void* copy, int* flag) {
  (void)comm, (void)key, (void)extra;
  *(void**)copy = value;
  *flag = 1;
  ++copies;
  return MPI_SUCCESS;
}
static int on_delete(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm, (void)key, (void)value, (void)extra;
  ++deletions;
  return MPI_SUCCESS;
}

// The program's own attributes are copied and deleted as often as it may expect, no more.
CASE(comm_life, attributes_of_the_program) {
  int key, flag = 0, *value = NULL, cookie = 5;
  copies = deletions = 0;
  OK(MPI_Comm_create_keyval(on_copy, on_delete, &key, NULL));
  MPI_Comm first, second;
  OK(MPI_Comm_dup(comm, &first));
  OK(MPI_Comm_set_attr(first, key, &cookie));
  OK(MPI_Comm_dup(first, &second));
  EXPECT_EQ(copies, 1);
  OK(MPI_Comm_get_attr(second, key, &value, &flag));
  EXPECT(flag && value == &cookie, "the attribute was not copied");
  OK(MPI_Comm_free(&first));
  OK(MPI_Comm_free(&second));
  EXPECT_EQ(deletions, 2);
  OK(MPI_Comm_free_keyval(&key));
}

// Persistent requests live on when the program frees their communicator (MPI standard 7.4.3), and their messages stay
// apart from those of communicators made later.
CASE(comm_life, persistent_after_free) {
  for (int round = 0; round < 20; ++round) {
    MPI_Comm old, made;
    MPI_Request pair[2];
    int out = -1, in = -1, other = -1, word = rank + 500;
    OK(MPI_Comm_dup(comm, &old));
    OK(MPI_Send_init(&out, 1, MPI_INT, right, 3, old, &pair[0]));
    OK(MPI_Recv_init(&in, 1, MPI_INT, left, 3, old, &pair[1]));
    OK(MPI_Comm_free(&old));
    OK(MPI_Comm_dup(comm, &made));
    MPI_Request any;
    OK(MPI_Irecv(&other, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, made, &any));
    for (int start = 0; start < 3; ++start) {
      out = rank * 100 + start;
      OK(MPI_Startall(2, pair));
      OK(MPI_Waitall(2, pair, MPI_STATUSES_IGNORE));
      EXPECT_EQ(in, left * 100 + start);
    }
    OK(MPI_Send(&word, 1, MPI_INT, right, 3, made));
    OK(MPI_Wait(&any, MPI_STATUS_IGNORE));
    EXPECT_EQ(other, left + 500);
    OK(MPI_Request_free(&pair[0]));
    OK(MPI_Request_free(&pair[1]));
    OK(MPI_Comm_free(&made));
  }
}

// Wildcard receives that are open when their communicator is freed; afterwards all of it is gone, callbacks included.
CASE(comm_life, freed_under_open_wildcards) {
  int key, rounds = check_reps(3000);
  copies = deletions = 0;
  OK(MPI_Comm_create_keyval(on_copy, on_delete, &key, NULL));
  for (int round = 0; round < rounds; ++round) {
    MPI_Comm made;
    MPI_Request any[2];
    int in[2] = {-1, -1}, out[2] = {rank * 10, rank * 10 + 1};
    OK(MPI_Comm_dup(comm, &made));
    OK(MPI_Comm_set_attr(made, key, &key));
    for (int i = 0; i < 2; ++i) OK(MPI_Irecv(&in[i], 1, MPI_INT, MPI_ANY_SOURCE, i, made, &any[i]));
    if (rank == 0 && round % 16 == 0) check_stay_away_ms(1);
    for (int i = 0; i < 2; ++i) OK(MPI_Send(&out[i], 1, MPI_INT, right, i, made));
    OK(MPI_Comm_free(&made));
    EXPECT(made == MPI_COMM_NULL, "MPI_Comm_free leaves the handle");
    OK(MPI_Waitall(2, any, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 2; ++i) EXPECT_EQ(in[i], left * 10 + i);
    EXPECT_EQ(deletions, round + 1);
  }
  OK(MPI_Comm_free_keyval(&key));
}

// What is wrong with a receive is told as its communicator told it before the program freed it, also when the handle is
// another one's by then.
static void truncated_after_free(MPI_Comm comm, int rank, int size, bool persistent) {
  int left = (rank + size - 1) % size, right = (rank + 1) % size, out[400] = {0}, in[4];
  for (int round = 0; round < 20; ++round) {
    MPI_Comm made, next = MPI_COMM_NULL;
    MPI_Request receive, send;
    MPI_Status status;
    OK(MPI_Comm_dup(comm, &made));
    OK(MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN));
    if (persistent) {
      OK(MPI_Recv_init(in, 4, MPI_INT, round % 3 ? left : MPI_ANY_SOURCE, 3, made, &receive));
      OK(MPI_Start(&receive));
    } else {
      OK(MPI_Irecv(in, 4, MPI_INT, round % 3 ? left : MPI_ANY_SOURCE, 3, made, &receive));
    }
    OK(MPI_Barrier(comm));
    OK(MPI_Isend(out, 400, MPI_INT, right, 3, made, &send));
    OK(MPI_Wait(&send, &status));
    OK(MPI_Barrier(comm));
    OK(MPI_Comm_free(&made));
    if (round % 2) OK(MPI_Comm_dup(comm, &next));
    int class = MPI_SUCCESS;
    MPI_Error_class(MPI_Wait(&receive, &status), &class);
    EXPECT_EQ(class, MPI_ERR_TRUNCATE);
    if (persistent) OK(MPI_Request_free(&receive));
    if (round % 2) OK(MPI_Comm_free(&next));
  }
}
CASE(comm_life, truncated_after_free) {
  NEED_RANKS(2);
  truncated_after_free(comm, rank, size, false);
}
CASE(comm_life, persistent_truncated_after_free) {
  NEED_RANKS(2);
  truncated_after_free(comm, rank, size, true);
}

// MPI_Comm_disconnect waits for a receive that nobody has completed (MPI standard 11.10.4).
CASE(comm_life, disconnect_under_an_open_wildcard) {
  NEED_RANKS(2);
  int decoy = -1, taken = 0;
  for (int round = 0; round < 50; ++round) {
    MPI_Comm made;
    MPI_Request any, send;
    int in = -5, out = rank + round;
    OK(MPI_Comm_dup(comm, &made));
    OK(MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 3, made, &any));
    OK(MPI_Isend(&out, 1, MPI_INT, right, 3, made, &send));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    OK(MPI_Comm_disconnect(&made));
    OK(MPI_Sendrecv(&decoy, 1, MPI_INT, right, 3, &taken, 1, MPI_INT, left, 3, comm, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&any, MPI_STATUS_IGNORE));
    EXPECT_EQ(in, left + round);
    EXPECT_EQ(taken, -1);
  }
}

// What an attribute's delete callback sends and receives, on the communicator that is being freed.
static int exchange_in_callback(MPI_Comm comm, int keyval, void* value, void* extra) {
  (void)keyval;
  int rank, size, in = -1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  int to = (rank + 1) % size, from = (rank + size - 1) % size;
  int error = rank % 2 ? MPI_Send(value, 1, MPI_INT, to, 8, comm)
                       : MPI_Sendrecv(value, 1, MPI_INT, to, 8, &in, 1, MPI_INT, from, 8, comm, MPI_STATUS_IGNORE);
  if (error == MPI_SUCCESS && rank % 2) error = MPI_Recv(&in, 1, MPI_INT, from, 8, comm, MPI_STATUS_IGNORE);
  *(int*)extra = in;
  return error;
}
CASE(comm_life, message_in_a_callback_of_free) {
  int got = -1, keyval;
  OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, exchange_in_callback, &keyval, &got));
  for (int round = 0; round < 3; ++round) {
    MPI_Comm made;
    int value = rank + 100 * round;
    OK(MPI_Comm_dup(comm, &made));
    OK(MPI_Comm_set_attr(made, keyval, &value));
    OK(MPI_Comm_free(&made));
    EXPECT_EQ(got, (rank + size - 1) % size + 100 * round);
  }
  OK(MPI_Comm_free_keyval(&keyval));
}
