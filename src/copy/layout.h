// Where the bytes of a message lie in one process's memory: contiguous, or a flattened derived datatype.
// The shim builds layouts, the protocols walk them. A layout is position independent (no pointers), so the same bytes
// serve in private memory and, published, in the segment. It refuses to know MPI datatypes and their element types.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "copy/kernels.h"

namespace zh::copy {

/// `count[0] x count[1]` blocks of `len_bytes` each: block (i, j), i fastest, lies at
/// `offset + i * stride[0] + j * stride[1]` bytes from the element's base. A plain block has counts of 1.
struct LayoutItem {
  int64_t offset;
  uint64_t len_bytes;
  int64_t stride[2];
  uint32_t count[2];
  uint64_t first_byte;  ///< packed bytes of the element that precede this item
  [[nodiscard]] uint64_t bytes() const { return len_bytes * count[0] * count[1]; }
};

/// One element of a flattened datatype, in type-map order.
/// Writers: its maker, before publication. Readers: anyone after. Invariant: none of items[0..n_items) is empty, and
/// each begins with the packed byte behind the one before: together they cover [0, size_bytes). Wrap: none. Crash:
/// immutable, nothing to mend.
struct LayoutShm {
  uint64_t size_bytes;   ///< packed bytes of one element
  int64_t extent_bytes;  ///< distance between the bases of consecutive elements
  uint32_t n_items;
  uint32_t block_bytes;  ///< the mean of its blocks, at most 2^32 - 1
  // LayoutItem items[n_items] follows.
  [[nodiscard]] const LayoutItem* items() const { return reinterpret_cast<const LayoutItem*>(this + 1); }
  [[nodiscard]] LayoutItem* items() { return reinterpret_cast<LayoutItem*>(this + 1); }
  /// CMA, which looks up the pages of each, copies them many times slower than the processor packs them.
  [[nodiscard]] bool short_blocks() const { return block_bytes < 1024; }
  [[nodiscard]] size_t description_bytes() const { return sizeof(LayoutShm) + n_items * sizeof(LayoutItem); }
  [[nodiscard]] const char* broken_invariant() const;
};

/// A message buffer of `bytes` packed bytes. Contiguous if `layout` is null; else consecutive elements of `*layout`
/// starting at `base` (of which `bytes` need not be a whole number, for receives).
struct Buffer {
  std::byte* base = nullptr;
  uint64_t bytes = 0;
  const LayoutShm* layout = nullptr;
};

/// A flattened datatype owned by this process; freed by LayoutDeleter.
struct LayoutDeleter {
  void operator()(LayoutShm* layout) const;
};
using OwnedLayout = std::unique_ptr<LayoutShm, LayoutDeleter>;

struct Block {
  int64_t offset;
  uint64_t len_bytes;
};

/// Builds a layout from blocks in type-map order; merges neighbours and folds equal strides (two levels).
/// Returns null when memory is short.
[[nodiscard]] OwnedLayout make_layout(const std::vector<Block>& blocks, int64_t extent_bytes);

/// Copies packed bytes [from, from + n) of `buffer` to contiguous `dst` (a gather).
void pack(const Buffer& buffer, uint64_t from, uint64_t n, void* dst, Store store);
/// Copies contiguous `src` to packed bytes [from, from + n) of `buffer` (a scatter).
void unpack(const Buffer& buffer, uint64_t from, uint64_t n, const void* src, Store store);
/// Copies packed bytes [from, from + n) of `src` to the same positions of `dst`, both reachable by this process.
void copy_range(const Buffer& dst, const Buffer& src, uint64_t from, uint64_t n, Store store);

/// The memory from the first to behind the last byte of a buffer, with the gaps between.
struct MemorySpan {
  const std::byte* from;
  uint64_t bytes;
};
[[nodiscard]] MemorySpan span_of(const Buffer& buffer);

/// Lists the pieces of packed bytes [from, from + n) as iovecs, at most `max`; returns how many, and in `*covered` the
/// bytes they describe (< n when `max` was too small).
size_t to_iovecs(const Buffer& buffer, uint64_t from, uint64_t n, iovec* out, size_t max, uint64_t* covered);

}  // namespace zh::copy
