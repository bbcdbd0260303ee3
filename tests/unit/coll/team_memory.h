// What teams of started collectives in one thread need: shared memory, and nothing else of a rank; and an operation
// whose order shows. Used by nonblocking_team_test.cpp and control_block_test.cpp.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "coll/team/services.h"

namespace zh::coll {

/// Memory of all members, and nothing else of a rank.
class Memory final : public Services {
 public:
  [[nodiscard]] std::byte* base() const override { return memory_.get(); }
  [[nodiscard]] Offset allocate(uint64_t bytes) override {
    const Offset at = used_;
    used_ += round_up(bytes, kPairBytes);
    return used_ <= kBytes ? at : kNoOffset;
  }
  /// What allocate() gave last.
  void free_last(uint64_t bytes) { used_ -= round_up(bytes, kPairBytes); }
  [[nodiscard]] Offset allocate_spare(uint64_t) override { std::abort(); }
  [[nodiscard]] copy::MemoryAccess& memory() override { std::abort(); }
  [[nodiscard]] p2p::Request* send(uint32_t, uint64_t, int32_t, const copy::Buffer&, p2p::SendMode) override {
    std::abort();
  }
  [[nodiscard]] p2p::Request* recv(uint32_t, uint64_t, int32_t, const copy::Buffer&) override { std::abort(); }
  [[nodiscard]] bool done(const p2p::Request*) const override { std::abort(); }
  Code finish(p2p::Request*, uint64_t*) override { std::abort(); }
  void abandon(p2p::Request*) override { std::abort(); }
  void wait(bool (*)(void*), void*, p2p::Tell) override { std::abort(); }
  [[nodiscard]] uint32_t polls() const override { return 1; }
  [[nodiscard]] bool keeps_cpu_from_peer() override { return false; }
  [[nodiscard]] const Atomic<uint32_t>* sleepers() const override { return &sleepers_; }
  void wake(uint32_t) override { ++wakes; }
  void count_staged(uint64_t) override {}
  [[nodiscard]] uint64_t streamed_from(uint32_t) const override { return 0; }
  [[nodiscard]] node::Level level(uint32_t, uint32_t) const override { return node::Level::kSharedL2; }
  [[nodiscard]] uint32_t copiers() const override { return 1; }
  [[nodiscard]] bool alive(uint32_t) override { return true; }

  void set_sleepers(uint32_t n) { sleepers_.store_relaxed(n); }
  uint32_t wakes = 0;

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{kPairBytes}); }
  };
  static constexpr uint64_t kBytes = 8 << 20;
  std::unique_ptr<std::byte, Free> memory_{
      static_cast<std::byte*>(::operator new (kBytes, std::align_val_t{kPairBytes}))};
  uint64_t used_ = kPairBytes;
  Atomic<uint32_t> sleepers_{0};
};

/// Associative, not commutative: affine maps.
inline uint64_t compose(uint64_t left, uint64_t right) {
  const auto a = static_cast<uint32_t>(left >> 32);
  const auto c = static_cast<uint32_t>(right >> 32);
  return (uint64_t{a * c} << 32) | (a * static_cast<uint32_t>(right) + static_cast<uint32_t>(left));
}
inline void compose_kernel(const void* a, const void* b, void* out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const uint64_t x = compose(static_cast<const uint64_t*>(a)[i], static_cast<const uint64_t*>(b)[i]);
    std::memcpy(static_cast<uint64_t*>(out) + i, &x, sizeof x);
  }
}

}  // namespace zh::coll
