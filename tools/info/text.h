// What `zerohop info` has found, as text. Knows the JSON of info.cpp, and looks at nothing itself.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

namespace zh::tools {

/// The whole document in lines of at most `columns`; only a long word, such as a path, is longer.
[[nodiscard]] std::string info_text(const nlohmann::json& info, size_t columns);

}  // namespace zh::tools
