// See profiles.h.
#include "model/profiles.h"

#include <algorithm>

namespace zh::model {
namespace {

/// Costs of strided messages at one end, µs. Sizes and strides are those of the paper's nine shapes, 1K8S to 16K512S
/// (section 5); the absolute values are assumed. Those on a chip are smaller by shares that grow with size and stride
/// up to 87.9 % and make the middleware of the nine shapes 41 % cheaper on average (section 5.1).
StridedCosts latency_between_nodes() {
  return {{{8, {{{0, 0}, {1024, 1.2}, {4096, 2.4}, {16384, 6.0}}}},
           {64, {{{0, 0}, {1024, 1.8}, {4096, 4.0}, {16384, 10.0}}}},
           {512, {{{0, 0}, {1024, 2.6}, {4096, 9.0}, {16384, 140.0}}}}}};
}

StridedCosts latency_on_chip() {
  return {{{8, {{{0, 0}, {1024, 1.18}, {4096, 2.3}, {16384, 5.61}}}},
           {64, {{{0, 0}, {1024, 1.72}, {4096, 3.74}, {16384, 8.98}}}},
           {512, {{{0, 0}, {1024, 2.43}, {4096, 8.08}, {16384, 16.94}}}}}};
}

CostTable scaled(CostTable table, double factor) {
  for (CostTable::Point& point : table.points) point.us *= factor;
  return table;
}

/// Halfway between two tables of the same sizes.
CostTable halfway(CostTable a, const CostTable& b) {
  for (size_t i = 0; i < a.points.size(); ++i) a.points[i].us = (a.points[i].us + b.points[i].us) / 2;
  return a;
}

StridedCosts halfway(StridedCosts a, const StridedCosts& b) {
  for (size_t i = 0; i < a.rows.size(); ++i) a.rows[i].table = halfway(a.rows[i].table, b.rows[i].table);
  return a;
}

/// Overheads on a chip are 49.2 % less than between nodes (section 5.1); between chips of a node they are assumed to
/// lie halfway, since the paper has none (section 4.2: they are hard to measure).
Parameters with_levels(const CostTable& overhead, const CostTable& network, const CostTable& link) {
  constexpr double kOnChip = 1 - 0.492;
  Parameters p;
  p.chips_per_node = 2;
  p.has_inter_chip = true;
  LevelCosts& chip = p.levels[static_cast<size_t>(CommLevel::kIntraChip)];
  LevelCosts& chips = p.levels[static_cast<size_t>(CommLevel::kInterChip)];
  LevelCosts& nodes = p.levels[static_cast<size_t>(CommLevel::kInterNode)];
  nodes = {overhead, latency_between_nodes(), network, link, {}};
  chip = {scaled(overhead, kOnChip), latency_on_chip(), {}, {}, {}};
  chips = {halfway(chip.overhead, nodes.overhead), halfway(chip.latency, nodes.latency), {}, {}, {}};
  return p;
}

/// Readers of one buffer of 16 KiB on a node of two quad-core chips that each share a cache: level up to the four of a
/// chip, then higher (multicore collectives paper, section 3 and figure 2 (a)). Its axis is not printed: twice is
/// assumed.
std::vector<Contention> readers_of_two_chips() { return {{kMappedWay, 16384, {{1, 1}, {4, 1}, {8, 2}}, false}}; }
constexpr const char* kReadersSource =
    "contention: multicore collectives paper, figure 2 (a): level for the readers of one chip; twice for two is "
    "assumed";

Parameters gigabit() {
  // 20 µs and 117 bytes a µs.
  Parameters p = with_levels({{{0, 2.0}, {1024, 4.0}, {4096, 8.0}, {16384, 24.0}}},
                             {{{0, 20.0}, {1024, 28.75}, {4096, 55.0}, {16384, 160.0}}},
                             {{{0, 0.0}, {1024, 8.75}, {4096, 35.0}, {16384, 140.0}}});
  p.name = "gigabit-like";
  p.about =
      "Gigabit Ethernet between nodes of two quad-core chips; shape from the mlog_nP paper, absolute costs assumed";
  p.sources = {
      "chips_per_node: mlog_nP paper, section 5 (two quad-core Xeons of 2.0 GHz a node)",
      "intra-cmp overhead, 49.2 % below inter-node: section 5.1 (an average; here at every size)",
      "intra-cmp latency, up to 87.9 % below inter-node: section 5.1; its spread over the shapes is assumed",
      "intra-cmp overhead and latency of the nine shapes, 41 % below inter-node on average: section 5.1",
      "points at 1 K, 4 K, 16 K and strides 8, 64, 512: section 5; those at 0 are assumed",
      "inter-node overhead and latency: assumed; the paper shows such costs in figures without numbers",
      "inter-node network, 20 us and 117 bytes a us, of which link the latter: assumed",
      "inter-cmp: assumed, halfway between intra-cmp and inter-node",
      "gap: g = o, section 4.1",
      kReadersSource,
  };
  p.facts.contention = readers_of_two_chips();
  return p;
}

Parameters infiniband() {
  // 2 µs and 1,400 bytes a µs.
  Parameters p = with_levels({{{0, 0.5}, {1024, 0.9}, {4096, 2.0}, {16384, 6.4}}},
                             {{{0, 2.0}, {1024, 2.73}, {4096, 4.93}, {16384, 13.7}}},
                             {{{0, 0.0}, {1024, 0.73}, {4096, 2.93}, {16384, 11.7}}});
  p.name = "infiniband-ddr-like";
  p.about = "InfiniBand DDR between nodes of two quad-core chips; topology from the papers, costs assumed";
  p.sources = {
      "chips_per_node: multicore collectives paper, section 5.1 (two quad-core Clovertowns a node, InfiniBand DDR)",
      "intra-cmp below inter-node: assumed, the shares that the mlog_nP paper (section 5.1) has for Ethernet",
      "inter-node latency: assumed, that of gigabit-like, since packing is work of the same processors",
      "inter-node overhead: assumed; the papers print none",
      "inter-node network, 2 us and 1400 bytes a us, of which link the latter: assumed; the papers print none",
      "inter-cmp: assumed, halfway between intra-cmp and inter-node",
      "gap: g = o, mlog_nP paper, section 4.1",
      kReadersSource,
  };
  p.facts.contention = readers_of_two_chips();
  return p;
}

}  // namespace

std::span<const Parameters> built_in_profiles() {
  static const Parameters profiles[] = {gigabit(), infiniband()};
  return profiles;
}

const Parameters* built_in_profile(std::string_view name) {
  const auto all = built_in_profiles();
  const auto found = std::find_if(all.begin(), all.end(), [name](const Parameters& p) { return p.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace zh::model
