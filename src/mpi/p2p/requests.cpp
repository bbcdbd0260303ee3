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
uint32_t requests_with_handles = 0;
uint32_t most_messages = kMaxMessages;

namespace {

std::mutex requests_mutex;
UserRequest* idle = nullptr;  // list
constexpr uint32_t kHandlesAtOnce = 1024;

std::mutex abandoned_mutex;
std::vector<Request*> abandoned;

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

}  // namespace

bool prepare_handles() {
#if !ZH_ABI_INT_HANDLES
  // Mostly addresses are needed; slots open as they are used. Of limited ones (ulimit -v) most are the program's.
  const uint64_t most = os::address_space_left() / 16 / kSlotBytes / kHandlesAtOnce * kHandlesAtOnce;
  most_messages = static_cast<uint32_t>(std::min<uint64_t>(kMaxMessages, most));
  if (!request_room.reserve(std::min<uint64_t>(kMaxRequests, most) * kSlotBytes)) return false;
  if (!message_room.reserve(most_messages * kSlotBytes)) return false;
  request_arena = request_room.base();
  message_arena = message_room.base();
#endif
  return make_handles(0);
}

bool make_handles(uint32_t index) {
  const TableLock lock(requests_mutex);
  while (requests_with_handles <= index) {
    const uint32_t with = requests_with_handles + kHandlesAtOnce;
    if (with > kMaxRequests) return false;
#if !ZH_ABI_INT_HANDLES
    if (!request_room.open(uint64_t{with} * kSlotBytes)) return false;
    for (uint32_t i = requests_with_handles; i < with; ++i) {
      fill_slot(request_arena + i * kSlotBytes, kFirstFortran + i);
    }
#endif
    requests_with_handles = with;
  }
  return true;
}

namespace {
UserRequest* take_idle() {
  const TableLock lock(requests_mutex);
  UserRequest* request = idle;
  if (request == nullptr) return new (std::nothrow) UserRequest;
  idle = request->next_idle;
  return request;
}

void give_back(UserRequest* request) {
  request->active = false;
  if (request->request != nullptr) shim.rank->release(request->request);
  const TableLock lock(requests_mutex);
  request->next_idle = idle;
  idle = request;
}

ErrorSite site_of(const Request* message) {
  if (message->kept.site == 0) return {MPI_COMM_WORLD};  // that of all sends that were over at once
#if ZH_ABI_INT_HANDLES
  return {static_cast<MPI_Comm>(message->kept.site), message->context};
#else
  return {reinterpret_cast<MPI_Comm>(message->kept.site), message->context};
#endif
}
}  // namespace

UserRequest* new_request(MPI_Request* handle) {
  UserRequest* request = take_idle();
  if (request == nullptr) return nullptr;
  request->request = shim.rank->make_empty();
  if (request->request == nullptr || !name(request->request, handle)) {
    give_back(request);
    return nullptr;
  }
  request->request->kept.more = request;
  request->kind = UserRequest::Kind::kPlain;
  request->active = true;
  return request;
}

// A message for which there is no handle is taken back, if it has not been matched.
int name_message(Request* message, MPI_Comm comm, TypeInfo* type, MPI_Request* handle) {
  if (message == nullptr || !name(message, handle)) {
    if (message != nullptr) {
      shim.rank->cancel(message);
      shim.rank->detach(message);
    }
    return raise(comm, MPI_ERR_NO_MEM);
  }
  if (type != nullptr && type->kind == TypeInfo::Kind::kContiguous) type = nullptr;
  if (type != nullptr) hold_handle(type);
  keep_with(message, comm, type);
  return MPI_SUCCESS;
}

int end_message(Request* request) {
  auto* type = static_cast<TypeInfo*>(request->kept.type);
  int error = class_of(request->result.code);
  if (type == nullptr) return error;
  if (!request->is_send && error == MPI_SUCCESS) error = judge_end(request->result, *type);
  drop_handle(type);
  request->kept.type = nullptr;
  return error;
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
  if (request->call.data.type != nullptr) drop_handle(request->call.data.type);
  request->call.data.type = nullptr;
  if (request->call.info != nullptr) drop_comm(request->call.info);
  request->call.info = nullptr;
  give_back(request);
}

