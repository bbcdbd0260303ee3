// Private memory of a collective of this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace zh::coll {

/// Private memory of a call that needs some; kept for the next one if it is not large.
class Scratch {
 public:
  /// Null when out of memory. Valid until the next call.
  [[nodiscard]] std::byte* get(uint64_t bytes) {
    if (bytes > size_) {
      std::unique_ptr<std::byte[]> larger(new (std::nothrow) std::byte[bytes]);
      if (!larger) return nullptr;
      memory_ = std::move(larger);
      size_ = bytes;
    }
    return memory_.get();
  }
  void shrink() {
    if (size_ <= kKeepBytes) return;
    memory_.reset();
    size_ = 0;
  }

 private:
  static constexpr uint64_t kKeepBytes = 4 << 20;
  std::unique_ptr<std::byte[]> memory_;
  uint64_t size_ = 0;
};

}  // namespace zh::coll
