// Costs in µs by message size and stride, as tables of points. Part of a parameter set (parameters.h). It refuses to
// know what a cost is for.
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

}  // namespace zh::model
