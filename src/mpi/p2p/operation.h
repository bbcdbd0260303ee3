// One started send or receive, by the engine or by the host: on the stack of a blocking call, or inside a request.
// Knows how to start, look, finish and cancel; refuses to know request handles and the wait families.
#pragma once

#include "mpi/handles/status.h"
#include "mpi/p2p/call.h"

namespace zh::mpi {

struct Operation {
  enum class State : uint8_t {
    kNone,     ///< nothing started
    kEngine,   ///< `engine` is the engine's request
    kHost,     ///< `host_request` is the host's
    kWaiting,  ///< a receive in the communicator's WildcardQueue; `engine` may be set
    kDone,     ///< result (or, with host_status, status) is there
  };
  // What every operation needs, first: with the head of a UserRequest, one cache line.
  State state = State::kNone;
  bool receives = false;
  bool host_status = false;  ///< the outcome is `status` and `error`
  bool host_type_owned = false;
  int error = MPI_SUCCESS;
  p2p::Request* engine = nullptr;
  ErrorSite site;
  // Only of receives that may still go to the host, or that need work at the end; null otherwise.
  CommInfo* info = nullptr;     ///< held
  TypeInfo* type = nullptr;     ///< held
  std::byte* packed = nullptr;  ///< private copy (malloc)
  p2p::Result result;
  MPI_Request host_request;
  MPI_Status status;
  MPI_Datatype host_type;  ///< own duplicate for a receive in the WildcardQueue
  void* buf = nullptr;
  MPI_Count count = 0;
  int source = 0;  ///< host's numbers
  int tag = 0;

  /// The first step of every start.
  void open(const ErrorSite& where, bool receiving) {
    site = where;
    receives = receiving;
    host_status = false;
    error = MPI_SUCCESS;
  }
};

constexpr p2p::SendMode engine_mode(Mode mode) {
  switch (mode) {
    case Mode::kSynchronous:
      return p2p::SendMode::kSynchronous;
    case Mode::kReady:
      return p2p::SendMode::kReady;
    default:  // also a buffered one: of its copy
      return p2p::SendMode::kStandard;
  }
}

/// To a rank of this node.
[[gnu::always_inline]] inline p2p::SendArgs send_args(const MessageCall& call) {
  p2p::SendArgs args;
  args.dest = static_cast<uint32_t>(call.info->local[call.rank]);
  args.source = call.info->rank;
  args.tag = call.tag;
  args.context = call.info->context;
  args.data = describe(call.data);
  args.mode = engine_mode(call.mode);
  return args;
}

[[gnu::always_inline]] inline p2p::RecvArgs recv_args(const CommInfo* comm, int source, int tag) {
  p2p::RecvArgs args;
  if (source == MPI_ANY_SOURCE) {
    args.peer = p2p::kAnyPeer;
    args.source = p2p::kAnySource;
  } else {
    args.peer = comm->local[source];
    args.source = source;
  }
  args.tag = tag == MPI_ANY_TAG ? p2p::kAnyTag : tag;
  args.context = comm->context;
  return args;
}

// What a call asks for, begun. Errors that are returned have been raised.
/// A send of any mode but kBuffered (bsend.h) to any member.
int start_send(Operation* op, const MessageCall& call);
int start_recv(Operation* op, const MessageCall& call);
inline int start(Operation* op, const MessageCall& call) {
  if (call.mode == Mode::kReceive) return start_recv(op, call);
  return call.mode == Mode::kBuffered ? start_bsend(op, call) : start_send(op, call);
}
/// A receive of a message taken out of matching.
int start_mrecv(Operation* op, p2p::Message* message, const ErrorSite& site, const Elements& data);
/// The elements behind one another in private memory (malloc), where nothing is yet if they are `to_come`.
int make_packed(const Elements& data, bool to_come, MPI_Comm comm, std::byte** out);

/// True when finish() may be called. Does not turn the engine.
bool look(Operation* op);
/// The same with one turn of the engine.
bool poll(Operation* op);
/// After look(): the engine's outcome into `op`, the data to where the program wants it; then kDone.
void take_outcome(Operation* op);
/// The error class of a message that ends inside of one of the basic elements of the type that it was received as;
/// MPI_SUCCESS where it does not, or where the host does not mind, as where the type has no gaps.
[[gnu::cold, gnu::noinline]] int judge_end(const p2p::Result& result, const TypeInfo& type);
/// Gives the outcome and returns the operation to kNone. The error class is returned, not raised, except that the host
/// has raised those of its own requests; `*raised` says so.
int finish(Operation* op, MPI_Status* status, bool* raised);
void cancel(Operation* op);
/// What waiting for it is for.
void tell(const Operation& op, p2p::Activity* out);
/// Waits and finishes; raises errors.
int complete(Operation* op, MPI_Status* status);

/// The host's status for the user: single completions leave MPI_ERROR alone (MPI standard 3.2.5).
inline void copy_status(const MPI_Status& from, MPI_Status* status) {
  if (ignored(status)) return;
  const int kept = status->MPI_ERROR;
  *status = from;
  status->MPI_ERROR = kept;
}

/// Writes an engine result for the user.
inline void write_result(MPI_Status* status, const p2p::Result& result, bool receives) {
  if (receives && !result.cancelled) {
    write_status(status, result.source, result.tag, result.bytes, false);
  } else {
    write_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0, result.cancelled);
  }
}

/// Result of an engine call for a blocking receive or send on `comm`: writes, raises, returns.
inline int settle(const p2p::Result& result, MPI_Comm comm, MPI_Status* status, bool receives) {
  write_result(status, result, receives);
  if (result.code == Code::kOk) [[likely]]
    return MPI_SUCCESS;
  return raise(comm, class_of(result.code));
}

}  // namespace zh::mpi
