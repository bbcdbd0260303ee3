// Which algorithm is fastest from which size on. Called by `zerohop model crossover`; refuses to know where times come
// from.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace zh::tools {

struct Takeover {
  uint64_t from_bytes = 0;
  std::string_view algorithm;
  double us = 0;  ///< its time there
};

/// µs of an algorithm at a size.
using TimeOf = std::function<double(std::string_view algorithm, uint64_t bytes)>;

/// Who is fastest at `first` bytes, and who takes over later, up to `last`. Looks at first, 2 first, 4 first, ...;
/// between two sizes with different winners at multiples of 8 bytes, until it has the place to 8 bytes or 2 %. An
/// algorithm that is ahead only in between is not seen. Of two that are alike the one that is named first wins.
[[nodiscard]] std::vector<Takeover> takeovers(std::span<const std::string_view> algorithms, uint64_t first,
                                              uint64_t last, const TimeOf& time_of);

}  // namespace zh::tools
