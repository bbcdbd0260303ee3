// Fortran handles of requests and messages (MPI standard 19.3.4). Ours are the same integers under every ABI; the host
// converts its own.
#include "mpi/wrap.h"

namespace zh::mpi::wrap {
namespace {

#if ZH_ABI_INT_HANDLES
// C and Fortran handles are the same integers here, ours and the host's.
int request_to_int(MPI_Request handle) { return static_cast<int>(handle); }
MPI_Request int_to_request(int fortran) { return static_cast<MPI_Request>(fortran); }
int message_to_int(MPI_Message handle) { return static_cast<int>(handle); }
MPI_Message int_to_message(int fortran) { return static_cast<MPI_Message>(fortran); }
#else
int request_to_int(MPI_Request handle) {
  if (is_own(handle)) return static_cast<int>(kFirstFortran + index_of(handle));
  return host.Request_toint != nullptr ? host.Request_toint(handle) : host.Request_c2f(handle);
}

MPI_Request int_to_request(int fortran) {
  const uint32_t index = static_cast<uint32_t>(fortran) - kFirstFortran;
  if (index < kMaxRequests) return handle_of(index);
  return host.Request_fromint != nullptr ? host.Request_fromint(fortran) : host.Request_f2c(fortran);
}

int message_to_int(MPI_Message handle) {
  if (is_own_message(handle)) return static_cast<int>(kFirstMessage + message_index(handle));
  return host.Message_toint != nullptr ? host.Message_toint(handle) : host.Message_c2f(handle);
}

MPI_Message int_to_message(int fortran) {
  const uint32_t index = static_cast<uint32_t>(fortran) - kFirstMessage;
  if (index < kMaxMessages) return message_handle(index);
  return host.Message_fromint != nullptr ? host.Message_fromint(fortran) : host.Message_f2c(fortran);
}
#endif

}  // namespace

int Request_c2f(MPI_Request handle) { return request_to_int(handle); }
MPI_Request Request_f2c(int fortran) { return int_to_request(fortran); }
int Request_toint(MPI_Request handle) { return request_to_int(handle); }
MPI_Request Request_fromint(int fortran) { return int_to_request(fortran); }
int Message_c2f(MPI_Message handle) { return message_to_int(handle); }
MPI_Message Message_f2c(int fortran) { return int_to_message(fortran); }
int Message_toint(MPI_Message handle) { return message_to_int(handle); }
MPI_Message Message_fromint(int fortran) { return int_to_message(fortran); }

}  // namespace zh::mpi::wrap
