// Minting of handles, and the life of own requests.
#include "mpi/p2p/requests.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "mpi/coll/collective_operation.h"
#include "mpi/p2p/bsend.h"
#include "mpi/p2p/wildcard.h"
#include "os/affinity.h"
#include "os/room.h"

namespace zh::mpi {

namespace {
/// Half the address space away from every handle: until prepare_handles() none is ours, and where the engine does not
/// start none ever is. A null arena would take the low addresses of the host's for its own.
constexpr uintptr_t kNowhere = uintptr_t{1} << 63;
}  // namespace

std::byte* request_arena = reinterpret_cast<std::byte*>(kNowhere);
std::byte* message_arena = reinterpret_cast<std::byte*>(kNowhere);
UserRequest** request_chunks[kMaxRequests / kChunk];
uint32_t most_messages = kMaxMessages;

namespace {

std::mutex requests_mutex;
UserRequest* idle = nullptr;  // list
uint32_t n_made = 0;

std::mutex abandoned_mutex;
std::vector<UserRequest*> abandoned;

std::mutex messages_mutex;
std::vector<OwnMessage> messages;
std::vector<uint32_t> idle_messages;

#if !ZH_ABI_INT_HANDLES
// Never destroyed: a program may use requests in its exit handlers.
os::PrivateRoom& request_room = *new os::PrivateRoom;
os::PrivateRoom& message_room = *new os::PrivateRoom;
#endif

/// Open MPI's Fortran wrappers look for the Fortran handle inside the object.
[[maybe_unused]] void fill_slot([[maybe_unused]] std::byte* slot, [[maybe_unused]] uint32_t fortran) {
#if defined(ZH_ABI_OMPI)
  for (size_t at = 0; at < kSlotBytes; at += sizeof(fortran)) std::memcpy(slot + at, &fortran, sizeof(fortran));
#endif
}

/// Another kChunk requests; false when the limit is reached.
bool make_chunk() {
  if (n_made >= kMaxRequests) return false;
#if !ZH_ABI_INT_HANDLES
  if (!request_room.open((uint64_t{n_made} + kChunk) * kSlotBytes)) return false;
#endif
  auto** pointers = new (std::nothrow) UserRequest*[kChunk]();
  auto* objects = new (std::nothrow) UserRequest[kChunk];
  if (pointers == nullptr || objects == nullptr) {
    delete[] pointers;
    delete[] objects;
    return false;
  }
  for (uint32_t i = kChunk; i-- > 0;) {
    objects[i].index = n_made + i;
    pointers[i] = &objects[i];
#if !ZH_ABI_INT_HANDLES
    fill_slot(request_arena + (n_made + i) * kSlotBytes, kFirstFortran + n_made + i);
#endif
    objects[i].next_idle = idle;
    idle = &objects[i];
  }
  request_chunks[n_made / kChunk] = pointers;
  n_made += kChunk;
  return true;
}

}  // namespace

bool prepare_handles() {
#if !ZH_ABI_INT_HANDLES
  // Mostly addresses are needed; slots open as they are used. Of limited ones (ulimit -v) most are the program's.
  const uint64_t chunks = os::address_space_left() / 16 / (kChunk * kSlotBytes);
  most_messages = static_cast<uint32_t>(std::min<uint64_t>(kMaxMessages, chunks * kChunk));
  if (!request_room.reserve(std::min<uint64_t>(kMaxRequests, chunks * kChunk) * kSlotBytes)) return false;
  if (!message_room.reserve(most_messages * kSlotBytes)) return false;
  request_arena = request_room.base();
  message_arena = message_room.base();
  return true;
#else
  return true;
#endif
}

UserRequest* new_request(MPI_Request* handle) {
  const TableLock lock(requests_mutex);
  if (idle == nullptr && !make_chunk()) return nullptr;
  UserRequest* request = idle;
  idle = request->next_idle;
  request->kind = UserRequest::Kind::kPlain;
  request->active = true;
  *handle = handle_of(request->index);
  return request;
}

namespace {
void give_back(UserRequest* request) {
  request->active = false;
  const TableLock lock(requests_mutex);
  request->next_idle = idle;
  idle = request;
}
}  // namespace

UserRequest* completed_send() {
  static UserRequest* const one = [] {
    MPI_Request handle;
    UserRequest* request = new_request(&handle);
    if (request != nullptr) {
      request->kind = UserRequest::Kind::kSent;
      request->operation = Operation{};  // it may have been another request's
      request->operation.state = Operation::State::kDone;
      request->operation.site = {MPI_COMM_WORLD};
    }
    return request;
  }();
  return one;
}

void free_request(UserRequest* request) {
  if (request->second != nullptr) {
    delete request->second;
    request->second = nullptr;
  }
  if (request->scratch != nullptr) {
    std::free(request->scratch);
    request->scratch = nullptr;
  }
  delete request->collective;
  request->collective = nullptr;
  delete request->expected;
  request->expected = nullptr;
  if (request->call.data.type != nullptr) drop(request->call.data.type);
  request->call.data.type = nullptr;
  if (request->datatype_owned) host.Type_free(&request->call.datatype);
  request->datatype_owned = false;
  if (request->call.info != nullptr) drop_comm(request->call.info);
  request->call.info = nullptr;
  give_back(request);
}

bool finish_if_done_at_start(MPI_Request* handle, MPI_Status* status) {
  UserRequest* request = own(*handle);
  if (request == nullptr) return false;
  if (request->kind != UserRequest::Kind::kSent) {
    if (!done_at_start(request) || request->operation.error != MPI_SUCCESS) return false;
    request->operation.state = Operation::State::kNone;
    write_result(status, request->operation.result, request->operation.receives);
    give_back(request);
  } else {
    write_result(status, request->operation.result, false);
  }
  *handle = MPI_REQUEST_NULL;
  return true;
}

bool look(UserRequest* request) {
  if (done_at_start(request)) return true;
  if (!request->active) return true;
  if (request->collective != nullptr) return request->collective->look();
  if (request->kind == UserRequest::Kind::kFlush) return bsend_flushed(request->buffer);
  if (!look(&request->operation)) return false;
  return request->second == nullptr || look(request->second);
}

ErrorSite error_site(const UserRequest* request) {
  if (request->collective != nullptr) return request->collective->error_site();
  if (const CommInfo* info = request->call.info; info != nullptr) return {info->handle, info->context};
  return request->operation.site;
}

namespace {
/// What completed has no source and no data. MPI_ERROR stays as it is: the request was an active one.
void write_no_message(MPI_Status* status) { write_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0, false); }

/// The communicator that MPI_Comm_idup has made; the program may use it as soon as it is told.
void take_made(UserRequest* request) {
  if (request->expected != nullptr) made_as_expected(*request->expected, *request->made);
  delete request->expected;
  request->expected = nullptr;
}
}  // namespace

