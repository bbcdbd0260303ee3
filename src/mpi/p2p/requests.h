// Requests of zerohop's own, and the handles that programs hold for them: a handle names a request of the engine by its
// index there, and is told from the host's by one subtraction and one comparison; its Fortran integer is 0x2c000001 +
// index everywhere. Most requests are messages of the engine and nothing else. What else there is hangs off one.
#pragma once

#include "mpi/p2p/operation.h"

namespace zh::mpi {

using p2p::Request;
struct BsendBuffer;
struct ExpectedComm;
class CollectiveOperation;

/// A request that is more than one message of the engine. Its Request is complete from the start, and holds this.
struct UserRequest {
  enum class Kind : uint8_t {
    kPlain,       ///< one operation
    kPersistent,  ///< one operation that MPI_Start starts again and again
    kExchange,    ///< MPI_Isendrecv: `operation` receives, `*second` sends
    kCommDup,     ///< MPI_Comm_idup: the host's request in `operation`, then the communicator is taken
    kFlush,       ///< MPI_Buffer_iflush
    kCollective,  ///< a nonblocking collective: all is in `collective`
    kPersistentCollective,
  };
  Request* request = nullptr;
  Kind kind = Kind::kPlain;
  bool active = false;
  UserRequest* next_idle = nullptr;
  Operation operation;
  // kPersistent
  MessageCall call;  ///< its communicator and datatype are held
  // kExchange
  Operation* second = nullptr;
  std::byte* scratch = nullptr;  ///< malloc: the copy that MPI_Isendrecv_replace sends
  // kCommDup
  MPI_Comm* made = nullptr;
  ExpectedComm* expected = nullptr;  ///< owned; null once it is there
  // kFlush
  BsendBuffer* buffer = nullptr;
  // kCollective, kPersistentCollective
  CollectiveOperation* collective = nullptr;  ///< owned

