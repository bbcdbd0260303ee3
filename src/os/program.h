// Finding, looking into and starting programs. Called by `zerohop run`; refuses to know what is preloaded and why.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace zh::os {

/// As the shell looks: a name with '/' as it is, else along PATH. error() is ENOENT (nothing there) or EACCES (not
/// executable).
Status find_program(const std::string& name, std::string* path);

/// What decides whether a library can be preloaded into it.
struct ProgramKind {
  bool elf = false;
  bool dynamic = false;     ///< has an interpreter (ld.so), which obeys LD_PRELOAD
  bool same_class = true;   ///< 64-bit like this build
  bool privileged = false;  ///< setuid, setgid or file capabilities that change rights: ld.so then ignores LD_PRELOAD
  std::string interpreter;  ///< of a "#!" script: the program that really runs
};
[[nodiscard]] ProgramKind inspect_program(const std::string& path);

/// Folder of this executable; "" if unknown.
[[nodiscard]] std::string own_folder();
[[nodiscard]] bool readable(const std::string& path);
void set_variable(const std::string& name, const std::string& value);
/// Replaces this process; returns errno if that fails.
int execute(const std::string& path, const std::vector<std::string>& arguments);
/// Starts a program of which this process, and what it becomes, sees nothing: it is no child, gets no signal of the
/// group, holds nothing open but the standard error and preloads nothing. errno, or 0.
int start_apart(const std::string& path, const std::vector<std::string>& arguments);

}  // namespace zh::os
