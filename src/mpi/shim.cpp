// The state of the shim, a rank's stay in a call of the host, and errors as the program's handlers see them.
#include "mpi/shim.h"

#include "mpi/wrap.h"

namespace zh::mpi {

const p2p::RequestTable Shim::kNoRequests;
Shim shim;

Away::Away(uint16_t function) : rank_(shim.rank) {
  if (rank_ != nullptr) rank_->enter_host(function);
}

Away::~Away() {
  if (rank_ != nullptr) rank_->leave_host();
}

int raise(MPI_Comm comm, int error_class) {
  host.Comm_call_errhandler(comm, error_class);
  return error_class;
}

int class_of(int error) {
  if (error == MPI_SUCCESS) return error;
  int error_class = MPI_ERR_OTHER;
  host.Error_class(error, &error_class);
  return error_class;
}

int class_of(Code code) {
  switch (code) {
    case Code::kOk:
      return MPI_SUCCESS;
    case Code::kTruncated:
      return MPI_ERR_TRUNCATE;
    case Code::kNoMemory:
      return MPI_ERR_NO_MEM;
    default:
      return MPI_ERR_OTHER;
  }
}

}  // namespace zh::mpi
