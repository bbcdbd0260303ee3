// `zerohop model crossover` as a picture: for each collective a bar over the sizes, a stretch for each algorithm.
// Writes SVG; refuses to know models.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/model/crossover.h"

namespace zh::tools {

struct CrossoverBar {
  std::string name;
  std::vector<Takeover> takeovers;  ///< in the order of their sizes, the last to the end; none: nothing is known
};

/// An SVG document. Sizes lie on a logarithmic axis from `first_bytes` to `last_bytes`.
[[nodiscard]] std::string crossover_svg(const std::string& title, std::span<const CrossoverBar> bars,
                                        uint64_t first_bytes, uint64_t last_bytes);

}  // namespace zh::tools
