#include "shm/arena.h"

#include <algorithm>
#include <bit>

#include "node/node.h"

namespace zh::shm {

namespace {
constexpr uint64_t kStep = 64 << 10;
constexpr uint64_t kAnnexStep = 1 << 20;  // a step asks the system for its limits
constexpr uint64_t kLargeMin = 64 << 10;
}  // namespace

// Small blocks by power of two, so that they are used again whatever their exact size; large ones (rings) as they are.
uint64_t Arena::block_bytes(uint64_t bytes) {
  return bytes <= kPage ? std::bit_ceil(std::max<uint64_t>(bytes, kPairBytes)) : round_up(bytes, kPairBytes);
}

Status Arena::open(node::Node& node, uint64_t first_bytes) {
  node_ = &node;
  origin_ = node.part(node.self());
  step_ = kStep;
  end_ = node.part_bytes();
  next_ = round_up(first_bytes, kPage);
  budget_ = end_ / 2;
  if (next_ > budget_) return {Code::kNoMemory, "the rank's part of the segment is too small"};
  return back(next_);
}

void Arena::open_annex(node::Node& node) {
  node_ = &node;
  origin_ = node.annex(node.self());
  step_ = kAnnexStep;
  end_ = budget_ = node.annex_bytes();
}

Status Arena::back(uint64_t end) {
  if (end <= backed_) return kOk;
  const uint64_t target = std::min(round_up(end, step_), end_);
  const Offset from = origin_ + backed_;
  if (Status s = node_->reserve(from, target - backed_); !s.ok()) return s;
  // First touch by the owner: the pages land on its NUMA node and no peer pays for the fault.
  for (uint64_t p = backed_; p < target; p += kPage) {
    auto* byte = reinterpret_cast<volatile std::byte*>(node_->base() + origin_ + p);
    *byte = std::byte{0};
  }
  backed_ = target;
  return kOk;
}

Offset Arena::allocate_below(uint64_t limit, uint64_t bytes) {
  const uint64_t size = block_bytes(bytes);
  if (auto it = free_.find(size); it != free_.end() && !it->second.empty()) {
    const Offset offset = it->second.back();
    it->second.pop_back();
    used_ += size;
    return offset;
  }
  const uint64_t start = round_up(next_, size >= kLargeMin ? kPage : kPairBytes);
  refusal_ =
      start + size <= limit ? back(start + size) : Status{Code::kNoMemory, "the rank's part of the segment is used up"};
  if (!refusal_.ok()) return kNoOffset;
  next_ = start + size;
  used_ += size;
  return origin_ + start;
}

void Arena::free(Offset offset, uint64_t bytes) {
  const uint64_t size = block_bytes(bytes);
  used_ -= size;
  free_[size].push_back(offset);
}

void Arena::drop(Offset offset, uint64_t bytes) {
  const uint64_t size = block_bytes(bytes);
  const uint64_t start = offset - origin_;
  const uint64_t keep = round_up(start, step_);
  if (start + size != next_ || keep > backed_) {
    free(offset, bytes);
    return;
  }
  used_ -= size;
  next_ = start;
  node_->release(origin_ + keep, backed_ - keep);
  backed_ = keep;
}

}  // namespace zh::shm
