// Starting, looking at and ending single operations. The fast paths of blocking calls on contiguous data are in
// wrap_p2p.cpp and do not come here.
#include "mpi/p2p/operation.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "mpi/handles/flatten.h"
#include "mpi/p2p/wildcard.h"

namespace zh::mpi {
namespace {

int no_memory(MPI_Comm comm) { return raise(comm, MPI_ERR_NO_MEM); }

/// Sets `buffer` for the engine; keeps what must live until the end in `op`.
int keep_data(Operation* op, const Elements& data, copy::Buffer* buffer) {
  if (data.type->kind != TypeInfo::Kind::kContiguous) {
    hold_handle(data.type);  // what is packed, the host unpacks at the end
    op->type = data.type;
  }
  if (data.type->kind != TypeInfo::Kind::kPacked) {
    *buffer = describe(data);
    return MPI_SUCCESS;
  }
  op->buf = data.buf;
  op->count = data.count;
  const int error = make_packed(data, op->receives, op->site.comm, &op->packed);
  *buffer = {op->packed, data.bytes(), nullptr};
  return error;
}

void release_data(Operation* op) {
  if (op->info != nullptr) {
    drop_comm(op->info);
    op->info = nullptr;
  }
  if (op->type != nullptr) {
    drop_handle(op->type);
    op->type = nullptr;
  }
  if (op->packed != nullptr) {
    std::free(op->packed);
    op->packed = nullptr;
  }
  if (op->host_type_owned) {
    host.Type_free(&op->host_type);
    op->host_type_owned = false;
  }
}

int failed(Operation* op, int error) {
  release_data(op);
  op->state = Operation::State::kNone;
  return error;
}

}  // namespace

void count_sent_by_host(MPI_Comm comm, int dest, MPI_Count count, MPI_Datatype type) {
  const CommInfo* info = known(comm);
  MPI_Count size = 0;
  if (info == nullptr && count >= 0 && is_neighbour(comm, dest))
    shim.rank->count_fallback("messages: on communicators of the MPI library alone");
  if (info == nullptr || !is_rank(info, dest) || info->local[dest] >= 0 || count < 0) return;
  if (host.Type_size_x(type, &size) != MPI_SUCCESS) return;
  shim.rank->count_sent_by_host(info->members->world()[static_cast<size_t>(dest)], static_cast<uint64_t>(count * size));
}

int make_packed(const Elements& data, bool to_come, MPI_Comm comm, std::byte** out) {
  *out = static_cast<std::byte*>(std::malloc(data.bytes() + 1));
  if (*out == nullptr) return no_memory(comm);
  return to_come ? MPI_SUCCESS : pack_elements(data, *out);
}

int start_send(Operation* op, const MessageCall& call) {
  op->open({call.comm, call.info->context}, false);
  if (call.info->local[call.rank] < 0) {
    op->state = Operation::State::kHost;
    op->host_request = MPI_REQUEST_NULL;
    return host_isend(call.mode, call.arguments(), &op->host_request);
  }
  p2p::SendArgs args = send_args(call);
  const int error = keep_data(op, call.data, &args.data);
  if (error != MPI_SUCCESS) return failed(op, error);
  op->engine = shim.rank->isend(args);
  if (op->engine == nullptr) return failed(op, no_memory(op->site.comm));
  op->state = Operation::State::kEngine;
  return MPI_SUCCESS;
}

namespace {

int recv_by_engine(Operation* op, const MessageCall& call) {
  p2p::RecvArgs args = recv_args(call.info, call.rank, call.tag);
  const int error = keep_data(op, call.data, &args.buffer);
  if (error != MPI_SUCCESS) return failed(op, error);
  op->result.cancelled = false;
  op->engine = shim.rank->irecv(args);
  if (op->engine == nullptr) return failed(op, no_memory(op->site.comm));
  op->state = Operation::State::kEngine;
  return MPI_SUCCESS;
}

}  // namespace

int start_recv(Operation* op, const MessageCall& call) {
  CommInfo* info = call.info;
  op->open({call.comm, info->context}, true);
  if (comes_by_engine(info, call.rank)) return recv_by_engine(op, call);
  op->host_request = MPI_REQUEST_NULL;
  const bool any = call.rank == MPI_ANY_SOURCE;
  if (!any) {
    // Else a receive from anywhere, which another thread adds now, might be given this one's message.
    const TableLock lock(info->wild_mutex);
    if (info->wild->empty()) {
      op->state = Operation::State::kHost;
      return call.arguments().hand_to(counted::Irecv, &op->host_request);
    }
  }
  hold_comm(info);
  op->info = info;
  op->source = call.rank;
  op->tag = call.tag;
  op->host_type = call.datatype;
  if (!is_predefined(call.datatype)) {  // the program may free it before a message comes
    host.Type_dup(call.datatype, &op->host_type);
    op->host_type_owned = true;
  }
  p2p::RecvArgs args;
  if (any) {
    args = recv_args(info, call.rank, call.tag);
    const int error = keep_data(op, call.data, &args.buffer);
    if (error != MPI_SUCCESS) return failed(op, error);
  }
  op->buf = call.data.buf;
  op->count = call.data.count;
  info->wild->add(op, any ? &args : nullptr);
  return op->error == MPI_SUCCESS ? MPI_SUCCESS : failed(op, op->error);
}

int start_mrecv(Operation* op, p2p::Message* message, const ErrorSite& site, const Elements& data) {
  op->open(site, true);
  copy::Buffer buffer;
  const int error = keep_data(op, data, &buffer);
  if (error != MPI_SUCCESS) return failed(op, error);
  op->engine = shim.rank->imrecv(message, buffer);
  if (op->engine == nullptr) return failed(op, no_memory(site.comm));
  op->state = Operation::State::kEngine;
  return MPI_SUCCESS;
}

bool look(Operation* op) {
  Operation::State state = op->state;
  if (op->info != nullptr) {  // another thread may move it out of the WildcardQueue
    const TableLock lock(op->info->wild_mutex);
    state = op->state;
  }
  switch (state) {
    case Operation::State::kNone:
    case Operation::State::kDone:
      return true;
    case Operation::State::kEngine:
      return shim.rank->done(op->engine);
    case Operation::State::kWaiting:
      op->info->wild->advance();
      return false;
    case Operation::State::kHost: {
      int flag = 0;
      op->error = host.Test(&op->host_request, &flag, &op->status);
      if (op->error == MPI_SUCCESS && flag == 0) return false;
      op->host_status = true;
      op->state = Operation::State::kDone;
      return true;
    }
  }
  return true;
}

bool poll(Operation* op) {
  if (op->state == Operation::State::kEngine) return shim.rank->test(op->engine);
  if (look(op)) return true;
  shim.rank->progress();
  return look(op);
}

void take_outcome(Operation* op) {
  if (op->state != Operation::State::kEngine) return;
  op->result = shim.rank->result(op->engine);
  shim.rank->release(op->engine);
  op->engine = nullptr;
  op->state = Operation::State::kDone;
  if (op->packed != nullptr && op->receives && !op->result.cancelled) {
    op->error = unpack_elements(op->packed, op->result.bytes, {static_cast<std::byte*>(op->buf), op->count, op->type});
  }
  if (op->result.code != Code::kOk) op->error = class_of(op->result.code);
}

#if defined(ZH_ABI_OMPI)
int judge_end(const p2p::Result&, const TypeInfo&) { return MPI_SUCCESS; }
#else
namespace {

bool is_intel_mpi() {
  std::vector<char> text(16384);  // MPI_MAX_LIBRARY_VERSION_STRING is 8192 at most
  int length = 0;
  host.Get_library_version(text.data(), &length);
  return std::strstr(text.data(), "Intel(R) MPI") != nullptr;
}

/// MPI_UNDEFINED where the last one is not whole.
MPI_Count basic_elements(uint64_t bytes, const TypeInfo& type) {
  MPI_Status status;
  MPI_Count elements = 0;
  write_status(&status, 0, 0, bytes, false);
  host.Get_elements_x(&status, type.handle, &elements);
  return elements;
}

}  // namespace

// These hosts unpack basic elements, and what is left over in the end tells them. Intel MPI does so where all are of
// one size, and says that there was no room for it. (MPICH itself does not look at long messages, nor at a rank's own.)
int judge_end(const p2p::Result& result, const TypeInfo& type) {
  if (type.kind != TypeInfo::Kind::kLayout || result.code != Code::kOk || result.cancelled) return MPI_SUCCESS;
  if (type.size == 0 || result.bytes % type.size == 0) return MPI_SUCCESS;
  if (basic_elements(result.bytes, type) != MPI_UNDEFINED) return MPI_SUCCESS;
  static const bool intel_mpi = is_intel_mpi();
  if (!intel_mpi) return MPI_ERR_TYPE;
  const auto elements = static_cast<uint64_t>(basic_elements(type.size, type));
  return type.size % elements == 0 ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
}
#endif

int finish(Operation* op, MPI_Status* status, bool* raised) {
  *raised = false;
  take_outcome(op);
  if (op->type != nullptr && op->receives && op->error == MPI_SUCCESS) op->error = judge_end(op->result, *op->type);
  const int error = op->error;
  if (op->host_status) {
    *raised = error != MPI_SUCCESS;
    copy_status(op->status, status);
  } else {
    write_result(status, op->result, op->receives);
  }
  release_data(op);
  op->state = Operation::State::kNone;
  return error;
}

void cancel(Operation* op) {
  switch (op->state) {
    case Operation::State::kNone:
    case Operation::State::kDone:
      return;
    case Operation::State::kEngine:
      shim.rank->cancel(op->engine);
      return;
    case Operation::State::kHost:
      host.Cancel(&op->host_request);
      return;
    case Operation::State::kWaiting: {
      const TableLock lock(op->info->wild_mutex);
      if (op->state != Operation::State::kWaiting) return cancel(op);
      if (op->engine != nullptr) {
        shim.rank->cancel(op->engine);  // matched or not, the engine's request now ends by itself
        op->state = Operation::State::kEngine;
      } else {
        op->result = p2p::Result{};
        op->result.cancelled = true;
        op->state = Operation::State::kDone;
      }
      op->info->wild->remove(op);
      return;
    }
  }
}

void tell(const Operation& op, p2p::Activity* out) {
  switch (op.state) {
    case Operation::State::kEngine:
      return shim.rank->tell(op.engine, out);
    case Operation::State::kHost:
      out->waits = p2p::Activity::Waits::kInHost;
      return;
    case Operation::State::kWaiting:
      out->waits = p2p::Activity::Waits::kForMessage;
      out->any = true;
      out->tag = op.tag;
      out->context = op.info->context;
      return;
    default:
      return;
  }
}

int complete(Operation* op, MPI_Status* status) {
  turn_until([op] { return poll(op); }, [op](p2p::Activity* out) { tell(*op, out); }, op->engine);
  bool raised = false;
  const ErrorSite site = op->site;
  const int error = finish(op, status, &raised);
  return error == MPI_SUCCESS || raised ? error : raise(site, error);
}

}  // namespace zh::mpi
