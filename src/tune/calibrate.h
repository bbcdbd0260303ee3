// Measures this machine's curves between ranks of one node, once; later jobs read the kept file. Called by the engine
// at its start (collective over the node's ranks) and by the tools. Knows ranks only as indices with levels between
// them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "node/node.h"
#include "tune/profile.h"
#include "tune/ways.h"

namespace zh::tune {

/// Measures one class between two sides (both call it; same result on both): 10 to 25 ms on a quiet machine. What could
/// not be measured while both sides ran, or cannot be (plausible.h), is empty; without `cells` nothing is known.
/// `line_ns`: what a line took when the level was found, 0 if unknown; of a pair that has moved since nothing is known.
DistanceClass measure_class(MeasuringPair& pair, int level, float line_ns, const node::LineBounds& bounds);

/// One rank's part in prepare_profile().
struct CalibrationGroup {
  uint32_t self = 0;
  uint32_t size = 1;
  pid_t pid = 0;                ///< of this process
  bool cma = true;              ///< false: CMA is off or does not work here
  bool may_measure = true;      ///< rank 0's counts. False (ranks outnumber CPUs): a kept profile or none
  bool quick = false;           ///< rank 0's counts. Only look whether the kept profile still holds
  std::vector<uint8_t> levels;  ///< node::Level between i and j at [i * size + j]; needed on rank 0
  std::vector<float> lines;     ///< a line's time to each rank when the levels were found, ns; 0 or none: unknown
  node::LineBounds bounds;      ///< the node's
  KeptFolders folders;          ///< rank 0's count
  std::byte* scratch =
      nullptr;  ///< calibration_bytes(quick) of shared memory: zeroed, page aligned, backed; the same for all
};
[[nodiscard]] uint64_t calibration_bytes(bool quick);

/// Whether `profile` has curves of every kind of distance in `levels` (as CalibrationGroup's): a virtual machine may be
/// near today and far tomorrow, each with curves of its own.
[[nodiscard]] bool covers(const Profile& profile, const std::vector<uint8_t>& levels);

/// Whether a class of `levels` is due for a look (plausible.h).
[[nodiscard]] bool wants_look(const Profile& profile, const std::vector<uint8_t>& levels);

/// Collective over the group: rank 0 loads the kept profile; if it does not cover the group's distances, the first pair
/// of ranks at each level measures while the others sleep, and rank 0 keeps what this and earlier jobs have found.
/// With `quick` it looks only whether what is due for a look still holds, 1 to 4 ms.
/// Returns true with the same `*profile` on every rank (choose() uses what two jobs agree on), or false on every rank:
/// use built-in choices then. `*note` says where the profile came
/// from or why there is none (full text on rank 0). Waits at most about 10 s for a rank that does not come.
bool prepare_profile(const CalibrationGroup& group, Profile* profile, std::string* note);

}  // namespace zh::tune
