// Persistent requests. A send is zerohop's when its destination is on this node; a receive when its source is, or may
// be.
#include "mpi/wrap.h"

namespace zh::mpi {
namespace {

/// An inactive request that keeps the call.
int make_persistent(const MessageCall& call, MPI_Request* handle) {
  UserRequest* request = new_request(handle);
  if (request == nullptr) return raise(call.comm, MPI_ERR_NO_MEM);
  request->kind = UserRequest::Kind::kPersistent;
  request->active = false;
  request->operation.site = {call.comm};
  request->call = call;
  hold_handle(call.data.type);  // the program may free it before a start, for which the host may need it
  if (call.info != nullptr) hold_comm(call.info);
  return MPI_SUCCESS;
}

template <Mode kMode, typename N>
int send_init(const Arguments<N>& a, MPI_Request* handle) {
  if (kMode == Mode::kBuffered && taken(a.comm) == nullptr && a.rank != MPI_PROC_NULL) {
    // On a communicator of the host, that judges the arguments; zerohop owns the buffer.
    const int error = host_send_init(kMode, a, handle);
    if (error != MPI_SUCCESS || !shim.enabled) return error;
    host.Request_free(handle);
  }
  MessageCall call;
  ZH_STEP_OR(judge(kMode, Form::kPersistent, a, &call), host_send_init(kMode, a, handle));
  return make_persistent(call, handle);
}

template <typename N>
int recv_init(const Arguments<N>& a, MPI_Request* handle) {
  MessageCall call;
  ZH_STEP_OR(judge(Mode::kReceive, Form::kPersistent, a, &call), a.hand_to(counted::Recv_init, handle));
  return make_persistent(call, handle);
}

}  // namespace

namespace wrap {

#define ZH_INIT(name, serve, buffer, N)                                                  \
  int name(buffer b, N n, MPI_Datatype t, int peer, int g, MPI_Comm c, MPI_Request* r) { \
    return serve(Arguments<N>(b, n, t, peer, g, c), r);                                  \
  }
#define ZH_BOTH(N, SUFFIX)                                                   \
  ZH_INIT(Send_init##SUFFIX, send_init<Mode::kStandard>, const void*, N)     \
  ZH_INIT(Bsend_init##SUFFIX, send_init<Mode::kBuffered>, const void*, N)    \
  ZH_INIT(Ssend_init##SUFFIX, send_init<Mode::kSynchronous>, const void*, N) \
  ZH_INIT(Rsend_init##SUFFIX, send_init<Mode::kReady>, const void*, N)       \
  ZH_INIT(Recv_init##SUFFIX, recv_init, void*, N)
ZH_BOTH(int, )
ZH_BOTH(MPI_Count, _c)
#undef ZH_BOTH
#undef ZH_INIT

}  // namespace wrap
}  // namespace zh::mpi
