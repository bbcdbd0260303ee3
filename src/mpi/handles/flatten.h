// Derived datatypes taken apart: MPI_Type_get_envelope and get_contents, down to predefined types.
#pragma once

#include <vector>

#include "copy/layout.h"
#include "mpi/entry/host.h"

namespace zh::mpi {

/// Type map of one element: blocks in type-map order, adjacent ones merged, and the extent.
struct TypeMap {
  std::vector<copy::Block> blocks;
  int64_t lower = 0;
  int64_t extent = 0;
};

/// False when the type cannot be taken apart within reason (darray, millions of blocks, unknown constructors, no memory
/// for that): then the host packs it.
[[nodiscard]] bool flatten(MPI_Datatype type, TypeMap* out);

/// `type` is a datatype. F90 types count as predefined: they cannot be freed.
[[nodiscard]] bool is_predefined(MPI_Datatype type);

}  // namespace zh::mpi
