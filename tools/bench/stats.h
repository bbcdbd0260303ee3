// The statistics of the benchmarks: medians, and the distribution-free interval of a median. Called by the judge of
// `zerohop bench`; knows nothing of benchmarks.
#pragma once

#include <span>
#include <vector>

namespace zh::tools {

/// Median; the mean of the middle two when the count is even; 0 of nothing.
double median(std::span<const double> values);

/// An interval that holds the true median with at least the wanted confidence. `valid` is false when there are too few
/// values for that confidence (fewer than 6 for 95 %); low and high are then the least and greatest value.
struct Interval {
  double mid = 0;
  double low = 0;
  double high = 0;
  double coverage = 0;  ///< the confidence that the order statistics really give
  int count = 0;
  bool valid = false;
};

/// Order-statistic interval [x(k), x(n+1-k)] with the largest k whose binomial coverage is still at least `confidence`.
/// It supposes nothing about the distribution except that the values are independent.
Interval median_interval(std::span<const double> values, double confidence = 0.95);

}  // namespace zh::tools
