// Blocking and nonblocking sends and receives, MPI_Sendrecv and MPI_Isendrecv. The int and MPI_Count forms share one
// template each.
#include <cstdlib>

#include "mpi/wrap.h"

namespace zh::mpi {
namespace {

constexpr uint16_t number_of(Mode mode) {
  return function_number(mode == Mode::kSynchronous ? "Ssend" : mode == Mode::kReady ? "Rsend" : "Send");
}

/// Of a plain call to a rank of this node.
template <Mode kMode, typename N>
[[gnu::always_inline]] inline p2p::SendArgs plain_send(const PlainCall& call, const Arguments<N>& a) {
  p2p::SendArgs args;
  args.dest = static_cast<uint32_t>(call.info->local[a.rank]);
  args.source = call.info->rank;
  args.tag = a.tag;
  args.context = call.info->context;
  args.data = {static_cast<std::byte*>(a.buf), static_cast<uint64_t>(a.count) * call.type->size, nullptr};
  args.mode = engine_mode(kMode);
  return args;
}

/// What a blocking send does that is not over at once.
template <Mode kMode, typename N>
[[gnu::noinline]] int send_in_full(const void* b, N n, MPI_Datatype t, int d, int g, MPI_Comm c) {
  const Arguments<N> a(b, n, t, d, g, c);
  MessageCall call;
  ZH_STEP_OR(judge(kMode, Form::kBlocking, a, &call), host_send(kMode, a));
  constexpr uint16_t kNumber = number_of(kMode);
  shim.rank->called(kNumber);
  if (call.info->local[call.rank] < 0 || call.data.type->kind == TypeInfo::Kind::kPacked) {
    Operation op;
    const int error = start_send(&op, call);
    return error != MPI_SUCCESS ? error : complete(&op, MPI_STATUS_IGNORE);
  }
  const p2p::Result result = shim.rank->send(send_args(call));
  return result.code == Code::kOk ? MPI_SUCCESS : raise(call.comm, class_of(result.code));
}

/// Sends of any mode but kBuffered.
template <Mode kMode, typename N>
[[gnu::always_inline]] inline int send(const Arguments<N>& a) {
  PlainCall call;
  if (is_plain(a, &call) && is_destination(call.info, a.rank, a.tag) && call.info->local[a.rank] >= 0 &&
      shim.rank->send_short(plain_send<kMode>(call, a))) [[likely]] {
    return MPI_SUCCESS;
  }
  return send_in_full<kMode, N>(a.buf, a.count, a.datatype, a.rank, a.tag, a.comm);
}

template <typename N>
int bsend(const Arguments<N>& a) {
  MessageCall call;
  ZH_STEP_OR(judge(Mode::kBuffered, Form::kBlocking, a, &call), a.hand_to(counted::Bsend));
  Operation op;
  return start_bsend(&op, call);
}

/// Of a plain call, whose source is there.
template <typename N>
[[gnu::always_inline]] inline void fill_in(const PlainCall& call, const Arguments<N>& a, p2p::RecvArgs* out) {
  out->tag = MPI_ANY_TAG != p2p::kAnyTag && a.tag == MPI_ANY_TAG ? p2p::kAnyTag : a.tag;
  out->context = call.info->context;
  out->buffer = {static_cast<std::byte*>(a.buf), static_cast<uint64_t>(a.count) * call.type->size, nullptr};
}

template <typename N>
[[gnu::noinline]] int recv_in_full(void* b, N n, MPI_Datatype t, int s, int g, MPI_Comm c, MPI_Status* status) {
  const Arguments<N> a(b, n, t, s, g, c);
  MessageCall call;
  ZH_STEP_OR(judge(Mode::kReceive, Form::kBlocking, a, &call), a.hand_to(counted::Recv, status));
  constexpr uint16_t kNumber = function_number("Recv");
  shim.rank->called(kNumber);
  if (!comes_by_engine(call.info, call.rank) || call.data.type->kind == TypeInfo::Kind::kPacked) {
    Operation op;
    const int error = start_recv(&op, call);
    return error != MPI_SUCCESS ? error : complete(&op, status);
  }
  p2p::RecvArgs args = recv_args(call.info, call.rank, call.tag);
  args.buffer = describe(call.data);
  const p2p::Result result = shim.rank->recv(args);
  if (args.buffer.layout != nullptr) {
    if (const int error = judge_end(result, *call.data.type); error != MPI_SUCCESS) {
      write_result(status, result, true);
      return raise(call.comm, error);
    }
  }
  return settle(result, call.comm, status, true);
}

template <typename N>
[[gnu::always_inline]] inline int recv(const Arguments<N>& a, MPI_Status* status) {
  PlainCall call;
  p2p::RecvArgs args;
  if (is_plain(a, &call) && is_rank(call.info, a.rank) && has_plain_source(call.info, a.rank, &args) &&
      is_recv_tag(a.tag) && (ignored(status) || shim.fast_status)) [[likely]] {
    fill_in(call, a, &args);
    p2p::Result result;
    if (shim.rank->recv_short(args, &result)) [[likely]] {
      if (!ignored(status)) store_status(status, result.source, result.tag, result.bytes, false);
      return result.code == Code::kOk ? MPI_SUCCESS : raise(a.comm, class_of(result.code));
    }
  }
  return recv_in_full<N>(a.buf, a.count, a.datatype, a.rank, a.tag, a.comm, status);
}

/// A request that `begin` starts the operation of. Errors of that have been raised.
template <typename Begin>
inline int start_request(MPI_Comm comm, MPI_Request* handle, Begin&& begin) {
  UserRequest* request = new_request(handle);
  if (request == nullptr) return raise(comm, MPI_ERR_NO_MEM);
  const int error = begin(request);
  if (error != MPI_SUCCESS) [[unlikely]] {
    free_request(request);
    *handle = MPI_REQUEST_NULL;
  }
  return error;
}
template <int (*kStart)(Operation*, const MessageCall&)>
inline int start_request(const MessageCall& call, MPI_Request* handle) {
  return start_request(call.comm, handle, [&call](UserRequest* request) { return kStart(&request->operation, call); });
}

template <Mode kMode, typename N>
[[gnu::noinline]] int isend_in_full(const void* b, N n, MPI_Datatype t, int d, int g, MPI_Comm c,
                                    MPI_Request* request) {
  const Arguments<N> a(b, n, t, d, g, c);
  MessageCall call;
  ZH_STEP_OR(judge(kMode, Form::kNonblocking, a, &call), host_isend(kMode, a, request));
  if (call.data.type->kind == TypeInfo::Kind::kPacked) return start_request<start_send>(call, request);
  p2p::Request* message = shim.rank->isend(send_args(call));
  if (message != shim.rank->sent()) return name_message(message, call.comm, call.data.type, request);
  *request = handle_of(0);
  return MPI_SUCCESS;
}

template <Mode kMode, typename N>
[[gnu::always_inline]] inline int isend(const Arguments<N>& a, MPI_Request* request) {
  PlainCall call;
  if (is_plain(a, &call) && is_destination(call.info, a.rank, a.tag) && call.info->local[a.rank] >= 0 &&
      shim.rank->send_short(plain_send<kMode>(call, a))) [[likely]] {
    *request = handle_of(0);
    return MPI_SUCCESS;
  }
  return isend_in_full<kMode, N>(a.buf, a.count, a.datatype, a.rank, a.tag, a.comm, request);
}

template <typename N>
int ibsend(const Arguments<N>& a, MPI_Request* request) {
  if (shim.rank == nullptr) return a.hand_to(counted::Ibsend, request);
  *request = MPI_REQUEST_NULL;
  MessageCall call;
  ZH_STEP_OR(judge(Mode::kBuffered, Form::kNonblocking, a, &call), a.hand_to(counted::Ibsend, request));
  return start_request<start_bsend>(call, request);
}

template <typename N>
[[gnu::noinline]] int irecv_in_full(void* b, N n, MPI_Datatype t, int s, int g, MPI_Comm c, MPI_Request* request) {
  const Arguments<N> a(b, n, t, s, g, c);
  MessageCall call;
  ZH_STEP_OR(judge(Mode::kReceive, Form::kNonblocking, a, &call), a.hand_to(counted::Irecv, request));
  if (!comes_by_engine(call.info, call.rank) || call.data.type->kind == TypeInfo::Kind::kPacked) {
    return start_request<start_recv>(call, request);
  }
  p2p::RecvArgs args = recv_args(call.info, call.rank, call.tag);
  args.buffer = describe(call.data);
  return name_message(shim.rank->irecv(args), call.comm, call.data.type, request);
}

template <typename N>
[[gnu::always_inline]] inline int irecv(const Arguments<N>& a, MPI_Request* request) {
  PlainCall call;
  p2p::RecvArgs args;
  if (is_plain(a, &call) && has_plain_source(call.info, a.rank, &args) && is_recv_tag(a.tag)) [[likely]] {
    fill_in(call, a, &args);
    if (p2p::Request* message = shim.rank->irecv_short(args); message != nullptr) [[likely]] {
      if (!has_handle(message)) [[unlikely]]
        return name_message(message, a.comm, nullptr, request);
      keep_with(message, a.comm, nullptr);
      *request = handle_of(message->index);
      return MPI_SUCCESS;
    }
  }
  return irecv_in_full<N>(a.buf, a.count, a.datatype, a.rank, a.tag, a.comm, request);
}

/// What MPI_Sendrecv and its relatives ask for. One half may have nobody as its peer.
struct Exchange {
  MessageCall send;
  MessageCall recv;
  [[nodiscard]] bool sends() const { return send.rank != MPI_PROC_NULL; }
  [[nodiscard]] bool receives() const { return recv.rank != MPI_PROC_NULL; }
};

/// Returns a step.
int judge(const Arguments<MPI_Count>& send, const Arguments<MPI_Count>& recv, Exchange* out) {
  CommInfo* info = taken(send.comm);
  if (info == nullptr || send.count < 0 || recv.count < 0) return kToHost;
  const bool sends = send.rank != MPI_PROC_NULL;
  const bool receives = recv.rank != MPI_PROC_NULL;
  if (!sends && !receives) return kToHost;
  if (sends && !is_destination(info, send.rank, send.tag)) return kToHost;
  if (receives && !is_source(info, recv.rank, recv.tag)) return kToHost;
  ZH_STEP(judge_data(Mode::kStandard, info, send, &out->send));
  return judge_data(Mode::kReceive, info, recv, &out->recv);
}

/// The outcome of a send to MPI_PROC_NULL, or of a receive from there.
void move_nothing(Operation* op, MPI_Comm comm, bool receives) {
  op->open({comm}, receives);
  op->result = p2p::Result{};
  op->result.source = MPI_PROC_NULL;
  op->result.tag = MPI_ANY_TAG;
  op->state = Operation::State::kDone;
}

/// Starts both halves, the receive first. A failed start of the send cancels the receive.
int start_exchange(const Exchange& x, Operation* recv_op, Operation* send_op) {
  if (x.receives()) {
    if (const int error = start_recv(recv_op, x.recv); error != MPI_SUCCESS) return error;
  } else {
    move_nothing(recv_op, x.recv.comm, true);
  }
  if (!x.sends()) {
    move_nothing(send_op, x.send.comm, false);
    return MPI_SUCCESS;
  }
  const int error = start_send(send_op, x.send);
  if (error != MPI_SUCCESS) {
    cancel(recv_op);
    complete(recv_op, MPI_STATUS_IGNORE);
  }
  return error;
}

int exchange(const Exchange& x, MPI_Status* status, uint16_t function) {
  shim.rank->called(function);
  Operation recv_op;
  Operation send_op;
  const int error = start_exchange(x, &recv_op, &send_op);
  if (error != MPI_SUCCESS) return error;
  const int send_error = complete(&send_op, MPI_STATUS_IGNORE);
  const int recv_error = complete(&recv_op, status);
  return recv_error != MPI_SUCCESS ? recv_error : send_error;
}

/// Makes the exchange send a private packed copy of its data, so that the receive may overwrite them. `*scratch` is to
/// be freed, whatever this returns: MPI_SUCCESS, or an error.
int detach_send_data(Exchange* x, std::byte** scratch) {
  *scratch = nullptr;
  if (!x->sends()) return MPI_SUCCESS;
  MessageCall& call = x->send;
  if (const int error = make_packed(call.data, false, call.comm, scratch); error != MPI_SUCCESS) return error;
  call.datatype = MPI_PACKED;
  call.data.buf = *scratch;
  call.data.count = static_cast<MPI_Count>(call.data.bytes());
  return find_type(MPI_PACKED, 1, call.comm, &call.data.type);
}

int start_exchange_request(const Exchange& x, std::byte* scratch, MPI_Request* handle) {
  return start_request(x.send.comm, handle, [&x, scratch](UserRequest* request) {
    request->kind = UserRequest::Kind::kExchange;
    request->second = new Operation;
    request->scratch = scratch;
    return start_exchange(x, &request->operation, request->second);
  });
}

/// Calls the host's MPI_Sendrecv or MPI_Isendrecv.
template <typename Function, typename N, typename End>
int hand_to(Function function, const Arguments<N>& s, const Arguments<N>& r, End end) {
  if (shim.counts_calls) [[unlikely]]
    count_sent_by_host(s.comm, s.rank, static_cast<MPI_Count>(s.count), s.datatype);
  return function(s.buf, s.count, s.datatype, s.rank, s.tag, r.buf, r.count, r.datatype, r.rank, r.tag, s.comm, end);
}
/// Calls its form with one buffer.
template <typename Function, typename N, typename End>
int hand_to_replacing(Function function, const Arguments<N>& s, const Arguments<N>& r, End end) {
  if (shim.counts_calls) [[unlikely]]
    count_sent_by_host(s.comm, s.rank, static_cast<MPI_Count>(s.count), s.datatype);
  return function(s.buf, s.count, s.datatype, s.rank, s.tag, r.rank, r.tag, s.comm, end);
}

template <typename N>
int sendrecv(const Arguments<N>& s, const Arguments<N>& r, MPI_Status* status) {
  Exchange x;
  ZH_STEP_OR(judge(s.wide(), r.wide(), &x), hand_to(counted::Sendrecv, s, r, status));
  constexpr uint16_t kNumber = function_number("Sendrecv");
  return exchange(x, status, kNumber);
}

template <typename N>
int sendrecv_replace(const Arguments<N>& s, const Arguments<N>& r, MPI_Status* status) {
  Exchange x;
  ZH_STEP_OR(judge(s.wide(), r.wide(), &x), hand_to_replacing(counted::Sendrecv_replace, s, r, status));
  std::byte* scratch = nullptr;
  int error = detach_send_data(&x, &scratch);
  constexpr uint16_t kNumber = function_number("Sendrecv_replace");
  if (error == MPI_SUCCESS) error = exchange(x, status, kNumber);
  std::free(scratch);
  return error;
}

template <typename N>
int isendrecv(const Arguments<N>& s, const Arguments<N>& r, MPI_Request* request) {
  Exchange x;
  ZH_STEP_OR(judge(s.wide(), r.wide(), &x), hand_to(counted::Isendrecv, s, r, request));
  return start_exchange_request(x, nullptr, request);
}

template <typename N>
int isendrecv_replace(const Arguments<N>& s, const Arguments<N>& r, MPI_Request* request) {
  Exchange x;
  ZH_STEP_OR(judge(s.wide(), r.wide(), &x), hand_to_replacing(counted::Isendrecv_replace, s, r, request));
  std::byte* scratch = nullptr;
  const int error = detach_send_data(&x, &scratch);
  if (error == MPI_SUCCESS) return start_exchange_request(x, scratch, request);
  std::free(scratch);
  return error;
}

/// What MPI_Mrecv shares with MPI_Imrecv. A message whose receive is refused can be received again.
int start_own_mrecv(Operation* op, void* buf, MPI_Count count, MPI_Datatype datatype, MPI_Message* message) {
  const OwnMessage mine = take_message(*message);
  if (mine.message == nullptr) return raise(mine.site, MPI_ERR_REQUEST);
  const Arguments<MPI_Count> a(buf, count, datatype, MPI_ANY_SOURCE, MPI_ANY_TAG, mine.site.comm);
  MessageCall call;
  int step = count < 0 ? raise(mine.site, MPI_ERR_COUNT) : judge_data(Mode::kReceive, nullptr, a, &call);
  if (step == kToHost) step = raise(mine.site, MPI_ERR_BUFFER);  // the host does not know the message
  if (step != kGoOn) {
    mint_message(mine.message, mine.site, message);
    return step != MPI_SUCCESS ? step : MPI_ERR_TYPE;
  }
  *message = MPI_MESSAGE_NULL;
  return start_mrecv(op, mine.message, mine.site, call.data);
}

template <typename N>
int mrecv(void* buf, N count, MPI_Datatype datatype, MPI_Message* message, MPI_Status* status) {
  if (!is_own_message(*message)) return counted::Mrecv(buf, count, datatype, message, status);
  constexpr uint16_t kNumber = function_number("Mrecv");
  shim.rank->called(kNumber);
  Operation op;
  const int error = start_own_mrecv(&op, buf, count, datatype, message);
  return error != MPI_SUCCESS ? error : complete(&op, status);
}

template <typename N>
int imrecv(void* buf, N count, MPI_Datatype datatype, MPI_Message* message, MPI_Request* handle) {
  if (!is_own_message(*message)) return counted::Imrecv(buf, count, datatype, message, handle);
  return start_request(MPI_COMM_SELF, handle, [=](UserRequest* request) {
    return start_own_mrecv(&request->operation, buf, count, datatype, message);
  });
}

}  // namespace

namespace wrap {

// Each with a count of type N; `serve` gets its arguments, and what its form ends with.
#define ZH_SEND(name, serve, N)                                            \
  int name(const void* b, N n, MPI_Datatype t, int d, int g, MPI_Comm c) { \
    return serve(Arguments<N>(b, n, t, d, g, c));                          \
  }
#define ZH_START(name, serve, buffer, N)                                                 \
  int name(buffer b, N n, MPI_Datatype t, int peer, int g, MPI_Comm c, MPI_Request* r) { \
    return serve(Arguments<N>(b, n, t, peer, g, c), r);                                  \
  }
#define ZH_EXCHANGE(name, serve, last, N)                                                                        \
  int name(const void* sb, N sn, MPI_Datatype st, int d, int sg, void* rb, N rn, MPI_Datatype rt, int s, int rg, \
           MPI_Comm c, last l) {                                                                                 \
    return serve(Arguments<N>(sb, sn, st, d, sg, c), Arguments<N>(rb, rn, rt, s, rg, c), l);                     \
  }
#define ZH_REPLACE(name, serve, last, N)                                                     \
  int name(void* b, N n, MPI_Datatype t, int d, int sg, int s, int rg, MPI_Comm c, last l) { \
    return serve(Arguments<N>(b, n, t, d, sg, c), Arguments<N>(b, n, t, s, rg, c), l);       \
  }

#define ZH_BOTH(N, SUFFIX)                                                                       \
  ZH_SEND(Send##SUFFIX, send<Mode::kStandard>, N)                                                \
  ZH_SEND(Ssend##SUFFIX, send<Mode::kSynchronous>, N)                                            \
  ZH_SEND(Rsend##SUFFIX, send<Mode::kReady>, N)                                                  \
  ZH_SEND(Bsend##SUFFIX, bsend, N)                                                               \
  ZH_START(Isend##SUFFIX, isend<Mode::kStandard>, const void*, N)                                \
  ZH_START(Issend##SUFFIX, isend<Mode::kSynchronous>, const void*, N)                            \
  ZH_START(Irsend##SUFFIX, isend<Mode::kReady>, const void*, N)                                  \
  ZH_START(Ibsend##SUFFIX, ibsend, const void*, N)                                               \
  ZH_START(Irecv##SUFFIX, irecv, void*, N)                                                       \
  ZH_EXCHANGE(Sendrecv##SUFFIX, sendrecv, MPI_Status*, N)                                        \
  ZH_EXCHANGE(Isendrecv##SUFFIX, isendrecv, MPI_Request*, N)                                     \
  ZH_REPLACE(Sendrecv_replace##SUFFIX, sendrecv_replace, MPI_Status*, N)                         \
  ZH_REPLACE(Isendrecv_replace##SUFFIX, isendrecv_replace, MPI_Request*, N)                      \
  int Recv##SUFFIX(void* b, N n, MPI_Datatype t, int s, int g, MPI_Comm c, MPI_Status* status) { \
    return recv(Arguments<N>(b, n, t, s, g, c), status);                                         \
  }                                                                                              \
  int Mrecv##SUFFIX(void* b, N n, MPI_Datatype t, MPI_Message* m, MPI_Status* status) {          \
    return mrecv(b, n, t, m, status);                                                            \
  }                                                                                              \
  int Imrecv##SUFFIX(void* b, N n, MPI_Datatype t, MPI_Message* m, MPI_Request* r) { return imrecv(b, n, t, m, r); }

ZH_BOTH(int, )
ZH_BOTH(MPI_Count, _c)
#undef ZH_BOTH
#undef ZH_REPLACE
#undef ZH_EXCHANGE
#undef ZH_START
#undef ZH_SEND

}  // namespace wrap
}  // namespace zh::mpi
