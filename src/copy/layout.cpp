// Layouts: how they are built, and the copies that walk them. Strided runs of small blocks go through loops made for
// their length; long blocks go through the kernels of kernels.h. Who reads or wrote the bytes is unknown here.
#include "copy/layout.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>

#include "base/invariant.h"
#include "base/shm_types.h"
#include "copy/cursor.h"

namespace zh::copy {

static_assert(kShmSafe<LayoutShm> && kShmSafe<LayoutItem>);
static_assert(sizeof(LayoutItem) == 48 && alignof(LayoutItem) == 8);
static_assert(sizeof(LayoutShm) == 24 && sizeof(LayoutShm) % alignof(LayoutItem) == 0);

namespace {

constexpr uint32_t kMaxCount = std::numeric_limits<uint32_t>::max();

/// Appends a block to the last item if it continues that item's run (first level).
bool joins_run(LayoutItem& last, const Block& block) {
  if (last.len_bytes != block.len_bytes || last.count[1] != 1 || last.count[0] == kMaxCount) return false;
  const int64_t step = block.offset - (last.offset + static_cast<int64_t>(last.count[0] - 1) * last.stride[0]);
  if (last.count[0] == 1) {
    last.stride[0] = step;
  } else if (step != last.stride[0]) {
    return false;
  }
  ++last.count[0];
  return true;
}

/// Appends a run to the item before it if both have the same shape and the distance fits (second level).
bool joins_plane(LayoutItem& last, const LayoutItem& run) {
  if (last.len_bytes != run.len_bytes || last.count[0] != run.count[0] || last.stride[0] != run.stride[0] ||
      run.count[1] != 1 || last.count[1] == kMaxCount) {
    return false;
  }
  const int64_t step = run.offset - (last.offset + static_cast<int64_t>(last.count[1] - 1) * last.stride[1]);
  if (last.count[1] == 1) {
    last.stride[1] = step;
  } else if (step != last.stride[1]) {
    return false;
  }
  ++last.count[1];
  return true;
}

std::vector<LayoutItem> fold(const std::vector<Block>& blocks) {
  // Neighbours become one block, blocks at equal steps one run, equal runs at equal steps one plane.
  std::vector<LayoutItem> items;
  LayoutItem run{};
  const auto close_run = [&] {
    if (run.count[0] != 0 && (items.empty() || !joins_plane(items.back(), run))) items.push_back(run);
  };
  const auto add = [&](const Block& block) {
    if (run.count[0] != 0 && joins_run(run, block)) return;
    close_run();
    run = {block.offset, block.len_bytes, {0, 0}, {1, 1}, 0};
  };
  Block merged{0, 0};
  for (const Block& block : blocks) {
    if (block.len_bytes == 0) continue;
    if (merged.len_bytes != 0 && merged.offset + static_cast<int64_t>(merged.len_bytes) == block.offset) {
      merged.len_bytes += block.len_bytes;
      continue;
    }
    if (merged.len_bytes != 0) add(merged);
    merged = block;
  }
  if (merged.len_bytes != 0) add(merged);
  close_run();
  return items;
}

/// Pointer to an address that a Cursor computed.
std::byte* pointer(uint64_t address) { return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(address)); }

template <size_t N>
void strided(std::byte* dst, int64_t dst_stride, const std::byte* src, int64_t src_stride, uint64_t count) {
  for (uint64_t k = 0; k < count; ++k) {
    __builtin_memcpy(dst, src, N);
    dst += dst_stride;
    src += src_stride;
  }
}

/// Copies `count` blocks of `len_bytes` from one spacing to another.
void copy_blocks(std::byte* dst, int64_t dst_stride, const std::byte* src, int64_t src_stride, uint64_t len_bytes,
                 uint64_t count, Store store) {
  if (count > 1) {
    switch (len_bytes) {
      case 1:
        return strided<1>(dst, dst_stride, src, src_stride, count);
      case 2:
        return strided<2>(dst, dst_stride, src, src_stride, count);
      case 4:
        return strided<4>(dst, dst_stride, src, src_stride, count);
      case 8:
        return strided<8>(dst, dst_stride, src, src_stride, count);
      case 12:
        return strided<12>(dst, dst_stride, src, src_stride, count);
      case 16:
        return strided<16>(dst, dst_stride, src, src_stride, count);
      case 24:
        return strided<24>(dst, dst_stride, src, src_stride, count);
      case 32:
        return strided<32>(dst, dst_stride, src, src_stride, count);
      default:
        break;
    }
  }
  for (uint64_t k = 0; k < count; ++k) {
    copy_bytes(dst, src, len_bytes, store);
    dst += dst_stride;
    src += src_stride;
  }
}

/// Blocks shorter than this are first gathered in the nearest cache when the target wants non-temporal stores: a
/// streaming copy of a short block writes partial lines.
constexpr uint64_t kStageBlockBytes = 1024;
constexpr size_t kStageBytes = 4096;

void pack_temporal(Cursor& cursor, std::byte* dst, Store store, uint64_t n) {
  while (n > 0) {
    const ByteRun run = cursor.peek();
    uint64_t blocks = run.count;
    uint64_t len = run.len_bytes;
    if (blocks * len > n) {
      blocks = n / len;
      if (blocks == 0) {
        blocks = 1;
        len = n;
      }
    }
    copy_blocks(dst, static_cast<int64_t>(len), pointer(run.address), run.stride, len, blocks, store);
    cursor.advance(blocks * len);
    dst += blocks * len;
    n -= blocks * len;
  }
}

}  // namespace

