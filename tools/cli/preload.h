// LD_PRELOAD: what stands in it, and where libzerohop.so goes. Called by `zerohop run` and `zerohop doctor`.
#pragma once

#include <string>
#include <vector>

namespace zh::tools {

/// The entries of LD_PRELOAD, which blanks and colons part.
[[nodiscard]] std::vector<std::string> preloads_of(const std::string& list);
/// Whether an entry is loaded into this process, which has the same LD_PRELOAD.
[[nodiscard]] bool is_loaded(const std::string& entry);
/// Whether it defines functions of MPI and is no MPI library: that has those of the profiling interface itself. One
/// that is not loaded, because it cannot be, is neither.
[[nodiscard]] bool is_profiler(const std::string& entry);

/// Why LD_PRELOAD cannot work for the program; "" if it can.
[[nodiscard]] std::string preload_obstacle(const std::string& path);

/// The sanitizers' runtimes that a program asks for. They want to come before all other libraries, by LD_PRELOAD if
/// something else is there.
[[nodiscard]] std::vector<std::string> runtimes_of(const std::string& program);

/// `list` with `library` in it once: in front, but behind the last profiler, so that the profiler sees the program's
/// calls and zerohop those of the profiler. The objects of the list are looked at where they are loaded into this
/// process, too. Before all stand the `runtimes`, and libc's own debugging malloc, which must have every block.
[[nodiscard]] std::string preload_with(const std::string& list, const std::string& library,
                                       const std::vector<std::string>& runtimes);

}  // namespace zh::tools
