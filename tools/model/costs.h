// What a collective would cost on a machine of given costs, by the four models side by side: `zerohop schedule
// --profile`. Measures nothing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "coll/schedule/schedule.h"
#include "tools/model/case.h"

namespace zh::tools {

/// The profile, each model's closed form and walk, one message's cost by level, and what a reader has to know.
/// `schedules`: of all ranks.
[[nodiscard]] nlohmann::json costs_json(const ModelCase& c, const std::vector<coll::Schedule>& schedules,
                                        const model::Parameters& parameters);
/// The same as text.
[[nodiscard]] std::string costs_text(const nlohmann::json& costs, size_t columns);

}  // namespace zh::tools
