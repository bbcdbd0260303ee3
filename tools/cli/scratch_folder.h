// A private folder for files that nobody needs afterwards. Called by the benchmarks for what their launches leave.
#pragma once

#include <fmt/format.h>
#include <stdlib.h>  // mkdtemp

#include <filesystem>
#include <string>

namespace zh::tools {

/// Removed with everything in it. Its path is empty where none could be made.
class ScratchFolder {
 public:
  ScratchFolder() {
    const char* base = std::getenv("TMPDIR");
    std::string name = fmt::format("{}/zerohop-bench-XXXXXX", base != nullptr && *base != 0 ? base : "/tmp");
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::string file(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace zh::tools
