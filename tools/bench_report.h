// Prints judged rows: the table on standard output, and the same as JSON and CSV. Called at the end of `zerohop bench
// p2p`; computes nothing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bench_judge.h"

namespace zh::tools {

/// The table, with one line per row and, below it, one line per judged limit.
std::string table_of(const Judged& judged, bool with_rate);
nlohmann::json json_of(const Judged& judged);
std::string csv_of(const Judged& judged);

}  // namespace zh::tools
