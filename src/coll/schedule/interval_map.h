// IntervalMap: a value for every byte of a buffer, kept by stretches of equal value. Used by the builder of schedules
// (who touched these bytes last) and by the checker (what do these bytes hold).
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace zh::coll {

template <typename Value>
class IntervalMap {
 public:
  explicit IntervalMap(Value initial) { cells_.emplace(0, std::move(initial)); }

  /// Calls f(from, to, Value&) for the stretches of [at, at + bytes), ascending, after cutting the first and the last
  /// at its edges. O(log n + stretches).
  template <typename F>
  void visit(uint64_t at, uint64_t bytes, F&& f) {
    if (bytes == 0) return;
    auto cell = cut(at);
    const auto end = cut(at + bytes);
    while (cell != end) {
      const auto next = std::next(cell);
      f(cell->first, next == end ? at + bytes : next->first, cell->second);
      cell = next;
    }
  }

  /// Gives the whole range one value.
  void assign(uint64_t at, uint64_t bytes, const Value& value) {
    if (bytes == 0) return;
    auto cell = cut(at);
    const auto end = cut(at + bytes);
    cell->second = value;
    cells_.erase(std::next(cell), end);
  }

  /// Stretches that it consists of now.
  [[nodiscard]] size_t size() const { return cells_.size(); }

 private:
  using Cells = std::map<uint64_t, Value>;

  typename Cells::iterator cut(uint64_t at) {
    auto after = cells_.upper_bound(at);
    auto cell = std::prev(after);
    if (cell->first == at) return cell;
    return cells_.emplace_hint(after, at, cell->second);
  }

  Cells cells_;  ///< a stretch reaches to the next one's start
};

}  // namespace zh::coll
