#include "os/own_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <string_view>

namespace zh::os {
namespace {

constexpr size_t kHeadBytes = 4096;

/// Nothing of what cannot be read.
std::string head_of(const std::string& path) {
  std::string text(kHeadBytes, '\0');
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return "";
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

bool may_overwrite(const std::string& path, FileForm form) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG;
  if (!S_ISREG(info.st_mode) || info.st_size == 0) return true;
  const std::string head = head_of(path);
  switch (form) {
    case FileForm::kStatistics:
      return head.starts_with(R"({"schema": )") && has(head, R"("host": ")") && has(head, R"("host_version": ")");
    case FileForm::kTimeline:
      return head.starts_with(R"({"displayTimeUnit":"ns","traceEvents":[{"ph":"M","pid":0,"name":"zerohop")");
    case FileForm::kPage:
      return head.starts_with("<!doctype html>") && has(head, R"(<meta name="generator" content="zerohop)");
  }
  return false;
}

}  // namespace zh::os
