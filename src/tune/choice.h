// What the measured machine says about one pair of ranks: which way, which kernel, from which size. Pure data;
// src/tune fills it from the calibrated curves, src/p2p obeys it and never measures.
#pragma once

#include <cstdint>

#include "copy/kernels.h"

namespace zh::tune {

/// Choices of one directed pair. All sizes in bytes. Ordered: inline <= eager <= stream limits.
struct PairChoice {
  uint32_t inline_max = 192;          ///< payload beside the envelope
  uint32_t eager_max = 16 << 10;      ///< one block of the payload ring, copied out by the receiver
  uint64_t single_copy_min = 2 << 20; ///< from here on both ends copy directly (CMA); below, cells are pipelined
  uint32_t mapped_min = 4 << 10;      ///< from here on a mapped buffer is used directly when both/one end is mapped
  uint32_t chunk_cells = 16 << 10;    ///< bytes per pipelined cell
  uint32_t chunk_single = 64 << 10;   ///< bytes claimed at a time in a cooperative copy (<= 64 KiB)
  uint32_t nontemporal_min = 1 << 30; ///< sender writes cells with non-temporal stores from this message size on
  uint32_t ring_bytes_max = 4 << 20;  ///< the payload ring may grow up to this size
  bool both_ends = true;              ///< large copies are shared by sender and receiver
};

}  // namespace zh::tune
