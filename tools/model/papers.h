// The papers' figures of whole clusters, by the walk of the same schedules: what their new algorithms gain over those
// of their time, beside what the papers measured. Called by `zerohop model papers` and the tests; refuses to know how
// results are shown.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coll/schedule/problem.h"
#include "tools/model/case.h"

namespace zh::tools {

/// One of two algorithms by size.
struct BySize {
  std::string_view small;
  uint64_t large_from = 0;  ///< bytes
  std::string_view large;
  [[nodiscard]] std::string_view at(uint64_t bytes) const { return bytes < large_from ? small : large; }
};

/// What a paper shows in one figure.
struct PaperFigure {
  std::string_view id;     ///< "CC 5 (b)"
  std::string_view title;  ///< one line
  coll::Collective collective = coll::Collective::kBcast;
  uint32_t nodes = 1;
  uint32_t ranks_per_node = 1;
  std::span<const uint64_t> sizes;  ///< bytes of the vector, or of a rank's piece
  BySize before;                    ///< of the paper's time
  std::string_view after;           ///< the paper's
  uint64_t (*chunk)(uint64_t bytes) = nullptr;
  bool any_root = false;     ///< the mean over all roots, as with the paper's random one; else rank 0
  std::string_view says;     ///< the paper's gain, in words
  double gain = 1;           ///< the greatest: time before / time after
  double least_gain = 0;     ///< the least, where the paper tells one for all sizes
  std::string_view less[2];  ///< why the model shows less than half of it, with ranks in blocks and dealt out in turn
  std::string_view more;     ///< why it shows half as much again
};

/// The figures of the multicore collectives paper (CC) and the mlog_nP paper (ML) that are of clusters.
[[nodiscard]] std::span<const PaperFigure> paper_figures();

/// µs by one model.
struct BeforeAndAfter {
  double before_us = 0;
  double after_us = 0;
  [[nodiscard]] double gain() const { return before_us / after_us; }
};

struct PaperPoint {
  uint64_t bytes = 0;
  BeforeAndAfter linked;    ///< mlog_nP+links
  BeforeAndAfter unlinked;  ///< mlog_nP
};

/// A figure by one profile and placement.
struct PaperRow {
  const PaperFigure* figure = nullptr;
  std::string profile;
  bool cyclic = false;  ///< ranks are dealt out to nodes in turn
  std::vector<PaperPoint> points;

  /// Those with the greatest and the least gain with links.
  [[nodiscard]] const PaperPoint& best() const;
  [[nodiscard]] const PaperPoint& worst() const;
  /// Whether it shows at least half of what the paper gained beyond nothing: at its best size, and at its worst where
  /// the paper tells a gain for all sizes.
  [[nodiscard]] bool shown() const;
  /// Why it shows less, or half as much again; else "".
  [[nodiscard]] std::string_view why() const;
};

/// The figure by all built-in profiles, in blocks and in turn.
[[nodiscard]] std::vector<PaperRow> rows_of(const PaperFigure& figure);

}  // namespace zh::tools
