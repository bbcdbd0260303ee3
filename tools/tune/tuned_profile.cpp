// See tuned_profile.h.
#include "tools/tune/tuned_profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/options.h"
#include "node/node.h"
#include "tune/choice.h"

namespace zh::tools {
namespace {

using model::CommLevel;
using model::MeasuredLevel;
using model::Parameters;

constexpr const char* kOtherNode = "other-node";

/// `between`: nodes, where the overhead is by round trips of its own.
std::vector<std::string> noisy_of(const MessageCosts& measured, bool between) {
  std::vector<std::string> names;
  for (const MessageCost& cost : measured.costs) {
    if (cost.noisy()) names.push_back(name_of(cost));
  }
  for (const MessageCost& cost : measured.busy) {
    if (between && cost.noisy()) names.push_back(name_of(cost) + " overhead");
  }
  return names;
}

std::string launches_text(const MessageCosts& costs, const MachineMeasured& m, bool between = false) {
  const std::vector<std::string> noisy = noisy_of(costs, between);
  const std::string line = costs.line_us > 0 ? fmt::format(", cache line {:.3f} us", costs.line_us) : "";
  return fmt::format("measured {} with zerohop {} under {}, {} launches of 2 ranks, {}{}; noisy: {}", m.date,
                     ZH_VERSION, m.host, costs.launches, costs.placement, line,
                     noisy.empty() ? "nothing" : fmt::format("{}", fmt::join(noisy, ", ")));
}

std::string pair_text(const PairMeasured& p) {
  return fmt::format("processors {} and {} ({})", p.pair.first, p.pair.second, node::to_string(p.pair.level));
}

bool is_there(const PairMeasured* p) { return p != nullptr && p->costs.launches > 0; }

std::string inter_chip_source(const MachineMeasured& m) {
  const PairMeasured* inter = m.at(m.levels.inter_chip);
  if (is_there(inter)) return fmt::format("inter-cmp: {}, {}", pair_text(*inter), launches_text(inter->costs, m));
  return std::string("inter-cmp: not measured, ") + (inter == nullptr ? "the machine has no such distance; " : "") +
         "as on one chip";
}

std::vector<std::string> sources_of(const MachineMeasured& m, const Parameters& base) {
  const PairMeasured& intra = *m.at(m.levels.intra_chip);
  std::vector<std::string> sources = {
      fmt::format("intra-cmp: {}, {}", pair_text(intra), launches_text(intra.costs, m)),
      inter_chip_source(m),
      m.between ? fmt::format("inter-node: {}; overhead and gap by parameterized round trips, {}; {}", m.between->how,
                              m.between->two_pairs.launches > 0 ? "link by two pairs at once" : "link not measured",
                              launches_text(m.between->costs, m, true))
                : "inter-node: not measured, that of the profile " + base.name,
      fmt::format("machine: {}; Linux {}{}", m.machine.cpu, m.machine.kernel,
                  m.machine.hypervisor.empty() ? "" : "; hypervisor " + m.machine.hypervisor),
  };
  for (const PairMeasured& p : m.pairs) {
    if (!is_there(&p)) sources.push_back(pair_text(p) + ": not measured, no launch could be used");
  }
  return sources;
}

MeasuredLevel measured_level(const std::string& level, const MessageCosts& costs) {
  MeasuredLevel out;
  out.level = level;
  out.placement = costs.placement;
  out.line_us = costs.line_us;
  out.launches = static_cast<uint32_t>(costs.launches);
  out.noisy = noisy_of(costs, level == kOtherNode);
  return out;
}

std::vector<MeasuredLevel> measured_levels(const MachineMeasured& m) {
  std::vector<MeasuredLevel> out;
  for (const PairMeasured& p : m.pairs) {
    if (!is_there(&p)) continue;
    MeasuredLevel level = measured_level(node::to_string(p.pair.level), p.costs);
    level.processors = {p.pair.first, p.pair.second};
    if (p.pair.level == m.levels.intra_chip) {
      level.stands_for = name_of(CommLevel::kIntraChip);
    } else if (p.pair.level == m.levels.inter_chip) {
      level.stands_for = name_of(CommLevel::kInterChip);
    } else {
      level.costs = level_costs(p.costs);
    }
    out.push_back(std::move(level));
  }
  if (m.between) {
    out.push_back(measured_level(kOtherNode, m.between->costs));
    out.back().stands_for = name_of(CommLevel::kInterNode);
  }
  return out;
}

}  // namespace

const PairMeasured* MachineMeasured::at(std::optional<node::Level> level) const {
  const auto it = std::find_if(pairs.begin(), pairs.end(), [&](const auto& p) { return p.pair.level == level; });
  return it == pairs.end() ? nullptr : &*it;
}

std::string name_of(const MessageCost& cost) {
  return cost.stride == 0 ? format_size(cost.bytes) : fmt::format("{}{}S", format_size(cost.bytes), cost.stride);
}

Parameters parameters_of(const MachineMeasured& m, const Parameters& base) {
  const PairMeasured& intra = *m.at(m.levels.intra_chip);
  const PairMeasured* inter = m.at(m.levels.inter_chip);
  Parameters p;
  p.name = "measured";
  p.about = fmt::format("this machine between two ranks that are {}, measured {} under {}; between nodes as {}",
                        intra.costs.placement, m.date, m.host, m.between ? "measured" : base.name);
  p.sources = sources_of(m, base);
  p.levels[static_cast<size_t>(CommLevel::kIntraChip)] = level_costs(intra.costs);
  p.processors_per_node = m.processors;
  p.has_inter_chip = is_there(inter);
  if (p.has_inter_chip) {
    p.levels[static_cast<size_t>(CommLevel::kInterChip)] = level_costs(inter->costs);
    p.chips_per_node = m.levels.chips_per_node;
  }
  p.levels[static_cast<size_t>(CommLevel::kInterNode)] =
      m.between ? between_costs(m.between->costs, m.between->two_pairs) : base.at(CommLevel::kInterNode);
  p.facts = {measured_levels(m), m.caches, m.copies, m.contention};
  return p;
}

std::vector<model::CacheSize> cache_sizes(const std::array<tune::CacheFound, tune::kCaches>& found,
                                          const tune::CacheBytes& described) {
  constexpr const char* kNames[] = {"L1d", "L2", "last-level"};
  std::vector<model::CacheSize> out;
  for (size_t i = 0; i < tune::kCaches; ++i) {
    if (described[i] == 0 && found[i].bytes == 0) continue;
    out.push_back({kNames[i], described[i], found[i].bytes, found[i].at_least, found[i].noisy});
  }
  return out;
}

std::vector<model::CopyThresholds> copy_thresholds(const tune::Profile& profile) {
  const auto from = [](std::optional<uint64_t> size) {
    return size == tune::kNever ? std::optional<uint64_t>(model::kNeverWins) : size;
  };
  std::vector<model::CopyThresholds> out;
  for (uint32_t i = 0; i < profile.n_classes; ++i) {
    const tune::DistanceClass& c = profile.classes[i];
    if (!tune::in_force(c)) continue;
    const tune::Crossovers x = tune::crossovers_of(c);
    out.push_back({node::to_string(static_cast<node::Level>(c.level)), from(x.nontemporal), from(x.kernel_both),
                   from(x.mapped_both)});
  }
  return out;
}

}  // namespace zh::tools
