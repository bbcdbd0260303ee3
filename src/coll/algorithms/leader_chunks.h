// LeaderChunks: how a schedule by host-leaders cuts a vector, so that one chunk is between nodes while others are
// combined or shared inside. Used by the files of algorithms that it may cut.
#pragma once

#include "coll/algorithms/algorithms.h"
#include "coll/schedule/builder.h"
#include "coll/schedule/parts.h"
#include "coll/schedule/problem.h"

namespace zh::coll {

class LeaderChunks {
 public:
  LeaderChunks(const Problem& problem, bool leads)
      : problem_(problem),
        leads_(leads),
        compares_(leaders_cut(problem)),
        cuts_(compares_ && problem.bytes() / problem.chunk_bytes >= kLeast) {}

  /// To be told first. Leaders of nodes that disagree about the length would else take different numbers of steps.
  void compare(Builder& b) const {
    if (leads_ && compares_) b.compare(between_leaders(problem_));
  }

  /// Calls f(part) for what the ranks of this node take together at once: a chunk, where all of them know that they
  /// cut alike, else the whole vector.
  template <typename F>
  void inside(Range whole, F&& f) const {
    cut(whole, cuts_ && problem_.team && problem_.same_length, f);
  }

  /// Calls f(by, chunk) on a leader for what leaders take together at once; the one of `node` gives or collects.
  template <typename F>
  void between(uint32_t node, Range part, F&& f) const {
    if (!leads_) return;
    SharedBy by = between_leaders(problem_, node);
    by.goes_on = cuts_;
    cut(part, cuts_, [&](Range chunk) { f(by, chunk); });
  }

 private:
  static constexpr uint64_t kLeast = 2;  ///< chunks

  template <typename F>
  void cut(Range part, bool cuts, F&& f) const {
    cuts ? Chunks(problem_, part, problem_.bytes()).each(f) : f(part);
  }

  const Problem& problem_;
  bool leads_, compares_, cuts_;
};

}  // namespace zh::coll
