// What the ranks of a node share while they calibrate. Written and read by calibrate.cpp; it refuses to know how a pair
// measures.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/shm_types.h"
#include "tune/profile.h"

namespace zh::tune {

constexpr uint32_t kMaxPairs = Profile::kMaxClasses;
enum class Phase : uint32_t { kBegin, kMeasure, kLook, kReady, kNone };

/// How the ranks agree. Writers: `pairs`, `n_pairs`, `phase`, `profile` rank 0; classes of `profile` the first rank of
/// each pair, in its turn; `ended` both ranks of the pair whose turn it is. Readers: all. Invariant: `turn` <=
/// n_pairs, and n_pairs only when all have measured; both ranks of each pair before it have ended, and nobody of a
/// later one; fields are written before the phase or turn that lets others read them. Wrap: none. Crash: the others
/// stop waiting after a time limit and go on without a profile.
struct CalibrationShm {
  Atomic<uint32_t> phase;
  Atomic<uint32_t> turn;
  Atomic<uint32_t> ended;
  uint32_t n_pairs;
  struct {
    uint32_t first, second;
    int32_t level;
  } pairs[kMaxPairs];
  Profile profile;

  /// For rank 0 between two turns, and for the ranks of the pair whose turn it is.
  [[nodiscard]] const char* broken_invariant() const;
};
static_assert(kShmSafe<CalibrationShm>);

inline const char* CalibrationShm::broken_invariant() const {
  if (phase.load_relaxed() > static_cast<uint32_t>(Phase::kNone)) return "a calibration has a phase";
  if (n_pairs > kMaxPairs) return "there is room for all pairs";
  const uint32_t sides = ended.load_acquire();  // TE1 <- TE0
  const uint32_t now = turn.load_acquire();     // TP1 <- TP0
  if (now > n_pairs) return "turns end with the last pair";
  if (sides > 2 * (now + 1) || sides < 2 * now) return "pairs measure in their turns";
  for (uint32_t i = 0; i < n_pairs; ++i) {
    if (pairs[i].first >= pairs[i].second) return "a pair is two ranks";
  }
  return nullptr;
}

}  // namespace zh::tune
