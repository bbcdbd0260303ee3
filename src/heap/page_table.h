// What the heap knows of each page of the address space: bits in leaves of 32 MiB, made when a message first uses
// memory there. Reading takes no lock; leaves are made and bits are changed under the heap's. It refuses to know why.
#pragma once

#include <bit>
#include <cstdint>

#include "base/atomic.h"
#include "heap/limits.h"

namespace zh::heap {

/// Pages [first, first + n), counted from address 0.
struct Pages {
  uint64_t first = 0;
  uint64_t n = 0;

  [[nodiscard]] uint64_t end() const { return first + n; }
  [[nodiscard]] bool hold(uint64_t page) const { return page >= first && page < end(); }
  [[nodiscard]] std::byte* address() const { return reinterpret_cast<std::byte*>(first * kPage); }
  [[nodiscard]] uint64_t bytes() const { return n * kPage; }
};

/// Those that lie wholly in [address, +bytes); n = 0 where none does.
[[nodiscard]] inline Pages pages_inside(const void* address, uint64_t bytes) {
  const auto from = reinterpret_cast<uintptr_t>(address);
  const uint64_t first = (from + kPage - 1) / kPage;
  const uint64_t end = (from + bytes) / kPage;
  return {first, end > first ? end - first : 0};
}
/// Those that [address, +bytes) touches.
[[nodiscard]] inline Pages pages_around(const void* address, uint64_t bytes) {
  const auto from = reinterpret_cast<uintptr_t>(address);
  const uint64_t first = from / kPage;
  return {first, bytes == 0 ? 0 : (from + bytes - 1) / kPage + 1 - first};
}

enum class Bit : uint8_t {
  kShared,    ///< mapped from the memory file, peers may map it too
  kGuarded,   ///< of these (or left ones), protected by the program, or on the way out: not to be reached by peers
  kReadable,  ///< of these, protected from writing only
  kWiped,     ///< of these (or left ones), a forked child shall see zeros (MADV_WIPEONFORK)
  kHidden,    ///< of these, a forked child shall have nothing there (MADV_DONTFORK)
  kLeft,      ///< private again, but in a private mapping of the memory file
  kFrozen,    ///< the page of the memory file is what a forked child may still see: nobody writes it
};
constexpr uint32_t kBitKinds = 7;

class PageTable {
 public:
  constexpr PageTable() = default;
  PageTable(const PageTable&) = delete;
  PageTable& operator=(const PageTable&) = delete;

  /// Makes room for these pages' bits; false if there is no address space. Under the lock.
  [[nodiscard]] bool prepare(Pages pages);

  [[nodiscard]] bool all(Bit bit, Pages pages) const {
    return each(bit, pages,
                [](const Word* w, uint64_t mask) { return w != nullptr && (w->load_relaxed() & mask) == mask; });
  }
  [[nodiscard]] bool none(Bit bit, Pages pages) const {
    return each(bit, pages,
                [](const Word* w, uint64_t mask) { return w == nullptr || (w->load_relaxed() & mask) == 0; });
  }
  [[nodiscard]] uint64_t count(Bit bit, Pages pages) const {
    uint64_t sum = 0;
    each(bit, pages, [&](const Word* w, uint64_t mask) {
      if (w != nullptr) sum += static_cast<uint64_t>(std::popcount(w->load_relaxed() & mask));
      return true;
    });
    return sum;
  }
  /// Only where there is room for them. True if all were set before.
  bool set(Bit bit, Pages pages) {
    bool before = true;
    each(bit, pages, [&](Word* w, uint64_t mask) {
      if (w == nullptr || (w->load_relaxed() & mask) == mask) return true;
      before = false;
      w->fetch_or_relaxed(mask);
      return true;
    });
    return before;
  }
  void clear(Bit bit, Pages pages) {
    each(bit, pages, [](Word* w, uint64_t mask) {
      if (w != nullptr && (w->load_relaxed() & mask) != 0) w->fetch_and_relaxed(~mask);
      return true;
    });
  }
  /// visit(pages) for each stretch in which the bit is `value`. Stretches end at the bounds of leaves.
  template <typename Visit>
  void for_each(Bit bit, bool value, Pages pages, Visit&& visit) const {
    for (uint64_t page = pages.first; page < pages.end();) {
      Leaf* const leaf = leaf_of(page);
      const uint64_t leaf_end = (page / kLeafPages + 1) * kLeafPages;
      const uint64_t end = pages.end() < leaf_end ? pages.end() : leaf_end;
      if (leaf == nullptr) {
        if (!value) visit(Pages{page, end - page});
        page = end;
        continue;
      }
      const auto is_set = [&](uint64_t p) { return (leaf->word(bit, p).load_relaxed() >> p % 64 & 1) != 0; };
      while (page < end) {
        const uint64_t from = page;
        while (page < end && is_set(page) == value) ++page;
        if (page > from) visit(Pages{from, page - from});
        while (page < end && is_set(page) != value) ++page;
      }
    }
  }
  /// The same over all there is room for.
  template <typename Visit>
  void for_each(Bit bit, Visit&& visit) const {
    if (top_ == nullptr) return;
    for (uint32_t i = 0; i < n_leaves_; ++i) for_each(bit, true, {leaves_[i] * kLeafPages, kLeafPages}, visit);
  }

  static constexpr uint64_t kLeafPages = 8192;

 private:
  using Word = Atomic<uint64_t>;  ///< of 64 pages
  /// One bit for each page and kind. Several threads may set and clear; nothing is ordered by it.
  struct Leaf {
    Word words[kBitKinds][kLeafPages / 64];
    [[nodiscard]] Word& word(Bit bit, uint64_t page) {
      return words[static_cast<uint32_t>(bit)][page % kLeafPages / 64];
    }
  };
  static constexpr uint64_t kTopEntries = (uint64_t{1} << kAddressBits) / kPage / kLeafPages;
  static constexpr uint32_t kMaxLeaves = 1 << 16;  ///< 2 TiB in use by messages

  [[nodiscard]] Leaf* leaf_of(uint64_t page) const {
    const Atomic<uintptr_t>* const top =
        reinterpret_cast<const Atomic<uintptr_t>*>(top_known_.load_acquire());  // HL1 <- HL0
    if (top == nullptr || page / kLeafPages >= kTopEntries) return nullptr;
    return reinterpret_cast<Leaf*>(top[page / kLeafPages].load_acquire());  // HL1 <- HL0: the leaf's bits
  }
  /// visit(word, mask of its pages) until it returns false, with a null word once for a leaf that there is not; what
  /// the last one returned.
  template <typename Visit>
  bool each(Bit bit, Pages pages, Visit&& visit) const {
    for (uint64_t page = pages.first; page < pages.end();) {
      Leaf* const leaf = leaf_of(page);
      const uint64_t unit = leaf != nullptr ? 64 : kLeafPages;
      const uint64_t in_unit = unit - page % unit;
      const uint64_t n = pages.end() - page < in_unit ? pages.end() - page : in_unit;
      const uint64_t mask = (n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1) << page % 64;
      if (!visit(leaf != nullptr ? &leaf->word(bit, page) : nullptr, mask)) return false;
      page += n;
    }
    return true;
  }

  Atomic<uintptr_t>* top_ = nullptr;  ///< by address, leaves
  Atomic<uintptr_t> top_known_{0};    ///< the same, for readers
  uint64_t* leaves_ = nullptr;        ///< numbers of those that exist
  uint32_t n_leaves_ = 0;
};

}  // namespace zh::heap
