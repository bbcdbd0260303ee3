// See preload.h.
#include "tools/cli/preload.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "os/elf_file.h"
#include "os/loaded_symbols.h"
#include "os/program.h"

namespace zh::tools {

std::vector<std::string> preloads_of(const std::string& list) {
  std::vector<std::string> entries;
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find_first_of(" :", at), list.size());
    if (end > at) entries.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return entries;
}

bool is_loaded(const std::string& entry) {
  void* handle = dlopen(entry.c_str(), RTLD_NOLOAD | RTLD_LAZY);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

bool is_profiler(const std::string& entry) {
  void* handle = dlopen(entry.c_str(), RTLD_NOLOAD | RTLD_LAZY);
  if (handle == nullptr) return false;
  link_map* object = nullptr;
  bool found = false;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &object) == 0) {
    const auto is_call = [](const char* name, bool defined, void* prefix) {
      const auto* text = static_cast<const char*>(prefix);
      return defined && std::strncmp(name, text, std::strlen(text)) == 0;
    };
    char call[] = "MPI_";
    char profiling[] = "PMPI_";
    found = os::any_symbol(*object, is_call, call) && !os::any_symbol(*object, is_call, profiling);
  }
  dlclose(handle);
  return found;
}

std::vector<std::string> runtimes_of(const std::string& program) {
  std::vector<std::string> runtimes;
  for (const std::string& name : os::read_elf(program).needed) {
    for (const char* prefix : {"libasan.so", "libtsan.so", "liblsan.so", "libhwasan.so", "libclang_rt."}) {
      if (name.rfind(prefix, 0) == 0) runtimes.push_back(name);
    }
  }
  return runtimes;
}

std::string preload_with(const std::string& list, const std::string& library,
                         const std::vector<std::string>& runtimes) {
  std::vector<std::string> entries = preloads_of(list);
  std::erase(entries, library);
  for (const std::string& runtime : runtimes) std::erase(entries, runtime);
  entries.insert(entries.begin(), runtimes.begin(), runtimes.end());
  const auto debugging = std::stable_partition(
      entries.begin() + static_cast<ptrdiff_t>(runtimes.size()), entries.end(),
      [](const std::string& entry) { return entry.find("libc_malloc_debug.so") != std::string::npos; });
  auto place = static_cast<size_t>(debugging - entries.begin());
  for (size_t i = place; i < entries.size(); ++i) {
    if (is_profiler(entries[i])) place = i + 1;
  }
  entries.insert(entries.begin() + static_cast<ptrdiff_t>(place), library);
  std::string result;
  for (const std::string& entry : entries) result += (result.empty() ? "" : ":") + entry;
  return result;
}

std::string preload_obstacle(const std::string& path) {
  os::ProgramKind kind = os::inspect_program(path);
  if (kind.privileged) return "is setuid, setgid or has file capabilities, so the system ignores preloaded libraries";
  if (!kind.interpreter.empty()) kind = os::inspect_program(kind.interpreter);
  if (kind.elf && !kind.same_class) return "is a 32-bit program";
  if (kind.elf && !kind.dynamic) return "is statically linked: link it with the shared MPI library";
  return "";
}

}  // namespace zh::tools
