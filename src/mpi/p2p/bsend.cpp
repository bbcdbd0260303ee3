// See bsend.h. Space is given out first-fit, in the order of addresses; book-keeping lives outside the user's buffer,
// so a message needs its bytes rounded up to 8 and never more than MPI_BSEND_OVERHEAD on top.
#include "mpi/p2p/bsend.h"

#include <cstdlib>
#include <list>
#include <map>
#include <mutex>
#include <new>

#include "mpi/p2p/operation.h"

namespace zh::mpi {

struct BsendBuffer {
  struct Copy {
    std::byte* place;
    uint64_t bytes;
    Operation send;
  };
  std::byte* base = nullptr;
  uint64_t bytes = 0;
  bool automatic = false;
  std::list<Copy> copies;  ///< by address, unless automatic
};

namespace {

std::mutex bsend_mutex;
std::map<uintptr_t, BsendBuffer> buffers;  // by communicator; 0: the process

uintptr_t key_for(const MPI_Comm* comm) { return comm == nullptr ? 0 : key_of(*comm); }

BsendBuffer* find_buffer(uintptr_t key) {
  const auto it = buffers.find(key);
  return it == buffers.end() ? nullptr : &it->second;
}

BsendBuffer* buffer_for(MPI_Comm comm) {
  BsendBuffer* buffer = find_buffer(key_of(comm));
  return buffer != nullptr ? buffer : find_buffer(0);
}

/// Frees what has been sent. Under the mutex.
void sweep(BsendBuffer* buffer) {
  for (auto it = buffer->copies.begin(); it != buffer->copies.end();) {
    bool done = false;
    if (shim.rank != nullptr || it->send.state == Operation::State::kHost) {
      done = look(&it->send);
    } else {
      done = true;
    }
    if (!done) {
      ++it;
      continue;
    }
    bool raised = false;
    MPI_Status status;
    if (it->send.state != Operation::State::kNone) static_cast<void>(finish(&it->send, &status, &raised));
    if (buffer->automatic) std::free(it->place);
    it = buffer->copies.erase(it);
  }
}

/// Room for `bytes`, entered into the list; null when there is none.
BsendBuffer::Copy* allocate(BsendBuffer* buffer, uint64_t bytes) {
  const uint64_t need = round_up(bytes == 0 ? 1 : bytes, 8);
  if (buffer->automatic) {
    auto* place = static_cast<std::byte*>(std::malloc(need));
    if (place == nullptr) return nullptr;
    return &buffer->copies.emplace_back(BsendBuffer::Copy{place, need, {}});
  }
  std::byte* from = buffer->base;
  for (auto it = buffer->copies.begin();; ++it) {
    const bool last = it == buffer->copies.end();
    std::byte* end = last ? buffer->base + buffer->bytes : it->place;
    if (static_cast<uint64_t>(end - from) >= need)
      return &*buffer->copies.insert(it, BsendBuffer::Copy{from, need, {}});
    if (last) return nullptr;
    from = it->place + it->bytes;
  }
}

}  // namespace

bool bsend_ready(MPI_Comm comm) {
  const TableLock lock(bsend_mutex);
  return buffer_for(comm) != nullptr;
}

namespace {

/// Under the mutex; errors of the host have been raised, kNoRoom has not.
constexpr int kNoRoom = -1;

int copy_and_send(const MessageCall& call) {
  BsendBuffer* buffer = buffer_for(call.comm);
  if (buffer == nullptr) return kNoRoom;
  const uint64_t bytes = call.data.bytes();
  sweep(buffer);
  BsendBuffer::Copy* copy = allocate(buffer, bytes);
  // Copies that their receivers have taken may only wait for a turn of ours.
  constexpr int kTurns = 1000;
  for (int i = 0; copy == nullptr && i < kTurns && !buffer->copies.empty() && shim.rank != nullptr; ++i) {
    shim.rank->progress();
    sweep(buffer);
    copy = allocate(buffer, bytes);
  }
  if (copy == nullptr) return kNoRoom;
  int error = pack_elements(call.data, copy->place);
  if (error != MPI_SUCCESS) return error;  // sweep() collects the unused copy
  if (call.info != nullptr && call.info->local[call.rank] >= 0) {
    p2p::SendArgs args = send_args(call);
    args.data = {copy->place, bytes, nullptr};
    copy->send.engine = shim.rank->isend(args);
    if (copy->send.engine == nullptr) return kNoRoom;
    copy->send.state = Operation::State::kEngine;
    return MPI_SUCCESS;
  }
  const Arguments<MPI_Count> packed(copy->place, static_cast<MPI_Count>(bytes), MPI_PACKED, call.rank, call.tag,
                                    call.comm);
  error = packed.hand_to(counted::Isend, &copy->send.host_request);
  if (error == MPI_SUCCESS) copy->send.state = Operation::State::kHost;
  return error;
}

}  // namespace

int start_bsend(Operation* op, const MessageCall& call) {
  op->open({call.comm}, false);
  op->result = p2p::Result{};
  int error = MPI_SUCCESS;
  {
    const TableLock lock(bsend_mutex);
    error = copy_and_send(call);
  }
  if (error == kNoRoom) return raise(call.comm, MPI_ERR_BUFFER);
  if (error == MPI_SUCCESS) op->state = Operation::State::kDone;
  return error;
}

int bsend_attach(const MPI_Comm* comm, void* base, MPI_Count bytes) {
  const TableLock lock(bsend_mutex);
  if (bytes < 0 || find_buffer(key_for(comm)) != nullptr) return MPI_ERR_BUFFER;
  BsendBuffer& buffer = buffers[key_for(comm)];
  buffer.automatic = base == MPI_BUFFER_AUTOMATIC;
  if (!buffer.automatic) {
    buffer.base = static_cast<std::byte*>(base);
    buffer.bytes = static_cast<uint64_t>(bytes);
  }
  return MPI_SUCCESS;
}

BsendBuffer* bsend_buffer(const MPI_Comm* comm) {
  const TableLock lock(bsend_mutex);
  return find_buffer(key_for(comm));
}

bool bsend_flushed(BsendBuffer* buffer) {
  const TableLock lock(bsend_mutex);
  sweep(buffer);
  return buffer->copies.empty();
}

int bsend_detach(const MPI_Comm* comm, void* base_out, MPI_Count* bytes) {
  BsendBuffer* buffer = bsend_buffer(comm);
  if (buffer == nullptr) return MPI_ERR_BUFFER;
  turn_until([buffer] { return bsend_flushed(buffer); });
  const TableLock lock(bsend_mutex);
  void* base = buffer->automatic ? MPI_BUFFER_AUTOMATIC : buffer->base;
  *static_cast<void**>(base_out) = base;
  *bytes = buffer->automatic ? 0 : static_cast<MPI_Count>(buffer->bytes);
  buffers.erase(key_for(comm));
  return MPI_SUCCESS;
}

void bsend_forget(MPI_Comm comm) {
  const TableLock lock(bsend_mutex);
  auto buffer = buffers.extract(key_of(comm));
  if (buffer.empty()) return;
  static uintptr_t no_handle = 0;
  buffer.key() = --no_handle;
  buffers.insert(std::move(buffer));
}

void bsend_finish_all() {
  for (auto& [key, buffer] : buffers) {
    BsendBuffer* b = &buffer;
    turn_until([b] { return bsend_flushed(b); });
  }
}

}  // namespace zh::mpi
