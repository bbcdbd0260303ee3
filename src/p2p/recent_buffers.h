// Which buffers a rank's messages have had lately: the kernel copies out of these at once, while of others it looks up
// pages, and fetches lines. It refuses to know what is done with them.
#pragma once

#include <cstdint>

namespace zh::p2p {

class RecentBuffers {
 public:
  /// Whether one of the latest messages, of kBytes together, began at `at`. This one counts from now on.
  [[nodiscard]] bool note(const void* at, uint64_t bytes) {
    const auto key = reinterpret_cast<uintptr_t>(at);
    Entry& entry = entries_[key * kSpread >> (64 - kBits)];
    const bool is_recent = entry.key == key && noted_ - entry.noted <= kBytes;
    noted_ += bytes;
    entry = {key, noted_};
    return is_recent;
  }

 private:
  static constexpr uint64_t kBytes = 4 << 20;  // what the caches of a core hold, twice
  static constexpr uint32_t kBits = 6;
  static constexpr uint64_t kSpread =
      0x9e3779b97f4a7c15;  // the golden ratio: addresses that differ by pages fall apart
  struct Entry {
    uint64_t key = 0;
    uint64_t noted = 0;  ///< bytes before and with it
  };
  Entry entries_[1 << kBits];
  uint64_t noted_ = 0;
};

}  // namespace zh::p2p
