#include "os/program.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "os/error.h"
#include "os/segment.h"

namespace zh::os {
namespace {

/// 0 if `path` is an executable file, else errno.
int executable(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return errno;
  if (!S_ISREG(info.st_mode)) return EACCES;
  return access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

bool has_interpreter(int fd) {
  Elf64_Ehdr header{};
  if (pread(fd, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header)) return false;
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    const off_t at = static_cast<off_t>(header.e_phoff) + i * static_cast<off_t>(header.e_phentsize);
    if (pread(fd, &segment, sizeof segment, at) != static_cast<ssize_t>(sizeof segment)) return false;
    if (segment.p_type == PT_INTERP) return true;
  }
  return false;
}

}  // namespace

Status find_program(const std::string& name, std::string* path) {
  int error = ENOENT;
  if (name.empty()) return from_errno("program", ENOENT);
  if (name.find('/') != std::string::npos) {
    error = executable(name);
    *path = name;
    return from_errno("program", error);
  }
  const char* variable = std::getenv("PATH");
  const std::string list = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(':', at), list.size());
    const std::string folder = end > at ? list.substr(at, end - at) : ".";
    const std::string candidate = folder + "/" + name;
    const int result = executable(candidate);
    if (result == 0) {
      *path = candidate;
      return kOk;
    }
    if (result == EACCES) error = EACCES;
    at = end + 1;
  }
  return {error == EACCES ? Code::kNotPermitted : Code::kIo, "program", error};
}

ProgramKind inspect_program(const std::string& path) {
  ProgramKind kind;
  const Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (stat(path.c_str(), &info) == 0) {
    const bool other_user = (info.st_mode & S_ISUID) != 0 && info.st_uid != getuid();
    const bool other_group = (info.st_mode & S_ISGID) != 0 && (info.st_mode & S_IXGRP) != 0 && info.st_gid != getgid();
    const bool capabilities = getuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
    kind.privileged = other_user || other_group || capabilities;
  }
  if (!fd.valid()) {
    // Executable but unreadable: nothing to say against it.
    kind.elf = kind.dynamic = true;
    return kind;
  }
  char start[256] = {};
  const ssize_t n = pread(fd.get(), start, sizeof start - 1, 0);
  if (n >= EI_NIDENT && std::memcmp(start, ELFMAG, SELFMAG) == 0) {
    kind.elf = true;
    kind.same_class = start[EI_CLASS] == ELFCLASS64;
    kind.dynamic = !kind.same_class || has_interpreter(fd.get());
  } else if (n > 2 && start[0] == '#' && start[1] == '!') {
    const char* first = start + 2 + std::strspn(start + 2, " \t");
    kind.interpreter.assign(first, std::strcspn(first, " \t\r\n"));
  }
  return kind;
}

std::string own_folder() {
  char path[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  std::string text(path, n > 0 && n < static_cast<ssize_t>(sizeof path) ? static_cast<size_t>(n) : 0);
  // Without /proc: by the name under which it was started.
  const auto* started = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  if (text.empty() && started != nullptr && realpath(started, path) != nullptr) text = path;
  return text.substr(0, text.rfind('/'));
}

bool readable(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

void set_variable(const std::string& name, const std::string& value) { setenv(name.c_str(), value.c_str(), 1); }

int execute(const std::string& path, const std::vector<std::string>& arguments) {
  std::vector<std::string> copies = arguments;
  std::vector<char*> pointers;
  pointers.reserve(copies.size() + 1);
  for (std::string& a : copies) pointers.push_back(a.data());
  pointers.push_back(nullptr);
  execv(path.c_str(), pointers.data());
  if (errno == ENOEXEC) {
    // A script without "#!": a shell runs it, as execvp does.
    std::string shell = "/bin/sh", file = path;
    std::vector<char*> with_shell{shell.data(), file.data()};
    with_shell.insert(with_shell.end(), pointers.begin() + 1, pointers.end());
    execv(shell.c_str(), with_shell.data());
  }
  return errno;
}

namespace {
/// What a launcher has opened for its rank it sees the end of.
void close_all_but_standard_error() {
  std::vector<int> open_ones;
  DIR* folder = opendir("/proc/self/fd");
  while (const dirent* entry = folder != nullptr ? readdir(folder) : nullptr) {
    if (const int fd = std::atoi(entry->d_name); fd > STDERR_FILENO) open_ones.push_back(fd);
  }
  for (const int fd : open_ones) close(fd);
  const int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, STDIN_FILENO);
  dup2(nothing, STDOUT_FILENO);
  if (nothing > STDERR_FILENO) close(nothing);
}
}  // namespace

int start_apart(const std::string& path, const std::vector<std::string>& arguments) {
  if (access(path.c_str(), X_OK) != 0) return errno;
  const pid_t between = fork();
  if (between < 0) return errno;
  if (between == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    close_all_but_standard_error();
    unsetenv("LD_PRELOAD");
    execute(path, arguments);
    _exit(0);
  }
  while (waitpid(between, nullptr, 0) < 0 && errno == EINTR) continue;
  return 0;
}

}  // namespace zh::os
