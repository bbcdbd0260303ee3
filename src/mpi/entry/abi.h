// The host's mpi.h, as the module at hand sees it. The only include of mpi.h in the shim.
#pragma once

#if defined(ZH_ABI_MPICH)
#include "mpi/entry/abi_mpich.h"
#elif defined(ZH_ABI_OMPI)
#include "mpi/entry/abi_ompi.h"
#elif defined(ZH_ABI_STD)
#include "mpi/entry/abi_std.h"
#else
#error "compile with ZH_ABI_MPICH, ZH_ABI_OMPI or ZH_ABI_STD"
#endif

#include <cstdint>

namespace zh::mpi {

/// Any handle as a number, for tables.
template <typename Handle>
inline uintptr_t key_of(Handle handle) {
#if ZH_ABI_INT_HANDLES
  return static_cast<uint32_t>(handle);
#else
  return reinterpret_cast<uintptr_t>(handle);
#endif
}

}  // namespace zh::mpi
