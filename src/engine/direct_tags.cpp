#include "engine/direct_tags.h"

#include <algorithm>
#include <bit>

namespace zh::engine {
namespace {

// A range holds the tags of so many calls in a row. MPI asks for 32768 tags (MPI standard 9.1.2), which are those of
// announced messages and one range.
constexpr int32_t kFewestTags = 16 * static_cast<int32_t>(coll::kTags);
constexpr int32_t kMostTags = 256 * static_cast<int32_t>(coll::kTags);
constexpr uint32_t kRanges = 64;  // where that leaves so many tags to each

int32_t first_of_call(int32_t tag) { return tag & ~static_cast<int32_t>(coll::kTags - 1); }

/// Whether call a began before b. First tags come again after 2^30.
bool is_before(int32_t a, int32_t b) {
  constexpr uint32_t kMask = 0x3fffffff;
  const uint32_t ahead = (static_cast<uint32_t>(b) - static_cast<uint32_t>(a)) & kMask;
  return ahead != 0 && ahead <= kMask / 2;
}

}  // namespace

DirectTags::Range::Use DirectTags::Range::use(int32_t tag) const {
  const auto at = static_cast<size_t>(tag - first_of_call(tag));
  return call_ == first_of_call(tag) && at < uses_.size() ? uses_[at] : Use::kNone;
}

void DirectTags::Range::set(int32_t tag, Use use) {
  if (call_ != first_of_call(tag)) std::ranges::fill(uses_, Use::kNone);
  call_ = first_of_call(tag);
  uses_[static_cast<size_t>(tag - call_)] = use;
}

void DirectTags::Range::make_room(int32_t tag) {
  const auto at = static_cast<size_t>(tag - first_of_call(tag));
  if (at >= uses_.size()) uses_.resize(at + 1);
}

bool DirectTags::Range::is_past(int32_t tag) const {
  return passed(tag) || (call_ >= 0 && is_before(first_of_call(tag), call_));
}

DirectTags::DirectTags(int32_t tag_ub) : announced_ub_(tag_ub) {
  const uint64_t tags = static_cast<uint64_t>(tag_ub) + 1;
  size_ = std::clamp(static_cast<int32_t>(std::bit_floor(tags / kRanges)), kFewestTags, kMostTags);
  n_ranges_ = static_cast<int32_t>(tags / static_cast<uint64_t>(size_)) - 1;
  if (n_ranges_ > 0) announced_ub_ = size_ - 1;
}

DirectTags::Range* DirectTags::find(Ranges& ranges, int32_t rank, uint64_t context) {
  const auto found = ranges.find({rank, context});
  return found != ranges.end() ? &found->second : nullptr;
}

int32_t DirectTags::next(int32_t rank) const {
  const auto found = given_out_.find(rank);
  const int32_t given_out = found != given_out_.end() ? found->second : 0;
  return given_out < n_ranges_ ? (given_out + 1) * size_ : 0;
}

DirectTags::Range* DirectTags::open(int32_t rank, uint64_t context, int32_t first) {
  int32_t& given_out = given_out_[rank];
  Range& range = to_.try_emplace({rank, context}, first, size_).first->second;
  if (first != 0) ++given_out;
  return &range;
}

DirectTags::Range* DirectTags::learn(int32_t rank, uint64_t context, int32_t first) {
  return &from_.try_emplace({rank, context}, first, size_).first->second;
}

}  // namespace zh::engine
