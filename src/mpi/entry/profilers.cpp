// See profilers.h.
#include "mpi/entry/profilers.h"

#include <dlfcn.h>

#include <cstdio>

#include "os/loaded_symbols.h"

namespace zh::mpi {
namespace {

constexpr unsigned kNameBytes = 80;

/// What a call of MPI_`name` would reach if libzerohop.so were not there, unless that is an MPI library.
void* profiler_entry(const char* name, void* host) {
  char shifted[kNameBytes];
  std::snprintf(shifted, sizeof shifted, "PMPI_%s", name);
  const char* plain = shifted + 1;
  void* next = dlsym(RTLD_NEXT, plain);
  if (next == nullptr || next == dlsym(host, plain)) return nullptr;
  // An object with both names is an MPI library, perhaps a second copy of the host.
  const void* next_shifted = dlsym(RTLD_NEXT, shifted);
  if (next_shifted != nullptr && os::object_of(next_shifted) == os::object_of(next)) return nullptr;
  return next;
}

/// What a profiler takes from elsewhere by name is zerohop's, as that stands before the host. One that looks functions
/// up itself may find the host's.
bool may_bypass(const link_map& profiler, const char* name, bool looks_up) {
  char shifted[kNameBytes];
  std::snprintf(shifted, sizeof shifted, "PMPI_%s", name);
  return looks_up && !os::imports(profiler, shifted);
}

}  // namespace

const char* find_profilers(const char* const* names, unsigned n, void* host, void** entries) {
  const char* doubtful = nullptr;
  const link_map* latest = nullptr;
  bool looks_up = false;
  for (unsigned i = 0; i < n; ++i) {
    entries[i] = profiler_entry(names[i], host);
    const link_map* profiler = entries[i] != nullptr ? os::object_of(entries[i]) : nullptr;
    if (profiler == nullptr) continue;
    if (profiler != latest) looks_up = os::imports(*profiler, "dlsym") || os::imports(*profiler, "dlvsym");
    latest = profiler;
    if (may_bypass(*profiler, names[i], looks_up)) doubtful = profiler->l_name;
  }
  return doubtful;
}

}  // namespace zh::mpi
