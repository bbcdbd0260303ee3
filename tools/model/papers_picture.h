// The picture of `zerohop model papers`. Refuses to know how the gains were found.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/model/papers.h"

namespace zh::tools {

/// A panel for each figure: the gain by size, a line for each profile and placement, and the paper's. SVG.
[[nodiscard]] std::string papers_svg(std::span<const std::vector<PaperRow>> figures);

}  // namespace zh::tools
