// See inputs.h.
#include "tools/cli/inputs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/options.h"
#include "os/program.h"

namespace zh::tools {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostSizes = 32;  // kMaxSizes of bench/mpi/bench.h

constexpr uint64_t kNoSize = UINT64_MAX;

uint64_t size_of(const std::string& word) {
  const size_t digits = std::min(word.find_first_not_of("0123456789"), word.size());
  const std::string unit = word.substr(digits);
  constexpr size_t kMostDigits = 12;
  if (digits == 0 || digits > kMostDigits) return kNoSize;
  const uint64_t number = std::strtoull(word.c_str(), nullptr, 10);
  if (unit.empty()) return number;
  if (unit == "K" || unit == "k") return number << 10;
  return unit == "M" || unit == "m" ? number << 20 : kNoSize;
}

}  // namespace

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream in(list);
  for (std::string w; std::getline(in, w, ',');) {
    if (!w.empty()) words.push_back(w);
  }
  return words;
}

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string joined(const std::vector<std::string>& words) {
  std::string s;
  for (const std::string& w : words) s += (s.empty() ? "" : ",") + w;
  return s;
}

std::string wrong_names(const std::vector<std::string>& names, const std::string& list) {
  const std::vector<std::string> words = split(list);
  if (words.empty()) return "names nothing (there are " + joined(names) + ")";
  for (const std::string& word : words) {
    if (!contains(names, word)) return "no such name: " + word + " (there are " + joined(names) + ")";
  }
  return "";
}

std::string wrong_sizes(const SizeRange& range, const std::string& list) {
  const std::vector<std::string> words = split(list);
  if (words.empty()) return "names no size";
  if (words.size() > kMostSizes) return fmt::format("more than {} sizes", kMostSizes);
  for (const std::string& word : words) {
    const uint64_t size = size_of(word);
    const bool tiny = range.tiny && (size <= 2 || size == 4);
    if (size > range.most || ((size == 0 || size % range.step != 0) && !tiny)) {
      const std::string step = range.step == 1 ? "" : fmt::format(", a multiple of {}", range.step);
      return fmt::format("no size: {} ({}a number from {} to {}{}, with K or M)", word,
                         range.tiny ? "0, 1, 2, 4 or " : "", range.step, format_size(range.most), step);
    }
  }
  return "";
}

std::function<std::string(const std::string&)> number_in(double least, double most) {
  return [=](const std::string& text) {
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    const bool fits = *end == '\0' && number >= least && number <= most;
    return fits ? "" : fmt::format("no number from {:.9g} to {:.9g}: {}", least, most, text);
  };
}

std::string wrong_command(const std::string& command) {
  std::istringstream in(command);
  std::string program;
  in >> program;
  std::string path;
  const Status found = os::find_program(program, &path);
  return found.ok() ? "" : "no program that can be run: " + program + " (give a name in PATH or a path)";
}

std::string wrong_output(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return path + " is a folder (give the name of a file)";
  const fs::path parent = fs::absolute(path, ignored).parent_path();
  if (!fs::is_directory(parent, ignored)) return "no folder " + parent.string() + " (make it, or give another file)";
  const bool there = access(path.c_str(), F_OK) == 0 || errno != ENOENT;
  if (access(there ? path.c_str() : parent.c_str(), W_OK) != 0)
    return "cannot write " + path + ": " + std::strerror(errno) + " (give another file)";
  return "";
}

bool are_one_file(const std::string& a, const std::string& b) {
  std::error_code ignored;
  const auto place = [&](const std::string& path) {
    const fs::path real = fs::weakly_canonical(fs::absolute(path, ignored), ignored);
    return (real.empty() ? fs::path(path) : real).lexically_normal();  // empty: a name that no file can have
  };
  return !a.empty() && !b.empty() && place(a) == place(b);
}

std::string wrong_input(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored) || access(path.c_str(), R_OK) != 0) return "no file that can be read: " + path;
  return "";
}

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

nlohmann::json read_json(const std::string& path, std::string* problem) {
  std::error_code none;
  // A folder can be opened, and throws when it is read.
  const int error = fs::is_directory(path, none) ? EISDIR : access(path.c_str(), R_OK) != 0 ? errno : 0;
  *problem = error != 0 ? std::strerror(error) : "";
  return nlohmann::json::parse(error != 0 ? "" : file_text(path), nullptr, false);
}

}  // namespace zh::tools
