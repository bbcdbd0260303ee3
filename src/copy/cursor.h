// Walks the packed bytes of a Buffer as runs of equal, equally spaced blocks. Used by pack/unpack, copy_range and the
// CMA lists; it computes addresses and never touches them, so a buffer may belong to another process.
#pragma once

#include <cstdint>

#include "copy/layout.h"

namespace zh::copy {

/// `count` blocks of `len_bytes`; block k starts at address + k * stride (modulo 2^64).
struct ByteRun {
  uint64_t address;
  int64_t stride;
  uint64_t count;
  uint64_t len_bytes;
};

/// Position in packed bytes [from, from + n) of a buffer. O(log items) to make, O(1) to step.
class Cursor {
 public:
  Cursor(const Buffer& buffer, uint64_t from, uint64_t n) : base_(reinterpret_cast<uintptr_t>(buffer.base)), left_(n) {
    const LayoutShm* layout = buffer.layout;
    if (n == 0) return;
    if (layout == nullptr) {
      make_contiguous(base_ + from);
      return;
    }
    n_items_ = layout->n_items;
    items_ = layout->items();
    extent_ = layout->extent_bytes;
    const uint64_t element = from / layout->size_bytes;
    const uint64_t rest = from % layout->size_bytes;
    if (n_items_ == 1 && items_[0].count[0] == 1 && items_[0].count[1] == 1) {
      // One block per element: the elements themselves are the run.
      if (extent_ == static_cast<int64_t>(items_[0].len_bytes)) {
        make_contiguous(base_ + static_cast<uint64_t>(items_[0].offset) + from);
        return;
      }
      len_ = items_[0].len_bytes;
      count_[0] = UINT64_MAX;
      stride_[0] = extent_;
      index_[0] = element;
      within_ = rest;
      start_ = base_ + static_cast<uint64_t>(items_[0].offset);
      row_ = start_;
      return;
    }
    element_base_ = base_ + element * static_cast<uint64_t>(extent_);
    item_ = find(rest);
    load_item();
    const uint64_t in_item = rest - items_[item_].first_byte;
    within_ = in_item % len_;
    index_[0] = in_item / len_ % count_[0];
    index_[1] = in_item / len_ / count_[0];
    row_ = start_ + index_[1] * static_cast<uint64_t>(stride_[1]);
  }

  [[nodiscard]] uint64_t left() const { return left_; }

  /// The longest run from here; left() must not be 0. A block begun or ended within is a run of its own.
  [[nodiscard]] ByteRun peek() const {
    const uint64_t address = row_ + index_[0] * static_cast<uint64_t>(stride_[0]) + within_;
    if (within_ != 0 || left_ < len_) {
      const uint64_t rest = len_ - within_;
      return {address, 0, 1, rest < left_ ? rest : left_};
    }
    const uint64_t in_row = count_[0] - index_[0];
    const uint64_t whole = left_ / len_;
    return {address, stride_[0], in_row < whole ? in_row : whole, len_};
  }

  /// Moves over the first `bytes` of the run that peek() gave.
  void advance(uint64_t bytes) {
    left_ -= bytes;
    within_ += bytes;
    if (within_ < len_) return;
    const uint64_t blocks = within_ == len_ ? 1 : within_ / len_;
    within_ -= blocks * len_;
    index_[0] += blocks;
    if (index_[0] == count_[0]) next_row();
  }

 private:
  void make_contiguous(uint64_t address) {
    row_ = address;
    len_ = left_;
  }

  [[nodiscard]] uint32_t find(uint64_t byte) const {
    uint32_t low = 0;
    uint32_t high = n_items_;
    while (high - low > 1) {
      const uint32_t middle = low + (high - low) / 2;
      if (items_[middle].first_byte <= byte) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }

  void load_item() {
    const LayoutItem& item = items_[item_];
    len_ = item.len_bytes;
    count_[0] = item.count[0];
    count_[1] = item.count[1];
    stride_[0] = item.stride[0];
    stride_[1] = item.stride[1];
    start_ = element_base_ + static_cast<uint64_t>(item.offset);
  }

  void next_row() {
    if (left_ == 0) return;
    index_[0] = 0;
    if (++index_[1] == count_[1]) {
      index_[1] = 0;
      if (++item_ == n_items_) {
        item_ = 0;
        element_base_ += static_cast<uint64_t>(extent_);
      }
      load_item();
    }
    row_ = start_ + index_[1] * static_cast<uint64_t>(stride_[1]);
  }

  uint64_t base_;
  uint64_t left_;
  uint64_t element_base_ = 0;
  uint64_t start_ = 0;  ///< first block of the item
  uint64_t row_ = 0;    ///< first block of the row
  uint64_t within_ = 0;
  uint64_t len_ = 0;
  uint64_t index_[2] = {0, 0};
  uint64_t count_[2] = {1, 1};
  int64_t stride_[2] = {0, 0};
  int64_t extent_ = 0;
  const LayoutItem* items_ = nullptr;
  uint32_t n_items_ = 0;
  uint32_t item_ = 0;
};

}  // namespace zh::copy
