// Terms: the symbolic values of the checker. A term is a rank's input, or two terms combined; bytes of a buffer hold a
// term at a position of the inputs. Used by check.cpp alone.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "coll/analysis/rank_set.h"

namespace zh::coll {

using Term = uint32_t;
constexpr Term kNothing = 0;  ///< what a buffer holds before anything was written

class Terms {
 public:
  explicit Terms(uint32_t ranks);
  [[nodiscard]] Term input(uint32_t rank) const { return rank + 1; }
  /// `left` op `right`; equal arguments give equal terms. kNothing if a rank contributes to both, or one is kNothing.
  [[nodiscard]] Term combine(Term left, Term right);
  /// Whether it combines the inputs of ranks 0..n-1, each once; and if asked in the order of ranks.
  [[nodiscard]] bool is_fold(Term term, uint32_t n, bool in_order) const;

 private:
  struct Facts {
    uint32_t first = 0, last = 0;  ///< lowest and highest rank
    bool in_order = true;
    RankSet ranks;
  };
  std::vector<Facts> facts_;
  std::map<std::pair<Term, Term>, Term> known_;
};

}  // namespace zh::coll
