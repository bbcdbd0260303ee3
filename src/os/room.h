// Address space for private memory, opened from its start on as it is needed: what is closed takes no memory even where
// a program locks all of its own (mlockall). Called by whoever keeps a large, mostly empty table.
#pragma once

#include <cstddef>
#include <cstdint>

namespace zh::os {

class PrivateRoom {
 public:
  PrivateRoom() = default;
  ~PrivateRoom();
  PrivateRoom(const PrivateRoom&) = delete;
  PrivateRoom& operator=(const PrivateRoom&) = delete;

  /// Of `bytes`, page aligned, all closed; false if there is no address space.
  [[nodiscard]] bool reserve(uint64_t bytes);
  /// Null before that.
  [[nodiscard]] std::byte* base() const { return base_; }
  /// Makes the first `bytes` usable; false beyond what was reserved, or if the system refuses.
  [[nodiscard]] bool open(uint64_t bytes);

 private:
  std::byte* base_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t opened_ = 0;
};

}  // namespace zh::os