bool look(UserRequest* request) {
  if (!request->active) return true;
  if (request->collective != nullptr) return request->collective->look();
  if (request->kind == UserRequest::Kind::kFlush) return bsend_flushed(request->buffer);
  if (!look(&request->operation)) return false;
  return request->second == nullptr || look(request->second);
}

ErrorSite error_site(const Request* message) {
  const UserRequest* request = more(message);
  if (request == nullptr) return site_of(message);
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

bool finish_collective(UserRequest* request, MPI_Request* handle, MPI_Status* status) {
  if (request->kind != UserRequest::Kind::kCollective || !request->active) return false;
  if (request->collective->error() != MPI_SUCCESS) return false;
  write_no_message(status);
  request->active = false;
  if (UserRequest* goes = request->collective->keep(request); goes != nullptr) free_request(goes);
  *handle = MPI_REQUEST_NULL;
  return true;
}

int finish(UserRequest* request, MPI_Request* handle, MPI_Status* status, bool* raised) {
  *raised = false;
  if (finish_collective(request, handle, status)) return MPI_SUCCESS;
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

void tell(const Request* message, p2p::Activity* out) {
  const UserRequest* request = more(message);
  if (request == nullptr) return shim.rank->tell(message, out);
  if (request->collective != nullptr) return request->collective->tell(out);
  const Operation& op = request->operation;
  const bool exchanges = request->kind == UserRequest::Kind::kExchange;
  const bool received =
      op.state == Operation::State::kDone || (op.state == Operation::State::kEngine && shim.rank->done(op.engine));
  tell(exchanges && received ? *request->second : op, out);
}

void peek_status(Request* message, MPI_Status* status) {
  if (!is_active(message)) {
    write_empty_status(status);
    return;
  }
  UserRequest* request = more(message);
  if (request == nullptr) {
    write_result(status, message->result, !message->is_send);
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

int start(Request* message) {
  UserRequest* request = more(message);
  if (request == nullptr || !request->persistent() || request->active) {
    return raise(error_site(message), MPI_ERR_REQUEST);
  }
  const int error =
      request->collective != nullptr ? request->collective->start() : start(&request->operation, request->call);
  request->active = error == MPI_SUCCESS;
  return error;
}

int abandon(Request* message) {
  UserRequest* request = more(message);
  if (request == nullptr && message->kept.type == nullptr) {
    if (is_active(message)) shim.rank->detach(message);
    return MPI_SUCCESS;
  }
  if (request != nullptr && !request->active) {
    free_request(request);
    return MPI_SUCCESS;
  }
  if (request != nullptr && request->collective != nullptr) return raise(error_site(message), MPI_ERR_REQUEST);
  const TableLock lock(abandoned_mutex);
  abandoned.push_back(message);
  return MPI_SUCCESS;
}

void reap_abandoned(bool wait) {
  if (abandoned.empty()) return;
  std::vector<Request*> mine;
  {
    const TableLock lock(abandoned_mutex);
    mine.swap(abandoned);
  }
  for (Request* request : mine) {
    if (wait) turn_until([request] { return look(request); });
    if (!look(request)) {
      const TableLock lock(abandoned_mutex);
      abandoned.push_back(request);
      continue;
    }
    UserRequest* const kept = more(request);
    const bool persistent = kept != nullptr && kept->persistent();  // finish() gives others back, to other threads too
    MPI_Request handle = MPI_REQUEST_NULL;
    MPI_Status status;
    bool raised = false;
    static_cast<void>(finish(request, &handle, &status, &raised));
    if (persistent) free_request(kept);
  }
}

int cancel(Request* message) {
  UserRequest* request = more(message);
  if (request == nullptr) {
    if (is_active(message)) shim.rank->cancel(message);
    return MPI_SUCCESS;
  }
  if (request->collective != nullptr) return raise(error_site(message), MPI_ERR_REQUEST);
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