void LayoutDeleter::operator()(LayoutShm* layout) const { std::free(layout); }

OwnedLayout make_layout(const std::vector<Block>& blocks, int64_t extent_bytes) {
  try {
    std::vector<LayoutItem> items = fold(blocks);
    if (items.size() > kMaxCount) return nullptr;
    OwnedLayout layout(static_cast<LayoutShm*>(std::malloc(sizeof(LayoutShm) + items.size() * sizeof(LayoutItem))));
    if (layout == nullptr) return nullptr;
    uint64_t bytes = 0;
    uint64_t n_blocks = 0;
    LayoutItem* out = layout->items();
    for (LayoutItem& item : items) {
      item.first_byte = bytes;
      bytes += item.bytes();
      n_blocks += uint64_t{item.count[0]} * item.count[1];
      new (out++) LayoutItem(item);
    }
    layout->size_bytes = bytes;
    layout->extent_bytes = extent_bytes;
    layout->n_items = static_cast<uint32_t>(items.size());
    layout->block_bytes =
        static_cast<uint32_t>(std::min<uint64_t>(bytes / std::max<uint64_t>(n_blocks, 1), UINT32_MAX));
    ZH_CHECK_INVARIANT(layout->broken_invariant());
    return layout;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

const char* LayoutShm::broken_invariant() const {
  uint64_t bytes = 0;
  for (const LayoutItem* item = items(); item != items() + n_items; ++item) {
    if (item->first_byte != bytes) return "each item of a layout begins behind the one before";
    if (item->bytes() == 0) return "no item of a layout is empty";
    bytes += item->bytes();
  }
  return bytes != size_bytes ? "a layout's items cover all bytes of the element" : nullptr;
}

void pack(const Buffer& buffer, uint64_t from, uint64_t n, void* dst, Store store) {
  if (n == 0) return;
  if (buffer.layout == nullptr) {
    copy_bytes(dst, buffer.base + from, n, store);
    return;
  }
  Cursor cursor(buffer, from, n);
  auto* out = static_cast<std::byte*>(dst);
  if (store == Store::kTemporal || n <= kSmallBytes) return pack_temporal(cursor, out, Store::kTemporal, n);
  while (n > 0) {
    if (const ByteRun run = cursor.peek(); run.len_bytes >= kStageBlockBytes) {
      copy_blocks(out, static_cast<int64_t>(run.len_bytes), pointer(run.address), run.stride, run.len_bytes, run.count,
                  Store::kNonTemporal);
      cursor.advance(run.count * run.len_bytes);
      out += run.count * run.len_bytes;
      n -= run.count * run.len_bytes;
    } else {
      alignas(64) std::byte stage[kStageBytes];
      // End on a line of the target, so that the next piece starts with a whole one.
      uint64_t piece = kStageBytes - (reinterpret_cast<uintptr_t>(out) & 63);
      if (piece > n) piece = n;
      pack_temporal(cursor, stage, Store::kTemporal, piece);
      copy_bytes(out, stage, piece, Store::kNonTemporal);
      out += piece;
      n -= piece;
    }
  }
}

void unpack(const Buffer& buffer, uint64_t from, uint64_t n, const void* src, Store store) {
  if (n == 0) return;
  if (buffer.layout == nullptr) {
    copy_bytes(buffer.base + from, src, n, store);
    return;
  }
  Cursor cursor(buffer, from, n);
  const auto* in = static_cast<const std::byte*>(src);
  while (cursor.left() > 0) {
    const ByteRun run = cursor.peek();
    const Store kind = run.len_bytes < kStageBlockBytes ? Store::kTemporal : store;
    copy_blocks(pointer(run.address), run.stride, in, static_cast<int64_t>(run.len_bytes), run.len_bytes, run.count,
                kind);
    cursor.advance(run.count * run.len_bytes);
    in += run.count * run.len_bytes;
  }
}

void copy_range(const Buffer& dst, const Buffer& src, uint64_t from, uint64_t n, Store store) {
  if (n == 0) return;
  if (dst.layout == nullptr) return pack(src, from, n, dst.base + from, store);
  if (src.layout == nullptr) return unpack(dst, from, n, src.base + from, store);
  Cursor to(dst, from, n);
  Cursor of(src, from, n);
  while (to.left() > 0) {
    const ByteRun out = to.peek();
    const ByteRun in = of.peek();
    uint64_t len = out.len_bytes < in.len_bytes ? out.len_bytes : in.len_bytes;
    uint64_t blocks = 1;
    int64_t out_stride = 0;
    int64_t in_stride = 0;
    if (out.len_bytes == in.len_bytes) {
      blocks = out.count < in.count ? out.count : in.count;
      out_stride = out.stride;
      in_stride = in.stride;
    } else if (out.len_bytes > in.len_bytes) {
      // Many short blocks into a long one, or the other way round.
      blocks = out.len_bytes / len < in.count ? out.len_bytes / len : in.count;
      out_stride = static_cast<int64_t>(len);
      in_stride = in.stride;
    } else {
      blocks = in.len_bytes / len < out.count ? in.len_bytes / len : out.count;
      out_stride = out.stride;
      in_stride = static_cast<int64_t>(len);
    }
    const Store kind = len < kStageBlockBytes ? Store::kTemporal : store;
    copy_blocks(pointer(out.address), out_stride, pointer(in.address), in_stride, len, blocks, kind);
    to.advance(blocks * len);
    of.advance(blocks * len);
  }
}

MemorySpan span_of(const Buffer& buffer) {
  if (buffer.layout == nullptr || buffer.bytes == 0) return {buffer.base, buffer.bytes};
  const LayoutShm& layout = *buffer.layout;
  int64_t first = std::numeric_limits<int64_t>::max();
  int64_t last = std::numeric_limits<int64_t>::min();
  const auto widen = [](int64_t* low, int64_t* high, int64_t stride, uint64_t count) {
    *(stride < 0 ? low : high) += stride * static_cast<int64_t>(count - 1);
  };
  for (const LayoutItem* item = layout.items(); item != layout.items() + layout.n_items; ++item) {
    int64_t low = item->offset;
    int64_t high = item->offset + static_cast<int64_t>(item->len_bytes);
    for (const int level : {0, 1}) widen(&low, &high, item->stride[level], item->count[level]);
    first = std::min(first, low);
    last = std::max(last, high);
  }
  widen(&first, &last, layout.extent_bytes, (buffer.bytes + layout.size_bytes - 1) / layout.size_bytes);
  // Not by the pointer's own arithmetic: MPI_BOTTOM, which is null, is a base too.
  return {pointer(reinterpret_cast<uintptr_t>(buffer.base) + static_cast<uint64_t>(first)),
          static_cast<uint64_t>(last - first)};
}

size_t to_iovecs(const Buffer& buffer, uint64_t from, uint64_t n, iovec* out, size_t max, uint64_t* covered) {
  Cursor cursor(buffer, from, n);
  size_t used = 0;
  while (cursor.left() > 0) {
    const ByteRun run = cursor.peek();
    uint64_t taken = 0;
    for (; taken < run.count; ++taken) {
      const uint64_t address = run.address + taken * static_cast<uint64_t>(run.stride);
      if (used > 0 && reinterpret_cast<uintptr_t>(out[used - 1].iov_base) + out[used - 1].iov_len == address) {
        out[used - 1].iov_len += run.len_bytes;
      } else if (used < max) {
        out[used++] = {pointer(address), run.len_bytes};
      } else {
        break;
      }
    }
    cursor.advance(taken * run.len_bytes);
    if (taken < run.count) break;
  }
  *covered = n - cursor.left();
  return used;
}

}  // namespace zh::copy
