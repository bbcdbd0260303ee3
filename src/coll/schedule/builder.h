// Builder: makes a rank's schedule from steps told in the order in which a plain program would do them, and finds out
// itself which of them wait for which. Used by the files of algorithms/.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "coll/schedule/interval_map.h"
#include "coll/schedule/schedule.h"

namespace zh::coll {

/// Who takes a step together, and which of them is the root.
struct SharedBy {
  uint32_t peer = 0;     ///< that rank; where all are alike, the first
  uint32_t place = 0;    ///< its place in the group
  bool leaders = false;  ///< the first ranks of all nodes; else the ranks of a node
};

/// Steps of no bytes are left out (kNoStep), also as something to wait for. A step waits for the earlier ones that
/// write what it reads or writes, or read what it writes; `after` adds what the data does not say. The n-th message
/// told to one rank meets the n-th that this rank is told to receive, so both have to be told in the same order.
class Builder {
 public:
  using After = std::initializer_list<uint32_t>;

  explicit Builder(uint32_t ranks);

  uint32_t copy(Range from, Range to);
  /// to = from op to.
  uint32_t reduce(Range from, Range to) { return local(StepKind::kReduceLocal, from, to); }
  uint32_t send(uint32_t rank, Range from, After after = {}) {
    return from.bytes == 0 ? kNoStep : message(StepKind::kSend, rank, from, after);
  }
  /// `whole`: less than `to` is an error (Step::whole).
  uint32_t receive(uint32_t rank, Range to, After after = {}, bool whole = false) {
    return to.bytes == 0 ? kNoStep : message(StepKind::kReceive, rank, to, after, whole);
  }
  /// Messages without bytes.
  uint32_t signal(uint32_t rank, After after = {}) { return message(StepKind::kSend, rank, {}, after); }
  uint32_t await(uint32_t rank, After after = {}) { return message(StepKind::kReceive, rank, {}, after); }

  // Steps that a group takes together, each after the one before, so that all its ranks take them in one order. They
  // are told by every rank of the group. Also of no bytes.
  uint32_t bcast_root(const SharedBy& by, Range from, After after = {}) {
    return shared(StepKind::kBcastRoot, by, from, {}, after);
  }
  uint32_t bcast_leaf(const SharedBy& by, Range to, After after = {}) {
    return shared(StepKind::kBcastLeaf, by, {}, to, after);
  }
  uint32_t reduce_leaf(const SharedBy& by, Range from, After after = {}) {
    return shared(StepKind::kReduceLeaf, by, from, {}, after);
  }
  uint32_t reduce_root(const SharedBy& by, Range from, Range to, After after = {}) {
    return shared(StepKind::kReduceRoot, by, from, to, after);
  }
  uint32_t barrier(const SharedBy& by, After after = {}) { return shared(StepKind::kBarrier, by, {}, {}, after); }
  uint32_t allreduce(const SharedBy& by, Range from, Range to) { return shared(StepKind::kAllreduce, by, from, to); }
  uint32_t scan(const SharedBy& by, Range from, Range to) { return shared(StepKind::kScan, by, from, to); }
  uint32_t exscan(const SharedBy& by, Range from, Range to) { return shared(StepKind::kExscan, by, from, to); }

  using Parts = std::span<const uint64_t>;  ///< bytes of the parts of all, by place in the group
  // `even`: they are of one size, as all know.
  uint32_t gather_leaf(const SharedBy& by, Range from, bool even) {
    return shared(StepKind::kGatherLeaf, by, from, {}, {}, {}, even);
  }
  /// `to` is made of them.
  uint32_t gather_root(const SharedBy& by, Range from, Range to, Parts parts, bool even) {
    return shared(StepKind::kGatherRoot, by, from, to, {}, parts, even);
  }
  /// `all` consists of them; this rank has its own.
  uint32_t scatter_root(const SharedBy& by, Range all, Parts parts, bool even) {
    return shared(StepKind::kScatterRoot, by, all.part(0, parts[by.place]), {}, {}, parts, even);
  }
  uint32_t scatter_leaf(const SharedBy& by, Range to, bool even) {
    return shared(StepKind::kScatterLeaf, by, {}, to, {}, {}, even);
  }
  /// `all` has the own part in its place.
  uint32_t allgather(const SharedBy& by, uint32_t own, Range all, Parts parts);
  /// `parts`: of `from` and of `to`, which are for and of the ranks of the group. `own`: this rank's place there.
  uint32_t alltoall(const SharedBy& by, uint32_t own, Range from, Range to, Parts parts) {
    return shared(StepKind::kAlltoall, by, from.part(0, parts[own]), to, {}, parts);
  }
  /// `to` is the own part.
  uint32_t reduce_scatter(const SharedBy& by, Range from, Range to, Parts parts) {
    return shared(StepKind::kReduceScatter, by, from.part(0, to.bytes), to, {}, parts);
  }

  /// Memory that lasts as long as the collective.
  [[nodiscard]] Range scratch(uint64_t bytes);
  /// Gives memory back: what comes later may use it again, and waits for its last use.
  [[nodiscard]] uint64_t scratch_mark() const { return scratch_; }
  void scratch_release(uint64_t mark) { scratch_ = mark; }

  /// The result; the builder is used up.
  [[nodiscard]] Schedule finish() { return std::move(schedule_); }

 private:
  /// Who touched some bytes last.
  struct Users {
    uint32_t writer = kNoStep;
    std::vector<uint32_t> readers;  ///< since then
  };

  uint32_t local(StepKind kind, Range from, Range to);
  uint32_t message(StepKind kind, uint32_t rank, Range range, After after, bool whole = false);
  uint32_t shared(StepKind kind, const SharedBy& by, Range from, Range to, After after = {}, Parts parts = {},
                  bool even = false);
  uint32_t add(Step step, After after, uint32_t also_after);
  /// The last step with this kind, peer and tag: tags are used again after kTags messages.
  [[nodiscard]] uint32_t same_tag(const Step& step) const;
  void touch(Place place, uint64_t at, uint64_t bytes, bool writes);

  Schedule schedule_;
  std::vector<uint32_t> sent_, received_;  ///< messages so far, by rank
  std::vector<uint32_t> found_;            ///< the waits of the step at hand
  uint32_t last_shared_ = kNoStep;
  IntervalMap<Users> output_, scratch_users_;
  uint64_t scratch_ = 0;
};

}  // namespace zh::coll
