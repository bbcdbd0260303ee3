// What the program throws out of a function that MPI calls is caught by the program, and MPI goes on: error handlers of
// every kind, attributes, operations and generalized requests, from calls that zerohop serves and from calls that it
// passes on. The language of this file is C++ because that of its subject is.
#define MPICH_SKIP_MPICXX 1  // the headers' own C++, which nobody uses
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <csetjmp>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" {
#include "../c/check.h"
}

namespace {

struct Thrown : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void throw_of_comm(MPI_Comm*, int*, ...) { throw Thrown("communicator"); }
void throw_of_win(MPI_Win*, int*, ...) { throw Thrown("window"); }
void throw_of_file(MPI_File*, int*, ...) { throw Thrown("file"); }
int throw_of_copy(MPI_Comm, int, void*, void*, void*, int*) { throw Thrown("copy"); }
int throw_of_delete(MPI_Comm, int, void*, void*) { throw Thrown("delete"); }
void throw_of_op(void*, void*, int*, MPI_Datatype*) { throw Thrown("operation"); }
int throw_of_query(void*, MPI_Status*) { throw Thrown("query"); }
int throw_of_cancel(void*, int) { throw Thrown("cancel"); }
int no_query(void*, MPI_Status* status) {
  MPI_Status_set_elements(status, MPI_INT, 0);
  MPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = status->MPI_TAG = 0;
  return MPI_SUCCESS;
}
int no_free(void*) { return MPI_SUCCESS; }
int no_cancel(void*, int) { return MPI_SUCCESS; }

jmp_buf out_of_mpi;
void jump_of_comm(MPI_Comm*, int*, ...) { longjmp(out_of_mpi, 1); }

template <typename Call>
void expect_thrown(const char* what, int line, Call&& call) {
  check_at(__FILE__, line);
  try {
    const int code = call();
    check_fail(__FILE__, line, "nothing came out, the call returned %d", code);
  } catch (const Thrown& thrown) {
    if (std::string(thrown.what()) != what) check_fail(__FILE__, line, "%s came out, not %s", thrown.what(), what);
  }
}
#define EXPECT_THROWN(what, ...) expect_thrown(what, __LINE__, [&] { return __VA_ARGS__; })

/// All goes on: messages of every way to both neighbours, and collectives.
void exchange(MPI_Comm comm, int rank, int size) {
  const int next = (rank + 1) % size;
  const int last = (rank + size - 1) % size;
  for (const size_t bytes : {size_t{8}, size_t{20000}, size_t{300000}}) {
    auto* const out = static_cast<char*>(check_buffer(bytes));
    auto* const in = static_cast<char*>(check_buffer(bytes));
    check_fill(out, bytes, check_key(rank, 1, static_cast<int>(bytes), 0));
    const int n = static_cast<int>(bytes);
    OK(MPI_Sendrecv(out, n, MPI_BYTE, next, 1, in, n, MPI_BYTE, last, 1, comm, MPI_STATUS_IGNORE));
    EXPECT_FILL(in, bytes, check_key(last, 1, static_cast<int>(bytes), 0));
  }
  int sum = rank;
  OK(MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, comm));
  EXPECT_EQ(sum, size * (size - 1) / 2);
  OK(MPI_Barrier(comm));
}

class Handled {
 public:
  Handled(MPI_Comm comm, MPI_Comm_errhandler_function* function) {
    OK(MPI_Comm_dup(comm, &comm_));
    OK(MPI_Comm_create_errhandler(function, &handler_));
    OK(MPI_Comm_set_errhandler(comm_, handler_));
  }
  ~Handled() {
    OK(MPI_Errhandler_free(&handler_));
    OK(MPI_Comm_free(&comm_));
  }
  operator MPI_Comm() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Errhandler handler_ = MPI_ERRHANDLER_NULL;
};

}  // namespace

CASE(unwind, error_handler_of_messages) {
  {
    const Handled own(comm, &throw_of_comm);
    int value = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    for (int i = 0; i < 3; ++i) {
      EXPECT_THROWN("communicator", MPI_Send(&value, 1, MPI_INT, size + 70, 0, own));
      EXPECT_THROWN("communicator", MPI_Recv(&value, 1, MPI_INT, size + 70, 0, own, MPI_STATUS_IGNORE));
      EXPECT_THROWN("communicator", MPI_Isend(&value, 1, MPI_INT, size + 70, 0, own, &request));
      EXPECT_THROWN("communicator", MPI_Irecv(&value, -1, MPI_INT, 0, 0, own, &request));
      EXPECT_THROWN("communicator", MPI_Probe(size + 70, 0, own, MPI_STATUS_IGNORE));
      EXPECT_THROWN("communicator",
                    MPI_Sendrecv(&value, 1, MPI_INT, size + 70, 0, &value, 1, MPI_INT, 0, 0, own, MPI_STATUS_IGNORE));
    }
    exchange(own, rank, size);
  }
  exchange(comm, rank, size);
}

