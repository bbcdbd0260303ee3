// Writes judged rows, as a table and as JSON, and the words that every table of them has. Called at the end of
// the rounds of `zerohop bench`; computes nothing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/bench/judge.h"

namespace zh::tools {

/// Blocks by benchmark, buffers, ranks, placement and host; `rate`: with a column of MB/s.
std::string table_of(const Judged& judged, bool rate);
/// What stands below every table; `times` says whose times they are.
std::string closing_of(const Judged& judged, const std::string& times);

/// The launches of a row, as a heading names them: buffers, ranks, placement, host, rounds.
std::string launches_text(const Row& row);
/// Size and second parameter of a row, and its metric unless that is the time.
std::string case_text(const CaseKey& key);
/// At least three significant digits.
std::string number_text(double v);
/// The median and its interval, with "[?]" where there were too few rounds for one.
std::string interval_text(const Interval& i);

/// Null of no values.
nlohmann::json interval_json(const Interval& i);
nlohmann::json json_of(const Judged& judged);

}  // namespace zh::tools
