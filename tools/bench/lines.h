// `zerohop bench raw --lines`: how long a cache line takes between every two CPUs.
#pragma once

#include <string>

namespace zh::tools {

/// Prints the matrix and writes it to the files that are named; returns the command's exit code.
int bench_lines(const std::string& json_path, const std::string& csv_path);

}  // namespace zh::tools
