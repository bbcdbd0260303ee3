// The parameter sets that are built in: the clusters of the papers. Called by `zerohop schedule --profile`, `tune` and
// the tests. Most of their figures are assumed, for the papers print few; each set says which are not.
#pragma once

#include <span>
#include <string_view>

#include "model/parameters.h"

namespace zh::model {

/// "gigabit-like", "infiniband-ddr-like".
[[nodiscard]] std::span<const Parameters> built_in_profiles();
/// Null if none has this name.
[[nodiscard]] const Parameters* built_in_profile(std::string_view name);

}  // namespace zh::model
