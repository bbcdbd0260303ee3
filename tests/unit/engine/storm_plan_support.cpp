// Draws the plan of a storm. See storm_plan_support.h.
#include "storm_plan_support.h"

#include <algorithm>
#include <iterator>

namespace zh::test {

uint64_t random_bytes(std::mt19937_64& rng, uint64_t largest) {
  static constexpr uint64_t kEdges[] = {0,        8,        40,        192,     232,     2 << 10,
                                        16 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20, 3 << 20};
  const uint64_t pick = rng() % 100;
  // Around a threshold, or log-uniform; large ones are rare.
  const size_t edges = pick < 70 ? 7 : pick < 95 ? 9 : std::size(kEdges);
  uint64_t n = 0;
  if (rng() % 2 == 0) {
    n = kEdges[rng() % edges] + rng() % 5;
    n -= std::min<uint64_t>(n, 2);
  } else {
    n = rng() % (kEdges[rng() % edges] + 1);
  }
  return std::min(n, largest);
}

std::vector<Planned> make_plan(uint64_t seed, int ranks, const StormConfig& config) {
  std::mt19937_64 rng(seed);
  std::vector<Planned> plan;
  for (int r = 0; r < ranks; ++r) {
    for (uint32_t i = 0; i < config.messages; ++i) {
      Planned m{};
      m.id = static_cast<uint32_t>(plan.size());
      m.source = static_cast<uint32_t>(r);
      m.dest = static_cast<uint32_t>(rng() % static_cast<uint64_t>(ranks));
      m.lane = static_cast<uint32_t>(rng() % kControl);
      if (m.lane == kCancelled && rng() % 2 == 0) m.lane = kMixed;
      m.tag = static_cast<int32_t>(rng() % kTags);
      // The large ones where buffers of their size are few.
      const bool any_size = m.lane == kExact || m.lane == kMixed || m.lane == kCancelled;
      m.bytes = random_bytes(rng, any_size ? config.largest_bytes : std::min<uint64_t>(config.largest_bytes, 64 << 10));
      m.strided = rng() % 5 == 0;
      if (m.strided) m.bytes = m.bytes / kElement * kElement;
      m.synchronous = rng() % 10 == 0;
      plan.push_back(m);
    }
  }
  return plan;
}

}  // namespace zh::test
