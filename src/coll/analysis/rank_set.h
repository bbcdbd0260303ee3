// RankSet: a set of ranks, kept as runs of ranks that follow each other, so that the sets of collectives, which are
// blocks or nodes, stay small however many ranks there are. Used by the checker and its terms.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace zh::coll {

class RankSet {
 public:
  RankSet() = default;
  explicit RankSet(uint32_t rank) : runs_{{rank, rank + 1}} {}

  [[nodiscard]] bool empty() const { return runs_.empty(); }
  /// Runs that it consists of, which is its size in memory.
  [[nodiscard]] size_t runs() const { return runs_.size(); }
  [[nodiscard]] bool operator==(const RankSet&) const = default;

  /// Whether it is 0..n-1.
  [[nodiscard]] bool is_first(uint32_t n) const {
    return n == 0 ? runs_.empty() : runs_.size() == 1 && runs_[0] == Run{0, n};
  }

  /// O(runs of both).
  [[nodiscard]] bool overlaps(const RankSet& other) const {
    for (size_t i = 0, j = 0; i < runs_.size() && j < other.runs_.size();) {
      if (runs_[i].first < other.runs_[j].end && other.runs_[j].first < runs_[i].end) return true;
      (runs_[i].end <= other.runs_[j].first ? i : j) += 1;
    }
    return false;
  }

  /// Takes in the ranks of another one. O(runs of both).
  void add(const RankSet& other) {
    std::vector<Run> all;
    all.reserve(runs_.size() + other.runs_.size());
    std::merge(runs_.begin(), runs_.end(), other.runs_.begin(), other.runs_.end(), std::back_inserter(all),
               [](const Run& a, const Run& b) { return a.first < b.first; });
    size_t n = 0;
    for (const Run& run : all) {
      if (n > 0 && run.first <= all[n - 1].end) {
        all[n - 1].end = std::max(all[n - 1].end, run.end);
      } else {
        all[n++] = run;
      }
    }
    all.resize(n);
    all.shrink_to_fit();
    runs_ = std::move(all);
  }

 private:
  struct Run {
    uint32_t first = 0;
    uint32_t end = 0;  ///< the rank behind it
    bool operator==(const Run&) const = default;
  };
  std::vector<Run> runs_;  ///< ascending, with gaps between them
};

}  // namespace zh::coll
