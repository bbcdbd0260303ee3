// See json_file.h.
#include "tools/cli/json_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace zh::tools {

nlohmann::json read_json(const std::string& path, std::string* problem) {
  problem->clear();
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  std::error_code none;
  // A folder can be opened, and throws when it is read.
  if (std::filesystem::is_directory(path, none)) {
    *problem = std::strerror(EISDIR);
  } else if (!file) {
    *problem = std::strerror(errno != 0 ? errno : EIO);
  } else {
    text << file.rdbuf();
  }
  return nlohmann::json::parse(text.str(), nullptr, false);
}

}  // namespace zh::tools
