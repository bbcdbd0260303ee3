// What a storm sends: the plan that all ranks draw alike from the seed, and buffers that know what they should hold.
// Used by storm_test.cpp and the fuzzer of messages; it knows nothing of the engine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "copy/layout.h"
#include "engine_support.h"
#include "support/fake_heap.h"

namespace zh::test {

// How the receives of a context are made. In the first four the kind of filter is fixed, so that any order of receives
// finds all messages; in kMixed leftover receives are cancelled and leftover messages probed; kCancelled is for
// cancelled sends.
enum Lane : uint32_t { kExact, kAnySrc, kAnyTg, kAnyBoth, kMixed, kCancelled, kControl, kLanes };
constexpr uint64_t kContextBase = 0x5eed000000000001U;
inline uint64_t context_of(uint32_t lane) { return kContextBase + lane * 0x9e3779b97f4a7c15U; }

constexpr int32_t kTags = 3;
constexpr uint64_t kBlockBytes = 24, kBlockStride = 40, kBlocks = 4;
constexpr uint64_t kElement = kBlockBytes * kBlocks, kExtent = kBlockStride * kBlocks;
constexpr std::byte kUntouched{0xee};

struct Planned {
  uint32_t id;
  uint32_t source;
  uint32_t dest;
  uint32_t lane;
  int32_t tag;
  uint64_t bytes;
  bool strided;
  bool synchronous;
};

// Byte `k` of message `id`; the first four name it.
inline std::byte content(uint32_t id, uint64_t k) {
  if (k < 4) return static_cast<std::byte>(id >> (8 * k));
  return static_cast<std::byte>(id * 131 + k * 7 + (k >> 8) * 13);
}

/// A length around a threshold or log-uniform, at most `largest`; large ones are rare.
[[nodiscard]] uint64_t random_bytes(std::mt19937_64& rng, uint64_t largest);

/// All messages of all ranks, by rank in the order of sending.
[[nodiscard]] std::vector<Planned> make_plan(uint64_t seed, int ranks, const StormConfig& config);

// A buffer of packed bytes, contiguous or strided, with guards behind it.
class Packed {
 public:
  /// In memory of `heap` if it is not null and has room, `shift` bytes behind the start of a page.
  Packed(uint64_t bytes, bool strided, FakeHeap* heap = nullptr, uint64_t shift = 0)
      : bytes_(bytes), strided_(strided) {
    span_ = (strided ? (bytes + kElement - 1) / kElement * kExtent : bytes) + 64;
    taken_ = heap != nullptr ? heap->take(span_ + shift) : nullptr;
    if (taken_ != nullptr) {
      heap_ = heap;
      memory_ = taken_ + shift;
    } else {
      private_.resize(span_);
      memory_ = private_.data();
    }
    std::fill_n(memory_, span_, kUntouched);
    if (strided) {
      std::vector<copy::Block> blocks;
      for (uint64_t i = 0; i < kBlocks; ++i) blocks.push_back({static_cast<int64_t>(i * kBlockStride), kBlockBytes});
      layout_ = copy::make_layout(blocks, kExtent);
    }
  }
  ~Packed() {
    if (heap_ != nullptr) heap_->give_back(taken_);
  }
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;
  [[nodiscard]] copy::Buffer buffer() { return {memory_, bytes_, layout_.get()}; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  void fill(uint32_t id) {
    for (uint64_t k = 0; k < bytes_; ++k) memory_[position(k)] = content(id, k);
  }
  [[nodiscard]] std::byte at(uint64_t k) const { return memory_[position(k)]; }
  /// Whether exactly the first n bytes hold message `id` and nothing else was written.
  [[nodiscard]] bool holds(uint32_t id, uint64_t n) const {
    uint64_t next = 0;  // position of packed byte k
    uint64_t k = 0;
    for (uint64_t p = 0; p < span_; ++p) {
      if (k < n && p == next) {
        if (memory_[p] != content(id, k)) return false;
        ++k;
        next = position(k);
      } else if (memory_[p] != kUntouched) {
        return false;
      }
    }
    return k == n;
  }

 private:
  [[nodiscard]] uint64_t position(uint64_t k) const {
    if (!strided_) return k;
    const uint64_t in = k % kElement;
    return k / kElement * kExtent + in / kBlockBytes * kBlockStride + in % kBlockBytes;
  }
  uint64_t bytes_;
  bool strided_;
  uint64_t span_ = 0;
  std::byte* memory_ = nullptr;
  std::byte* taken_ = nullptr;  ///< of the heap
  FakeHeap* heap_ = nullptr;
  std::vector<std::byte> private_;
  copy::OwnedLayout layout_;
};

}  // namespace zh::test
