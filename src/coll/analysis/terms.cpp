// See terms.h.
#include "coll/analysis/terms.h"

#include <algorithm>

namespace zh::coll {

Terms::Terms(uint32_t ranks) : facts_(1) {
  facts_.reserve(ranks + 1);
  for (uint32_t rank = 0; rank < ranks; ++rank) facts_.push_back({rank, rank, true, RankSet(rank)});
}

Term Terms::combine(Term left, Term right) {
  if (left == kNothing || right == kNothing) return kNothing;
  const auto [at, is_new] = known_.try_emplace({left, right}, kNothing);
  if (!is_new) return at->second;
  const Facts& a = facts_[left];
  const Facts& b = facts_[right];
  if (a.ranks.overlaps(b.ranks)) return kNothing;
  Facts both{std::min(a.first, b.first), std::max(a.last, b.last), a.in_order && b.in_order && a.last < b.first,
             a.ranks};
  both.ranks.add(b.ranks);
  facts_.push_back(std::move(both));
  return at->second = static_cast<Term>(facts_.size() - 1);
}

bool Terms::is_fold(Term term, uint32_t n, bool in_order) const {
  const Facts& facts = facts_[term];
  return term != kNothing && facts.ranks.is_first(n) && (facts.in_order || !in_order);
}

}  // namespace zh::coll
