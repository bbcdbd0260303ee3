// What callers of collectives hand over: how elements are combined, and where every member's piece lies. No MPI type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "copy/layout.h"
#include "simd/reduce.h"

namespace zh::coll {

enum class Collective : uint8_t {
  kBarrier,
  kBcast,
  kReduce,
  kAllreduce,
  kReduceScatter,  ///< MPI_Reduce_scatter and, with uniform pieces, MPI_Reduce_scatter_block
  kScan,
  kExscan,
  kGather,
  kScatter,
  kAllgather,
  kAlltoall,
  kCount,     ///< of those that have several algorithms, which variables and tables name
  kNeighbor,  ///< MPI_Neighbor_*: the steps follow from the neighbours, so that there is nothing to choose
};

/// The order in which each member of a node takes up what the others have, where an allreduce goes through staging
/// areas (multicore collectives paper, section 4.2 and figure 4).
enum class StagingOrder : uint8_t {
  kFree,      ///< not asked for: as is fastest
  kParallel,  ///< all members in the same order
  kCyclic     ///< each from itself on, so that no two read one area at a time; for operations that commute
};

/// How the elements of a reduction are combined (MPI standard 6.9). Elements are `element_bytes` apart.
struct Reduction {
  uint64_t element_bytes = 0;
  simd::Kernel kernel = nullptr;  ///< a predefined operation; else:
  /// The program's own: inout[i] = in[i] op inout[i] for i < n, `in` being the operand of the lower ranks.
  void (*user)(void* context, void* in, void* inout, uint64_t n) = nullptr;
  void* context = nullptr;
  bool commutative = true;  ///< false: operands stay in rank order

  /// inout = in op inout.
  void combine(const void* in, void* inout, uint64_t n) const {
    if (kernel != nullptr) return kernel(in, inout, inout, n);
    user(context, const_cast<void*>(in), inout, n);
  }
};

/// The least of uint64_t.
[[nodiscard]] inline Reduction least_word() {
  return {.element_bytes = sizeof(uint64_t), .kernel = simd::kernel(simd::Op::kMin, simd::Type::kUint64)};
}

/// One buffer for every member: evenly spaced in one array, or listed.
struct Pieces {
  copy::Buffer first;                  ///< the piece of member 0; every other has its bytes and layout
  int64_t stride = 0;                  ///< bytes from one member's piece to the next's
  const copy::Buffer* list = nullptr;  ///< by member; then the above mean nothing

  [[nodiscard]] copy::Buffer operator[](uint32_t member) const {
    if (list != nullptr) return list[member];
    copy::Buffer piece = first;
    piece.base += static_cast<int64_t>(member) * stride;
    return piece;
  }
};

/// One side of a neighbourhood (MPI standard 8.6), by edge.
struct Blocks {
  std::span<const uint32_t> members;  ///< at the other ends, each as often as there are edges to it
  std::span<const uint16_t> nth;      ///< edges of the same member before this one
  Pieces pieces;                      ///< by edge; a stride of 0: the same for all
};

}  // namespace zh::coll
