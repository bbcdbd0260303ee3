// A look at a job as lines of text, as wide as they may be; and as JSON. Called by top.cpp and screen.cpp; knows no
// terminal.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/top/waits.h"

namespace zh::tools::top {

enum class Sort { kRank, kWait, kTraffic, kCpu, kCount };
[[nodiscard]] const char* to_string(Sort sort);

struct View {
  size_t columns = 80;
  size_t lines = 0;  ///< 0: as many as there are
  Sort sort = Sort::kRank;
  bool colors = false;
};

/// `before` and `now`: two looks at one job; rates are those between them.
[[nodiscard]] std::vector<std::string> draw(const JobLook& before, const JobLook& now, const View& view);
[[nodiscard]] nlohmann::json to_json(const JobLook& before, const JobLook& now);

/// Per second, of both directions.
struct Rates {
  double messages = 0;
  double bytes = 0;
};
/// `path`: one of p2p::Path, or kCount for all but those to the rank itself.
[[nodiscard]] Rates rates_of(const JobLook& before, const JobLook& now, const RankLook& rank, p2p::Path path);
/// Per cent of a CPU; negative if unknown.
[[nodiscard]] double cpu_percent(const JobLook& before, const JobLook& now, const RankLook& rank);

/// The ways of messages, by p2p::Path, as users know them.
constexpr const char* kPathNames[p2p::kPaths] = {"inline", "eager", "cells", "cma", "ko", "mapped", "self"};

}  // namespace zh::tools::top
