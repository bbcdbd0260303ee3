// Probes. On one node they are the engine's; towards other nodes the host's; from anywhere both take turns.
#include "mpi/p2p/wildcard.h"
#include "mpi/wrap.h"

namespace zh::mpi {
namespace {

/// Null: the call is the host's.
CommInfo* probe_target(int source, int tag, MPI_Comm comm) {
  CommInfo* info = taken(comm);
  return info != nullptr && is_source(info, source, tag) ? info : nullptr;
}

bool asks_engine(const CommInfo* info, int source) { return source == MPI_ANY_SOURCE || comes_by_engine(info, source); }

bool asks_host(const CommInfo* info, int source) { return !comes_by_engine(info, source); }

/// A message of the host that no waiting wildcard receive is to have.
int host_iprobe(CommInfo* info, int source, int tag, int* flag, MPI_Status* status) {
  *flag = 0;
  if (!info->wild->empty()) info->wild->advance();
  MPI_Status seen;
  const int error = host.Iprobe(source, tag, info->handle, flag, &seen);
  if (error != MPI_SUCCESS || *flag == 0) return error;
  if (info->wild->claims(seen.MPI_SOURCE, seen.MPI_TAG)) {
    *flag = 0;
    return MPI_SUCCESS;
  }
  copy_status(seen, status);
  return MPI_SUCCESS;
}

int iprobe(CommInfo* info, int source, int tag, int* flag, MPI_Status* status) {
  *flag = 0;
  if (asks_engine(info, source)) {
    p2p::Result result;
    if (shim.rank->iprobe(recv_args(info, source, tag), &result)) {
      if (result.code != Code::kOk) return raise(info->handle, class_of(result.code));
      write_result(status, result, true);
      *flag = 1;
      return MPI_SUCCESS;
    }
  }
  return asks_host(info, source) ? host_iprobe(info, source, tag, flag, status) : MPI_SUCCESS;
}

int improbe(CommInfo* info, int source, int tag, int* flag, MPI_Message* message, MPI_Status* status) {
  *flag = 0;
  if (asks_engine(info, source)) {
    p2p::Result result;
    p2p::Message* found = shim.rank->improbe(recv_args(info, source, tag), &result);
    if (found != nullptr) {
      write_result(status, result, true);
      *flag = 1;
      if (!mint_message(found, {info->handle, info->context}, message)) return raise(info->handle, MPI_ERR_NO_MEM);
      return MPI_SUCCESS;
    }
    if (result.code != Code::kOk) return raise(info->handle, class_of(result.code));
  }
  if (!asks_host(info, source)) return MPI_SUCCESS;
  if (!info->wild->empty()) info->wild->advance();
  return info->wild->improbe(source, tag, flag, message, status);
}

/// What waiting for such a message is for.
void tell(const CommInfo& comm, int source, int tag, p2p::Activity* out) {
  out->waits = p2p::Activity::Waits::kForMessage;
  out->any = source == MPI_ANY_SOURCE;
  out->tag = tag == MPI_ANY_TAG ? p2p::kAnyTag : tag;
  out->context = comm.context;
  if (!out->any) out->add_peer(comm.members->world()[static_cast<size_t>(source)]);
}

}  // namespace

namespace wrap {

int Iprobe(int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
  CommInfo* info = probe_target(source, tag, comm);
  if (info == nullptr) return host.Iprobe(source, tag, comm, flag, status);
  turn_sometimes();
  return iprobe(info, source, tag, flag, status);
}

int Probe(int source, int tag, MPI_Comm comm, MPI_Status* status) {
  CommInfo* info = probe_target(source, tag, comm);
  if (info == nullptr) return host.Probe(source, tag, comm, status);
  int flag = 0;
  int error = MPI_SUCCESS;
  constexpr uint16_t kNumber = function_number("Probe");
  shim.rank->called(kNumber);
  const auto look = [&] {
    error = iprobe(info, source, tag, &flag, status);
    return flag != 0 || error != MPI_SUCCESS;
  };
  turn_until(look, [=](p2p::Activity* out) { tell(*info, source, tag, out); });
  return error;
}

int Improbe(int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message, MPI_Status* status) {
  CommInfo* info = probe_target(source, tag, comm);
  if (info == nullptr) return host.Improbe(source, tag, comm, flag, message, status);
  turn_sometimes();
  return improbe(info, source, tag, flag, message, status);
}

int Mprobe(int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status) {
  CommInfo* info = probe_target(source, tag, comm);
  if (info == nullptr) return host.Mprobe(source, tag, comm, message, status);
  int flag = 0;
  int error = MPI_SUCCESS;
  constexpr uint16_t kNumber = function_number("Mprobe");
  shim.rank->called(kNumber);
  const auto look = [&] {
    error = improbe(info, source, tag, &flag, message, status);
    return flag != 0 || error != MPI_SUCCESS;
  };
  turn_until(look, [=](p2p::Activity* out) { tell(*info, source, tag, out); });
  return error;
}

}  // namespace wrap
}  // namespace zh::mpi
