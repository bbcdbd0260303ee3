// What the table of commands and options says, for other readers than people at a terminal.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

namespace zh::tools {

/// A script that makes `shell` (bash, zsh or fish) complete the commands of `app`.
[[nodiscard]] std::string completion(const CLI::App& app, const std::string& shell);
/// A page of roff for each command: the name of its file and its text.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> manual_pages(const CLI::App& app);

}  // namespace zh::tools
