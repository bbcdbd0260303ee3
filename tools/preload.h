// Where libzerohop.so goes in LD_PRELOAD. Called by `zerohop run`; refuses to know what a program is.
#pragma once

#include <string>

namespace zh::tools {

/// `list` with `library` in it once: in front, but behind the last profiler, so that the profiler sees the program's
/// calls and zerohop those of the profiler. The objects of the list are looked at where they are loaded into this
/// process, too.
[[nodiscard]] std::string preload_with(const std::string& list, const std::string& library);

}  // namespace zh::tools