int finish(UserRequest* request, MPI_Request* handle, MPI_Status* status, bool* raised) {
  *raised = false;
  if (finish_if_done_at_start(handle, status)) return MPI_SUCCESS;
  if (!request->active) {  // inactive persistent
    write_empty_status(status);
    return MPI_SUCCESS;
  }
  int error = MPI_SUCCESS;
  if (request->collective != nullptr) {
    write_no_message(status);
    error = request->collective->error();
  } else if (request->kind == UserRequest::Kind::kFlush) {
    write_no_message(status);
  } else {
    error = finish(&request->operation, status, raised);
  }
  if (request->kind == UserRequest::Kind::kExchange) {
    bool second_raised = false;
    MPI_Status unused;
    const int second_error = finish(request->second, &unused, &second_raised);
    if (error == MPI_SUCCESS) {
      error = second_error;
      *raised = second_raised;
    }
  }
  if (request->kind == UserRequest::Kind::kCommDup && error == MPI_SUCCESS) take_made(request);
  request->active = false;
  if (!request->persistent()) {
    free_request(request);
    *handle = MPI_REQUEST_NULL;
  }
  return error;
}

void tell(const UserRequest* request, p2p::Activity* out) {
  if (request->collective != nullptr) return request->collective->tell(out);
  const Operation& op = request->operation;
  const bool exchanges = request->kind == UserRequest::Kind::kExchange;
  const bool received =
      op.state == Operation::State::kDone || (op.state == Operation::State::kEngine && shim.rank->done(op.engine));
  tell(exchanges && received ? *request->second : op, out);
}

