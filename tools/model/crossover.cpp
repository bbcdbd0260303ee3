// See crossover.h.
#include "tools/model/crossover.h"

#include <algorithm>

namespace zh::tools {
namespace {

/// Sums of the same terms in another order differ in their last bits.
constexpr double kAhead = 1 - 1e-9;

Takeover fastest(std::span<const std::string_view> algorithms, uint64_t bytes, const TimeOf& time_of) {
  Takeover best{bytes, algorithms[0], time_of(algorithms[0], bytes)};
  for (const std::string_view algorithm : algorithms.subspan(1)) {
    const double us = time_of(algorithm, bytes);
    if (us < best.us * kAhead) best = {bytes, algorithm, us};
  }
  return best;
}

/// The least size above `below` from which on `later` is ahead, given that it is at later.from_bytes.
Takeover narrowed(Takeover later, uint64_t below, std::string_view earlier, const TimeOf& time_of) {
  constexpr uint64_t kStep = 8;
  while (later.from_bytes - below > std::max(kStep, below / 50)) {
    const uint64_t middle = (below + later.from_bytes) / 2 / kStep * kStep;
    if (middle <= below) break;
    const double us = time_of(later.algorithm, middle);
    if (us < time_of(earlier, middle) * kAhead) {
      later = {middle, later.algorithm, us};
    } else {
      below = middle;
    }
  }
  return later;
}

}  // namespace

std::vector<Takeover> takeovers(std::span<const std::string_view> algorithms, uint64_t first, uint64_t last,
                                const TimeOf& time_of) {
  std::vector<Takeover> out;
  if (algorithms.empty()) return out;
  for (uint64_t bytes = first; bytes <= last; bytes *= 2) {
    const Takeover best = fastest(algorithms, bytes, time_of);
    if (out.empty()) {
      out.push_back(best);
    } else if (best.algorithm != out.back().algorithm) {
      out.push_back(narrowed(best, bytes / 2, out.back().algorithm, time_of));
    }
  }
  return out;
}

}  // namespace zh::tools
