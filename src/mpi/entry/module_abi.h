// What libzerohop.so and the module for the host at hand (libzerohop-{mpich,ompi,abi}.so) say to each other, once, at
// the first MPI call. Both are made from the same functions.table and the same text of their interfaces; `table_hash`
// proves it.
#pragma once

#include <cstdint>

#include "mpi/interface_hash.h"

namespace zh::heap {
class SharedHeap;
}

namespace zh::mpi {

/// FNV-1a over the names of functions.table, begun with the interfaces' hash.
constexpr uint64_t table_hash(const char* const* names, unsigned n) {
  uint64_t hash = 14695981039346656037ULL ^ kInterfaceText;
  for (unsigned i = 0; i < n; ++i) {
    for (const char* c = names[i]; *c != '\0'; ++c) {
      hash = (hash ^ static_cast<uint64_t>(static_cast<unsigned char>(*c))) * 1099511628211ULL;
    }
    hash = (hash ^ 0xffU) * 1099511628211ULL;
  }
  return hash;
}

struct ModuleArgs {
  uint64_t hash;                       ///< of the caller's table
  void* host;                          ///< dlopen handle of the host's library
  const char* soname;                  ///< of the host's library
  void** slots;                        ///< out: addresses, see set_slot()
  unsigned n_slots;                    ///< number of functions
  void* const* profilers;              ///< for every function a profiler's, which MPI_F leads to, or null
  bool enabled;                        ///< false: only what the host lacks is served, everything else goes to the host
  heap::SharedHeap* heap;              ///< of libzerohop.so; null when it is off
  void (**before_commit)(void* pmix);  ///< commit.h
};

/// Gives the `i`-th function of the table its address. The first half of the slots is that of MPI_F, the second that of
/// PMPI_F.
inline void set_slot(void** slots, unsigned n, void* const* profilers, unsigned i, void* address) {
  slots[i] = profilers[i] != nullptr ? profilers[i] : address;
  slots[n + i] = address;
}

/// Fills every slot. Returns null, or a static text that says why it could not (then no slot was touched).
using ModuleFill = const char* (*)(const ModuleArgs*);
constexpr const char* kModuleFillName = "zh_module_fill";

}  // namespace zh::mpi
