// What users name: lists and files. The checks are as CLI11 takes them: each says what is wrong with a value and what
// would be right, or nothing. Called by the subcommands.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace zh::tools {

std::vector<std::string> split(const std::string& list);
std::string joined(const std::vector<std::string>& words);
bool contains(const std::vector<std::string>& words, const std::string& word);

/// A comma list of some of `names`, at least one.
std::string wrong_names(const std::vector<std::string>& names, const std::string& list);

/// What a benchmark program takes as a size.
struct SizeRange {
  uint64_t most = 1 << 30;
  uint64_t step = 8;
  bool tiny = false;  ///< 0, 1, 2 and 4, too
};
/// A comma list of sizes, with K or M.
std::string wrong_sizes(const SizeRange& range, const std::string& list);
/// Checks a number, of which nan is none.
std::function<std::string(const std::string&)> number_in(double least, double most);
/// A command with its arguments, found in PATH or by its path.
std::string wrong_command(const std::string& command);
/// A file that can be written: its folder is there.
std::string wrong_output(const std::string& path);
/// Whether both names, relative or by links, are of one file; it need not be there. False of an empty name.
bool are_one_file(const std::string& a, const std::string& b);
/// A file that can be read.
std::string wrong_input(const std::string& path);

/// All of a file; nothing of what cannot be read.
std::string file_text(const std::string& path);

/// The file's document; discarded if it is none. `*problem` is "" or why the file cannot be read ("Is a directory").
[[nodiscard]] nlohmann::json read_json(const std::string& path, std::string* problem);

}  // namespace zh::tools
