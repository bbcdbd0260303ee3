// Wrong arguments: the host's error class, through the handler of the communicator that the call names.
#include "check.h"

static int calls, seen_class;
static MPI_Comm seen_comm;
static void on_error(MPI_Comm* comm, int* code, ...) {
  ++calls;
  seen_class = check_class(*code);
  seen_comm = *comm;
}
static int world_calls;
static void on_world_error(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  (void)code;
  ++world_calls;
}

struct Handlers {
  MPI_Comm comm;
  MPI_Errhandler user, world, old_world;
};

static void open_handlers(struct Handlers* h, MPI_Comm comm) {
  OK(MPI_Comm_dup(comm, &h->comm));
  OK(MPI_Comm_create_errhandler(on_error, &h->user));
  OK(MPI_Comm_create_errhandler(on_world_error, &h->world));
  OK(MPI_Comm_set_errhandler(h->comm, h->user));
  OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &h->old_world));
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, h->world));
  calls = world_calls = 0;
}

static void close_handlers(struct Handlers* h) {
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, h->old_world));
  OK(MPI_Errhandler_free(&h->old_world));
  OK(MPI_Errhandler_free(&h->user));
  OK(MPI_Errhandler_free(&h->world));
  OK(MPI_Comm_free(&h->comm));
}

