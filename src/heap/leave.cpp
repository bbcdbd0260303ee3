// Pages that the program manages itself leave the heap: they become private memory with the same contents at the same
// address, until they are freed. Called by the family of calls in vm_family.cpp.
#include <cstring>

#include "heap/heap.h"
#include "os/vm.h"

namespace zh::heap {

// The span's part of [address, +bytes), in whole pages.
Heap::Pages Heap::pages_of(const void* address, size_t bytes) const {
  const uint64_t span = span_bytes_.load_acquire();  // S1 <- S0: the base, and the tables of these pages
  if (span == 0) return {};
  const auto base = reinterpret_cast<uintptr_t>(base_);
  auto from = reinterpret_cast<uintptr_t>(address);
  uintptr_t to = from + bytes;
  if (from < base) from = base;
  if (to > base + span) to = base + span;
  if (from >= to) return {};
  const auto first = static_cast<uint32_t>((from - base) / kPage);
  return {first, static_cast<uint32_t>((to - base + kPage - 1) / kPage) - first, false};
}

bool Heap::touches(const void* address, size_t bytes) const {
  if (pages_of(address, bytes).n != 0) return true;
  const auto from = reinterpret_cast<uintptr_t>(address);
  const uint32_t n = n_pieces_.load_acquire();  // G1 <- G0: the pieces' fields
  for (uint32_t i = 0; i < n; ++i) {
    if (pieces_[i].meets(from, bytes)) return true;
  }
  return false;
}

// Calls visit(file, first, pages) for the stretches of [address, +bytes) that have not left.
template <typename Visit>
void Heap::for_each_part(const void* address, size_t bytes, bool frozen_too, Visit&& visit) {
  const Pages pages = pages_of(address, bytes);
  const uint32_t first = pages.first;
  const uint32_t end = first + pages.n;
  for (uint32_t i = 0; i < n_files_.load_relaxed(); ++i) {
    File& file = files_[i];
    const uint32_t a = first > file.first ? first : file.first;
    const uint32_t file_end = file.end.load_relaxed();
    const uint32_t b = end < file_end ? end : file_end;
    if (a >= b || (file.frozen.load_relaxed() != 0 && !frozen_too)) continue;
    for_each_kept(a, b, [&](uint32_t page, uint32_t n) {
      visit(file, page, n);
      return true;
    });
  }
}

void Heap::keep_peers_away(bool away) {
  for (Client* client : clients_) {
    if (client == nullptr) continue;
    if (away) {
      client->keep_peers_away();
    } else {
      client->let_peers_in();
    }
  }
}

// Mapped privately, nothing is copied: another thread may write at any time. The file's pages stay below as they were.
bool Heap::privatise(std::byte* address, uint64_t bytes, const File& file, uint64_t offset, bool anonymous) {
  const bool known = !lost(file);
  uint64_t from = 0;
  uint64_t end = 0;
  // Memory that is wanted with huge pages, above all, is fresh.
  if (known && !os::next_data(file.fd, offset, offset + bytes, &from, &end)) return os::map_lazy_at(address, bytes);
  if (known && !anonymous) return os::map_file_at(address, bytes, file.fd, offset, true);
  std::byte* copy = os::map_lazy(bytes);
  if (copy == nullptr) return false;
  std::memcpy(copy, address, bytes);
  return os::move_to(address, copy, bytes);
}

void Heap::mark_left(uint32_t first, uint32_t pages) {
  left_.set(first, pages);
  any_left_.store_relaxed(1);
  left_pages_.fetch_add_relaxed(pages);
}

// Pages that left and are freed become the heap's again, unless the program has put something else in their place or a
// child that was forked since may still see what the file holds.
bool Heap::come_back(uint32_t first, uint32_t pages) {
  bool ok = replaced_.none(first, pages) && descendants_.all_ended();
  left_.for_each_set(first, pages, [&](uint32_t from, uint32_t n) {
    File* file = file_of(from);
    const uint64_t offset = (from - file->first) * kPage;
    ok = ok && !lost(*file) && os::map_file_at(at(from), n * kPage, file->fd, offset, false) &&
         os::return_file_pages(file->fd, offset, n * kPage);
    if (!ok) return;
    os::keep_from_children(at(from), n * kPage, true);
    for (PageBits* bits : {&left_, &dirty_, &used_, &populated_}) bits->clear(from, n);
  });
  return ok;
}

// Without its private copy, a page that left would show what the file holds.
bool Heap::drop_left(void* address, size_t bytes) {
  if (any_left_.load_relaxed() == 0) return true;
  const os::MutexGuard lock(mutex_);
  const Pages pages = pages_of(address, bytes);
  bool ok = true;
  const bool alone = descendants_.all_ended();
  left_.for_each_set(pages.first, pages.n, [&](uint32_t from, uint32_t n) {
    for (uint32_t page = from; page < from + n; ++page) {
      File* file = file_of(page);
      if (!replaced_.none(page, 1) || file == nullptr || file->frozen.load_relaxed() != 0) continue;
      const bool known = alone && !lost(*file);
      ok = (known ? os::return_file_pages(file->fd, (page - file->first) * kPage, kPage)
                  : os::map_lazy_at(at(page), kPage)) &&
           ok;
    }
  });
  return ok;
}

bool Heap::leave(const void* address, size_t bytes, bool anonymous) {
  const os::MutexGuard lock(mutex_);
  keep_peers_away(true);
  bool ok = true;
  for_each_part(address, bytes, false, [&](const File& file, uint32_t first, uint32_t pages) {
    if (!privatise(at(first), pages * kPage, file, (first - file.first) * kPage, anonymous)) {
      ok = false;
      return;
    }
    mark_left(first, pages);
  });
  for_each_piece(address, bytes, [&](Piece& piece) {
    const uint64_t size = piece.bytes.load_relaxed();
    if (!privatise(reinterpret_cast<std::byte*>(piece.address), size, globals_, piece.offset, anonymous)) {
      ok = false;
      return;
    }
    piece.bytes.store_relaxed(0);
    left_pages_.fetch_add_relaxed(size / kPage);
  });
  keep_peers_away(false);
  return ok;
}

void Heap::forget(const void* address, size_t bytes) {
  for_each_piece(address, bytes, [&](Piece& piece) {  // only a part of it may go: all of it leaves
    (void)leave(reinterpret_cast<const void*>(piece.address), piece.bytes.load_relaxed(), false);
  });
  const os::MutexGuard lock(mutex_);
  keep_peers_away(true);
  for_each_part(address, bytes, false, [&](const File& file, uint32_t first, uint32_t pages) {
    mark_left(first, pages);
    replaced_.set(first, pages);
    if (!lost(file)) os::return_file_pages(file.fd, (first - file.first) * kPage, pages * kPage);
  });
  keep_peers_away(false);
}

bool Heap::drop_contents(void* address, size_t bytes) {
  bool ok = drop_left(address, bytes);
  for_each_part(address, bytes, true, [&](const File& file, uint32_t first, uint32_t pages) {
    if (file.frozen.load_relaxed() != 0) {  // without its private copy, a page would show the file's old contents
      ok = os::map_lazy_at(at(first), pages * kPage) && ok;
      return;
    }
    ok = os::return_pages(at(first), pages * kPage) && ok;
    used_.clear(first, pages);
    populated_.clear(first, pages);
  });
  for_each_piece(address, bytes, [&](Piece& piece) {
    const auto from = reinterpret_cast<uintptr_t>(address);
    const uintptr_t a = from > piece.address ? from : piece.address;
    const uintptr_t piece_end = piece.address + piece.bytes.load_relaxed();
    const uintptr_t b = from + bytes < piece_end ? from + bytes : piece_end;
    ok = os::return_pages(reinterpret_cast<std::byte*>(a), b - a) && ok;
    const auto first = static_cast<uint32_t>((piece.offset + (a - piece.address)) / kPage);
    globals_used_.clear(first, static_cast<uint32_t>((b - a) / kPage));
    globals_populated_.clear(first, static_cast<uint32_t>((b - a) / kPage));
  });
  return ok;
}

}  // namespace zh::heap
