// See level_pairs.h.
#include "tools/bench/level_pairs.h"

#include <algorithm>

namespace zh::tools {
namespace {

using node::Level;

bool has_level(std::span<const LevelPair> pairs, Level level) {
  return std::any_of(pairs.begin(), pairs.end(), [&](const LevelPair& p) { return p.level == level; });
}

uint32_t chips_apart(const node::Machine::Summary& m, Level level) {
  switch (level) {
    case Level::kOtherSocket:
      return m.packages;
    case Level::kSameSocket:
      return m.numa_nodes;
    case Level::kSameNuma:
      return m.l3 > 0 ? m.l3 : m.l2;
    default:
      return 1;
  }
}

}  // namespace

std::vector<uint32_t> in_order(const node::Machine& machine, const os::CpuSet& allowed) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < machine.summary().cpus; ++i) {
    for (const uint32_t cpu : numbers_of(machine.place(i))) {
      if (allowed.has(cpu)) order.push_back(cpu);
    }
  }
  return order.empty() ? numbers_of(allowed) : order;
}

os::CpuSet only(uint32_t cpu) {
  os::CpuSet set;
  set.add(cpu);
  return set;
}

std::vector<uint32_t> numbers_of(const os::CpuSet& set) {
  std::vector<uint32_t> numbers;
  for (uint32_t cpu = 0; cpu < os::CpuSet::kMaxCpus; ++cpu) {
    if (set.has(cpu)) numbers.push_back(cpu);
  }
  return numbers;
}

std::vector<LevelPair> plan_pairs(const node::Machine& machine, const os::CpuSet& allowed) {
  const std::vector<uint32_t> order = in_order(machine, allowed);
  const auto level = [&](size_t a, size_t b) { return machine.level(only(order[a]), only(order[b])); };
  std::vector<LevelPair> pairs;
  // Distances are a tree's: that of two processors is the greatest between neighbours on the way from one to the other.
  // So neighbours have them all.
  for (size_t i = 1; i < order.size(); ++i) {
    const Level here = level(i - 1, i);
    if (has_level(pairs, here)) continue;
    size_t first = i - 1;
    while (first > 0 && level(first - 1, i) == here) --first;
    pairs.push_back({here, order[first], order[i]});
  }
  std::sort(pairs.begin(), pairs.end(), [](const LevelPair& a, const LevelPair& b) { return a.level < b.level; });
  return pairs;
}

ModelLevels model_levels(const node::Machine::Summary& machine, std::span<const LevelPair> pairs) {
  ModelLevels out;
  for (const Level level : {Level::kSharedL3, Level::kSharedL2, Level::kSameNuma, Level::kSameSocket, Level::kSameCore,
                            Level::kOtherSocket}) {
    if (out.intra_chip || !has_level(pairs, level)) continue;
    out.intra_chip = level;
  }
  for (const Level level : {Level::kOtherSocket, Level::kSameSocket, Level::kSameNuma}) {
    if (out.inter_chip || !has_level(pairs, level) || level <= *out.intra_chip) continue;
    out.inter_chip = level;
    out.chips_per_node = std::max(1U, chips_apart(machine, level));
  }
  return out;
}

}  // namespace zh::tools