// The communicator's own handler has been called once with the class, nobody else's. What the call returns after a
// handler that returns is the host's choice: MPICH says MPI_SUCCESS, the others the class.
static void expect_handled(int code, const char* call, int expected, MPI_Comm comm, int line) {
  int returned = check_class(code);
  if (returned != MPI_SUCCESS && returned != expected) check_expect_class(code, call, expected, __FILE__, line);
  if (calls != 1) {
    check_fail(__FILE__, line, "%s: the handler was called %d times", call, calls);
  } else if (seen_class != expected) {
    check_fail(__FILE__, line, "%s: the handler saw %s, expected %s", call, check_class_name(seen_class),
               check_class_name(expected));
  } else if (seen_comm != comm) {
    check_fail(__FILE__, line, "%s: the handler saw another communicator", call);
  }
  if (world_calls) check_fail(__FILE__, line, "%s: the world's handler was called", call);
}
#define EXPECT_HANDLED(call, expected) \
  (check_at(__FILE__, __LINE__), calls = world_calls = 0, expect_handled(call, #call, expected, h.comm, __LINE__))

// What the calls of a case need; its handlers go with the case.
#define OPEN                                                  \
  struct Handlers h __attribute__((cleanup(close_handlers))); \
  open_handlers(&h, comm);                                    \
  int value = 0, flag = 0;                                    \
  MPI_Request request = MPI_REQUEST_NULL;                     \
  MPI_Status status;                                          \
  MPI_Message message = MPI_MESSAGE_NULL;                     \
  (void)value, (void)flag, (void)request, (void)status, (void)message

CASE(errors, rank_of_sends) {
  OPEN;
  const int bad[] = {size, size + 1000, -100};
  for (int i = 0; i < 3; ++i) {
    EXPECT_HANDLED(MPI_Send(&value, 1, MPI_INT, bad[i], 1, h.comm), MPI_ERR_RANK);
    EXPECT_HANDLED(MPI_Ssend(&value, 1, MPI_INT, bad[i], 1, h.comm), MPI_ERR_RANK);
    EXPECT_HANDLED(MPI_Rsend(&value, 1, MPI_INT, bad[i], 1, h.comm), MPI_ERR_RANK);
    EXPECT_HANDLED(MPI_Bsend(&value, 1, MPI_INT, bad[i], 1, h.comm), MPI_ERR_RANK);
    EXPECT_HANDLED(MPI_Isend(&value, 1, MPI_INT, bad[i], 1, h.comm, &request), MPI_ERR_RANK);
    EXPECT_HANDLED(MPI_Issend(&value, 1, MPI_INT, bad[i], 1, h.comm, &request), MPI_ERR_RANK);
    EXPECT_HANDLED(MPI_Ibsend(&value, 1, MPI_INT, bad[i], 1, h.comm, &request), MPI_ERR_RANK);
    EXPECT_HANDLED(MPI_Irsend(&value, 1, MPI_INT, bad[i], 1, h.comm, &request), MPI_ERR_RANK);
    EXPECT_HANDLED(MPI_Send_init(&value, 1, MPI_INT, bad[i], 1, h.comm, &request), MPI_ERR_RANK);
  }
  EXPECT_HANDLED(MPI_Send(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, h.comm), MPI_ERR_RANK);
}

CASE(errors, rank_of_receives) {
  OPEN;
  int bad[] = {size, size + 1000, -100};
  for (int i = 0; i < 3; ++i) {
    EXPECT_HANDLED(MPI_Recv(&value, 1, MPI_INT, bad[i], 1, h.comm, &status), MPI_ERR_RANK);
    EXPECT_HANDLED(MPI_Irecv(&value, 1, MPI_INT, bad[i], 1, h.comm, &request), MPI_ERR_RANK);
    EXPECT_HANDLED(MPI_Recv_init(&value, 1, MPI_INT, bad[i], 1, h.comm, &request), MPI_ERR_RANK);
    EXPECT_HANDLED(MPI_Probe(bad[i], 1, h.comm, &status), MPI_ERR_RANK);
    EXPECT_HANDLED(MPI_Iprobe(bad[i], 1, h.comm, &flag, &status), MPI_ERR_RANK);
    EXPECT_HANDLED(MPI_Mprobe(bad[i], 1, h.comm, &message, &status), MPI_ERR_RANK);
    EXPECT_HANDLED(MPI_Improbe(bad[i], 1, h.comm, &flag, &message, &status), MPI_ERR_RANK);
    EXPECT_HANDLED(MPI_Sendrecv(&value, 1, MPI_INT, rank, 1, &flag, 1, MPI_INT, bad[i], 1, h.comm, &status),
                   MPI_ERR_RANK);
    EXPECT_HANDLED(MPI_Sendrecv_replace(&value, 1, MPI_INT, bad[i], 1, rank, 1, h.comm, &status), MPI_ERR_RANK);
  }
}

CASE(errors, tag) {
  OPEN;
  int* bound = NULL;
  OK(MPI_Comm_get_attr(h.comm, MPI_TAG_UB, &bound, &flag));
  int bad[] = {-5, -1000, flag && *bound < INT_MAX ? *bound + 1 : -77};
  for (int i = 0; i < 3; ++i) {
    EXPECT_HANDLED(MPI_Send(&value, 1, MPI_INT, rank, bad[i], h.comm), MPI_ERR_TAG);
    EXPECT_HANDLED(MPI_Isend(&value, 1, MPI_INT, rank, bad[i], h.comm, &request), MPI_ERR_TAG);
    EXPECT_HANDLED(MPI_Send_init(&value, 1, MPI_INT, rank, bad[i], h.comm, &request), MPI_ERR_TAG);
    EXPECT_HANDLED(MPI_Recv(&value, 1, MPI_INT, rank, bad[i], h.comm, &status), MPI_ERR_TAG);
    EXPECT_HANDLED(MPI_Irecv(&value, 1, MPI_INT, rank, bad[i], h.comm, &request), MPI_ERR_TAG);
    EXPECT_HANDLED(MPI_Probe(rank, bad[i], h.comm, &status), MPI_ERR_TAG);
    EXPECT_HANDLED(MPI_Sendrecv(&value, 1, MPI_INT, rank, bad[i], &flag, 1, MPI_INT, rank, 1, h.comm, &status),
                   MPI_ERR_TAG);
  }
  EXPECT_HANDLED(MPI_Send(&value, 1, MPI_INT, rank, MPI_ANY_TAG, h.comm), MPI_ERR_TAG);
}

CASE(errors, count) {
  OPEN;
  EXPECT_HANDLED(MPI_Send(&value, -1, MPI_INT, rank, 1, h.comm), MPI_ERR_COUNT);
  EXPECT_HANDLED(MPI_Isend(&value, -1, MPI_INT, rank, 1, h.comm, &request), MPI_ERR_COUNT);
  EXPECT_HANDLED(MPI_Recv(&value, -1, MPI_INT, rank, 1, h.comm, &status), MPI_ERR_COUNT);
  EXPECT_HANDLED(MPI_Irecv(&value, -1, MPI_INT, rank, 1, h.comm, &request), MPI_ERR_COUNT);
  EXPECT_HANDLED(MPI_Recv_init(&value, -1, MPI_INT, rank, 1, h.comm, &request), MPI_ERR_COUNT);
  EXPECT_HANDLED(MPI_Sendrecv(&value, -1, MPI_INT, rank, 1, &flag, 1, MPI_INT, rank, 1, h.comm, &status),
                 MPI_ERR_COUNT);
}

CASE(errors, datatype) {
  OPEN;
  EXPECT_HANDLED(MPI_Send(&value, 1, MPI_DATATYPE_NULL, rank, 1, h.comm), MPI_ERR_TYPE);
  EXPECT_HANDLED(MPI_Isend(&value, 1, MPI_DATATYPE_NULL, rank, 1, h.comm, &request), MPI_ERR_TYPE);
  EXPECT_HANDLED(MPI_Recv(&value, 1, MPI_DATATYPE_NULL, rank, 1, h.comm, &status), MPI_ERR_TYPE);
  EXPECT_HANDLED(MPI_Irecv(&value, 1, MPI_DATATYPE_NULL, rank, 1, h.comm, &request), MPI_ERR_TYPE);
}

CASE(errors, uncommitted_datatype) {
  OPEN;
  MPI_Datatype type;
  OK(MPI_Type_contiguous(1, MPI_INT, &type));
  EXPECT_HANDLED(MPI_Send(&value, 1, type, rank, 1, h.comm), MPI_ERR_TYPE);
  EXPECT_HANDLED(MPI_Irecv(&value, 1, type, rank, 1, h.comm, &request), MPI_ERR_TYPE);
  OK(MPI_Type_free(&type));
}

// A null communicator has no handler of its own: the world's (MPI-3.1) or that of self (MPI-4) is called.
CASE(errors, null_communicator) {
  int value = 0;
  MPI_Request request;
  EXPECT_CLASS(MPI_Send(&value, 1, MPI_INT, 0, 1, MPI_COMM_NULL), MPI_ERR_COMM);
  EXPECT_CLASS(MPI_Isend(&value, 1, MPI_INT, 0, 1, MPI_COMM_NULL, &request), MPI_ERR_COMM);
  EXPECT_CLASS(MPI_Recv(&value, 1, MPI_INT, 0, 1, MPI_COMM_NULL, MPI_STATUS_IGNORE), MPI_ERR_COMM);
  EXPECT_CLASS(MPI_Irecv(&value, 1, MPI_INT, 0, 1, MPI_COMM_NULL, &request), MPI_ERR_COMM);
  MPI_Comm none;
  EXPECT_CLASS(MPI_Comm_dup(MPI_COMM_NULL, &none), MPI_ERR_COMM);
  none = MPI_COMM_NULL;
  EXPECT_CLASS(MPI_Comm_free(&none), MPI_ERR_COMM);
}

CASE(errors, null_communicator_iprobe) {
  int flag;
  EXPECT_CLASS(MPI_Iprobe(0, 1, MPI_COMM_NULL, &flag, MPI_STATUS_IGNORE), MPI_ERR_COMM);
}

CASE(errors, freed_communicator) {
#ifdef OMPI_MAJOR_VERSION
  SKIP("a freed communicator is a dangling pointer there, nothing promises a class");
#elif defined(MPI_ABI_VERSION)
  SKIP("a freed communicator is a dangling pointer in this ABI, nothing promises a class");
#else
  int value = 0;
  MPI_Comm own;
  MPI_Request request;
  OK(MPI_Comm_dup(comm, &own));
  MPI_Comm stale = own;
  OK(MPI_Comm_free(&own));
  EXPECT_CLASS(MPI_Send(&value, 1, MPI_INT, rank, 1, stale), MPI_ERR_COMM);
  EXPECT_CLASS(MPI_Isend(&value, 1, MPI_INT, rank, 1, stale, &request), MPI_ERR_COMM);
  EXPECT_CLASS(MPI_Irecv(&value, 1, MPI_INT, rank, 1, stale, &request), MPI_ERR_COMM);
#endif
}

CASE(errors, null_buffer) {
  OPEN;
  EXPECT_HANDLED(MPI_Send(NULL, 10, MPI_INT, rank, 1, h.comm), MPI_ERR_BUFFER);
  EXPECT_HANDLED(MPI_Irecv(NULL, 10, MPI_INT, rank, 1, h.comm, &request), MPI_ERR_BUFFER);
  // A null buffer with a zero count is no error.
  OK(MPI_Sendrecv(NULL, 0, MPI_INT, rank, 1, NULL, 0, MPI_INT, rank, 1, h.comm, MPI_STATUS_IGNORE));
  EXPECT_EQ(calls, 1);
}

CASE(errors, request_null_where_not_allowed) {
  MPI_Request request = MPI_REQUEST_NULL;
  EXPECT_CLASS(MPI_Cancel(&request), MPI_ERR_REQUEST);
  EXPECT_CLASS(MPI_Start(&request), MPI_ERR_REQUEST);
}

// After an error everything goes on: the communicator is usable, and no message was made.
CASE(errors, communicator_survives) {
  OPEN;
  int in = -1;
  for (int i = 0; i < 100; ++i) {
    MPI_Send(&value, 1, MPI_INT, size + i, 1, h.comm);
    MPI_Irecv(&value, 1, MPI_INT, -100 - i, 1, h.comm, &request);
  }
  EXPECT_EQ(calls, 200);
  OK(MPI_Sendrecv(&rank, 1, MPI_INT, right, 1, &in, 1, MPI_INT, left, 1, h.comm, MPI_STATUS_IGNORE));
  EXPECT_EQ(in, left);
}

CASE(errors, handler_is_inherited_and_replaceable) {
  OPEN;
  MPI_Comm child;
  OK(MPI_Comm_dup(h.comm, &child));
  calls = world_calls = 0;
  expect_handled(MPI_Send(&value, 1, MPI_INT, size, 1, child), "MPI_Send on the child", MPI_ERR_RANK, child, __LINE__);
  OK(MPI_Comm_set_errhandler(child, MPI_ERRORS_RETURN));
  EXPECT_CLASS(MPI_Send(&value, 1, MPI_INT, size, 1, child), MPI_ERR_RANK);
  EXPECT_EQ(calls, 1);
  EXPECT_HANDLED(MPI_Send(&value, 1, MPI_INT, size, 1, h.comm), MPI_ERR_RANK);
  OK(MPI_Comm_free(&child));
}
