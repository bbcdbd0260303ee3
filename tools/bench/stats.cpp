// See stats.h.
#include "tools/bench/stats.h"

#include <algorithm>
#include <cmath>

namespace zh::tools {
namespace {

/// P(Binomial(n, 1/2) <= k), for 0 <= k < n.
double binomial_half_cdf(int n, int k) {
  double sum = 0;
  for (int i = 0; i <= k; ++i) {
    sum += std::exp(std::lgamma(n + 1.0) - std::lgamma(i + 1.0) - std::lgamma(n - i + 1.0) - n * std::log(2.0));
  }
  return sum;
}

std::vector<double> sorted_copy(std::span<const double> values) {
  std::vector<double> v(values.begin(), values.end());
  std::sort(v.begin(), v.end());
  return v;
}

}  // namespace

double median(std::span<const double> values) {
  if (values.empty()) return 0;
  const std::vector<double> v = sorted_copy(values);
  const size_t half = v.size() / 2;
  return v.size() % 2 != 0 ? v[half] : (v[half - 1] + v[half]) / 2;
}

Interval median_interval(std::span<const double> values, double confidence) {
  Interval r;
  if (values.empty()) return r;
  const std::vector<double> v = sorted_copy(values);
  const int n = static_cast<int>(v.size());
  int k = 1;
  auto coverage = [n](int rank) { return 1 - 2 * binomial_half_cdf(n, rank - 1); };
  while (2 * (k + 1) <= n && coverage(k + 1) >= confidence) ++k;
  r.mid = median(values);
  r.low = v[static_cast<size_t>(k - 1)];
  r.high = v[static_cast<size_t>(n - k)];
  r.coverage = n == 1 ? 0 : coverage(k);
  r.count = n;
  r.valid = r.coverage >= confidence;
  return r;
}

}  // namespace zh::tools
