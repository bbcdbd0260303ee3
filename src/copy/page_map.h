// Free page ranges of one region: best fit, neighbours joined. Used by RegionOwner under its lock; touches no memory
// but its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace zh::copy {

/// Pages are numbered from 0; all of them start free.
class PageMap {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit PageMap(uint32_t pages) { insert(0, pages); }

  /// First page of a range of `pages` whose number is a multiple of `alignment`; kNone if there is none.
  uint32_t take(uint32_t pages, uint32_t alignment) {
    for (auto it = by_size_.lower_bound({pages, 0}); it != by_size_.end(); ++it) {
      const auto [length, start] = *it;
      const uint64_t first = (uint64_t{start} + alignment - 1) / alignment * alignment;
      if (first + pages > uint64_t{start} + length) continue;
      const auto taken = static_cast<uint32_t>(first);
      erase(start, length);
      if (taken > start) insert(start, taken - start);
      if (taken + pages < start + length) insert(taken + pages, start + length - taken - pages);
      return taken;
    }
    return kNone;
  }

  void give_back(uint32_t first, uint32_t pages) {
    auto after = by_start_.lower_bound(first);
    if (after != by_start_.end() && after->first == first + pages) {
      const auto [start, length] = *after;
      erase(start, length);
      pages += length;
    }
    auto before = by_start_.lower_bound(first);
    if (before != by_start_.begin()) {
      --before;
      const auto [start, length] = *before;
      if (start + length == first) {
        erase(start, length);
        first = start;
        pages += length;
      }
    }
    insert(first, pages);
  }

  [[nodiscard]] size_t ranges() const { return by_start_.size(); }
  [[nodiscard]] uint64_t free_pages() const {
    uint64_t sum = 0;
    for (const auto& [start, length] : by_start_) sum += length;
    return sum;
  }

 private:
  void insert(uint32_t start, uint32_t length) {
    by_start_.emplace(start, length);
    by_size_.emplace(length, start);
  }
  void erase(uint32_t start, uint32_t length) {
    by_start_.erase(start);
    by_size_.erase({length, start});
  }

  std::map<uint32_t, uint32_t> by_start_;
  std::set<std::pair<uint32_t, uint32_t>> by_size_;
};

}  // namespace zh::copy
