// Whether it pays to share a buffer. The rule is the ski rental's: one becomes shared when what its messages would have
// saved so far has reached what sharing costs here and now, so that a program never loses more than it has forgone.
// What was shared and became private before it had saved its cost is left alone for longer: it, and others of its size.
// All times are estimates in ns: savings by the pair's measured curves, costs as they were measured in this process.
// Lock-free; two buffers that fall on one entry, and threads that count at once, make it forget, and nothing else.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/atomic.h"

namespace zh::heap {

class PayBack {
 public:
  /// A use of a private buffer, which begins in this page, that would have saved so much. True once sharing it, for
  /// `price_ns`, would have paid by now.
  bool forgo(uint64_t page, uint64_t pages, uint64_t saves_ns, uint64_t price_ns) {
    Entry* const entry = entry_for(page);
    if (entry == nullptr) return false;
    const uint64_t forgone = entry->ns.load_relaxed() + saves_ns;
    entry->ns.store_relaxed(forgone);
    const uint32_t doubt = entry->lost.load_relaxed() + class_of(pages).load_relaxed();
    return forgone >= price_ns << (doubt < kMostDoubt ? doubt : kMostDoubt);
  }
  /// A use of a private buffer; true if it is not the first.
  bool used_before(uint64_t page) {
    Entry* const entry = entry_for(page);
    if (entry == nullptr) return false;
    const bool before = entry->ns.load_relaxed() != 0;
    entry->ns.store_relaxed(1);
    return before;
  }
  /// Time that was lost on a buffer that stays private.
  void spend(uint64_t ns) { spent_ns_.fetch_add_relaxed(ns); }
  /// It is shared, which has cost so much.
  void shared(uint64_t page, uint64_t cost_ns) {
    spent_ns_.fetch_add_relaxed(cost_ns);
    Entry* const entry = find(page);
    if (entry == nullptr) return;
    entry->ns.store_relaxed(0);
    entry->owes_ns.store_relaxed(cost_ns);
  }
  /// A use of a shared one.
  void save(uint64_t page, uint64_t pages, uint64_t ns) {
    saved_ns_.store_relaxed(saved_ns_.load_relaxed() + ns);
    Entry* const entry = find(page);
    if (entry == nullptr || entry->owes_ns.load_relaxed() == 0) return;
    entry->ns.store_relaxed(entry->ns.load_relaxed() + ns);
    if (entry->ns.load_relaxed() < entry->owes_ns.load_relaxed()) return;
    entry->owes_ns.store_relaxed(0);
    less(entry->lost);
    less(class_of(pages));
  }
  /// It is private again, which has cost so much.
  void returned(uint64_t page, uint64_t pages, uint64_t cost_ns) {
    spent_ns_.fetch_add_relaxed(cost_ns);
    Entry* const entry = find(page);
    if (entry == nullptr) return;
    if (entry->owes_ns.load_relaxed() != 0) {
      more(entry->lost);
      more(class_of(pages));
    }
    entry->ns.store_relaxed(0);
    entry->owes_ns.store_relaxed(0);
  }
  /// What has been forgone of the buffer that begins there counts no longer: it has gone, or must stay as it is.
  void forget(uint64_t page) {
    Entry* const entry = find(page);
    if (entry != nullptr) entry->ns.store_relaxed(0);
  }

  [[nodiscard]] uint64_t saved_ns() const { return saved_ns_.load_relaxed(); }
  [[nodiscard]] uint64_t spent_ns() const { return spent_ns_.load_relaxed(); }

 private:
  struct Entry {
    Atomic<uint64_t> page{0};
    Atomic<uint64_t> ns{0};       ///< forgone; once it is shared, saved
    Atomic<uint64_t> owes_ns{0};  ///< of a shared one that has not paid yet: its cost
    Atomic<uint32_t> lost{0};     ///< how often it has ended so, less how often not
    Atomic<uint32_t> others{0};   ///< uses of others that found the entry taken
  };
  static constexpr uint32_t kMostLost = 7;
  static constexpr uint32_t kMostDoubt = 12;
  static constexpr uint32_t kPatience = 64;
  static constexpr unsigned kBits = 11;

  static void more(Atomic<uint32_t>& count) {
    // Twice as long twice: what fails once fails again, in programs that map memory anew for every message.
    const uint32_t n = count.load_relaxed() + 2;
    count.store_relaxed(n < kMostLost ? n : kMostLost);
  }
  static void less(Atomic<uint32_t>& count) {
    const uint32_t n = count.load_relaxed();
    if (n != 0) count.store_relaxed(n - 1);
  }
  Atomic<uint32_t>& class_of(uint64_t pages) {
    return classes_[static_cast<unsigned>(std::bit_width(pages)) % classes_.size()];
  }
  Entry& at(uint64_t page, uint64_t way) { return entries_[(page * 0x9e3779b97f4a7c15U >> (64 - kBits)) ^ way]; }
  Entry* find(uint64_t page) {
    for (const uint64_t way : {0, 1}) {
      if (at(page, way).page.load_relaxed() == page) return &at(page, way);
    }
    return nullptr;
  }
  /// Takes a free one, or one that nobody has used while others asked for it often.
  Entry* entry_for(uint64_t page) {
    if (Entry* const known = find(page); known != nullptr) {
      known->others.store_relaxed(0);
      return known;
    }
    for (const uint64_t way : {0, 1}) {
      Entry& entry = at(page, way);
      const uint32_t others = entry.others.load_relaxed() + 1;
      entry.others.store_relaxed(others);
      if (entry.page.load_relaxed() != 0 && others < kPatience) continue;
      entry.page.store_relaxed(page);
      entry.ns.store_relaxed(0);
      entry.owes_ns.store_relaxed(0);
      entry.lost.store_relaxed(0);
      entry.others.store_relaxed(0);
      return &entry;
    }
    return nullptr;
  }

  std::array<Entry, 1 << kBits> entries_{};
  std::array<Atomic<uint32_t>, 32> classes_{};  ///< by size: as Entry::lost
  Atomic<uint64_t> saved_ns_{0};
  Atomic<uint64_t> spent_ns_{0};
};

/// What sharing costs in this process, as it was measured there: something each time, and something a page.
class Price {
 public:
  [[nodiscard]] uint64_t of(uint64_t pages) const { return each_ns_.load_relaxed() + pages * page_ns_.load_relaxed(); }
  [[nodiscard]] uint64_t page_ns() const { return page_ns_.load_relaxed(); }
  void learn(uint64_t each_ns, uint64_t pages, uint64_t pages_ns) {
    approach(each_ns_, each_ns);
    if (pages != 0) approach(page_ns_, pages_ns / pages);
  }

 private:
  static void approach(Atomic<uint64_t>& mean, uint64_t value) {
    mean.store_relaxed((3 * mean.load_relaxed() + value) / 4);
  }
  // Until something was measured: as on virtual machines.
  Atomic<uint64_t> each_ns_{50'000};
  Atomic<uint64_t> page_ns_{6'000};
};

}  // namespace zh::heap
