// The cache of datatypes, and the way of those that are too complicated to flatten.
#include "mpi/handles/datatype.h"

#include <climits>
#include <mutex>

#include "mpi/handles/flatten.h"
#include "mpi/handles/reduction.h"

namespace zh::mpi {

HandleMap<TypeInfo> types;

namespace {
std::mutex types_mutex;

/// What has no elements may be of a type that is not committed, or of none: MPICH looks at no type then.
struct NoElements : TypeInfo {
  NoElements() {
    handle = MPI_DATATYPE_NULL;
    named = true;
  }
};
NoElements no_elements;

/// One element per host call when counts are large, so that positions fit an int.
MPI_Count elements_per_call(uint64_t size) {
  return size == 0 ? 1 : static_cast<MPI_Count>(1 + (uint64_t{1} << 28) / size);
}
}  // namespace

int learn_type(MPI_Datatype type, MPI_Count count, MPI_Comm comm, TypeInfo** out) {
  // A send to nobody: the host checks the type, and raises its own error on the caller's communicator. A user's handler
  // may return, and some hosts then return MPI_SUCCESS; the request that was not made tells. (Not a persistent one:
  // when that is freed, Intel MPI's next persistent collective moves nothing.)
  const char nothing = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  const int error = host.Isend(&nothing, count != 0 ? 1 : 0, type, MPI_PROC_NULL, 0, comm, &request);
  if (error != MPI_SUCCESS) return error;
  if (request == MPI_REQUEST_NULL) {
    *out = nullptr;
    return MPI_SUCCESS;
  }
  host.Wait(&request, MPI_STATUS_IGNORE);
  if (count == 0 && (type == MPI_DATATYPE_NULL || !is_predefined(type))) {
    *out = &no_elements;
    return MPI_SUCCESS;
  }
  auto info = std::make_unique<TypeInfo>();
  info->handle = type;
  MPI_Count size = 0;
  if (host.Type_size_x(type, &size) != MPI_SUCCESS || size < 0) return raise(comm, MPI_ERR_TYPE);
  info->size = static_cast<uint64_t>(size);
  MPI_Count lower = 0;
  MPI_Count extent = 0;
  if (host.Type_get_extent_x(type, &lower, &extent) != MPI_SUCCESS) return raise(comm, MPI_ERR_TYPE);
  info->extent = extent;
  TypeMap map;
  if (!flatten(type, &map)) {
    info->kind = TypeInfo::Kind::kPacked;
  } else if (map.blocks.empty() || (map.blocks.size() == 1 && map.blocks[0].offset == 0 &&
                                    static_cast<int64_t>(map.blocks[0].len_bytes) == map.extent)) {
    info->kind = TypeInfo::Kind::kContiguous;
  } else {
    info->kind = TypeInfo::Kind::kLayout;
    info->layout = copy::make_layout(map.blocks, map.extent);
    if (info->layout == nullptr) info->kind = TypeInfo::Kind::kPacked;
  }
  find_kernels(info.get());
  const TableLock lock(types_mutex);
  TypeInfo* there = types.find(key_of(type));
  if (there == nullptr) {
    there = info.release();
    types.insert(key_of(type), there);
  }
  *out = there;
  return MPI_SUCCESS;
}

void drop(TypeInfo* type) {
  // MU0 -> MU1: the last user's reads of the layout before it is freed
  if (type->users.fetch_sub_acq_rel(1) != 1) return;
  if (type->free_handle) host.Type_free(&type->handle);
  delete type;
}

int free_type(MPI_Datatype* type) {
  const MPI_Datatype old = *type;
  TypeInfo* info = types.find(key_of(old));
  const bool later = info != nullptr && !info->named && info->handle_users.load_relaxed() > 0;
  if (later) {
    info->free_handle = true;
    *type = MPI_DATATYPE_NULL;
  } else if (const int error = host.Type_free(type); error != MPI_SUCCESS) {
    return error;
  }
  {
    const TableLock lock(types_mutex);
    info = types.erase(key_of(old));
  }
  if (info != nullptr) drop(info);
  return MPI_SUCCESS;
}

int pack_elements(const Elements& e, std::byte* out) {
  const TypeInfo* type = e.type;
  if (type->kind != TypeInfo::Kind::kPacked) {
    const copy::Buffer buffer = describe(e);
    copy::pack(buffer, 0, buffer.bytes, out, copy::Store::kTemporal);
    return MPI_SUCCESS;
  }
  const int64_t extent = type->extent;
  const MPI_Count step = elements_per_call(type->size);
  for (MPI_Count i = 0; i < e.count; i += step) {
    const int n = static_cast<int>(e.count - i < step ? e.count - i : step);
    const int room = static_cast<int>(static_cast<uint64_t>(n) * type->size);
    int position = 0;
    const int error = host.Pack(e.buf + i * extent, n, type->handle, out, room, &position, MPI_COMM_SELF);
    if (error != MPI_SUCCESS) return error;
    out += room;
  }
  return MPI_SUCCESS;
}

int unpack_elements(const std::byte* in, uint64_t bytes, const Elements& e) {
  TypeInfo* type = e.type;
  if (type->size == 0) return MPI_SUCCESS;
  if (type->kind != TypeInfo::Kind::kPacked) {
    copy::unpack(describe(e), 0, bytes, in, copy::Store::kTemporal);
    return MPI_SUCCESS;
  }
  const int64_t extent = type->extent;
  const auto whole = static_cast<MPI_Count>(bytes / type->size);
  const MPI_Count step = elements_per_call(type->size);
  for (MPI_Count i = 0; i < whole; i += step) {
    const int n = static_cast<int>(whole - i < step ? whole - i : step);
    const int room = static_cast<int>(static_cast<uint64_t>(n) * type->size);
    int position = 0;
    const int error = host.Unpack(in, room, &position, e.buf + i * extent, n, type->handle, MPI_COMM_SELF);
    if (error != MPI_SUCCESS) return error;
    in += room;
  }
  // The last, incomplete element: overwrite one element's packed form with what came, and scatter that.
  const uint64_t rest = bytes % type->size;
  if (rest == 0) return MPI_SUCCESS;
  std::byte* place = e.buf + whole * extent;
  auto element = std::make_unique<std::byte[]>(type->size);
  int error = pack_elements({place, 1, type}, element.get());
  if (error != MPI_SUCCESS) return error;
  for (uint64_t i = 0; i < rest; ++i) element[i] = in[i];
  int position = 0;
  return host.Unpack(element.get(), static_cast<int>(type->size), &position, place, 1, type->handle, MPI_COMM_SELF);
}

}  // namespace zh::mpi
