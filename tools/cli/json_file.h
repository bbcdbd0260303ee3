// Documents in JSON that users name. Called by the subcommands that read them; refuses to know what is in them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace zh::tools {

/// The file's document; discarded if it is none. `*problem` is "" or why the file cannot be read ("Is a directory").
[[nodiscard]] nlohmann::json read_json(const std::string& path, std::string* problem);

}  // namespace zh::tools
