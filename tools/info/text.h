// What `zerohop info` has found, as text. Knows the JSON of info.cpp, and looks at nothing itself.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace zh::tools {

/// The document in lines of at most `columns`; only a long word, such as a path, is longer. `all_variables`: those
/// alone; else the variables that are set come last.
[[nodiscard]] std::string info_text(const nlohmann::json& info, size_t columns, bool all_variables = false);

/// What is known by name, in the names' order, without what is alike but for `apart`: "abi, ompi" and its value.
[[nodiscard]] std::vector<std::pair<std::string, nlohmann::json>> told_once(const nlohmann::json& by_name,
                                                                            const char* apart = "");

}  // namespace zh::tools
