// The table of algorithms that a model makes of a profile and the machine's caches (coll/algorithms/selection.h).
// Called by `zerohop model choose`; refuses to know files.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "coll/algorithms/selection.h"
#include "coll/algorithms/tiles.h"
#include "model/cluster.h"
#include "model/parameters.h"

namespace zh::tools {

/// Chunk of walks where the caches are not known: ZEROHOP_CHUNK's default.
constexpr uint64_t kUsualChunkBytes = 64 << 10;

struct PredictedEntry {
  coll::Selection::Entry entry;
  double us = 0;  ///< at its first size, 8 B where that is 0
};

/// One collective on one cluster, by rising sizes: who is fastest by the walks of all algorithms, and in which tiles an
/// algorithm that cuts passes its vector on. Where no cache is known no entry has a chunk. An entry by domains (one
/// node of several chips that the parameters tell apart) is followed by that of the fastest other one at the same size,
/// for jobs whose ranks are not bound.
struct Predicted {
  std::vector<PredictedEntry> entries;
  std::map<std::string_view, std::string> left_out;  ///< algorithm, why
};
[[nodiscard]] Predicted predicted_table(coll::Collective collective, const model::Cluster& cluster,
                                        const coll::Tiles& tiles, const model::Parameters& parameters);

/// What stands above a table that is saved: profile, file and day, without line breaks of theirs.
[[nodiscard]] std::string predicted_heading(const model::Parameters& parameters, const std::string& file,
                                            const std::string& day);

}  // namespace zh::tools
