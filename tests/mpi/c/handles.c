// Requests and messages that pass through Fortran integers on their way to completion.
#include "check.h"

// The standard ABI's header has the int forms of MPI-5 only, Open MPI's the Fortran forms only, the others both.
#if MPI_VERSION >= 5 || defined(MPICH_NUMVERSION)
#define HAVE_TOINT 1
#else
#define HAVE_TOINT 0
#endif
#ifdef MPI_ABI_VERSION
#define HAVE_FINT 0
#else
#define HAVE_FINT 1
#endif

typedef MPI_Request Through(MPI_Request);
typedef MPI_Message ThroughMessage(MPI_Message);

#if HAVE_FINT
static MPI_Request by_fortran(MPI_Request request) { return MPI_Request_f2c(MPI_Request_c2f(request)); }
static MPI_Message message_by_fortran(MPI_Message message) { return MPI_Message_f2c(MPI_Message_c2f(message)); }
#endif
#if HAVE_TOINT
static MPI_Request by_int(MPI_Request request) { return MPI_Request_fromint(MPI_Request_toint(request)); }
static MPI_Message message_by_int(MPI_Message message) { return MPI_Message_fromint(MPI_Message_toint(message)); }
#endif

static void requests(MPI_Comm comm, int rank, int size, Through* through) {
  int left = (rank + size - 1) % size, right = (rank + 1) % size, in[3] = {-1, -1, -1}, flag = 0;
  MPI_Status status = check_blank_status();
  EXPECT(through(MPI_REQUEST_NULL) == MPI_REQUEST_NULL, "the null request changes");
  // Wait
  MPI_Request receive, send;
  OK(MPI_Irecv(&in[0], 1, MPI_INT, left, 1, comm, &receive));
  OK(MPI_Isend(&rank, 1, MPI_INT, right, 1, comm, &send));
  MPI_Request again = through(receive);
  EXPECT(again == receive, "the handle comes back as another");
  OK(MPI_Wait(&again, &status));
  EXPECT(again == MPI_REQUEST_NULL, "not null after Wait");
  EXPECT_STATUS(&status, left, 1, MPI_INT, 1);
  again = through(send);
  while (!flag) OK(MPI_Test(&again, &flag, MPI_STATUS_IGNORE));
  EXPECT_EQ(in[0], left);
  // lists, with a host request among them
  MPI_Request list[4];
  OK(MPI_Irecv(&in[1], 1, MPI_INT, left, 2, comm, &list[0]));
  OK(MPI_Ibarrier(comm, &list[1]));
  OK(MPI_Isend(&rank, 1, MPI_INT, right, 2, comm, &list[2]));
  list[3] = MPI_REQUEST_NULL;
  for (int i = 0; i < 4; ++i) list[i] = through(list[i]);
  OK(MPI_Waitall(4, list, MPI_STATUSES_IGNORE));
  EXPECT_EQ(in[1], left);
  // persistent, started and freed through the copy
  MPI_Request persistent;
  OK(MPI_Recv_init(&in[2], 1, MPI_INT, left, 3, comm, &persistent));
  for (int round = 0; round < 3; ++round) {
    in[2] = -1;
    again = through(persistent);
    OK(MPI_Start(&again));
    OK(MPI_Send(&rank, 1, MPI_INT, right, 3, comm));
    again = through(again);
    OK(MPI_Wait(&again, MPI_STATUS_IGNORE));
    EXPECT(again == persistent, "a persistent handle changed");
    EXPECT_EQ(in[2], left);
  }
  again = through(persistent);
  OK(MPI_Request_free(&again));
  // cancel
  OK(MPI_Irecv(&in[2], 1, MPI_INT, left, 999, comm, &receive));
  again = through(receive);
  OK(MPI_Cancel(&again));
  OK(MPI_Wait(&again, &status));
  OK(MPI_Test_cancelled(&status, &flag));
  EXPECT_EQ(flag, 1);
}

static void many(MPI_Comm comm, int rank, int size, Through* through) {
  enum { kMany = 300 };
  int left = (rank + size - 1) % size, right = (rank + 1) % size, in[kMany];
  MPI_Request list[kMany], sends[kMany];
  for (int i = 0; i < kMany; ++i) {
    OK(MPI_Irecv(&in[i], 1, MPI_INT, left, i, comm, &list[i]));
    list[i] = through(list[i]);
  }
  for (int i = 0; i < kMany; ++i) OK(MPI_Isend(&rank, 1, MPI_INT, right, i, comm, &sends[i]));
  for (int i = 0; i < kMany; ++i) sends[i] = through(sends[i]);
  OK(MPI_Waitall(kMany, list, MPI_STATUSES_IGNORE));
  OK(MPI_Waitall(kMany, sends, MPI_STATUSES_IGNORE));
  for (int i = 0; i < kMany; ++i) EXPECT_EQ(in[i], left);
}

static void messages(MPI_Comm comm, int rank, int size, ThroughMessage* through) {
  int left = (rank + size - 1) % size, right = (rank + 1) % size;
  EXPECT(through(MPI_MESSAGE_NULL) == MPI_MESSAGE_NULL, "the null message changes");
  EXPECT(through(MPI_MESSAGE_NO_PROC) == MPI_MESSAGE_NO_PROC, "the no-process message changes");
  for (int len_bytes = 4; len_bytes < 300000; len_bytes *= 60) {
    unsigned char *out = check_buffer((size_t)len_bytes), *in = check_buffer((size_t)len_bytes);
    check_fill(out, (size_t)len_bytes, check_key(rank, len_bytes, 0, 0));
    MPI_Request send, receive;
    MPI_Message message;
    for (int kind = 0; kind < 2; ++kind) {
      OK(MPI_Isend(out, len_bytes, MPI_BYTE, right, 1, comm, &send));
      OK(MPI_Mprobe(left, 1, comm, &message, MPI_STATUS_IGNORE));
      message = through(message);
      if (kind == 0) {
        OK(MPI_Mrecv(in, len_bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE));
      } else {
        OK(MPI_Imrecv(in, len_bytes, MPI_BYTE, &message, &receive));
        OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
      }
      EXPECT_FILL(in, (size_t)len_bytes, check_key(left, len_bytes, 0, 0));
      memset(in, 0, (size_t)len_bytes);
      OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    }
  }
}

#if HAVE_FINT
CASE(handles, requests_by_fortran) { requests(comm, rank, size, by_fortran); }
CASE(handles, many_requests_by_fortran) { many(comm, rank, size, by_fortran); }
CASE(handles, messages_by_fortran) { messages(comm, rank, size, message_by_fortran); }
#else
CASE(handles, by_fortran) { SKIP("the host's header has no MPI_Request_c2f"); }
#endif
#if HAVE_TOINT
CASE(handles, requests_by_int) { requests(comm, rank, size, by_int); }
CASE(handles, many_requests_by_int) { many(comm, rank, size, by_int); }
CASE(handles, messages_by_int) { messages(comm, rank, size, message_by_int); }
#else
CASE(handles, by_int) { SKIP("the host's header has no MPI_Request_toint"); }
#endif
