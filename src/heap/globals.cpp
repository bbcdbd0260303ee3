// Large global arrays of the executable and of the libraries loaded with it: their pages are replaced, at the same
// addresses, by pages of a memory file. What is loaded later stays as it is, for it may be unloaded unseen.
#include <cstring>

#include "heap/heap.h"
#include "os/vm.h"

namespace zh::heap {
namespace {

/// Shorter stretches of pages are left alone.
constexpr uint64_t kMinGlobalBytes = 64 << 10;

bool is_ours_to_leave(const char* name) {
  const char* file = std::strrchr(name, '/');
  file = file == nullptr ? name : file + 1;
  for (const char* prefix : {"libzerohop", "libc.so", "libc-", "ld-linux", "ld-2", "linux-vdso", "libpthread"}) {
    if (std::strncmp(file, prefix, std::strlen(prefix)) == 0) return true;
  }
  return false;
}

struct Found {
  os::PageStates map;
  uint64_t bytes = 0;
  uint32_t n = 0;
  std::array<os::Range, kMaxPieces> ranges{};

  void add(uintptr_t from, uintptr_t to) {
    if (to - from < kMinGlobalBytes || n == ranges.size()) return;
    ranges[n++] = {from, to};
    bytes += to - from;
  }
};

/// Untouched stretches of zeroed data: nothing has to be copied.
bool look_for_untouched(const os::ObjectData& data, void* argument) {
  auto* found = static_cast<Found*>(argument);
  if (data.zeroed.from + kMinGlobalBytes > data.zeroed.to || is_ours_to_leave(data.name)) return true;
  constexpr size_t kBatch = 1024;
  os::PageState states[kBatch];
  uintptr_t from = data.zeroed.from;
  for (uintptr_t at = from; at < data.zeroed.to;) {
    const size_t left = (data.zeroed.to - at) / kPage;
    const size_t n = left < kBatch ? left : kBatch;
    if (!found->map.states(reinterpret_cast<const void*>(at), n, states)) return true;
    for (size_t i = 0; i < n; ++i, at += kPage) {
      if (states[i] == os::PageState::kUntouched) continue;
      if (at > from) found->add(from, at);
      from = at + kPage;
    }
  }
  if (data.zeroed.to > from) found->add(from, data.zeroed.to);
  return true;
}

struct Rest {
  Found found;
  const std::array<os::Range, kMaxPieces>* taken;
  uint32_t n_taken;
};

/// What is left of an object's data beside the pieces adopted before.
bool look_for_the_rest(const os::ObjectData& data, void* argument) {
  auto* rest = static_cast<Rest*>(argument);
  const uintptr_t to = data.zeroed.to > data.initialised.to ? data.zeroed.to : data.initialised.to;
  uintptr_t from = data.initialised.from;
  if (from + kMinGlobalBytes > to || is_ours_to_leave(data.name)) return true;
  while (from < to) {
    os::Range next{to, to};
    for (uint32_t i = 0; i < rest->n_taken; ++i) {
      const os::Range& taken = (*rest->taken)[i];
      if (taken.to > from && taken.from < next.from) next = taken;
    }
    if (next.from > from) rest->found.add(from, next.from);
    from = next.to;
  }
  return true;
}

}  // namespace

bool Heap::adopt(const os::Range& range, bool with_contents) {
  const uint32_t n = n_pieces_.load_relaxed();
  if (n == kMaxPieces) return false;
  const uint64_t bytes = range.to - range.from;
  auto* at = reinterpret_cast<std::byte*>(range.from);
  const uint64_t offset = globals_bytes_;
  if (with_contents && !os::write_at(globals_.fd, offset, at, bytes)) return false;
  if (!os::map_file_at(at, bytes, globals_.fd, offset, false)) return false;
  os::keep_from_children(at, bytes, true);
  globals_bytes_ += bytes;
  Piece& piece = pieces_[n];
  piece.address = range.from;
  piece.offset = offset;
  piece.bytes.store_relaxed(bytes);
  n_pieces_.store_release(n + 1);  // G0 -> G1: the pieces' fields
  return true;
}

bool Heap::open_globals() {
  if (globals_.fd >= 0) return !lost(globals_) && os::soft_limit(os::Limit::kFileSize) == ~uint64_t{0};
  if (!may_open()) return false;
  constexpr uint64_t kPages = kMaxGlobalBytes / kPage;
  std::byte* bits = os::map_lazy(2 * PageBits::bytes_for(kPages));
  if (bits == nullptr) return false;
  globals_used_.open(reinterpret_cast<Atomic<uint64_t>*>(bits));
  globals_populated_.open(reinterpret_cast<Atomic<uint64_t>*>(bits + PageBits::bytes_for(kPages)));
  globals_.fd = os::make_sparse_file("zerohop-globals", kMaxGlobalBytes);
  globals_.id = os::file_id(globals_.fd);
  return globals_.fd >= 0;
}

void Heap::adopt_globals() {
  Found found;
  objects_at_load_ = os::count_objects();
  os::for_each_object(objects_at_load_, &look_for_untouched, &found);
  if (found.n == 0 || found.bytes > kMaxGlobalBytes || os::threads_of_process() != 1) return;
  const os::MutexGuard lock(mutex_);
  if (!open_globals()) return;
  for (uint32_t i = 0; i < found.n; ++i) adopt(found.ranges[i], false);
}

void Heap::adopt_data() {
  if (!takes()) return;
  const os::MutexGuard lock(mutex_);
  if (globals_.frozen.load_relaxed() != 0) return;
  std::array<os::Range, kMaxPieces> taken;
  const uint32_t n = n_pieces_.load_relaxed();
  for (uint32_t i = 0; i < n; ++i) {
    taken[i] = {pieces_[i].address, pieces_[i].address + pieces_[i].bytes.load_relaxed()};
  }
  Rest rest{{}, &taken, n};
  os::for_each_object(objects_at_load_, &look_for_the_rest, &rest);
  if (rest.found.n == 0 || globals_bytes_ + rest.found.bytes > kMaxGlobalBytes) return;
  if (os::threads_of_process() != 1 || !open_globals()) return;
  const os::SignalsBlocked no_handler_writes_meanwhile;
  for (uint32_t i = 0; i < rest.found.n; ++i) adopt(rest.found.ranges[i], true);
}

}  // namespace zh::heap