  [[nodiscard]] bool persistent() const { return kind == Kind::kPersistent || kind == Kind::kPersistentCollective; }
};

constexpr uint32_t kFirstFortran = 0x2c000001;
/// Where handles are addresses, each takes some of the address space, whether it is used or not.
constexpr uint32_t kMaxRequests = 1U << (ZH_ABI_REQUEST_SLOT_BYTES > 16 ? 21 : ZH_ABI_REQUEST_SLOT_BYTES > 0 ? 22 : 24);
static_assert(!ZH_ABI_INT_HANDLES || kMaxRequests >= p2p::RequestTable::kMost);
constexpr uint32_t kFirstMessage = 0x2e000001;  ///< messages have a range of their own
constexpr uint32_t kMaxMessages = 1U << 18;
extern uint32_t most_messages;  ///< for which there are addresses

/// Address space for handles; called once. False when there is no memory.
bool prepare_handles();
extern std::byte* request_arena;  // not on int-handle ABIs
extern std::byte* message_arena;

#if ZH_ABI_INT_HANDLES
inline MPI_Request handle_of(uint32_t index) { return static_cast<MPI_Request>(kFirstFortran + index); }
inline uint32_t index_of(MPI_Request handle) { return static_cast<uint32_t>(handle) - kFirstFortran; }
inline MPI_Message message_handle(uint32_t index) { return static_cast<MPI_Message>(kFirstMessage + index); }
inline uint32_t message_index(MPI_Message handle) { return static_cast<uint32_t>(handle) - kFirstMessage; }
#else
constexpr uintptr_t kSlotBytes = ZH_ABI_REQUEST_SLOT_BYTES;
inline MPI_Request handle_of(uint32_t index) {
  return reinterpret_cast<MPI_Request>(request_arena + index * kSlotBytes);
}
/// kMaxRequests or more for handles that are not ours.
inline uintptr_t index_of(MPI_Request handle) {
  return (reinterpret_cast<uintptr_t>(handle) - reinterpret_cast<uintptr_t>(request_arena)) / kSlotBytes;
}
inline MPI_Message message_handle(uint32_t index) {
  return reinterpret_cast<MPI_Message>(message_arena + index * kSlotBytes);
}
inline uintptr_t message_index(MPI_Message handle) {
  return (reinterpret_cast<uintptr_t>(handle) - reinterpret_cast<uintptr_t>(message_arena)) / kSlotBytes;
}
#endif

/// Of what has been made: where addresses are short, others' objects may lie where more of ours would.
inline bool is_own(MPI_Request handle) { return index_of(handle) < shim.requests->size(); }

/// The request behind one of our handles, or null if it is the host's.
inline Request* own(MPI_Request handle) {
  const auto index = static_cast<uintptr_t>(index_of(handle));
  return index < shim.requests->size() ? shim.requests->at(static_cast<uint32_t>(index)) : nullptr;
}

/// Null if it is a message of the engine, and nothing else.
inline UserRequest* more(const Request* request) { return static_cast<UserRequest*>(request->kept.more); }

extern uint32_t requests_with_handles;  ///< the first so many
bool make_handles(uint32_t index);
inline bool has_handle(const Request* request) {
  return ZH_ABI_INT_HANDLES != 0 || request->index < requests_with_handles;
}
/// Gives `request` a handle; false when there are too many or memory is short.
inline bool name(const Request* request, MPI_Request* handle) {
  if (!has_handle(request) && !make_handles(request->index)) return false;
  *handle = handle_of(request->index);
  return true;
}

/// With a message of the engine: what its end needs. `type`: held, or null.
[[gnu::always_inline]] inline void keep_with(Request* message, MPI_Comm comm, TypeInfo* type) {
  message->kept.site = key_of(comm);
  message->kept.type = type;
}
/// Takes a message that the engine has begun for a program's call; null: there was no memory. `type` may be null where
/// it is contiguous. Errors have been raised.
int name_message(Request* message, MPI_Comm comm, TypeInfo* type, MPI_Request* handle);

/// One that is more, kPlain and active; null when there are too many or memory is short.
UserRequest* new_request(MPI_Request* handle);
void free_request(UserRequest* request);

/// Whether a call that waits would wait for it: it is neither inactive nor an old handle of what has been freed.
inline bool is_active(const Request* request) {
  return more(request) != nullptr ? more(request)->active : request->stage != p2p::Stage::kFree;
}
/// Whether Wait would return at once. Does not turn the engine.
bool look(UserRequest* request);
inline bool look(Request* request) {
  if (more(request) != nullptr) return look(more(request));
  return request->is_done() || request->stage == p2p::Stage::kFree;
}
/// What waiting for it is for.
void tell(const Request* request, p2p::Activity* out);
/// An active message of the engine, which most of an array are, that has not ended.
inline bool pends(const Request* request) { return more(request) == nullptr && !request->is_done(); }
/// After look(): gives the outcome, frees the request or makes it inactive, sets the handle. Errors are returned, and
/// `*raised` says whether the host has raised them already.
int finish(UserRequest* request, MPI_Request* handle, MPI_Status* status, bool* raised);
/// The same of a nonblocking collective without an error; false: it is none.
bool finish_collective(UserRequest* request, MPI_Request* handle, MPI_Status* status);
/// The error class of a message that has one, or a datatype, which it holds no longer then.
[[gnu::cold]] int end_message(Request* request);
inline int finish(Request* request, MPI_Request* handle, MPI_Status* status, bool* raised) {
  if (more(request) != nullptr) return finish(more(request), handle, status, raised);
  *raised = false;
  if (request->stage == p2p::Stage::kFree) [[unlikely]] {
    write_empty_status(status);
    return MPI_SUCCESS;
  }
  write_result(status, request->result, !request->is_send);
  int error = MPI_SUCCESS;
  if (request->result.code != Code::kOk || request->kept.type != nullptr) [[unlikely]]
    error = end_message(request);
  shim.rank->release(request);
  *handle = MPI_REQUEST_NULL;
  return error;
}
/// A complete message of the engine that has no error, and holds nothing.
inline bool ended_well(const Request* request) {
  const auto holds = reinterpret_cast<uintptr_t>(request->kept.more) | reinterpret_cast<uintptr_t>(request->kept.type);
  return request->stage == p2p::Stage::kDone && request->is_done() && request->result.code == Code::kOk && holds == 0;
}
/// Finishes the requests at the head of an array that have ended well, and says how many. `statuses` may be null.
[[gnu::always_inline]] inline int finish_ended(int n, MPI_Request* requests, MPI_Status* statuses) {
  int ended = 0;
  for (; ended < n; ++ended) {
    Request* request = own(requests[ended]);
    if (request == nullptr || !ended_well(request)) break;
    if (statuses != nullptr) write_result(&statuses[ended], request->result, !request->is_send);
    shim.rank->release(request);
    requests[ended] = MPI_REQUEST_NULL;
  }
  return ended;
}
/// The outcome without freeing (MPI_Request_get_status).
void peek_status(Request* request, MPI_Status* status);
/// MPI_Start.
int start(Request* request);
/// MPI_Request_free. Collectives that are under way may not be given up (MPI standard 6.12): an error that was raised.
int abandon(Request* request);
/// Finishes abandoned requests that are complete; all of them if `wait`.
void reap_abandoned(bool wait);
/// MPI_Cancel. Collectives cannot be cancelled: an error that was raised.
int cancel(Request* request);
ErrorSite error_site(const Request* request);

/// Messages taken out of matching (MPI_Mprobe).
struct OwnMessage {
  p2p::Message* message = nullptr;
  ErrorSite site;
};
bool mint_message(p2p::Message* message, const ErrorSite& site, MPI_Message* handle);
inline bool is_own_message(MPI_Message handle) { return message_index(handle) < most_messages; }
/// Takes the message out of the table; message is null if the handle is stale.
OwnMessage take_message(MPI_Message handle);

}  // namespace zh::mpi
