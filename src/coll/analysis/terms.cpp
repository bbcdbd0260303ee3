// See terms.h.
#include "coll/analysis/terms.h"

#include <algorithm>

namespace zh::coll {

Terms::Terms(uint32_t ranks) : facts_(1) {
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    Facts facts{rank, rank, 1, true, std::vector<uint64_t>((ranks + 63) / 64, 0)};
    facts.ranks[rank / 64] |= uint64_t{1} << rank % 64;
    facts_.push_back(std::move(facts));
  }
}

Term Terms::combine(Term left, Term right) {
  if (left == kNothing || right == kNothing) return kNothing;
  const auto [at, is_new] = known_.try_emplace({left, right}, kNothing);
  if (!is_new) return at->second;
  const Facts& a = facts_[left];
  const Facts& b = facts_[right];
  Facts both{std::min(a.first, b.first), std::max(a.last, b.last), a.count + b.count,
             a.in_order && b.in_order && a.last < b.first, a.ranks};
  for (size_t i = 0; i < both.ranks.size(); ++i) {
    if ((both.ranks[i] & b.ranks[i]) != 0) return kNothing;
    both.ranks[i] |= b.ranks[i];
  }
  facts_.push_back(std::move(both));
  return at->second = static_cast<Term>(facts_.size() - 1);
}

bool Terms::is_fold(Term term, uint32_t n, bool in_order) const {
  const Facts& facts = facts_[term];
  return term != kNothing && facts.first == 0 && facts.last == n - 1 && facts.count == n &&
         (facts.in_order || !in_order);
}

}  // namespace zh::coll
