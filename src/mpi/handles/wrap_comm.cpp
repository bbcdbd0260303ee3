// Constructors and destructors of communicators, and the destructor of datatypes. The host makes them; when it has, the
// new communicator is taken or left, and its name in the engine is derived without a message.
#include <cstring>

#include "mpi/coll/collective_operation.h"
#include "mpi/p2p/bsend.h"
#include "mpi/p2p/wildcard.h"
#include "mpi/wrap.h"

namespace zh::mpi {
namespace {

/// Info key `zerohop` = `off`: the new communicator stays with the host.
bool wants_host(MPI_Info info) {
  if (info == MPI_INFO_NULL) return false;
  char value[16] = {};
  int flag = 0;
  char key[] = "zerohop";
  if (host.Info_get(info, key, sizeof(value) - 1, value, &flag) != MPI_SUCCESS || flag == 0) return false;
  return std::strcmp(value, "off") == 0;
}

/// After a collective constructor.
int made(int error, MPI_Comm parent, const MPI_Comm* out, Kin kin, bool served = true) {
  if (error == MPI_SUCCESS) made_collectively(parent, *out, kin, served);
  return error;
}

/// MPI standard 8.5.1: without reordering each process keeps its rank.
Kin of_topology(int reorder) { return reorder == 0 ? Kin::kFirst : Kin::kOther; }

template <typename Call>
int idup(MPI_Comm comm, MPI_Comm* out, MPI_Request* handle, bool served, Call&& call) {
  CommInfo* info = shim.rank != nullptr ? known(comm) : nullptr;
  if (info == nullptr) return call(handle);
  UserRequest* request = new_request(handle);
  if (request == nullptr) return raise(comm, MPI_ERR_NO_MEM);
  Operation& op = request->operation;
  const int error = call(&op.host_request);
  if (error != MPI_SUCCESS) {
    free_request(request);
    *handle = MPI_REQUEST_NULL;
    return error;
  }
  op.site = {comm};
  op.receives = false;
  op.host_status = false;
  op.error = MPI_SUCCESS;
  op.state = Operation::State::kHost;
  request->kind = UserRequest::Kind::kCommDup;
  request->made = out;
  request->expected = expect_duplicate(info, served).release();
  return MPI_SUCCESS;
}

}  // namespace

namespace wrap {

int Comm_dup(MPI_Comm comm, MPI_Comm* out) { return made(host.Comm_dup(comm, out), comm, out, Kin::kSame); }

int Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* out) {
  return made(host.Comm_dup_with_info(comm, info, out), comm, out, Kin::kSame, !wants_host(info));
}

int Comm_idup(MPI_Comm comm, MPI_Comm* out, MPI_Request* request) {
  return idup(comm, out, request, true, [&](MPI_Request* r) { return host.Comm_idup(comm, out, r); });
}

int Comm_idup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* out, MPI_Request* request) {
  return idup(comm, out, request, !wants_host(info),
              [&](MPI_Request* r) { return host.Comm_idup_with_info(comm, info, out, r); });
}

int Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm* out) {
  return made(host.Comm_create(comm, group, out), comm, out, Kin::kOther);
}

int Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* out) {
  const int error = host.Comm_create_group(comm, group, tag, out);
  if (error == MPI_SUCCESS) made_by_group(comm, *out, tag);
  return error;
}

int Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* out) {
  return made(host.Comm_split(comm, color, key, out), comm, out, Kin::kOther);
}

int Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* out) {
  return made(host.Comm_split_type(comm, type, key, info, out), comm, out, Kin::kOther);
}

int Cart_create(MPI_Comm comm, int n, const int* dims, const int* periods, int reorder, MPI_Comm* out) {
  return made(host.Cart_create(comm, n, dims, periods, reorder, out), comm, out, of_topology(reorder));
}

int Cart_sub(MPI_Comm comm, const int* remain, MPI_Comm* out) {
  return made(host.Cart_sub(comm, remain, out), comm, out, Kin::kOther);
}

int Graph_create(MPI_Comm comm, int n, const int* index, const int* edges, int reorder, MPI_Comm* out) {
  return made(host.Graph_create(comm, n, index, edges, reorder, out), comm, out, of_topology(reorder));
}

int Dist_graph_create(MPI_Comm comm, int n, const int* sources, const int* degrees, const int* destinations,
                      const int* weights, MPI_Info info, int reorder, MPI_Comm* out) {
  return made(host.Dist_graph_create(comm, n, sources, degrees, destinations, weights, info, reorder, out), comm, out,
              of_topology(reorder));
}

int Dist_graph_create_adjacent(MPI_Comm comm, int n_in, const int* sources, const int* source_weights, int n_out,
                               const int* destinations, const int* weights, MPI_Info info, int reorder, MPI_Comm* out) {
  return made(host.Dist_graph_create_adjacent(comm, n_in, sources, source_weights, n_out, destinations, weights, info,
                                              reorder, out),
              comm, out, of_topology(reorder));
}

namespace {
/// The predefined communicators cannot be freed: the host says so.
bool predefined_comm(MPI_Comm comm) { return comm == MPI_COMM_NULL || comm == MPI_COMM_WORLD || comm == MPI_COMM_SELF; }
const CommInfo* own_comm(MPI_Comm comm) { return predefined_comm(comm) ? nullptr : known(comm); }

/// The communicator is zerohop's until the host has called the callbacks of its attributes, which may send and receive.
template <typename Free>
int free_comm(const CommInfo* info, MPI_Comm* comm, const Free& free) {
  const MPI_Comm handle = *comm;
  const uint64_t context = info != nullptr ? info->context : 0;
  const auto handler = info != nullptr ? handler_of(handle) : std::nullopt;
  const int error = free(comm);
  if (error != MPI_SUCCESS) return error;
  bsend_forget(handle);
  if (info != nullptr) {
    if (info->collectives != nullptr) info->collectives->free_leaders();
    forget_comm(handle, context);
    keep_handler(context, handler);
  }
  return MPI_SUCCESS;
}
}  // namespace

int Comm_free(MPI_Comm* comm) {
  const CommInfo* info = own_comm(*comm);
  const std::shared_ptr<CommCollectives> collectives = info != nullptr ? info->collectives : nullptr;
  if (info != nullptr && outlives_its_handle(*comm)) {
    if (collectives != nullptr) collectives->free_leaders();
    *comm = MPI_COMM_NULL;
    return MPI_SUCCESS;
  }
  return free_comm(info, comm, host.Comm_free);
}

int Comm_disconnect(MPI_Comm* comm) {
  const CommInfo* info = own_comm(*comm);
  if (info != nullptr) {
    reap_abandoned(true);  // MPI standard 11.10.4: waits for what is pending on it
    if (info->collectives != nullptr && shim.rank != nullptr)
      shim.rank->active_collectives()->finish(*info->collectives);
    // Afterwards nobody could ask the host for messages of it.
    turn_until([info] {
      advance_wildcards();
      return info->wild == nullptr || info->wild->empty();
    });
  }
  return free_comm(info, comm, host.Comm_disconnect);
}

int Comm_set_name(MPI_Comm comm, const char* name) {
  const int error = host.Comm_set_name(comm, name);
  const CommInfo* info = known(comm);
  if (error == MPI_SUCCESS && info != nullptr) shim.rank->name_context(info->context, name);
  return error;
}

int Type_free(MPI_Datatype* type) { return free_type(type); }

}  // namespace wrap
}  // namespace zh::mpi
