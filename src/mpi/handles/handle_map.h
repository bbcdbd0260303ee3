// Handle -> object, for communicators and datatypes: two loads for the one that was looked up last, one multiplication
// and some loads for another. Readers take no lock; writers are serialised by the caller. Knows no MPI type: handles
// are numbers here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/atomic.h"

namespace zh::mpi {

/// Open addressing with linear probing. Keys are never 0 or 1. A reader that races with insert() or erase() of the
/// *same* key is the program's error (it uses a handle while making or freeing it); other keys are always found.
template <typename T>
class HandleMap {
 public:
  HandleMap() { grow(256); }

  [[nodiscard]] T* find(uintptr_t key) const {
    T* const value = latest(key);
    return value != nullptr ? value : look_up(key);
  }
  /// The same of the key that was found last; null for all others.
  [[nodiscard, gnu::always_inline]] T* latest(uintptr_t key) const {
    const Entry* entry = latest_.load_relaxed();
    if (entry->key.load_acquire() != key) return nullptr;  // ME1 <- ME0: the value of this key
    return entry->value.load_relaxed();
  }

  /// Replaces what was there.
  void insert(uintptr_t key, T* value) {
    if ((used_ + 1) * 2 > table_.load_relaxed()->mask + 1) grow((live_ + 1) * 4);
    put(key, value);
  }

  /// Returns what was there, or null.
  T* erase(uintptr_t key) {
    Entry* entry = entry_of(key);
    if (entry == nullptr) return nullptr;
    T* const value = entry->value.load_relaxed();
    entry->key.store_release(kErased);  // ME0 -> ME1: only ends probes for this key
    entry->value.store_relaxed(nullptr);
    --live_;
    return value;
  }

  void clear() {
    for (Entry& entry : entries_) entry.key.store_release(kErased);  // ME0 -> ME1
    live_ = 0;
    grow(256);
  }

  [[nodiscard]] size_t size() const { return live_; }

  template <typename Visit>
  void for_each(Visit&& visit) const {
    const Table* table = table_.load_relaxed();
    for (size_t i = 0; i <= table->mask; ++i) {
      const Entry* entry = table->slots[i].load_relaxed();
      if (entry != nullptr && entry->key.load_relaxed() != kErased) visit(*entry->value.load_relaxed());
    }
  }

 private:
  static constexpr uintptr_t kErased = 1;
  /// One key's, wherever a table has it: who has found it once may come back without a table.
  struct Entry {
    Atomic<uintptr_t> key{kErased};
    Atomic<T*> value{nullptr};
  };
  struct Table {
    size_t mask = 0;
    unsigned shift = 0;
    std::unique_ptr<Atomic<Entry*>[]> slots;
  };

  static size_t slot(const Table* table, uintptr_t key) {
    return static_cast<size_t>((static_cast<uint64_t>(key) * 0x9e3779b97f4a7c15ULL) >> table->shift);
  }

  [[nodiscard]] Entry* entry_of(uintptr_t key) const {
    const Table* table = table_.load_acquire();  // MT1 <- MT0: the slots of a new table
    for (size_t i = slot(table, key);; i = (i + 1) & table->mask) {
      Entry* entry = table->slots[i].load_acquire();                           // MS1 <- MS0: an entry's first key
      if (entry == nullptr || entry->key.load_acquire() == key) return entry;  // ME1 <- ME0
    }
  }

  [[nodiscard, gnu::noinline]] T* look_up(uintptr_t key) const {
    const Entry* entry = entry_of(key);
    if (entry == nullptr) return nullptr;
    latest_.store_relaxed(entry);
    return entry->value.load_relaxed();
  }

  void put(uintptr_t key, T* value) {
    Table* table = table_.load_relaxed();
    Entry* free = nullptr;  // an erased entry on the way, used again
    for (size_t i = slot(table, key);; i = (i + 1) & table->mask) {
      Entry* entry = table->slots[i].load_relaxed();
      if (entry != nullptr && entry->key.load_relaxed() == key) {
        entry->value.store_relaxed(value);
        return;
      }
      if (entry != nullptr && entry->key.load_relaxed() == kErased && free == nullptr) free = entry;
      if (entry != nullptr) continue;
      if (free == nullptr) {
        if (spare_.empty()) spare_.push_back(&entries_.emplace_back());
        free = spare_.back();
        spare_.pop_back();
        table->slots[i].store_release(free);  // MS0 -> MS1
        ++used_;
      }
      free->value.store_relaxed(value);
      free->key.store_release(key);  // ME0 -> ME1: value before key
      ++live_;
      return;
    }
  }

  void grow(size_t wanted) {
    size_t n = 256;
    unsigned bits = 8;
    while (n < wanted) {
      n *= 2;
      ++bits;
    }
    auto fresh = std::make_unique<Table>();
    fresh->mask = n - 1;
    fresh->shift = 64 - bits;
    fresh->slots = std::make_unique<Atomic<Entry*>[]>(n);
    used_ = 0;
    spare_.clear();
    for (Entry& entry : entries_) {
      const uintptr_t key = entry.key.load_relaxed();
      if (key == kErased) spare_.push_back(&entry);
      if (key == kErased) continue;
      size_t i = slot(fresh.get(), key);
      while (fresh->slots[i].load_relaxed() != nullptr) i = (i + 1) & fresh->mask;
      fresh->slots[i].store_relaxed(&entry);
      ++used_;
    }
    table_.store_release(fresh.get());    // MT0 -> MT1
    tables_.push_back(std::move(fresh));  // old ones stay: a reader may still be in them
  }

  Atomic<Table*> table_{nullptr};
  size_t used_ = 0;  ///< entries that end no probe: live and erased ones
  size_t live_ = 0;
  std::vector<std::unique_ptr<Table>> tables_;
  std::deque<Entry> entries_;
  std::vector<Entry*> spare_;  ///< those that the newest table does not have
  inline static const Entry kNone{};
  mutable Atomic<const Entry*> latest_{&kNone};  ///< found by whoever looked something up last
};

}  // namespace zh::mpi
