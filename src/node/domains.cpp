// See domains.h.
#include "node/domains.h"

#include <algorithm>

namespace zh::node {

std::vector<uint32_t> domains_of(std::span<const Level> levels, std::span<const Level> own) {
  const size_t n = own.size();
  std::vector<uint32_t> domains(n, 0);
  const Level apart = levels.empty() ? Level::kSelf : *std::ranges::max_element(levels);
  const auto within = [apart](Level level) { return level < apart; };
  if (apart <= Level::kSharedL3 || !std::ranges::all_of(own, within)) return domains;
  std::vector<size_t> firsts;  // by domain
  for (size_t rank = 0; rank < n; ++rank) {
    const auto known = std::ranges::find_if(firsts, [&](size_t first) { return within(levels[first * n + rank]); });
    domains[rank] = static_cast<uint32_t>(known - firsts.begin());
    if (known == firsts.end()) firsts.push_back(rank);
  }
  return domains;
}

}  // namespace zh::node
