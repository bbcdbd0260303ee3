// Whether the algorithms that a model chooses are those that were measured to be the fastest, and whether the built-in
// choices are: `zerohop model judge`. It refuses to measure and to print.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "coll/algorithms/tiles.h"
#include "tools/model/compare.h"

namespace zh::tools {

constexpr double kNearRatio = 1.10;       ///< a choice that takes at most so many times the best's time is a good one
constexpr double kSlowerThanHost = 1.05;  ///< zerohop's own choice counts as slower than the host from there on

/// What a chooser takes. No chunk: the algorithm does not cut.
struct Choice {
  std::string algorithm;
  std::optional<uint64_t> chunk;
};
/// The choice for a case's collective, cluster and bytes; nothing if it has none.
using Chooser = std::function<std::optional<Choice>(const ModelCase& cell)>;

/// As `zerohop model choose` does, with these tiles. It keeps what it has walked; `parameters` have to outlive it.
[[nodiscard]] Chooser by_model(const model::Parameters& parameters, const coll::Tiles& tiles);
/// coll::choose(), with ZEROHOP_CHUNK's default.
[[nodiscard]] std::optional<Choice> built_in(const ModelCase& cell);

enum class Quality : uint8_t {
  kNearBest,     ///< within kNearRatio of the best measured
  kNotResolved,  ///< not, but the measurement does not tell the two apart: their 95 % intervals overlap
  kWorse,        ///< not, and it does
  kNotMeasured,
};

/// A choice beside what was measured in its cell.
struct JudgedChoice {
  Choice choice;
  std::string measured_as;   ///< "ring/64K": of the chosen algorithm the setting with the chunk that is closest; or ""
  bool other_chunk = false;  ///< ... which is another one
  double ratio = 0;          ///< its time as a multiple of the best's; 0: not measured
  Quality quality = Quality::kNotMeasured;
};

/// A collective at one size, on one cluster.
struct JudgedCell {
  ModelCase what;     ///< without algorithm and chunk
  std::string best;   ///< setting with the least median
  Interval best_us;   ///< of the slowest rank
  int settings = 0;   ///< named ones that were measured
  bool told = false;  ///< the best's 95 % interval overlaps that of no other setting
  JudgedChoice model;
  JudgedChoice standard;                ///< the built-in choice
  std::optional<Interval> own_to_host;  ///< zerohop's own choice: ratio to the host, if that was measured

  [[nodiscard]] bool slower_than_host() const { return own_to_host && own_to_host->mid > kSlowerThanHost; }
  /// The measurement is sure of it.
  [[nodiscard]] bool surely_slower_than_host() const;
};

/// Cells in the order of the cases. Where fewer than two settings were measured there is nothing to choose, and no
/// cell.
[[nodiscard]] std::vector<JudgedCell> judged_cells(const std::vector<MeasuredCase>& cases, const Chooser& model,
                                                   const Chooser& standard);

struct ChoiceCount {
  int near_best = 0;
  int not_resolved = 0;
  int worse = 0;
  int not_measured = 0;
  double greatest_ratio = 0;
};
/// Of the cells of one collective on one cluster, or of all.
struct JudgedSum {
  ModelCase what;  ///< of the first cell
  int cells = 0;
  int told = 0;
  ChoiceCount model;
  ChoiceCount standard;
  int slower_than_host = 0;
  int surely_slower_than_host = 0;
};
void add(const JudgedCell& cell, JudgedSum* sum);
/// By collective and cluster, in the order of the cells.
[[nodiscard]] std::vector<JudgedSum> sums_of(const std::vector<JudgedCell>& cells);

}  // namespace zh::tools
