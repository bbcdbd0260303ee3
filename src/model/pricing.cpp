// See pricing.h.
#include "model/pricing.h"

namespace zh::model {

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

}  // namespace zh::model