void peek_status(UserRequest* request, MPI_Status* status) {
  if (!request->active) {
    write_empty_status(status);
    return;
  }
  if (request->kind == UserRequest::Kind::kFlush || request->collective != nullptr) {
    write_no_message(status);
    return;
  }
  Operation& op = request->operation;
  if (request->kind == UserRequest::Kind::kCommDup && op.error == MPI_SUCCESS) take_made(request);
  if (op.packed != nullptr) take_outcome(&op);  // complete is a request whose data is there
  if (op.state == Operation::State::kEngine) {
    write_result(status, shim.rank->result(op.engine), op.receives);
  } else if (op.host_status) {
    copy_status(op.status, status);
  } else {
    write_result(status, op.result, op.receives);
  }
}

int start(UserRequest* request) {
  if (!request->persistent() || request->active) return raise(error_site(request), MPI_ERR_REQUEST);
  const int error =
      request->collective != nullptr ? request->collective->start() : start(&request->operation, request->call);
  request->active = error == MPI_SUCCESS;
  return error;
}

int abandon(UserRequest* request) {
  if (request->kind == UserRequest::Kind::kSent) return MPI_SUCCESS;
  if (request->collective != nullptr && request->active) return raise(error_site(request), MPI_ERR_REQUEST);
  if (!request->active) {
    free_request(request);
    return MPI_SUCCESS;
  }
  Operation& op = request->operation;
  if (request->kind == UserRequest::Kind::kPlain && op.state == Operation::State::kEngine && op.type == nullptr &&
      op.packed == nullptr && op.info == nullptr) {
    shim.rank->detach(op.engine);
    op.engine = nullptr;
    op.state = Operation::State::kNone;
    free_request(request);
    return MPI_SUCCESS;
  }
  const TableLock lock(abandoned_mutex);
  abandoned.push_back(request);
  return MPI_SUCCESS;
}

void reap_abandoned(bool wait) {
  if (abandoned.empty()) return;
  std::vector<UserRequest*> mine;
  {
    const TableLock lock(abandoned_mutex);
    mine.swap(abandoned);
  }
  for (UserRequest* request : mine) {
    if (wait) turn_until([request] { return look(request); });
    if (!look(request)) {
      const TableLock lock(abandoned_mutex);
      abandoned.push_back(request);
      continue;
    }
    const bool persistent = request->persistent();  // finish() gives others back, to other threads too
    MPI_Request handle = MPI_REQUEST_NULL;
    MPI_Status status;
    bool raised = false;
    static_cast<void>(finish(request, &handle, &status, &raised));
    if (persistent) free_request(request);
  }
}

int cancel(UserRequest* request) {
  if (request->collective != nullptr) return raise(error_site(request), MPI_ERR_REQUEST);
  if (request->active && request->kind != UserRequest::Kind::kFlush) cancel(&request->operation);
  return MPI_SUCCESS;
}

bool mint_message(p2p::Message* message, const ErrorSite& site, MPI_Message* handle) {
  const TableLock lock(messages_mutex);
  if (idle_messages.empty()) {
    if (messages.size() >= most_messages) return false;
#if !ZH_ABI_INT_HANDLES
    if (!message_room.open((messages.size() + 1) * kSlotBytes)) return false;
#endif
    messages.push_back({nullptr, site});
    const auto index = static_cast<uint32_t>(messages.size() - 1);
#if !ZH_ABI_INT_HANDLES
    fill_slot(message_arena + index * kSlotBytes, kFirstMessage + index);
#endif
    idle_messages.push_back(index);
  }
  const uint32_t index = idle_messages.back();
  idle_messages.pop_back();
  messages[index] = {message, site};
  *handle = message_handle(index);
  return true;
}

OwnMessage take_message(MPI_Message handle) {
  const TableLock lock(messages_mutex);
  const auto index = static_cast<size_t>(message_index(handle));
  if (index >= messages.size() || messages[index].message == nullptr) return {nullptr, {MPI_COMM_WORLD}};
  const OwnMessage taken_out = messages[index];
  messages[index].message = nullptr;
  idle_messages.push_back(static_cast<uint32_t>(index));
  return taken_out;
}

}  // namespace zh::mpi
