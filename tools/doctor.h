// One check of `zerohop doctor`, and the checks that have a file of their own. Called by doctor.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heap_facts.h"
#include "run_stats.h"

namespace zh::tools {

enum class State { kOk, kWarn, kBad };

struct Check {
  const char* name;
  State state = State::kOk;
  std::string finding;
  std::string cost;  ///< what the state costs; empty if ok
  std::string cure;  ///< the command that mends it; empty if ok
};

/// "1.5 GiB", "unlimited".
[[nodiscard]] std::string size_text(uint64_t bytes);

/// What the shared heap may do here.
[[nodiscard]] std::vector<Check> heap_checks(const HeapFacts& facts);
/// What a run made of it, by its statistics.
[[nodiscard]] Check check_run(const RunStats& run);
/// That, how the run ended, and its collectives.
[[nodiscard]] std::vector<Check> run_checks(const RunStats& run);

}  // namespace zh::tools
