// All algorithms of a collective beside each other by a model: which is fastest from which size on, and the table that
// comes of it with a profile and the machine's caches (coll/algorithms/selection.h). Called by `zerohop tune --model`;
// refuses to know files.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coll/algorithms/selection.h"
#include "coll/algorithms/tiles.h"
#include "model/cluster.h"
#include "model/parameters.h"
#include "tools/model/case.h"

namespace zh::tools {

/// Sizes that are compared, in bytes. A barrier has none.
constexpr uint64_t kComparedFrom = 8;
constexpr uint64_t kComparedTo = 4 << 20;
/// Without links, algorithms that send many messages at once always win.
constexpr model::Model kComparisonModel = model::Model::kLinked;

struct Takeover {
  uint64_t from_bytes = 0;
  std::string_view algorithm;
  double us = 0;  ///< its time there
};

/// µs of an algorithm at a size.
using TimeOf = std::function<double(std::string_view algorithm, uint64_t bytes)>;
/// The fastest at `first` bytes, and those that take over later, up to `last`. Looks at first, 2 first, 4 first, ...;
/// between two sizes with different winners at multiples of 8 bytes, until it has the place to 8 bytes or 2 %. An
/// algorithm that is ahead only in between is not seen. Of two that are alike the one that is named first wins.
[[nodiscard]] std::vector<Takeover> takeovers(std::span<const std::string_view> algorithms, uint64_t first,
                                              uint64_t last, const TimeOf& time_of);

/// Bytes of a chunk by those of the vector, or of a piece.
using ChunkOf = std::function<uint64_t(uint64_t bytes)>;

struct Crossing {
  coll::Collective collective = coll::Collective::kBcast;
  std::vector<Takeover> takeovers;
  std::map<std::string_view, std::string> left_out;  ///< algorithm, why
};
/// By walks of `c` with other algorithms, sizes and chunks.
[[nodiscard]] Crossing crossing_of(ModelCase c, const model::Parameters& parameters, const ChunkOf& chunk_of);

/// Chunk of walks where the caches are not known: the default of jobs.
constexpr uint64_t kUsualChunkBytes = 64 << 10;

struct PredictedEntry {
  coll::Selection::Entry entry;
  double us = 0;        ///< at its first size, 8 B where that is 0
  bool beyond = false;  ///< of the profile's tables, there
};

/// One collective on one cluster, by rising sizes: which algorithm is fastest by the walks of all, and in which tiles
/// one that cuts passes its vector on. Where no cache is known no entry has a chunk.
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
