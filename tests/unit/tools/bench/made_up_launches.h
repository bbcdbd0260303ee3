// Launches that nobody made, for the tests of what is told of launches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench/judge.h"

namespace zh::tools {

/// The values of each arm, one for each block.
using MadeUpArms = std::vector<std::vector<double>>;

/// The host alone, or zerohop between two arms of the host.
inline MadeUpArms made_up_arms(bool zerohop, double host_us, double us) {
  return zerohop ? MadeUpArms{{host_us}, {us}, {host_us}} : MadeUpArms{{host_us}};
}

inline nlohmann::json made_up_case(const std::string& bench, uint64_t size, const std::string& metric,
                                   const MadeUpArms& arms) {
  return {{"bench", bench}, {"size", size}, {"buffers", "malloc"}, {"metrics", {{metric, arms}}}};
}

/// Its cases have made_up_arms().
inline LaunchRecord made_up_launch(int round, const std::string& host, bool zerohop,
                                   const std::vector<nlohmann::json>& cases, const std::string& placement = "near",
                                   int ranks = 2) {
  using Names = std::vector<std::string>;
  const nlohmann::json document = {{"placement", placement},
                                   {"line_us", {{"before", 0.06}, {"after", 0.06}}},
                                   {"ranks", ranks},
                                   {"arms", zerohop ? Names{"host", "zerohop", "host"} : Names{"host"}},
                                   {"cases", cases}};
  return {round, "g", host, zerohop, "", 1, document};
}

}  // namespace zh::tools
