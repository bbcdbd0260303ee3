// One bit for each page of a stretch, lock-free. Several threads may set and clear; nothing is ordered by it.
#pragma once

#include <bit>
#include <cstdint>

#include "base/atomic.h"

namespace zh::heap {

class PageBits {
 public:
  /// `words`: zeroed, one for each 64 pages.
  void open(Atomic<uint64_t>* words) { words_ = words; }

  [[nodiscard]] bool test(uint32_t page) const { return (words_[page / 64].load_relaxed() >> page % 64 & 1) != 0; }
  [[nodiscard]] bool all(uint32_t first, uint32_t pages) const {
    return each(first, pages,
                [this](uint32_t word, uint64_t mask) { return (words_[word].load_relaxed() & mask) == mask; });
  }
  [[nodiscard]] bool none(uint32_t first, uint32_t pages) const {
    return each(first, pages,
                [this](uint32_t word, uint64_t mask) { return (words_[word].load_relaxed() & mask) == 0; });
  }
  [[nodiscard]] uint32_t count(uint32_t first, uint32_t pages) const {
    uint32_t n = 0;
    each(first, pages, [&](uint32_t word, uint64_t mask) {
      n += static_cast<uint32_t>(std::popcount(words_[word].load_relaxed() & mask));
      return true;
    });
    return n;
  }
  /// True if all of them were set before.
  bool set(uint32_t first, uint32_t pages) {
    bool before = true;
    each(first, pages, [&](uint32_t word, uint64_t mask) {
      if ((words_[word].load_relaxed() & mask) != mask) {
        before = false;
        words_[word].fetch_or_relaxed(mask);
      }
      return true;
    });
    return before;
  }
  void clear(uint32_t first, uint32_t pages) {
    each(first, pages, [this](uint32_t word, uint64_t mask) {
      if ((words_[word].load_relaxed() & mask) != 0) words_[word].fetch_and_relaxed(~mask);
      return true;
    });
  }

 private:
  /// visit(word, mask) until it returns false; what the last one returned.
  template <typename Visit>
  static bool each(uint32_t first, uint32_t pages, Visit&& visit) {
    const uint64_t end = uint64_t{first} + pages;
    for (uint64_t page = first; page < end;) {
      const uint64_t in_word = 64 - page % 64;
      const uint64_t n = end - page < in_word ? end - page : in_word;
      const uint64_t mask = (n == 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1) << page % 64;
      if (!visit(static_cast<uint32_t>(page / 64), mask)) return false;
      page += n;
    }
    return true;
  }

  Atomic<uint64_t>* words_ = nullptr;
};

}  // namespace zh::heap
