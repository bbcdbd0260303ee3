// What the first rank of a node tells the others of the machine's kept calibration, so that one rank of a node reads
// the file. Written and read by src/engine/pair_choices.cpp; it refuses to know where in the segment it lies.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/shm_types.h"
#include "tune/profile.h"

namespace zh::tune {

/// Writers: the node's first rank, before the collective behind which others look. Readers: all, until the next one.
/// Invariant: immutable once published; `note` ends within its room. Wrap: none. Crash: nothing to mend.
struct KeptShm {
  uint64_t scratch;  ///< Offset of CalibrationGroup::scratch; 0: nothing is measured
  uint32_t have;     ///< `profile` is in force; else there is none, or it does not cover the node's distances
  uint32_t quick;    ///< CalibrationGroup::quick
  char note[112];    ///< where choices come from; "" where they are to be measured
  Profile profile;

  [[nodiscard]] const char* broken_invariant() const {
    return std::memchr(note, 0, sizeof note) == nullptr ? "the note ends" : nullptr;
  }
};
static_assert(kShmSafe<KeptShm>);

}  // namespace zh::tune
