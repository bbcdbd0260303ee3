// Persistent requests. A send is zerohop's when its destination is on this node; a receive when its source is, or may
// be.
#include "mpi/p2p/bsend.h"
#include "mpi/wrap.h"

namespace zh::mpi {
namespace {

/// An inactive request that keeps its arguments.
int make_persistent(CommInfo* info, MPI_Comm comm, const Transfer& t, UserRequest::Mode mode, MPI_Request* handle) {
  UserRequest* request = new_request(handle);
  if (request == nullptr) return raise(comm, MPI_ERR_NO_MEM);
  request->kind = UserRequest::Kind::kPersistent;
  request->mode = mode;
  request->active = false;
  request->comm = info;
  if (info != nullptr) hold_comm(info);
  request->operation.site = {comm};
  request->transfer = t;
  hold(t.type);
  // The program may free the type before it starts the request; the host may need it then.
  if (!t.type->named && info != nullptr && !info->all_local) {
    request->datatype_owned = host.Type_dup(t.datatype, &request->transfer.datatype) == MPI_SUCCESS;
  }
  return MPI_SUCCESS;
}

template <typename N>
int forward_init(UserRequest::Mode mode, const void* buf, N count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                 MPI_Request* handle) {
  switch (mode) {
    case UserRequest::Mode::kSynchronous:
      return counted::Ssend_init(buf, count, type, dest, tag, comm, handle);
    case UserRequest::Mode::kReady:
      return counted::Rsend_init(buf, count, type, dest, tag, comm, handle);
    case UserRequest::Mode::kBuffered:
      return counted::Bsend_init(buf, count, type, dest, tag, comm, handle);
    default:
      return counted::Send_init(buf, count, type, dest, tag, comm, handle);
  }
}

template <typename N>
int send_init(UserRequest::Mode mode, const void* buf, N count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
              MPI_Request* handle) {
  CommInfo* info = taken(comm);
  const bool buffered = mode == UserRequest::Mode::kBuffered;
  const bool ours =
      info != nullptr && is_rank(info, dest) && is_send_tag(tag) && count >= 0 && (buffered || info->local[dest] >= 0);
  if (!ours && (!buffered || info != nullptr || dest == MPI_PROC_NULL)) {
    return forward_init(mode, buf, count, datatype, dest, tag, comm, handle);
  }
  if (!ours) {
    // Buffered, on a communicator of the host: the host judges the arguments, zerohop owns the buffer.
    const int error = counted::Bsend_init(buf, count, datatype, dest, tag, comm, handle);
    if (error != MPI_SUCCESS || !shim.enabled) return error;
    host.Request_free(handle);
  }
  TypeInfo* type = nullptr;
  if (const int error = find_type(datatype, comm, &type); type == nullptr) return error;
  if (lacks_buffer(buf, count, type)) return forward_init(mode, buf, count, datatype, dest, tag, comm, handle);
  const Transfer t{const_cast<void*>(buf), count, datatype, type, dest, tag};
  return make_persistent(info, comm, t, mode, handle);
}

template <typename N>
int recv_init(void* buf, N count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request* handle) {
  CommInfo* info = taken(comm);
  const bool any = source == MPI_ANY_SOURCE;
  if (info == nullptr || (!any && !is_rank(info, source)) || !is_recv_tag(tag) || count < 0) {
    return counted::Recv_init(buf, count, datatype, source, tag, comm, handle);
  }
  TypeInfo* type = nullptr;
  if (const int error = find_type(datatype, comm, &type); type == nullptr) return error;
  if (lacks_buffer(buf, count, type)) return counted::Recv_init(buf, count, datatype, source, tag, comm, handle);
  return make_persistent(info, comm, {buf, count, datatype, type, source, tag}, UserRequest::Mode::kReceive, handle);
}

}  // namespace

namespace wrap {

#define ZH_INIT(NAME, MODE, N)                                                             \
  int NAME(const void* b, N n, MPI_Datatype t, int d, int g, MPI_Comm c, MPI_Request* r) { \
    return send_init(UserRequest::Mode::MODE, b, n, t, d, g, c, r);                        \
  }
ZH_INIT(Send_init, kStandard, int)
ZH_INIT(Bsend_init, kBuffered, int)
ZH_INIT(Ssend_init, kSynchronous, int)
ZH_INIT(Rsend_init, kReady, int)
ZH_INIT(Send_init_c, kStandard, MPI_Count)
ZH_INIT(Bsend_init_c, kBuffered, MPI_Count)
ZH_INIT(Ssend_init_c, kSynchronous, MPI_Count)
ZH_INIT(Rsend_init_c, kReady, MPI_Count)
#undef ZH_INIT

int Recv_init(void* b, int n, MPI_Datatype t, int s, int g, MPI_Comm c, MPI_Request* r) {
  return recv_init(b, n, t, s, g, c, r);
}
int Recv_init_c(void* b, MPI_Count n, MPI_Datatype t, int s, int g, MPI_Comm c, MPI_Request* r) {
  return recv_init(b, n, t, s, g, c, r);
}

}  // namespace wrap
}  // namespace zh::mpi
