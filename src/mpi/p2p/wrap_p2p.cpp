// Blocking and nonblocking sends and receives, MPI_Sendrecv and MPI_Isendrecv. The int and MPI_Count forms share one
// template each.
#include <cstdlib>

#include "mpi/p2p/bsend.h"
#include "mpi/p2p/wildcard.h"
#include "mpi/wrap.h"

namespace zh::mpi {
namespace {

using p2p::SendMode;

template <SendMode kMode, typename N>
int forward_send(const void* buf, N count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
  if constexpr (kMode == SendMode::kSynchronous) return counted::Ssend(buf, count, type, dest, tag, comm);
  if constexpr (kMode == SendMode::kReady) return counted::Rsend(buf, count, type, dest, tag, comm);
  return counted::Send(buf, count, type, dest, tag, comm);
}

template <SendMode kMode, typename N>
int forward_isend(const void* buf, N count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request* request) {
  if constexpr (kMode == SendMode::kSynchronous) return counted::Issend(buf, count, type, dest, tag, comm, request);
  if constexpr (kMode == SendMode::kReady) return counted::Irsend(buf, count, type, dest, tag, comm, request);
  return counted::Isend(buf, count, type, dest, tag, comm, request);
}

inline Transfer transfer_of(const void* buf, MPI_Count count, MPI_Datatype datatype, TypeInfo* type, int rank,
                            int tag) {
  return {const_cast<void*>(buf), count, datatype, type, rank, tag};
}

template <SendMode kMode, typename N>
inline int send(const void* buf, N count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  CommInfo* info = taken(comm);
  if (info == nullptr || !is_rank(info, dest) || !is_send_tag(tag) || count < 0) [[unlikely]] {
    return forward_send<kMode>(buf, count, datatype, dest, tag, comm);
  }
  TypeInfo* type = nullptr;
  if (const int error = find_type(datatype, comm, &type); type == nullptr) [[unlikely]]
    return error;
  if (lacks_buffer(buf, count, type)) [[unlikely]]
    return forward_send<kMode>(buf, count, datatype, dest, tag, comm);
  const Transfer t = transfer_of(buf, count, datatype, type, dest, tag);
  const int32_t index = info->local[dest];
  if (index < 0 || type->kind == TypeInfo::Kind::kPacked) [[unlikely]] {
    Operation op;
    const int error = start_send(&op, info, t, kMode);
    return error != MPI_SUCCESS ? error : complete(&op, MPI_STATUS_IGNORE);
  }
  const p2p::Result result = shim.rank->send(send_args(info, index, t, kMode));
  if (result.code == Code::kOk) [[likely]]
    return MPI_SUCCESS;
  return raise(comm, class_of(result.code));
}

template <typename N>
inline int recv(void* buf, N count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status* status) {
  CommInfo* info = taken(comm);
  const bool any = source == MPI_ANY_SOURCE;
  if (info == nullptr || (!any && !is_rank(info, source)) || !is_recv_tag(tag) || count < 0) [[unlikely]] {
    return counted::Recv(buf, count, datatype, source, tag, comm, status);
  }
  TypeInfo* type = nullptr;
  if (const int error = find_type(datatype, comm, &type); type == nullptr) [[unlikely]]
    return error;
  if (lacks_buffer(buf, count, type)) [[unlikely]] {
    return counted::Recv(buf, count, datatype, source, tag, comm, status);
  }
  const Transfer t = transfer_of(buf, count, datatype, type, source, tag);
  const bool here = info->all_local || (!any && info->local[source] >= 0);
  if (!here || type->kind == TypeInfo::Kind::kPacked) [[unlikely]] {
    Operation op;
    const int error = start_recv(&op, info, t);
    return error != MPI_SUCCESS ? error : complete(&op, status);
  }
  p2p::RecvArgs args = recv_args(info, source, tag);
  args.buffer = describe(buf, count, type);
  return settle(shim.rank->recv(args), comm, status, true);
}

template <SendMode kMode, typename N>
inline int isend(const void* buf, N count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                 MPI_Request* request) {
  CommInfo* info = taken(comm);
  if (info == nullptr || !is_rank(info, dest) || !is_send_tag(tag) || count < 0 || info->local[dest] < 0) [[unlikely]] {
    return forward_isend<kMode>(buf, count, datatype, dest, tag, comm, request);
  }
  TypeInfo* type = nullptr;
  if (const int error = find_type(datatype, comm, &type); type == nullptr) [[unlikely]]
    return error;
  if (lacks_buffer(buf, count, type)) [[unlikely]] {
    return forward_isend<kMode>(buf, count, datatype, dest, tag, comm, request);
  }
  const Transfer t = transfer_of(buf, count, datatype, type, dest, tag);
  UserRequest* const sent = completed_send();
  if (type->kind != TypeInfo::Kind::kPacked && sent != nullptr &&
      shim.rank->send_now(send_args(info, info->local[dest], t, kMode))) {
    *request = handle_of(sent->index);
    return MPI_SUCCESS;
  }
  UserRequest* own_request = new_request(request);
  if (own_request == nullptr) return raise(comm, MPI_ERR_NO_MEM);
  const int error = start_send(&own_request->operation, info, t, kMode);
  if (error != MPI_SUCCESS) [[unlikely]] {
    free_request(own_request);
    *request = MPI_REQUEST_NULL;
  }
  return error;
}

template <typename N>
inline int irecv(void* buf, N count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request* request) {
  CommInfo* info = taken(comm);
  const bool any = source == MPI_ANY_SOURCE;
  if (info == nullptr || (!any && !is_rank(info, source)) || !is_recv_tag(tag) || count < 0) [[unlikely]] {
    return counted::Irecv(buf, count, datatype, source, tag, comm, request);
  }
  TypeInfo* type = nullptr;
  if (const int error = find_type(datatype, comm, &type); type == nullptr) [[unlikely]]
    return error;
  if (lacks_buffer(buf, count, type)) [[unlikely]] {
    return counted::Irecv(buf, count, datatype, source, tag, comm, request);
  }
  UserRequest* own_request = new_request(request);
  if (own_request == nullptr) return raise(comm, MPI_ERR_NO_MEM);
  const int error = start_recv(&own_request->operation, info, transfer_of(buf, count, datatype, type, source, tag));
  if (error != MPI_SUCCESS) [[unlikely]] {
    free_request(own_request);
    *request = MPI_REQUEST_NULL;
  }
  return error;
}

/// Buffered sends: `op` is complete when this returns MPI_SUCCESS. `forward` true: the caller must call the host
/// instead.
template <typename N>
int bsend(Operation* op, const void* buf, N count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
          bool* forward) {
  CommInfo* info = taken(comm);
  *forward = true;
  if (count < 0 || dest == MPI_PROC_NULL) return MPI_SUCCESS;
  if (info != nullptr && (!is_rank(info, dest) || !is_send_tag(tag))) return MPI_SUCCESS;
  if (info == nullptr && !bsend_ready(comm)) return MPI_SUCCESS;
  TypeInfo* type = nullptr;
  *forward = false;
  if (const int error = find_type(datatype, comm, &type); type == nullptr) return error;
  if (lacks_buffer(buf, count, type)) {
    *forward = true;
    return MPI_SUCCESS;
  }
  return start_bsend(op, comm, info, transfer_of(buf, count, datatype, type, dest, tag));
}

template <typename N>
int bsend_blocking(const void* buf, N count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  Operation op;
  bool forward = false;
  const int error = bsend(&op, buf, count, datatype, dest, tag, comm, &forward);
  return forward ? counted::Bsend(buf, count, datatype, dest, tag, comm) : error;
}

template <typename N>
int ibsend(const void* buf, N count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request* request) {
  if (shim.rank == nullptr) return counted::Ibsend(buf, count, datatype, dest, tag, comm, request);
  UserRequest* own_request = new_request(request);
  if (own_request == nullptr) return raise(comm, MPI_ERR_NO_MEM);
  bool forward = false;
  const int error = bsend(&own_request->operation, buf, count, datatype, dest, tag, comm, &forward);
  if (forward || error != MPI_SUCCESS) {
    own_request->operation.state = Operation::State::kNone;
    free_request(own_request);
    *request = MPI_REQUEST_NULL;
  }
  return forward ? counted::Ibsend(buf, count, datatype, dest, tag, comm, request) : error;
}

/// One half of an exchange: whether it is there at all, and of which type.
struct Half {
  bool wanted = false;
  Transfer transfer{};
};

/// What MPI_Sendrecv and its relatives ask for. `ours` false: the host must do it (and raise what is wrong).
struct Exchange {
  CommInfo* info = nullptr;
  Half send;
  Half recv;
  bool ours = false;
  bool refused = false;  ///< the host has raised an error already
};

int examine(const void* sbuf, MPI_Count scount, MPI_Datatype stype, int dest, int stag, void* rbuf, MPI_Count rcount,
            MPI_Datatype rtype, int source, int rtag, MPI_Comm comm, Exchange* out) {
  CommInfo* info = taken(comm);
  if (info == nullptr || scount < 0 || rcount < 0) return MPI_SUCCESS;
  out->send.wanted = dest != MPI_PROC_NULL;
  out->recv.wanted = source != MPI_PROC_NULL;
  if (!out->send.wanted && !out->recv.wanted) return MPI_SUCCESS;
  if (out->send.wanted && (!is_rank(info, dest) || !is_send_tag(stag))) return MPI_SUCCESS;
  if (out->recv.wanted && ((source != MPI_ANY_SOURCE && !is_rank(info, source)) || !is_recv_tag(rtag)))
    return MPI_SUCCESS;
  TypeInfo* type = nullptr;
  if (const int error = find_type(stype, comm, &type); type == nullptr) {
    out->refused = true;
    return error;
  }
  if (out->send.wanted && lacks_buffer(sbuf, scount, type)) return MPI_SUCCESS;
  out->send.transfer = transfer_of(sbuf, scount, stype, type, dest, stag);
  if (const int error = find_type(rtype, comm, &type); type == nullptr) {
    out->refused = true;
    return error;
  }
  if (out->recv.wanted && lacks_buffer(rbuf, rcount, type)) return MPI_SUCCESS;
  out->recv.transfer = transfer_of(rbuf, rcount, rtype, type, source, rtag);
  out->info = info;
  out->ours = true;
  return MPI_SUCCESS;
}

/// The outcome of a receive from MPI_PROC_NULL.
void receive_nothing(Operation* op, MPI_Comm comm) {
  op->site = {comm};
  op->receives = true;
  op->host_status = false;
  op->error = MPI_SUCCESS;
  op->result = p2p::Result{};
  op->result.source = MPI_PROC_NULL;
  op->result.tag = MPI_ANY_TAG;
  op->state = Operation::State::kDone;
}

/// Starts both halves, the receive first. A failed start of the send cancels the receive.
int start_exchange(const Exchange& x, Operation* recv_op, Operation* send_op) {
  int error = MPI_SUCCESS;
  if (x.recv.wanted) {
    error = start_recv(recv_op, x.info, x.recv.transfer);
    if (error != MPI_SUCCESS) return error;
  } else {
    receive_nothing(recv_op, x.info->handle);
  }
  if (!x.send.wanted) {
    send_op->site = {x.info->handle};
    send_op->result = p2p::Result{};
    send_op->state = Operation::State::kDone;
    return MPI_SUCCESS;
  }
  error = start_send(send_op, x.info, x.send.transfer, SendMode::kStandard);
  if (error != MPI_SUCCESS) {
    cancel(recv_op);
    complete(recv_op, MPI_STATUS_IGNORE);
  }
  return error;
}

int exchange(const Exchange& x, MPI_Status* status) {
  Operation recv_op;
  Operation send_op;
  const int error = start_exchange(x, &recv_op, &send_op);
  if (error != MPI_SUCCESS) return error;
  const int send_error = complete(&send_op, MPI_STATUS_IGNORE);
  const int recv_error = complete(&recv_op, status);
  return recv_error != MPI_SUCCESS ? recv_error : send_error;
}

/// Makes the exchange send a private packed copy of its data, so that the receive may overwrite them.
std::byte* detach_send_data(Exchange* x, int* error) {
  Transfer& t = x->send.transfer;
  const uint64_t bytes = static_cast<uint64_t>(t.count) * t.type->size;
  auto* scratch = static_cast<std::byte*>(std::malloc(bytes + 1));
  if (scratch == nullptr) {
    *error = raise(x->info->handle, MPI_ERR_NO_MEM);
    return nullptr;
  }
  *error = pack_elements(t.buf, t.count, t.type, scratch);
  t.buf = scratch;
  t.count = static_cast<MPI_Count>(bytes);
  t.datatype = MPI_PACKED;
  if (*error == MPI_SUCCESS) *error = find_type(MPI_PACKED, x->info->handle, &t.type);
  return scratch;
}

int start_exchange_request(const Exchange& x, std::byte* scratch, MPI_Request* request) {
  UserRequest* own_request = new_request(request);
  if (own_request == nullptr) return raise(x.info->handle, MPI_ERR_NO_MEM);
  own_request->kind = UserRequest::Kind::kExchange;
  own_request->second = new Operation;
  own_request->scratch = scratch;
  const int error = start_exchange(x, &own_request->operation, own_request->second);
  if (error != MPI_SUCCESS) {
    free_request(own_request);
    *request = MPI_REQUEST_NULL;
  }
  return error;
}

template <typename N>
int sendrecv(const void* sb, N sn, MPI_Datatype st, int d, int sg, void* rb, N rn, MPI_Datatype rt, int s, int rg,
             MPI_Comm c, MPI_Status* status) {
  Exchange x;
  if (const int error = examine(sb, sn, st, d, sg, rb, rn, rt, s, rg, c, &x); x.refused) return error;
  return x.ours ? exchange(x, status) : counted::Sendrecv(sb, sn, st, d, sg, rb, rn, rt, s, rg, c, status);
}

template <typename N>
int sendrecv_replace(void* b, N n, MPI_Datatype t, int d, int sg, int s, int rg, MPI_Comm c, MPI_Status* status) {
  Exchange x;
  int error = examine(b, n, t, d, sg, b, n, t, s, rg, c, &x);
  if (x.refused) return error;
  if (!x.ours) return counted::Sendrecv_replace(b, n, t, d, sg, s, rg, c, status);
  std::byte* scratch = x.send.wanted ? detach_send_data(&x, &error) : nullptr;
  if (error == MPI_SUCCESS) error = exchange(x, status);
  std::free(scratch);
  return error;
}

template <typename N>
int isendrecv(const void* sb, N sn, MPI_Datatype st, int d, int sg, void* rb, N rn, MPI_Datatype rt, int s, int rg,
              MPI_Comm c, MPI_Request* request) {
  Exchange x;
  if (const int error = examine(sb, sn, st, d, sg, rb, rn, rt, s, rg, c, &x); x.refused) return error;
  return x.ours ? start_exchange_request(x, nullptr, request)
                : counted::Isendrecv(sb, sn, st, d, sg, rb, rn, rt, s, rg, c, request);
}

template <typename N>
int isendrecv_replace(void* b, N n, MPI_Datatype t, int d, int sg, int s, int rg, MPI_Comm c, MPI_Request* request) {
  Exchange x;
  int error = examine(b, n, t, d, sg, b, n, t, s, rg, c, &x);
  if (x.refused) return error;
  if (!x.ours) return counted::Isendrecv_replace(b, n, t, d, sg, s, rg, c, request);
  std::byte* scratch = x.send.wanted ? detach_send_data(&x, &error) : nullptr;
  if (error == MPI_SUCCESS) return start_exchange_request(x, scratch, request);
  std::free(scratch);
  return error;
}

/// Checks what MPI_Mrecv shares with MPI_Imrecv and starts it.
int start_own_mrecv(Operation* op, void* buf, MPI_Count count, MPI_Datatype datatype, MPI_Message* message) {
  const OwnMessage mine = take_message(*message);
  if (mine.message == nullptr) return raise(mine.site, MPI_ERR_REQUEST);
  TypeInfo* type = nullptr;
  int error = count < 0 ? raise(mine.site, MPI_ERR_COUNT) : find_type(datatype, mine.site.comm, &type);
  if (type != nullptr && lacks_buffer(buf, count, type)) {
    error = raise(mine.site, MPI_ERR_BUFFER);
    type = nullptr;
  }
  if (type == nullptr) {
    mint_message(mine.message, mine.site, message);
    return error != MPI_SUCCESS ? error : MPI_ERR_TYPE;
  }
  *message = MPI_MESSAGE_NULL;
  return start_mrecv(op, mine.message, mine.site, transfer_of(buf, count, datatype, type, 0, 0));
}

template <typename N>
int mrecv(void* buf, N count, MPI_Datatype datatype, MPI_Message* message, MPI_Status* status) {
  if (!is_own_message(*message)) return counted::Mrecv(buf, count, datatype, message, status);
  Operation op;
  const int error = start_own_mrecv(&op, buf, count, datatype, message);
  return error != MPI_SUCCESS ? error : complete(&op, status);
}

template <typename N>
int imrecv(void* buf, N count, MPI_Datatype datatype, MPI_Message* message, MPI_Request* request) {
  if (!is_own_message(*message)) return counted::Imrecv(buf, count, datatype, message, request);
  UserRequest* own_request = new_request(request);
  if (own_request == nullptr) return raise(MPI_COMM_SELF, MPI_ERR_NO_MEM);
  const int error = start_own_mrecv(&own_request->operation, buf, count, datatype, message);
  if (error != MPI_SUCCESS) {
    free_request(own_request);
    *request = MPI_REQUEST_NULL;
  }
  return error;
}

}  // namespace

namespace wrap {

#define ZH_BOTH(N, SUFFIX)                                                                                            \
  int Send##SUFFIX(const void* b, N n, MPI_Datatype t, int d, int g, MPI_Comm c) {                                    \
    return send<SendMode::kStandard>(b, n, t, d, g, c);                                                               \
  }                                                                                                                   \
  int Ssend##SUFFIX(const void* b, N n, MPI_Datatype t, int d, int g, MPI_Comm c) {                                   \
    return send<SendMode::kSynchronous>(b, n, t, d, g, c);                                                            \
  }                                                                                                                   \
  int Rsend##SUFFIX(const void* b, N n, MPI_Datatype t, int d, int g, MPI_Comm c) {                                   \
    return send<SendMode::kReady>(b, n, t, d, g, c);                                                                  \
  }                                                                                                                   \
  int Bsend##SUFFIX(const void* b, N n, MPI_Datatype t, int d, int g, MPI_Comm c) {                                   \
    return bsend_blocking(b, n, t, d, g, c);                                                                          \
  }                                                                                                                   \
  int Recv##SUFFIX(void* b, N n, MPI_Datatype t, int s, int g, MPI_Comm c, MPI_Status* status) {                      \
    return recv(b, n, t, s, g, c, status);                                                                            \
  }                                                                                                                   \
  int Isend##SUFFIX(const void* b, N n, MPI_Datatype t, int d, int g, MPI_Comm c, MPI_Request* r) {                   \
    return isend<SendMode::kStandard>(b, n, t, d, g, c, r);                                                           \
  }                                                                                                                   \
  int Issend##SUFFIX(const void* b, N n, MPI_Datatype t, int d, int g, MPI_Comm c, MPI_Request* r) {                  \
    return isend<SendMode::kSynchronous>(b, n, t, d, g, c, r);                                                        \
  }                                                                                                                   \
  int Irsend##SUFFIX(const void* b, N n, MPI_Datatype t, int d, int g, MPI_Comm c, MPI_Request* r) {                  \
    return isend<SendMode::kReady>(b, n, t, d, g, c, r);                                                              \
  }                                                                                                                   \
  int Ibsend##SUFFIX(const void* b, N n, MPI_Datatype t, int d, int g, MPI_Comm c, MPI_Request* r) {                  \
    return ibsend(b, n, t, d, g, c, r);                                                                               \
  }                                                                                                                   \
  int Irecv##SUFFIX(void* b, N n, MPI_Datatype t, int s, int g, MPI_Comm c, MPI_Request* r) {                         \
    return irecv(b, n, t, s, g, c, r);                                                                                \
  }                                                                                                                   \
  int Sendrecv##SUFFIX(const void* sb, N sn, MPI_Datatype st, int d, int sg, void* rb, N rn, MPI_Datatype rt, int s,  \
                       int rg, MPI_Comm c, MPI_Status* status) {                                                      \
    return sendrecv(sb, sn, st, d, sg, rb, rn, rt, s, rg, c, status);                                                 \
  }                                                                                                                   \
  int Sendrecv_replace##SUFFIX(void* b, N n, MPI_Datatype t, int d, int sg, int s, int rg, MPI_Comm c,                \
                               MPI_Status* status) {                                                                  \
    return sendrecv_replace(b, n, t, d, sg, s, rg, c, status);                                                        \
  }                                                                                                                   \
  int Isendrecv##SUFFIX(const void* sb, N sn, MPI_Datatype st, int d, int sg, void* rb, N rn, MPI_Datatype rt, int s, \
                        int rg, MPI_Comm c, MPI_Request* r) {                                                         \
    return isendrecv(sb, sn, st, d, sg, rb, rn, rt, s, rg, c, r);                                                     \
  }                                                                                                                   \
  int Isendrecv_replace##SUFFIX(void* b, N n, MPI_Datatype t, int d, int sg, int s, int rg, MPI_Comm c,               \
                                MPI_Request* r) {                                                                     \
    return isendrecv_replace(b, n, t, d, sg, s, rg, c, r);                                                            \
  }                                                                                                                   \
  int Mrecv##SUFFIX(void* b, N n, MPI_Datatype t, MPI_Message* m, MPI_Status* status) {                               \
    return mrecv(b, n, t, m, status);                                                                                 \
  }                                                                                                                   \
  int Imrecv##SUFFIX(void* b, N n, MPI_Datatype t, MPI_Message* m, MPI_Request* r) { return imrecv(b, n, t, m, r); }

ZH_BOTH(int, )
ZH_BOTH(MPI_Count, _c)
#undef ZH_BOTH

}  // namespace wrap
}  // namespace zh::mpi
