// Which ranks time lines; see measurers.h.
#include "node/measurers.h"

#include <algorithm>

namespace zh::node {

// Ranks that may run on more than two processors could be anywhere, so that a line between them tells nothing.
constexpr uint32_t kMostCpus = 2;

Measurers::Measurers(const std::vector<os::CpuSet>& cpus, uint32_t usable) : cpus_(cpus) {
  const auto n = static_cast<uint32_t>(cpus.size());
  stand_in_ = n > usable;
  first_.resize(n);
  second_.resize(n);
  bool measurable = true;
  for (uint32_t i = 0; i < n; ++i) {
    first_[i] = i;
    for (uint32_t k = 0; stand_in_ && k < i; ++k) {
      if (first_[k] == k && cpus[k] == cpus[i]) {
        first_[i] = k;
        break;
      }
    }
    const uint32_t first = first_[i];
    const uint32_t count = cpus[i].count();
    if (first == i) {
      second_[i] = i;
      ranks_.push_back(i);
    } else if (second_[first] == first && count > 1) {
      second_[first] = i;
      ranks_.push_back(i);
    }
    measurable = measurable && count >= 1 && count <= kMostCpus;
  }
  for (uint32_t i = 0; i < n; ++i) second_[i] = second_[first_[i]];
  if (stand_in_ && (!measurable || ranks_.size() > usable)) ranks_.clear();
  if (ranks_.size() < 2) ranks_.clear();
}

bool Measurers::has(uint32_t rank) const { return std::ranges::binary_search(ranks_, rank); }

os::CpuSet Measurers::place_of(uint32_t measurer) const {
  if (!stand_in_ || second_[measurer] == first_[measurer]) return cpus_[measurer];
  uint32_t skip = measurer == first_[measurer] ? 0 : 1;
  os::CpuSet place;
  for (uint32_t cpu = 0; cpu < os::CpuSet::kMaxCpus; ++cpu) {
    if (!cpus_[measurer].has(cpu) || skip-- != 0) continue;
    place.add(cpu);
    break;
  }
  return place;
}

std::pair<uint32_t, uint32_t> Measurers::of(uint32_t a, uint32_t b) const {
  if (first_[a] != first_[b]) return {first_[a], first_[b]};
  return {first_[a], second_[a]};
}

}  // namespace zh::node
