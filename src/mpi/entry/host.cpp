// Finds the host's functions and, on Open MPI, its predefined handles.
#include "mpi/entry/host.h"

#include <dlfcn.h>

#include <cstdio>
#include <type_traits>

namespace zh::mpi {

Host host;
#if defined(ZH_ABI_OMPI)
Predefined predefined;
#endif

namespace {

char missing[128];

const char* lacks(const char* what) {
  std::snprintf(missing, sizeof(missing), "the MPI library lacks %s", what);
  return missing;
}

template <typename Function>
bool find(void* library, const char* name, Function* slot) {
  *slot = reinterpret_cast<Function>(host_symbol(library, name));
  return *slot != nullptr;
}
/// What stands for a function that the host lacks.
template <typename... Arguments>
int absent(Arguments...) {
  return MPI_ERR_UNSUPPORTED_OPERATION;
}
template <typename... Arguments>
void find_or_absent(void* library, const char* name, int (**slot)(Arguments...)) {
  if (!find(library, name, slot)) *slot = &absent<Arguments...>;
}
/// MPI_Comm_idup_with_info where there is none: hints may be ignored (MPI standard 7.4.1).
int idup_without_info(MPI_Comm comm, MPI_Info, MPI_Comm* made, MPI_Request* request) {
  return host.Comm_idup(comm, made, request);
}
template <typename Function>
bool find(void* library, const char* name, Blocking<Function>* slot) {
  slot->set(host_symbol(library, name), name);
  return static_cast<bool>(*slot);
}

}  // namespace

void* host_symbol(void* library, const char* name) {
  char full[96];
  std::snprintf(full, sizeof(full), "PMPI_%s", name);
  void* address = dlsym(library, full);
  return address != nullptr ? address : dlsym(library, full + 1);
}

void* host_object(void* library, const char* symbol) {
  // A program that names the object itself may hold a copy of it (copy relocation), which then is the object for
  // everyone: it is found first in the global scope. A library loaded privately is not there at all.
  void* address = dlsym(RTLD_DEFAULT, symbol);
  return address != nullptr ? address : dlsym(library, symbol);
}

namespace {

const char* load_objects([[maybe_unused]] void* library) {
#if defined(ZH_ABI_MPICH)
  const void* const unweighted = host_object(library, "MPI_UNWEIGHTED");
  if (unweighted == nullptr) return lacks("MPI_UNWEIGHTED");
  host.unweighted = *static_cast<int* const*>(unweighted);
#else
  host.unweighted = MPI_UNWEIGHTED;
#endif
#if defined(ZH_ABI_OMPI)
#define ZH_X(type, symbol)                                              \
  predefined.symbol = static_cast<type>(host_object(library, #symbol)); \
  if (predefined.symbol == nullptr) return lacks(#symbol);
  ZH_PREDEFINED(ZH_X)
#undef ZH_X
#endif
  return nullptr;
}

}  // namespace

const char* load_host(void* library) {
#define ZH_X(name) \
  if (!find(library, #name, &host.name)) return lacks("MPI_" #name);
  ZH_HOST_FUNCTIONS(ZH_X)
  ZH_HOST_BLOCKING(ZH_X)
#define ZH_COLLECTIVE(name, nonblocking, ...) ZH_X(name) ZH_X(nonblocking)
#include "mpi/entry/collectives.table"
#undef ZH_X
#define ZH_X(name) find_or_absent(library, #name, &host.name);
  ZH_HOST_YOUNG(ZH_X)
#undef ZH_X
  if (!find(library, "Comm_idup_with_info", &host.Comm_idup_with_info)) host.Comm_idup_with_info = &idup_without_info;
#if ZH_ABI_LARGE_COUNT
  host.large_counts = true;
#define ZH_X(name) host.large_counts = find(library, #name, &host.name) && host.large_counts;
#define ZH_COLLECTIVE(name, nonblocking, ...) ZH_X(name##_c) ZH_X(nonblocking##_c)
  ZH_HOST_COUNTED(ZH_X)
  ZH_HOST_COUNTED_BLOCKING(ZH_X)
#include "mpi/entry/collectives.table"
#undef ZH_X
#endif
#define ZH_OPTIONAL(name) static_cast<void>(find(library, #name, &host.name));
  // Persistent collectives are younger than the oldest hosts.
#if ZH_ABI_LARGE_COUNT
#define ZH_COLLECTIVE(name, ...) ZH_OPTIONAL(name##_init) ZH_OPTIONAL(name##_init_c)
#else
#define ZH_COLLECTIVE(name, ...) ZH_OPTIONAL(name##_init)
#endif
#include "mpi/entry/collectives.table"
  ZH_OPTIONAL(Barrier_init)
#define ZH_B ZH_OPTIONAL
#include "mpi/entry/blocking.table"
  ZH_OPTIONAL(Request_get_status_any)
  ZH_OPTIONAL(Request_c2f)
  ZH_OPTIONAL(Request_f2c)
  ZH_OPTIONAL(Message_c2f)
  ZH_OPTIONAL(Message_f2c)
  ZH_OPTIONAL(Request_toint)
  ZH_OPTIONAL(Request_fromint)
  ZH_OPTIONAL(Message_toint)
  ZH_OPTIONAL(Message_fromint)
  ZH_OPTIONAL(Get_library_version)
#undef ZH_OPTIONAL
  return load_objects(library);
}

namespace counted {

Narrow::Narrow(MPI_Count count, MPI_Datatype type) : count_(static_cast<int>(count)), type_(type) {
  if (takes_large_counts() || count <= INT_MAX) {
    if (count < 0) count_ = -1;
    return;
  }
  // count = whole * 2^30 + rest: a vector of blocks of 2^30 elements, and the rest behind it.
  constexpr int kBlock = 1 << 30;
  const int whole = static_cast<int>(count / kBlock);
  const int rest = static_cast<int>(count % kBlock);
  MPI_Count lower = 0;
  MPI_Count extent = 0;
  host.Type_get_extent_x(type, &lower, &extent);
  MPI_Datatype parts[2];
  host.Type_vector(whole, kBlock, kBlock, type, &parts[0]);
  host.Type_contiguous(rest, type, &parts[1]);
  const int lengths[2] = {1, 1};
  const MPI_Aint places[2] = {0, static_cast<MPI_Aint>(extent) * whole * kBlock};
  host.Type_create_struct(2, lengths, places, parts, &type_);
  host.Type_commit(&type_);
  host.Type_free(&parts[0]);
  host.Type_free(&parts[1]);
  count_ = 1;
  made_ = true;
}

Narrow::~Narrow() {
  if (made_) host.Type_free(&type_);
}

}  // namespace counted
}  // namespace zh::mpi
