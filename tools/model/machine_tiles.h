// The tiles that fit the caches of this machine (coll/algorithms/tiles.h), as its topology has them. Called by the
// commands that choose by a model; refuses to measure.
#pragma once

#include <string>
#include <vector>

#include "base/options.h"
#include "coll/algorithms/tiles.h"

namespace zh::tools {

/// None, with a note, where the caches are not known.
[[nodiscard]] coll::Tiles tiles_here(const Options& options, std::vector<std::string>* notes);

/// "8K of L1, 128K of L2".
[[nodiscard]] std::string tiles_text(const coll::Tiles& tiles);

}  // namespace zh::tools
