// Requests of zerohop's own, and the handles that programs hold for them. A minted handle is told from the host's by
// one subtraction and one comparison; its Fortran integer is 0x2c000001 + index everywhere.
#pragma once

#include "mpi/p2p/operation.h"

namespace zh::mpi {

struct BsendBuffer;
struct ExpectedComm;
class CollectiveOperation;

struct alignas(64) UserRequest {
  enum class Kind : uint8_t {
    kPlain,       ///< one operation
    kPersistent,  ///< one operation that MPI_Start starts again and again
    kExchange,    ///< MPI_Isendrecv: `operation` receives, `*second` sends
    kCommDup,     ///< MPI_Comm_idup: the host's request in `operation`, then the communicator is taken
    kFlush,       ///< MPI_Buffer_iflush
    kSent,        ///< completed_send(): shared, never freed
    kCollective,  ///< a nonblocking collective: all is in `collective`
    kPersistentCollective,
  };
  uint32_t index = 0;
  Kind kind = Kind::kPlain;
  bool active = false;
  UserRequest* next_idle = nullptr;
  Operation operation;
  // kPersistent
  MessageCall call;             ///< its communicator and datatype are held
  bool datatype_owned = false;  ///< call.datatype is a duplicate
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
constexpr uint32_t kFirstMessage = 0x2e000001;  ///< messages have a range of their own
constexpr uint32_t kMaxMessages = 1U << 18;
extern uint32_t most_messages;  ///< for which there are addresses

/// Address space for handles; called once. False when there is no memory.
bool prepare_handles();
extern std::byte* request_arena;  // not on int-handle ABIs
extern std::byte* message_arena;

constexpr uint32_t kChunk = 1024;
extern UserRequest** request_chunks[kMaxRequests / kChunk];  ///< tables of pointers, by index

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
inline bool is_own(MPI_Request handle) {
  const auto index = index_of(handle);
  return index < kMaxRequests && request_chunks[index / kChunk] != nullptr;
}

/// The request behind one of our handles, or null if it is the host's (or no live one of ours).
inline UserRequest* own(MPI_Request handle) {
  const auto index = index_of(handle);
  if (index >= kMaxRequests) return nullptr;
  UserRequest** chunk = request_chunks[index / kChunk];
  return chunk == nullptr ? nullptr : chunk[index % kChunk];
}

/// Stands for every send that was complete when it was started; lives for ever. Null when memory is short.
UserRequest* completed_send();

/// A request ready for use, kPlain and active; null when there are too many or memory is short.
UserRequest* new_request(MPI_Request* handle);
void free_request(UserRequest* request);

/// The short way of a receive whose message was there already, which most small ones are: nothing to free but itself.
inline bool done_at_start(const UserRequest* request) {
  const Operation& op = request->operation;
  return request->kind == UserRequest::Kind::kPlain && op.info == nullptr && op.state == Operation::State::kDone &&
         !op.host_status && op.type == nullptr;
}
/// Finishes a request that was complete without error when it was started; false if it is another one (nothing
/// happened).
bool finish_if_done_at_start(MPI_Request* handle, MPI_Status* status);

/// Whether Wait would return at once. Does not turn the engine.
bool look(UserRequest* request);
/// What waiting for it is for.
void tell(const UserRequest* request, p2p::Activity* out);
/// The short way to a no: of an active message of the engine, which most of an array are.
inline bool pends(const UserRequest* request) {
  const Operation& op = request->operation;
  return request->active && request->kind == UserRequest::Kind::kPlain && op.info == nullptr &&
         op.state == Operation::State::kEngine && !shim.rank->done(op.engine);
}
/// After look(): gives the outcome, frees the request or makes it inactive, sets the handle. Errors are returned, and
/// `*raised` says whether the host has raised them already.
int finish(UserRequest* request, MPI_Request* handle, MPI_Status* status, bool* raised);
/// The outcome without freeing (MPI_Request_get_status).
void peek_status(UserRequest* request, MPI_Status* status);
/// MPI_Start.
int start(UserRequest* request);
/// MPI_Request_free. Collectives that are under way may not be given up (MPI standard 6.12): an error that was raised.
int abandon(UserRequest* request);
/// Finishes abandoned requests that are complete; all of them if `wait`.
void reap_abandoned(bool wait);
/// MPI_Cancel. Collectives cannot be cancelled: an error that was raised.
int cancel(UserRequest* request);
ErrorSite error_site(const UserRequest* request);

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
