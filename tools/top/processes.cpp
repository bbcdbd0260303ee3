// See processes.h.
#include "tools/top/processes.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <sstream>

#include "tools/cli/inputs.h"

namespace zh::tools::top {
namespace {

std::string proc(pid_t pid, const char* what) { return "/proc/" + std::to_string(pid) + "/" + what; }

/// Calls `take` for each name in a folder that is a number.
void for_each_number(const std::string& folder, const std::function<void(int)>& take) {
  DIR* open = opendir(folder.c_str());
  if (open == nullptr) return;
  while (const dirent* entry = readdir(open)) {
    if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9') take(std::atoi(entry->d_name));
  }
  closedir(open);
}

std::string link_text(const std::string& path) {
  char text[256];
  const ssize_t n = readlink(path.c_str(), text, sizeof text);
  return {text, n > 0 ? static_cast<size_t>(n) : 0};
}

/// As os::make_memfd("zerohop") and os::make_file() name them.
bool is_named_as_segment(const std::string& name) {
  constexpr std::string_view kFile = "/zerohop-XXXXXX (deleted)";
  const size_t slash = name.rfind('/');
  return name == "/memfd:zerohop (deleted)" ||
         (slash != std::string::npos && name.size() - slash == kFile.size() && name[0] == '/' &&
          name.compare(slash, 9, kFile, 0, 9) == 0 && name.ends_with(" (deleted)"));
}

/// What is open for writing under that number; a name that is no segment's tells of no file.
bool look_at_segment(pid_t pid, int fd, struct stat* out) {
  const std::string path = proc(pid, "fd/") + std::to_string(fd);
  struct stat link {};
  return is_named_as_segment(link_text(path)) && lstat(path.c_str(), &link) == 0 && (link.st_mode & S_IWUSR) != 0 &&
         stat(path.c_str(), out) == 0;
}

bool descends(pid_t pid, pid_t from) {
  Process p;
  constexpr int kMostGenerations = 100;
  for (int i = 0; i < kMostGenerations && pid > 1; ++i) {
    if (pid == from) return true;
    if (!look_at_process(pid, &p)) return false;
    pid = p.parent;
  }
  return pid == from;
}

Holder holder_of(pid_t pid, int fd) {
  Holder holder{pid, fd, 0, pid};
  struct stat info {};
  if (stat(proc(pid, "ns/pid").c_str(), &info) == 0) holder.pid_namespace = info.st_ino;
  const std::string status = file_text(proc(pid, "status"));
  if (const size_t at = status.find("\nNSpid:"); at != std::string::npos) {
    std::istringstream line(status.substr(at + 7, status.find('\n', at + 1) - at - 7));
    while (line >> holder.inner_pid) continue;
  }
  return holder;
}

}  // namespace

bool look_at_process(pid_t pid, Process* out) {
  const std::string text = file_text(proc(pid, "stat"));
  const size_t end = text.rfind(')');  // the name before it may hold anything
  if (end == std::string::npos) return false;
  std::istringstream in(text.substr(end + 1));
  uint64_t user = 0;
  uint64_t system = 0;
  std::string skipped;
  in >> out->state >> out->parent;
  for (int field = 5; field < 14; ++field) in >> skipped;
  in >> user >> system;
  for (int field = 16; field < 22; ++field) in >> skipped;
  in >> out->began;
  out->cpu_ns = (user + system) * (1'000'000'000 / static_cast<uint64_t>(sysconf(_SC_CLK_TCK)));
  return !in.fail();
}

std::string command_of(pid_t pid) {
  std::string words = file_text(proc(pid, "cmdline"));
  words.erase(0, words.rfind('/', words.find('\0')) + 1);
  while (!words.empty() && words.back() == '\0') words.pop_back();
  std::replace(words.begin(), words.end(), '\0', ' ');
  return words;
}

std::string variable_of(pid_t pid, std::initializer_list<const char*> names) {
  const std::string all = '\0' + file_text(proc(pid, "environ"));
  for (const char* name : names) {
    const std::string head = '\0' + std::string(name) + '=';
    const size_t at = all.find(head);
    if (at == std::string::npos) continue;
    const size_t from = at + head.size();
    const std::string value = all.substr(from, all.find('\0', from) - from);
    if (!value.empty()) return value;
  }
  return "";
}

std::vector<Segment> find_segments(pid_t within) {
  std::vector<Segment> found;
  for_each_number("/proc", [&](pid_t pid) {
    struct stat info {};
    if (stat(proc(pid, "").c_str(), &info) != 0 || info.st_uid != geteuid()) return;
    std::vector<uint64_t> seen;  // it may have one under two numbers
    for_each_number(proc(pid, "fd"), [&](int fd) {
      if (!look_at_segment(pid, fd, &info)) return;
      if (std::find(seen.begin(), seen.end(), info.st_ino) != seen.end()) return;
      seen.push_back(info.st_ino);
      auto at = std::find_if(found.begin(), found.end(),
                             [&](const Segment& s) { return s.inode == info.st_ino && s.device == info.st_dev; });
      if (at == found.end()) at = found.insert(found.end(), {info.st_dev, info.st_ino, {}});
      at->holders.push_back(holder_of(pid, fd));
    });
  });
  if (within != 0) {
    std::erase_if(found, [within](const Segment& s) {
      return std::none_of(s.holders.begin(), s.holders.end(),
                          [within](const Holder& h) { return descends(h.pid, within); });
    });
  }
  for (Segment& s : found) {
    std::sort(s.holders.begin(), s.holders.end(), [](const Holder& a, const Holder& b) { return a.pid < b.pid; });
  }
  return found;
}

bool holds(pid_t pid, int* fd, const Segment& segment) {
  struct stat info {};
  const auto has = [&](int number) {
    return look_at_segment(pid, number, &info) && info.st_ino == segment.inode && info.st_dev == segment.device;
  };
  if (*fd >= 0 && has(*fd)) return true;
  *fd = -1;
  for_each_number(proc(pid, "fd"), [&](int number) {
    if (*fd < 0 && has(number)) *fd = number;
  });
  if (*fd >= 0) return true;
  // The program may have closed it.
  std::istringstream maps(file_text(proc(pid, "maps")));
  const std::string inode = " " + std::to_string(segment.inode) + " ";
  for (std::string line; std::getline(maps, line);) {
    const bool ours = line.find(inode) != std::string::npos && line.find("zerohop") != std::string::npos;
    if (ours && line.find(" rw-s ") != std::string::npos) return true;
  }
  return false;
}

}  // namespace zh::tools::top
