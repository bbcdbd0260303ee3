// ScratchPool: the scratch memory of schedules that run, kept for the next ones. Fresh memory costs a page fault for
// each page, and is not mapped by peers (copy/). Used by Run. Refuses to know what is done with the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace zh::coll {

/// One for a rank, however many communicators it has. For any thread.
class ScratchPool {
 public:
  /// What is kept idle, in bytes and blocks: vectors of 1 MiB need 1 or 2 MiB, and a few sizes may take turns. Page
  /// faults are a small part of larger calls.
  static constexpr uint64_t kMostIdleBytes = 8 << 20;
  static constexpr size_t kMostIdleBlocks = 64;

  ScratchPool();
  ~ScratchPool();
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  /// Memory of no pool, beginning a line; null when there is none.
  [[nodiscard]] static std::byte* allocate(uint64_t bytes);
  static void free(std::byte* memory);

  /// Memory that begins a line, with any contents; null when there is none. `bytes` > 0. `*size`: what give() is to be
  /// told.
  [[nodiscard]] std::byte* take(uint64_t bytes, uint64_t* size);
  /// Gives it back. The longest idle goes to the system where more than those limits are idle then.
  void give(std::byte* memory, uint64_t size);
  [[nodiscard]] uint64_t idle_bytes() const;

 private:
  struct Block {
    std::byte* memory;
    uint64_t size;
  };

  mutable std::mutex mutex_;
  std::vector<Block> idle_;  ///< the last given last
  uint64_t idle_bytes_ = 0;
};

}  // namespace zh::coll
