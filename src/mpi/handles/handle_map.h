// Handle -> object, for communicators and datatypes: one multiplication and one or two loads for a hit.
// Readers take no lock; writers are serialised by the caller. Knows no MPI type: handles are numbers here.
#pragma once

#include <cstddef>
#include <cstdint>
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
    const Table* table = table_.load_acquire();  // MT1 <- MT0: the entries of a new table
    for (size_t i = slot(table, key);; i = (i + 1) & table->mask) {
      const uintptr_t seen = table->entries[i].key.load_acquire();  // ME1 <- ME0: the value of this key
      if (seen == key) return table->entries[i].value.load_relaxed();
      if (seen == kEmpty) return nullptr;
    }
  }

  /// Replaces what was there.
  void insert(uintptr_t key, T* value) {
    if ((used_ + 1) * 2 > table_.load_relaxed()->mask + 1) grow((live_ + 1) * 4);
    put(table_.load_relaxed(), key, value);
  }

  /// Returns what was there, or null.
  T* erase(uintptr_t key) {
    Table* table = table_.load_relaxed();
    for (size_t i = slot(table, key);; i = (i + 1) & table->mask) {
      const uintptr_t seen = table->entries[i].key.load_relaxed();
      if (seen == kEmpty) return nullptr;
      if (seen != key) continue;
      T* value = table->entries[i].value.load_relaxed();
      table->entries[i].key.store_release(kErased);  // ME0 -> ME1: only ends probes for this key
      --live_;
      return value;
    }
  }

  void clear() {
    used_ = 0;
    live_ = 0;
    grow(256);
  }

  [[nodiscard]] size_t size() const { return live_; }

  template <typename Visit>
  void for_each(Visit&& visit) const {
    const Table* table = table_.load_relaxed();
    for (size_t i = 0; i <= table->mask; ++i) {
      const uintptr_t key = table->entries[i].key.load_relaxed();
      if (key != kEmpty && key != kErased) visit(*table->entries[i].value.load_relaxed());
    }
  }

 private:
  static constexpr uintptr_t kEmpty = 0;
  static constexpr uintptr_t kErased = 1;
  struct Entry {
    Atomic<uintptr_t> key{kEmpty};
    Atomic<T*> value{nullptr};
  };
  struct Table {
    size_t mask = 0;
    unsigned shift = 0;
    std::unique_ptr<Entry[]> entries;
  };

  static size_t slot(const Table* table, uintptr_t key) {
    return static_cast<size_t>((static_cast<uint64_t>(key) * 0x9e3779b97f4a7c15ULL) >> table->shift);
  }

  void put(Table* table, uintptr_t key, T* value) {
    Entry* free = nullptr;  // an erased entry on the way, used again
    for (size_t i = slot(table, key);; i = (i + 1) & table->mask) {
      Entry& entry = table->entries[i];
      const uintptr_t seen = entry.key.load_relaxed();
      if (seen == key) {
        entry.value.store_relaxed(value);
        return;
      }
      if (seen == kErased && free == nullptr) free = &entry;
      if (seen != kEmpty) continue;
      if (free == nullptr) {
        free = &entry;
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
    fresh->entries = std::make_unique<Entry[]>(n);
    const Table* old = table_.load_relaxed();
    const size_t keep = live_;
    used_ = 0;
    live_ = 0;
    if (old != nullptr && keep != 0) {
      for (size_t i = 0; i <= old->mask; ++i) {
        const uintptr_t key = old->entries[i].key.load_relaxed();
        if (key != kEmpty && key != kErased) put(fresh.get(), key, old->entries[i].value.load_relaxed());
      }
    }
    table_.store_release(fresh.get());    // MT0 -> MT1
    tables_.push_back(std::move(fresh));  // old ones stay: a reader may still be in them
  }

  Atomic<Table*> table_{nullptr};
  size_t used_ = 0;  ///< entries that end no probe: live and erased ones
  size_t live_ = 0;
  std::vector<std::unique_ptr<Table>> tables_;
};

}  // namespace zh::mpi
