// All algorithms of a collective beside each other by a model: who is fastest from which size on. Called by `zerohop
// model crossover` and `choose`; refuses to know how results are shown and what becomes of them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/model/case.h"
#include "tools/model/crossover.h"

namespace zh::tools {

/// Sizes that are compared, in bytes. A barrier has none.
constexpr uint64_t kComparedFrom = 8;
constexpr uint64_t kComparedTo = 4 << 20;
/// Without links, algorithms that send many messages at once always win.
constexpr model::Model kComparisonModel = model::Model::kLinked;

/// Bytes of a chunk by those of the vector, or of a piece.
using ChunkOf = std::function<uint64_t(uint64_t bytes)>;

struct Crossing {
  coll::Collective collective = coll::Collective::kBcast;
  std::vector<Takeover> takeovers;
  std::map<std::string_view, std::string> left_out;  ///< algorithm, why
};

/// By walks of `c` with other algorithms, sizes and chunks. Algorithms by domains take part
/// `with_domains`, on one node of several chips that the parameters tell apart.
[[nodiscard]] Crossing crossing_of(ModelCase c, const model::Parameters& parameters, const ChunkOf& chunk_of,
                                   bool with_domains = true);

}  // namespace zh::tools
