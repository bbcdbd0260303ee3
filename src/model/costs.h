// Costs in µs by message size and stride, as tables of points, and the costs of one level. Part of a parameter set
// (parameters.h). It refuses to know which level that is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zh::model {

/// A cost by message size, f(s, 1) of the paper's section 3.1. Linear between points; below the first point that one's
/// cost; beyond the last point the last slope goes on, or the last cost where it falls. Without points it is 0.
struct CostTable {
  struct Point {
    double bytes = 0;
    double us = 0;
    bool operator==(const Point&) const = default;
  };
  std::vector<Point> points;  ///< by ascending bytes

  /// µs of a message of so many bytes. O(log points).
  [[nodiscard]] double us_at(double bytes) const;
  [[nodiscard]] bool empty() const { return points.empty(); }
  /// What makes it unusable ("point 2: ..."), "" if nothing does.
  [[nodiscard]] std::string fault() const;
  bool operator==(const CostTable&) const = default;
};

/// A cost by message size and by stride, the bytes from one element's start to the next one's: f(s, d) of section 3.1,
/// which comes on top of the contiguous cost. Stride 0 is contiguous and costs nothing. Linear between two strides;
/// below the first and beyond the last that one's cost.
struct StridedCosts {
  struct Row {
    uint64_t stride = 0;
    CostTable table;
    bool operator==(const Row&) const = default;
  };
  std::vector<Row> rows;  ///< by ascending stride

  [[nodiscard]] double us_at(double bytes, uint64_t stride) const;
  [[nodiscard]] std::string fault() const;
  bool operator==(const StridedCosts&) const = default;
};

/// The parameters of one level. The two ends of a message are taken to cost the same (section 3.1).
struct LevelCosts {
  CostTable overhead;    ///< o at one end: f(s, 1)_0, the middleware with a contiguous message
  StridedCosts latency;  ///< l at one end: f(s, d)_0, what a strided message costs more
  CostTable network;     ///< o_net: f(s, 1)_1; empty inside a node, where a message has n = 2 implicit transfers, not 3
  CostTable link;  ///< how long a message keeps its nodes' links busy, each in its direction, part of o_net; empty:
                   ///< links are never busy (and inside a node there is none)
  CostTable gap;   ///< g, least time between the starts of two receptions of a rank; empty: g = o (section 4.1)
  /// What makes a table unusable ("overhead: ..."), "" if nothing does.
  [[nodiscard]] std::string fault() const;
  bool operator==(const LevelCosts&) const = default;
};

}  // namespace zh::model
