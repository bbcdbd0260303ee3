// See costs.h.
#include "model/costs.h"

#include <algorithm>

namespace zh::model {
namespace {

// Beyond these nobody measures, and sums would leave the range of numbers.
constexpr double kMostBytes = 1e15;
constexpr double kMostUs = 1e9;

/// The value at `x` on the line through two points with different x.
double on_line(double x, double x0, double y0, double x1, double y1) { return y0 + (y1 - y0) * (x - x0) / (x1 - x0); }

}  // namespace

double CostTable::us_at(double bytes) const {
  if (points.empty()) return 0;
  if (points.size() == 1 || bytes <= points.front().bytes) return points.front().us;
  const auto above =
      std::lower_bound(points.begin(), points.end(), bytes, [](const Point& p, double b) { return p.bytes < b; });
  const bool beyond = above == points.end();
  const Point& high = beyond ? points.back() : *above;
  const Point& low = beyond ? *(above - 2) : *(above - 1);
  if (beyond && high.us <= low.us) return high.us;
  return on_line(bytes, low.bytes, low.us, high.bytes, high.us);
}

std::string CostTable::fault() const {
  for (size_t i = 0; i < points.size(); ++i) {
    const std::string where = "point " + std::to_string(i + 1) + ": ";
    const Point& p = points[i];
    if (!(p.bytes >= 0 && p.bytes <= kMostBytes)) return where + "a size is a number of bytes from 0 to 1e15";
    if (!(p.us >= 0 && p.us <= kMostUs)) return where + "a cost is a number of microseconds from 0 to 1e9";
    if (i > 0 && p.bytes <= points[i - 1].bytes) return where + "sizes must rise from point to point";
  }
  return "";
}

double StridedCosts::us_at(double bytes, uint64_t stride) const {
  if (rows.empty() || stride == 0) return 0;
  const auto above =
      std::lower_bound(rows.begin(), rows.end(), stride, [](const Row& r, uint64_t d) { return r.stride < d; });
  if (above == rows.end()) return rows.back().table.us_at(bytes);
  if (above == rows.begin() || above->stride == stride) return above->table.us_at(bytes);
  const Row& low = *(above - 1);
  return on_line(static_cast<double>(stride), static_cast<double>(low.stride), low.table.us_at(bytes),
                 static_cast<double>(above->stride), above->table.us_at(bytes));
}

std::string StridedCosts::fault() const {
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string where = "stride " + std::to_string(rows[i].stride) + ": ";
    if (rows[i].stride == 0) return where + "stride 0 is contiguous, which has no latency";
    if (i > 0 && rows[i].stride <= rows[i - 1].stride) return where + "strides must rise from row to row";
    if (rows[i].table.empty()) return where + "no points";
    if (const std::string fault = rows[i].table.fault(); !fault.empty()) return where + fault;
  }
  return "";
}

std::string LevelCosts::fault() const {
  if (overhead.empty()) return "overhead: no points; every level needs it";
  if (const std::string fault = overhead.fault(); !fault.empty()) return "overhead: " + fault;
  if (const std::string fault = latency.fault(); !fault.empty()) return "latency: " + fault;
  if (const std::string fault = network.fault(); !fault.empty()) return "network: " + fault;
  if (const std::string fault = gap.fault(); !fault.empty()) return "gap: " + fault;
  if (const std::string fault = link.fault(); !fault.empty()) return "link: " + fault;
  return "";
}

}  // namespace zh::model
