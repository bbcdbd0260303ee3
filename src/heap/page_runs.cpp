#include "heap/page_runs.h"

#include <bit>

namespace zh::heap {

uint32_t PageRuns::bin_of(uint32_t pages) {
  if (pages < kSub) return pages;
  const auto level = static_cast<uint32_t>(std::bit_width(pages)) - kSubBits;
  return level * kSub + (pages >> (level - 1)) % kSub;
}

uint32_t PageRuns::filled_from(uint32_t bin) const {
  uint32_t level = bin / kSub;
  if (level >= kLevels) return kNoPage;
  uint32_t bins = filled_[level] & (~0U << bin % kSub);
  if (bins == 0) {
    const uint32_t higher = level + 1 < 32 ? levels_ & (~0U << (level + 1)) : 0;
    if (higher == 0) return kNoPage;
    level = static_cast<uint32_t>(std::countr_zero(higher));
    bins = filled_[level];
  }
  return level * kSub + static_cast<uint32_t>(std::countr_zero(bins));
}

void PageRuns::mark(uint32_t first, uint32_t pages, RunState state) {
  entries_[first].pages_and_state = pages << kStateBits | static_cast<uint32_t>(state);
  entries_[first + pages - 1].start = first;
}

void PageRuns::link(uint32_t first, uint32_t pages) {
  mark(first, pages, RunState::kFree);
  const uint32_t bin = bin_of(pages);
  PageEntry& entry = entries_[first];
  entry.prev = 0;
  entry.next = heads_[bin];
  if (entry.next != 0) entries_[entry.next - 1].prev = first + 1;
  heads_[bin] = first + 1;
  filled_[bin / kSub] = static_cast<uint16_t>(filled_[bin / kSub] | 1U << bin % kSub);
  levels_ |= 1U << bin / kSub;
}

void PageRuns::unlink(uint32_t first) {
  const uint32_t bin = bin_of(pages_at(first));
  const PageEntry& entry = entries_[first];
  if (entry.next != 0) entries_[entry.next - 1].prev = entry.prev;
  if (entry.prev != 0) {
    entries_[entry.prev - 1].next = entry.next;
    return;
  }
  heads_[bin] = entry.next;
  if (entry.next != 0) return;
  filled_[bin / kSub] = static_cast<uint16_t>(filled_[bin / kSub] & ~(1U << bin % kSub));
  if (filled_[bin / kSub] == 0) levels_ &= ~(1U << bin / kSub);
}

void PageRuns::extend(uint32_t pages) {
  const uint32_t first = end_;
  end_ += pages;
  mark(first, pages, RunState::kLive);
  give(first);
}

uint32_t PageRuns::take(uint32_t pages, uint32_t alignment) {
  if (pages == 0 || pages >= kMaxPages || alignment >= kMaxPages) return kNoPage;
  const uint32_t wanted = pages + alignment - 1;
  if (wanted >= kMaxPages) return kNoPage;
  // The bin that holds `wanted` may hold shorter runs as well: a few of it are looked at, all of a higher bin fit.
  uint32_t first = kNoPage;
  const uint32_t own = bin_of(wanted);
  uint32_t candidate = heads_[own];
  for (int tries = 8; candidate != 0 && tries > 0; --tries) {
    if (pages_at(candidate - 1) >= wanted) {
      first = candidate - 1;
      break;
    }
    candidate = entries_[candidate - 1].next;
  }
  if (first == kNoPage) {
    const uint32_t bin = filled_from(own + 1);
    if (bin == kNoPage) return kNoPage;
    first = heads_[bin] - 1;
  }
  const uint32_t found = pages_at(first);
  unlink(first);
  const uint32_t aligned = (first + alignment - 1) & ~(alignment - 1);
  if (aligned != first) link(first, aligned - first);
  const uint32_t behind = found - (aligned - first) - pages;
  if (behind != 0) link(aligned + pages, behind);
  mark(aligned, pages, RunState::kLive);
  return aligned;
}

Run PageRuns::give(uint32_t first) {
  uint32_t pages = pages_at(first);
  const uint32_t behind = first + pages;
  if (behind < end_ && state_at(behind) == RunState::kFree) {
    unlink(behind);
    pages += pages_at(behind);
  }
  if (first > 0) {
    const uint32_t before = entries_[first - 1].start;
    if (state_at(before) == RunState::kFree) {
      unlink(before);
      pages += first - before;
      first = before;
    }
  }
  link(first, pages);
  return {first, pages};
}

void PageRuns::split(uint32_t first, uint32_t pages) {
  const uint32_t all = pages_at(first);
  mark(first, pages, state_at(first));
  mark(first + pages, all - pages, RunState::kLive);
}

bool PageRuns::grow(uint32_t first, uint32_t pages) {
  const uint32_t have = pages_at(first);
  const uint32_t behind = first + have;
  if (behind >= end_ || state_at(behind) != RunState::kFree) return false;
  const uint32_t free = pages_at(behind);
  if (have + free < pages) return false;
  unlink(behind);
  if (have + free > pages) link(first + pages, have + free - pages);
  mark(first, pages, state_at(first));
  return true;
}

void PageRuns::claim(uint32_t first) {
  unlink(first);
  mark(first, pages_at(first), RunState::kLive);
}

void PageRuns::retire_free() {
  for (uint32_t first = 0; first < end_;) {
    const uint32_t pages = pages_at(first);
    if (state_at(first) == RunState::kFree) {
      unlink(first);
      mark(first, pages, RunState::kGone);
    }
    first += pages;
  }
}

}  // namespace zh::heap
