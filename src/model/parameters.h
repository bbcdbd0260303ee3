// The parameter set of a machine, as the mlog_nP paper's models have it, and the levels of communication. Read from a
// profile by the command, or built in (profiles.h); read by the equations (equations.h) and the walk of schedules.
// Times in µs, sizes and strides in bytes. It refuses to know files and how a figure was found.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/costs.h"
#include "model/machine_facts.h"

namespace zh::model {

/// Communication levels, section 3.2: on one chip (CMP), between chips of a node, between nodes. The m of mlog_nP.
enum class CommLevel : uint8_t { kIntraChip, kInterChip, kInterNode };
constexpr size_t kLevels = 3;
constexpr std::array<CommLevel, kLevels> kAllLevels = {CommLevel::kIntraChip, CommLevel::kInterChip,
                                                       CommLevel::kInterNode};
/// "intra-cmp", "inter-cmp", "inter-node".
[[nodiscard]] std::string_view name_of(CommLevel level);

/// The models side by side. What they differ in is which levels they tell apart.
enum class Model : uint8_t {
  kLog3P,      ///< one level, between nodes (section 3.1)
  kTwoLog23P,  ///< 2log{2,3}P: two levels, between chips is priced as on one chip (section 4.2)
  kMlogNP,     ///< mlog_nP with all three levels (section 4.1)
  kLinked,     ///< the same, and the messages of a node share its link; the paper has no such model, so no closed form
};
/// The paper's, and those of a walk.
constexpr std::array<Model, 3> kPaperModels = {Model::kLog3P, Model::kTwoLog23P, Model::kMlogNP};
constexpr std::array<Model, 4> kAllModels = {Model::kLog3P, Model::kTwoLog23P, Model::kMlogNP, Model::kLinked};
/// "log3P", "2log{2,3}P", "mlog_nP", "mlog_nP+links".
[[nodiscard]] std::string_view name_of(Model model);
/// The level whose parameters a model takes for a message of `level`.
[[nodiscard]] CommLevel priced_as(Model model, CommLevel level);

/// What a message is to the models ("4K8S" in the paper): its size s, and the distance d between its elements (0:
/// contiguous).
struct MessageShape {
  double bytes = 0;
  uint64_t stride = 0;
};

constexpr uint32_t kMostProcessors = 1U << 20;

struct Parameters {
  std::string name;
  std::string about;                 ///< one line
  std::vector<std::string> sources;  ///< where which figures come from
  uint32_t chips_per_node = 1;
  uint32_t processors_per_node = 0;        ///< for which a node's ranks wait if they are more; 0: not known
  bool has_inter_chip = false;             ///< false: between chips is as on one chip
  std::array<LevelCosts, kLevels> levels;  ///< by CommLevel
  MachineFacts facts;                      ///< what else was measured; no equation reads it

  [[nodiscard]] const LevelCosts& at(CommLevel level) const;
  /// The largest size that all tables reach from which messages at a stride (0: contiguous) are priced, on one node or
  /// also between nodes; beyond it costs are continued lines.
  [[nodiscard]] double last_bytes(uint64_t stride, bool between_nodes) const;
  /// What makes the set unusable ("levels.intra-cmp.overhead: ..."), "" if nothing does.
  [[nodiscard]] std::string fault() const;
  bool operator==(const Parameters&) const = default;
};

}  // namespace zh::model
