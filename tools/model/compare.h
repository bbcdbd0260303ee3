// Measured times of algorithms beside what the models predict of them: `zerohop model compare`. It refuses to measure
// and to print.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/bench/stats.h"
#include "tools/model/case.h"

namespace zh::tools {

/// What zerohop does by itself, in place of an algorithm's name.
constexpr std::string_view kOwnChoice = "auto";

/// One algorithm at one size.
struct MeasuredCase {
  ModelCase what;    ///< its cluster has no chips and processors: see measured_cluster()
  Interval us;       ///< of the slowest rank, over the launches
  Interval to_host;  ///< ratio to the host's own collective in the same launch; 0: not told; not valid: a median alone
};

/// The cases of a document that `zerohop bench algorithms --json` or `bench shapes --json` wrote, kOwnChoice among
/// them. Nothing if it is none, or holds no algorithm that this zerohop has: `*problem` says why.
[[nodiscard]] std::optional<std::vector<MeasuredCase>> measured_cases(const nlohmann::json& document,
                                                                      std::string* problem);

/// The cluster on the machine of these parameters, whose processors its pretended nodes share.
[[nodiscard]] model::Cluster measured_cluster(const model::Cluster& cluster, const model::Parameters& parameters);

/// By model::Model: µs, or a share. The one of a model that has none is empty.
using ByModel = std::array<std::optional<double>, model::kAllModels.size()>;

struct Comparison {
  MeasuredCase measured;
  ByModel form;         ///< where the paper has a closed form
  ByModel walk;         ///< of all models, or of none
  std::string no_walk;  ///< why not
};
[[nodiscard]] Comparison compare(const MeasuredCase& measured, const model::Parameters& parameters);

/// Predicted against measured, as a share of the measured: 0.05 is 5 % too much.
[[nodiscard]] double relative_error(double predicted_us, double measured_us);

/// Of the points of one algorithm, contiguous or strided, and one way of predicting.
struct ErrorSummary {
  ModelCase what;     ///< of the first point; bytes and stride are not the summary's
  bool walk = false;  ///< false: closed form
  int points = 0;
  double spread = 0;  ///< mean half width of the measured intervals, as a share of their medians
  ByModel mean;       ///< of the errors' amounts
  ByModel greatest;   ///< the greatest amount
};
/// Whether there is a prediction at all.
[[nodiscard]] bool any(const ByModel& values);
/// In the order of the comparisons.
[[nodiscard]] std::vector<ErrorSummary> summaries(const std::vector<Comparison>& comparisons);

}  // namespace zh::tools
