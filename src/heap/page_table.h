// What the heap knows of each page of the address space: bits in leaves of 32 MiB, made when a message first uses
// memory there. Reading takes no lock; leaves are made and bits are changed under the heap's. It refuses to know why.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "heap/limits.h"
#include "heap/page_bits.h"

namespace zh::heap {

/// Pages [first, first + n), counted from address 0.
struct Pages {
  uint64_t first = 0;
  uint64_t n = 0;

  [[nodiscard]] uint64_t end() const { return first + n; }
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
    return each(pages, [bit](const Leaf* leaf, uint32_t first, uint32_t n) {
      return leaf != nullptr && leaf->bits[index(bit)].all(first, n);
    });
  }
  [[nodiscard]] bool none(Bit bit, Pages pages) const {
    return each(pages, [bit](const Leaf* leaf, uint32_t first, uint32_t n) {
      return leaf == nullptr || leaf->bits[index(bit)].none(first, n);
    });
  }
  [[nodiscard]] uint64_t count(Bit bit, Pages pages) const {
    uint64_t sum = 0;
    each(pages, [&](const Leaf* leaf, uint32_t first, uint32_t n) {
      if (leaf != nullptr) sum += leaf->bits[index(bit)].count(first, n);
      return true;
    });
    return sum;
  }
  /// Only where there is room for them. True if all were set before.
  bool set(Bit bit, Pages pages) {
    bool before = true;
    each(pages, [&](const Leaf* leaf, uint32_t first, uint32_t n) {
      if (leaf != nullptr) before = const_cast<Leaf*>(leaf)->bits[index(bit)].set(first, n) && before;
      return true;
    });
    return before;
  }
  void clear(Bit bit, Pages pages) {
    each(pages, [&](const Leaf* leaf, uint32_t first, uint32_t n) {
      if (leaf != nullptr) const_cast<Leaf*>(leaf)->bits[index(bit)].clear(first, n);
      return true;
    });
  }
  /// visit(pages) for each stretch in which the bit is `value`. Stretches end at the bounds of leaves.
  template <typename Visit>
  void for_each(Bit bit, bool value, Pages pages, Visit&& visit) const {
    for (uint64_t page = pages.first; page < pages.end();) {
      const Leaf* leaf = leaf_of(page);
      const uint64_t leaf_end = (page / kLeafPages + 1) * kLeafPages;
      const uint64_t end = pages.end() < leaf_end ? pages.end() : leaf_end;
      if (leaf == nullptr) {
        if (!value) visit(Pages{page, end - page});
        page = end;
        continue;
      }
      const PageBits& bits = leaf->bits[index(bit)];
      const uint64_t base = leaf_end - kLeafPages;
      while (page < end) {
        const uint64_t from = page;
        while (page < end && bits.test(static_cast<uint32_t>(page - base)) == value) ++page;
        if (page > from) visit(Pages{from, page - from});
        while (page < end && bits.test(static_cast<uint32_t>(page - base)) != value) ++page;
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
  struct Leaf {
    PageBits bits[kBitKinds];
    Atomic<uint64_t> words[kBitKinds][kLeafPages / 64];
  };
  static constexpr uint64_t kTopEntries = (uint64_t{1} << kAddressBits) / kPage / kLeafPages;
  static constexpr uint32_t kMaxLeaves = 1 << 16;  ///< 2 TiB in use by messages

  static constexpr uint32_t index(Bit bit) { return static_cast<uint32_t>(bit); }
  [[nodiscard]] const Leaf* leaf_of(uint64_t page) const {
    const Atomic<uintptr_t>* const top =
        reinterpret_cast<const Atomic<uintptr_t>*>(top_known_.load_acquire());  // HL1 <- HL0
    if (top == nullptr || page / kLeafPages >= kTopEntries) return nullptr;
    return reinterpret_cast<const Leaf*>(top[page / kLeafPages].load_acquire());  // HL1 <- HL0: the leaf's bits
  }
  /// visit(leaf or null, first page in it, pages) until it returns false; what the last one returned.
  template <typename Visit>
  bool each(Pages pages, Visit&& visit) const {
    for (uint64_t page = pages.first; page < pages.end();) {
      const uint64_t in_leaf = kLeafPages - page % kLeafPages;
      const uint64_t n = pages.end() - page < in_leaf ? pages.end() - page : in_leaf;
      if (!visit(leaf_of(page), static_cast<uint32_t>(page % kLeafPages), static_cast<uint32_t>(n))) return false;
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
