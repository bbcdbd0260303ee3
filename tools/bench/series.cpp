// See series.h.
#include "tools/bench/series.h"

namespace zh::tools {

bool SeriesCell::add(const nlohmann::json& one_case) {
  using Arms = std::vector<std::vector<double>>;
  constexpr size_t kPaired = 3;  // host, zerohop, host
  const auto arms = one_case.value("/metrics/time_us"_json_pointer, Arms{});
  if (arms.size() != 1 && arms.size() != kPaired) return false;
  const size_t own = arms.size() / 2;
  us.push_back(median(arms[own]));
  const auto slowest = one_case.value("/metrics/t_max_us"_json_pointer, Arms{});
  if (slowest.size() == arms.size()) slowest_us.push_back(median(slowest[own]));
  if (arms.size() != kPaired) return true;
  std::vector<double> host = arms[0];
  host.insert(host.end(), arms[2].begin(), arms[2].end());
  to_host.push_back(us.back() / median(host));
  return true;
}

}  // namespace zh::tools
