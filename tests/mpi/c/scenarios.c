// Ends of a job that no other case could follow: each has a launch of its own (mpi_semantics --scenario NAME).
#include "check.h"

#include <signal.h>
#include <unistd.h>

enum { kBytes = 2000000 };

static int receive_late(int rank) {
  unsigned char* in = malloc(kBytes);
  check_stay_away_ms(300);  // the peer is in MPI_Finalize by now
  MPI_Status status;
  int count = 0;
  MPI_Recv(in, kBytes, MPI_BYTE, rank ^ 1, 1, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, MPI_BYTE, &count);
  bool good = count > 0 && check_is(in, (size_t)count, 5, __FILE__, __LINE__);
  printf(
      good ? "ok rank %d received %d bytes from a rank in MPI_Finalize\n" : "FAIL rank %d: wrong content, %d bytes\n",
      rank, count);
  free(in);
  MPI_Finalize();
  return good ? 0 : 1;
}

// A small message, sent by a blocking standard send.
SCENARIO(finalize_after_send) {
  if (rank % 2) return receive_late(rank);
  unsigned char out[64];
  check_fill(out, sizeof out, 5);
  if ((rank ^ 1) < size) MPI_Send(out, sizeof out, MPI_BYTE, rank ^ 1, 1, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}

// A large one whose request was freed: MPI_Finalize completes it.
SCENARIO(finalize_with_freed_isend) {
  if (rank % 2) return receive_late(rank);
  unsigned char* out = malloc(kBytes);
  check_fill(out, kBytes, 5);
  if ((rank ^ 1) < size) {
    MPI_Request request;
    MPI_Isend(out, kBytes, MPI_BYTE, rank ^ 1, 1, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
  }
  MPI_Finalize();
  return 0;
}

// A large buffered one whose buffer is still attached.
SCENARIO(finalize_with_bsend) {
  if (rank % 2) return receive_late(rank);
  unsigned char* out = malloc(kBytes);
  void* attached = malloc(kBytes + MPI_BSEND_OVERHEAD);
  check_fill(out, kBytes, 5);
  MPI_Buffer_attach(attached, kBytes + MPI_BSEND_OVERHEAD);
  if ((rank ^ 1) < size) MPI_Bsend(out, kBytes, MPI_BYTE, rank ^ 1, 1, MPI_COMM_WORLD);
  memset(out, 0, kBytes);
  MPI_Finalize();
  return 0;
}

// Communicators, types, persistent requests and open receives that nobody freed.
SCENARIO(finalize_untidy) {
  MPI_Comm made;
  MPI_Request requests[3];
  MPI_Datatype type;
  int value = rank;
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  MPI_Type_vector(10, 1, 2, MPI_INT, &type);
  MPI_Type_commit(&type);
  MPI_Send_init(&value, 1, MPI_INT, 0, 1, made, &requests[0]);
  MPI_Recv_init(&value, 1, MPI_INT, 0, 1, made, &requests[1]);
  MPI_Barrier(made);
  MPI_Finalize();
  if (rank == 0) printf("ok %d ranks left their objects to MPI_Finalize\n", size);
  return 0;
}

// The first operation of a process is a receive that is cancelled: what the library keeps of it must not show in a
// send.
SCENARIO(send_after_a_cancelled_receive) {
  MPI_Request request;
  MPI_Status status = check_blank_status();
  int cancelled = 0, in = -1, right = (rank + 1) % size, left = (rank + size - 1) % size;
  MPI_Irecv(&in, 1, MPI_INT, left, 6, MPI_COMM_WORLD, &request);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &cancelled);
  if (!cancelled) printf("rank %d: not cancelled\n", rank);
  status = check_blank_status();
  MPI_Isend(&rank, 1, MPI_INT, right, 7, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &cancelled);
  MPI_Recv(&in, 1, MPI_INT, left, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (!cancelled && in == left) printf("ok rank %d sent after a cancelled receive\n", rank);
  MPI_Finalize();
  return 0;
}

// MPI_Finalize first calls the callbacks of MPI_COMM_SELF's attributes, in which all of MPI still works (11.2.4).
static int exchange_at_end(MPI_Comm self, int keyval, void* value, void* extra) {
  (void)self, (void)keyval, (void)value, (void)extra;
  enum { kInts = 100000 };
  static int out[kInts], in[kInts];
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  out[0] = out[kInts - 1] = rank;
  int from = (rank + size - 1) % size;
  for (int i = 1; rank == 0 && i < size; ++i) MPI_Send(out, kInts, MPI_INT, i, 5, MPI_COMM_WORLD);
  MPI_Request request;
  MPI_Irecv(in, kInts, MPI_INT, from, 4, MPI_COMM_WORLD, &request);
  if (rank == 0) check_stay_away_ms(20);  // the others are in the call by then
  MPI_Send(out, kInts, MPI_INT, (rank + 1) % size, 4, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (in[0] == from && in[kInts - 1] == from) printf("ok rank %d received in MPI_Finalize\n", rank);
  fflush(stdout);
  return MPI_SUCCESS;
}
// Rank 0 calls MPI_Finalize first; the others wait for what its callback sends.
SCENARIO(messages_in_a_callback_of_finalize) {
  int keyval;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, exchange_at_end, &keyval, NULL);
  MPI_Comm_set_attr(MPI_COMM_SELF, keyval, &keyval);
  static int last_words[100000];
  if (rank != 0) MPI_Recv(last_words, 100000, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Finalize();
  return 0;
}

static MPI_Comm left_open;

static void finalize_late(void) {
  int rank = 0, size = 1, out = 0, in = -1;
  MPI_Comm_rank(left_open, &rank);
  MPI_Comm_size(left_open, &size);
  out = rank;
  MPI_Sendrecv(&out, 1, MPI_INT, (rank + 1) % size, 1, &in, 1, MPI_INT, (rank + size - 1) % size, 1, left_open,
               MPI_STATUS_IGNORE);
  if (in == (rank + size - 1) % size) printf("ok rank %d sent and received in an exit handler\n", rank);
  fflush(stdout);
  MPI_Finalize();
}

// What a C++ program with a global MPI environment does. The handler is older than the MPI library's own, so it runs
// last. A communicator was freed before while a wildcard receive on it was open.
SCENARIO(finalize_in_exit_handler) {
  atexit(finalize_late);
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm freed;
  MPI_Request open[2];
  int out = rank, in = -1;
  MPI_Comm_dup(MPI_COMM_WORLD, &left_open);
  MPI_Comm_dup(MPI_COMM_WORLD, &freed);
  MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 1, freed, &open[0]);
  MPI_Isend(&out, 1, MPI_INT, (rank + 1) % size, 1, freed, &open[1]);
  MPI_Comm_free(&freed);
  MPI_Waitall(2, open, MPI_STATUSES_IGNORE);
  return in == (rank + size - 1) % size ? 0 : 1;
}

// One rank aborts while the others wait for it: the launcher's exit code is 42.
SCENARIO(abort) {
  int value = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == size - 1) {
    check_stay_away_ms(100);
    MPI_Abort(MPI_COMM_WORLD, 42);
  }
  MPI_Recv(&value, 1, MPI_INT, size - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return 0;
}

// The default handler ends the job when a message is truncated.
SCENARIO(fatal_truncation) {
  int out[1000] = {0}, in;
  MPI_Request request;
  MPI_Isend(out, 1000, MPI_INT, rank, 1, MPI_COMM_WORLD, &request);
  MPI_Recv(&in, 1, MPI_INT, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  printf("FAIL rank %d of %d goes on after a fatal error\n", rank, size);
  return 0;
}

// Endless transfers of all kinds, for crash_program.py, which kills one rank. Prints each rank's process id first.
SCENARIO(endless) {
  int left = (rank + size - 1) % size, right = (rank + 1) % size;
  unsigned char *out = malloc(kBytes), *in = malloc(kBytes);
  signal(SIGALRM, SIG_DFL);
  printf("pid %d %ld\n", rank, (long)getpid());
  fflush(stdout);
  MPI_Barrier(MPI_COMM_WORLD);
  for (long round = 0;; ++round) {
    int len_bytes = round % 3 == 0 ? kBytes : round % 3 == 1 ? 60000 : 8;
    MPI_Request requests[2];
    MPI_Irecv(in, kBytes, MPI_BYTE, round % 5 ? left : MPI_ANY_SOURCE, (int)(round % 100), MPI_COMM_WORLD,
              &requests[0]);
    MPI_Isend(out, len_bytes, MPI_BYTE, right, (int)(round % 100), MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (round == 20 && rank == 0) {
      printf("running\n");
      fflush(stdout);
    }
  }
  return size;
}

// Everybody waits for a message of rank 0, which never comes.
SCENARIO(endless_wait) {
  int value;
  signal(SIGALRM, SIG_DFL);
  printf("pid %d %ld\n", rank, (long)getpid());
  fflush(stdout);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("running\n");
  fflush(stdout);
  if (rank == 0) {
    for (;;) pause();
  }
  MPI_Recv(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return size;
}

#if HAVE_MPI4_CORE
// A program that never calls MPI_Init: sessions alone.
SCENARIO(session_without_init) {
  MPI_Session session;
  MPI_Group group;
  MPI_Comm made;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, "zerohop.test", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &made);
  MPI_Comm_rank(made, &rank);
  MPI_Comm_size(made, &size);
  int left = (rank + size - 1) % size, right = (rank + 1) % size, in = -1;
  MPI_Sendrecv(&rank, 1, MPI_INT, right, 1, &in, 1, MPI_INT, left, 1, made, MPI_STATUS_IGNORE);
  if (rank == 0) printf(in == left ? "ok %d ranks, sessions alone\n" : "FAIL wrong content, %d ranks\n", size);
  MPI_Comm_free(&made);
  MPI_Group_free(&group);
  MPI_Session_finalize(&session);
  return in == left ? 0 : 1;
}
#endif

// A program linked with MPI that never uses it.
SCENARIO(without_init) {
  (void)rank, (void)size;
  printf("ok nothing happened\n");
  return 0;
}
