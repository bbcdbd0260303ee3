// See pricing.h.
#include "model/pricing.h"

#include <algorithm>

namespace zh::model {
namespace {

/// By how much each of so many readers takes longer than one alone; 1 where nothing is known.
double slowdown(const std::vector<Contention>& measured, uint64_t bytes, uint32_t readers) {
  const Contention* nearest = nullptr;  // of the sizes not above, else the least
  for (const Contention& c : measured) {
    if (c.way != kMappedWay || c.noisy || c.us.empty()) continue;
    if (nearest == nullptr || (c.bytes <= bytes && c.bytes > nearest->bytes)) nearest = &c;
  }
  if (nearest == nullptr) return 1;
  CostTable by_readers;
  for (const auto& [number, us] : nearest->us) by_readers.points.push_back({static_cast<double>(number), us});
  return by_readers.us_at(readers) / by_readers.points.front().us;
}

}  // namespace

MessagePrice Pricing::message(uint32_t from, uint32_t to, uint64_t bytes) const {
  const LevelCosts& costs = parameters_.at(priced_as(model_, cluster_.level(from, to)));
  const auto size = static_cast<double>(bytes);
  const double overhead = costs.overhead.us_at(size);
  const double end = overhead + costs.latency.us_at(size, stride_);
  const double link = model_ == Model::kLinked ? costs.link.us_at(size) : 0;
  return {end, costs.network.us_at(size), link, end, costs.gap.empty() ? overhead : costs.gap.us_at(size)};
}

double Pricing::work(uint64_t bytes) const {
  return parameters_.at(CommLevel::kIntraChip).overhead.us_at(static_cast<double>(bytes));
}

double Pricing::shared(uint64_t bytes, uint32_t readers) const {
  const bool contends = model_ == Model::kLinked && bytes > 0;
  return work(bytes) * (contends ? std::max(1.0, slowdown(parameters_.facts.contention, bytes, readers)) : 1);
}

}  // namespace zh::model