// The error of a message too long is zerohop's own to raise, from a receive and from the completion of a request.
CASE(unwind, error_handler_of_truncated_messages) {
  NEED_RANKS(2);
  const Handled own(comm, &throw_of_comm);
  const int peer = rank ^ 1;
  if (peer < size) {
    for (const int n : {8, 2000, 50000, 400000}) {
      std::vector<char> out(static_cast<size_t>(n));
      std::vector<char> in(static_cast<size_t>(n));
      MPI_Request sent = MPI_REQUEST_NULL;
      OK(MPI_Isend(out.data(), n, MPI_BYTE, peer, 0, own, &sent));
      EXPECT_THROWN("communicator", MPI_Recv(in.data(), n / 2, MPI_BYTE, peer, 0, own, MPI_STATUS_IGNORE));
      OK(MPI_Wait(&sent, MPI_STATUS_IGNORE));
      MPI_Request received = MPI_REQUEST_NULL;
      OK(MPI_Irecv(in.data(), n / 2, MPI_BYTE, peer, 0, own, &received));
      OK(MPI_Send(out.data(), n, MPI_BYTE, peer, 0, own));
      EXPECT_THROWN("communicator", MPI_Wait(&received, MPI_STATUS_IGNORE));
    }
  }
  exchange(own, rank, size);
}

CASE(unwind, error_handler_of_collectives) {
  {
    const Handled own(comm, &throw_of_comm);
    int value = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    EXPECT_THROWN("communicator", MPI_Bcast(&value, -1, MPI_INT, 0, own));
    EXPECT_THROWN("communicator", MPI_Bcast(&value, 1, MPI_INT, size + 70, own));
    EXPECT_THROWN("communicator", MPI_Allreduce(&value, &value, -1, MPI_INT, MPI_SUM, own));
    EXPECT_THROWN("communicator", MPI_Ibcast(&value, -1, MPI_INT, 0, own, &request));
    exchange(own, rank, size);
  }
  exchange(comm, rank, size);
}

CASE(unwind, longjmp_out_of_an_error_handler) {
  const Handled own(comm, &jump_of_comm);
  static volatile int jumps;
  jumps = 0;
  while (jumps < 3) {
    if (setjmp(out_of_mpi) == 0) {
      int value = 0;
      if (jumps == 0) MPI_Send(&value, 1, MPI_INT, size + 70, 0, own);
      if (jumps == 1) MPI_Bcast(&value, -1, MPI_INT, 0, own);
      if (jumps == 2) MPI_Irecv(&value, -1, MPI_INT, 0, 0, own, nullptr);
      check_fail(__FILE__, __LINE__, "call %d came back", jumps);
    }
    ++jumps;
  }
  exchange(own, rank, size);
}

CASE(unwind, attributes) {
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm own = MPI_COMM_NULL;
  OK(MPI_Comm_dup(comm, &own));
  OK(MPI_Comm_create_keyval(&throw_of_copy, MPI_COMM_NULL_DELETE_FN, &key, nullptr));
  OK(MPI_Comm_set_attr(own, key, &key));
  MPI_Comm copy = MPI_COMM_NULL;
  EXPECT_THROWN("copy", MPI_Comm_dup(own, &copy));
  exchange(own, rank, size);
  OK(MPI_Comm_delete_attr(own, key));
  OK(MPI_Comm_free_keyval(&key));
  OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &throw_of_delete, &key, nullptr));
  OK(MPI_Comm_set_attr(own, key, &key));
  EXPECT_THROWN("delete", MPI_Comm_delete_attr(own, key));
  exchange(own, rank, size);
  exchange(comm, rank, size);
}

CASE(unwind, operation) {
  MPI_Op op = MPI_OP_NULL;
  OK(MPI_Op_create(&throw_of_op, 1, &op));
  int a = 1;
  int b = 2;
  for (int i = 0; i < 3; ++i) EXPECT_THROWN("operation", MPI_Reduce_local(&a, &b, 1, MPI_INT, op));
  OK(MPI_Op_free(&op));
  exchange(comm, rank, size);
}

CASE(unwind, generalized_requests) {
  MPI_Request request = MPI_REQUEST_NULL;
  OK(MPI_Grequest_start(&throw_of_query, &no_free, &no_cancel, nullptr, &request));
  OK(MPI_Grequest_complete(request));
  EXPECT_THROWN("query", MPI_Wait(&request, MPI_STATUS_IGNORE));
  exchange(comm, rank, size);
  OK(MPI_Grequest_start(&no_query, &no_free, &throw_of_cancel, nullptr, &request));
  EXPECT_THROWN("cancel", MPI_Cancel(&request));
  OK(MPI_Grequest_complete(request));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  exchange(comm, rank, size);
}

CASE(unwind, error_handler_of_a_window) {
  MPI_Win win = MPI_WIN_NULL;
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  int value = 0;
  OK(MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, comm, &win));
  OK(MPI_Win_create_errhandler(&throw_of_win, &handler));
  OK(MPI_Win_set_errhandler(win, handler));
  OK(MPI_Win_fence(0, win));
  EXPECT_THROWN("window", MPI_Put(&value, 1, MPI_INT, size + 70, 0, 1, MPI_INT, win));
  OK(MPI_Win_fence(0, win));
  exchange(comm, rank, size);
  OK(MPI_Errhandler_free(&handler));
  OK(MPI_Win_free(&win));
}

CASE(unwind, error_handler_of_a_file) {
  MPI_File file = MPI_FILE_NULL;
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Errhandler before = MPI_ERRHANDLER_NULL;
  OK(MPI_File_create_errhandler(&throw_of_file, &handler));
  OK(MPI_File_get_errhandler(MPI_FILE_NULL, &before));
  OK(MPI_File_set_errhandler(MPI_FILE_NULL, handler));
  EXPECT_THROWN("file", MPI_File_open(MPI_COMM_SELF, "/nowhere/at/all", MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
  OK(MPI_File_set_errhandler(MPI_FILE_NULL, before));
  OK(MPI_Errhandler_free(&handler));
  OK(MPI_Errhandler_free(&before));
  exchange(comm, rank, size);
}
