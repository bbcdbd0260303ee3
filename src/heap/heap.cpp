// Allocation: pages of the span are taken, given back, and returned to the system. See heap.h.
#include "heap/heap.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "heap/huge_pages.h"
#include "os/clock.h"
#include "os/vm.h"

namespace zh::heap {
namespace {

/// A memory file's mapping grows by at least this much, and by a part of itself.
constexpr uint32_t kGrowPages = (1 << 20) / kPage;
// How much freed memory is kept: as libc does it, twice the largest freed allocation of up to 32 MiB, by each shard of
// the cache and by the free runs; these may keep as much as is live, if that is more, so that a program whose
// allocations come and go does not fetch the same pages from the system again and again.
constexpr uint64_t kMinKeptPages = (1 << 20) / kPage;
constexpr uint64_t kLargePages = (32 << 20) / kPage;
/// A larger one that is freed and allocated again and again within this time is kept as well.
constexpr uint64_t kAgainNs = 1'000'000'000;
constexpr uint64_t kMaxKeptPages = (128 << 20) / kPage;

constexpr uint64_t kTableBytes = kMaxSpan / kPage * sizeof(PageEntry);
constexpr uint32_t kTableStep = (128 << 20) / kPage;
constexpr int kTables = 6;
static_assert(kMaxSpan + kTables * kTableBytes <= kPlaceBytes && kMaxSpan / kPage < PageRuns::kMaxPages);

constexpr uint32_t pages_for(uint64_t bytes) { return static_cast<uint32_t>((bytes + kPage - 1) / kPage); }

[[noreturn]] void bad_pointer() {
  os::say_line("free() or realloc() of a pointer that is no allocation", "");
  std::abort();
}

}  // namespace

constinit Heap process_heap;

void Heap::start(bool huge_too) {
  huge_too_ = huge_too;
  started_.store_relaxed(1);
  takes_.store_relaxed(1);
}

void Heap::decline(const char* why) {
  takes_.store_relaxed(0);
  const char* none = nullptr;
  why_.cas_relaxed(none, why);
}

void Heap::host_started() {
  if (!started()) return;
  if (os::uses_rdma_device()) {
    registered_ = true;
    decline("a network device may hold on to the program's memory");
  }
  if (calls_intact_ != nullptr && !calls_intact_()) {
    decline("the MPI library has patched munmap or madvise: what the program does to its pages goes unseen");
  }
}

bool Heap::may_open() {
  if (checked_) return takes();
  checked_ = true;
  if (const char* why = system_obstacle(); why != nullptr) {
    decline(why);
    return false;
  }
  if (!huge_too_) huge_min_ = private_only_from();
  return true;
}

bool Heap::open() {
  if (!may_open()) return false;
  const uint64_t bytes = span_bytes(os::physical_bytes(), os::soft_limit(os::Limit::kAddressSpace));
  if (bytes == 0) {
    decline(kNoSpan);
    return false;
  }
  const uint64_t first = os::random_number() % kPlaces;
  for (uint64_t i = 0; i < kPlaces; ++i) {
    base_ = reinterpret_cast<std::byte*>(kPlaceFirst + (first + i) % kPlaces * kPlaceBytes);
    if (grow_tables(kGrowPages)) break;
    base_ = nullptr;
    table_pages_ = 0;
  }
  if (base_ == nullptr) {
    decline("no address space where the heap could be");
    return false;
  }
  std::byte* table = base_ + kMaxSpan;
  runs_.open(reinterpret_cast<PageEntry*>(table));
  for (PageBits* each : {&dirty_, &used_, &populated_, &left_, &replaced_}) {
    each->open(reinterpret_cast<Atomic<uint64_t>*>(table += kTableBytes));
  }
  max_pages_ = static_cast<uint32_t>(bytes / kPage);
  kept_limit_.store_relaxed(kMinKeptPages);
  return true;
}

// The tables lie one behind the other after the span, each with room for the largest one; they are mapped as far as
// there are pages.
bool Heap::grow_tables(uint32_t pages) {
  if (pages <= table_pages_) return true;
  const uint32_t end = (pages + kTableStep - 1) / kTableStep * kTableStep;
  std::byte* table = base_ + kMaxSpan;
  uint64_t entry_bits = sizeof(PageEntry) * 8;
  for (int i = 0; i < kTables; ++i) {
    const uint64_t from = table_pages_ * entry_bits / 8;
    if (!os::map_new_lazy_at(table + from, end * entry_bits / 8 - from)) {
      table_pages_ = 0;  // half mapped: the next try fails at once
      return false;
    }
    table += kTableBytes;
    entry_bits = 1;
  }
  table_pages_ = end;
  return true;
}

bool Heap::add_file() {
  const uint32_t n = n_files_.load_relaxed();
  if (n == kMaxFiles) return false;
  const auto alignment = static_cast<uint32_t>(kFileAlignment / kPage);
  const uint32_t first = (runs_.end() + alignment - 1) / alignment * alignment;
  if (first >= max_pages_ || !grow_tables(first)) return false;
  const int fd = os::make_sparse_file("zerohop-heap", (max_pages_ - first) * kPage);
  if (fd < 0) return false;
  if (first > runs_.end()) {
    runs_.extend(first - runs_.end());
    runs_.retire_free();
  }
  File& file = files_[n];
  file.first = first;
  file.end.store_relaxed(first);
  file.fd = fd;
  file.id = os::file_id(fd);
  n_files_.store_release(n + 1);  // F0 -> F1: the file's fields
  return true;
}

bool Heap::extend(uint32_t pages) {
  uint32_t n = n_files_.load_relaxed();
  if ((n == 0 || files_[n - 1].frozen.load_relaxed() != 0) && !add_file()) return false;
  n = n_files_.load_relaxed();
  File& file = files_[n - 1];
  const uint32_t end = file.end.load_relaxed();
  uint32_t more = (end - file.first) / 32;
  if (more < kGrowPages) more = kGrowPages;
  if (more < pages) more = pages;
  if (more > max_pages_ - end) more = max_pages_ - end;
  if (more < pages) return false;
  if (lost(file)) {
    decline("the program has closed the heap's descriptor");
    return false;
  }
  if (!grow_tables(end + more)) return false;
  if (!os::map_new_file_at(at(end), more * kPage, file.fd, (end - file.first) * kPage)) return false;
  os::keep_from_children(at(end), more * kPage, true);
  if (shared_memory_has_huge_pages()) os::want_huge_pages(at(end), more * kPage);
  runs_.extend(more);
  file.end.store_release(end + more);               // F2 -> F3: the mapping
  span_bytes_.store_release((end + more) * kPage);  // S0 -> S1: the base, and the tables of these pages
  return true;
}

void Heap::retire_frozen() {
  if (!retire_later_) return;
  retire_later_ = false;
  runs_.retire_free();
  idle_pages_ = 0;
}

bool Heap::flush_cache() {
  bool any = false;
  cache_.flush([&](Run run) {
    idle_pages_ += run.pages;
    runs_.give(run.first);
    any = true;
  });
  return any;
}

uint32_t Heap::take_from_runs(uint32_t pages, uint32_t alignment) {
  retire_frozen();
  uint32_t first = runs_.take(pages, alignment);
  if (first == kNoPage && flush_cache()) first = runs_.take(pages, alignment);
  if (first == kNoPage && extend(pages + alignment - 1)) first = runs_.take(pages, alignment);
  if (first == kNoPage) return kNoPage;
  idle_pages_ -= dirty_.count(first, pages);
  live_pages_ += pages;
  ++allocations_;
  if (pages > kLargePages && pages == largest_returned_ && os::now_ns() - returned_at_ns_ < kAgainNs) {
    const uint64_t twice = 2 * uint64_t{pages};
    kept_limit_.store_relaxed(twice < kMaxKeptPages ? twice : kMaxKeptPages);
  }
  return first;
}

uint32_t Heap::take(uint32_t pages, uint32_t alignment) {
  const os::MutexGuard lock(mutex_);
  if (!tried_) {
    tried_ = true;
    open();
  }
  // Looked at again: a fork in another thread, or open(), may have ended it.
  if (base_ == nullptr || !takes()) return kNoPage;
  return take_from_runs(pages, alignment);
}

void* Heap::allocate(size_t n, size_t alignment, bool zeroed) {
  constexpr uint64_t kMost = PageRuns::kMaxPages * kPage / 2;
  if (!takes() || n > kMost || alignment > kFileAlignment) return nullptr;  // the span is aligned to that
  const uint32_t pages = pages_for(n);
  if (alignment <= kPage) [[likely]] {
    const uint32_t first = cache_.take(pages);
    if (first != kNoPage) {
      if (zeroed) std::memset(at(first), 0, pages * kPage);
      dirty_.set(first, pages);  // a block that had left came into the cache with clean pages
      return at(first);
    }
  }
  uint32_t first = kNoPage;
  if (huge_min_ == 0 || n < huge_min_) first = take(pages, alignment > kPage ? pages_for(alignment) : 1);
  if (first == kNoPage) {
    declined_.fetch_add_relaxed(1);
    declined_bytes_.fetch_add_relaxed(n);
    return nullptr;
  }
  if (zeroed) {
    dirty_.for_each_set(first, pages, [this](uint32_t from, uint32_t run) { std::memset(at(from), 0, run * kPage); });
  }
  dirty_.set(first, pages);
  return at(first);
}

void* Heap::allocate_growing(size_t n) {
  constexpr size_t kSmall = 64 << 10;
  if (n < kSmall || n > PageRuns::kMaxPages * kPage / 4) return allocate(n, 1, false);
  void* p = allocate(n + n / 2, 1, false);
  if (p == nullptr) return allocate(n, 1, false);
  const os::MutexGuard lock(mutex_);
  runs_.set_state(static_cast<uint32_t>(offset_of(p) / kPage), RunState::kGrowing);
  return p;
}

bool Heap::keeps_huge_wishes(size_t n) const {
  return huge_too_ || n < kHugePage || shared_memory_has_huge_pages() || !private_memory_has_huge_pages();
}

uint32_t Heap::first_page_of(const void* p) const {
  const uint64_t offset = offset_of(p);
  const auto first = static_cast<uint32_t>(offset / kPage);
  if (offset % kPage != 0) bad_pointer();
  const RunState state = runs_.state_at(first);
  if ((state != RunState::kLive && state != RunState::kGrowing) || runs_.pages_at(first) == 0) bad_pointer();
  return first;
}

const Heap::File* Heap::file_of(uint32_t page) const {
  const uint32_t n = n_files_.load_acquire();  // F1 <- F0: the file's fields
  for (uint32_t i = n; i-- > 0;) {
    if (page >= files_[i].first) return page < files_[i].end.load_acquire() ? &files_[i] : nullptr;  // F3 <- F2
  }
  return nullptr;
}

size_t Heap::usable_bytes(const void* p) const { return runs_.pages_at(first_page_of(p)) * kPage; }

// The run is still the caller's, so no other thread waits for the system here.
void Heap::give_back(uint32_t first, uint32_t pages) {
  if (!os::return_pages(at(first), pages * kPage)) return;
  dirty_.clear(first, pages);
  used_.clear(first, pages);
  populated_.clear(first, pages);
  returned_pages_.fetch_add_relaxed(pages);
}

uint64_t Heap::idle_limit() const {
  const uint64_t live = live_pages_ + cache_.live_pages();
  const uint64_t kept = kept_limit_.load_relaxed();
  return live > kept ? live : kept;
}

// The longest free runs first. A run on its way to the system is nobody's, so no other thread waits for that.
void Heap::return_idle(uint64_t keep) {
  while (idle_pages_ > keep) {
    const Run run = runs_.find_free([this](Run r) { return !dirty_.none(r.first, r.pages); });
    if (run.first == kNoPage) return;
    runs_.claim(run.first);
    idle_pages_ -= dirty_.count(run.first, run.pages);
    mutex_.unlock();
    dirty_.for_each_set(run.first, run.pages, [this](uint32_t from, uint32_t n) { give_back(from, n); });
    mutex_.lock();
    const uint32_t refused = dirty_.count(run.first, run.pages);
    idle_pages_ += refused;
    runs_.give(run.first);
    if (refused != 0) return;
  }
}

void Heap::give_to_runs(uint32_t first, uint32_t pages) {
  const os::MutexGuard lock(mutex_);
  live_pages_ -= pages;
  idle_pages_ += dirty_.count(first, pages);
  runs_.give(first);
  if (idle_pages_ <= kept_limit_.load_relaxed()) return;
  const uint64_t limit = idle_limit();
  if (idle_pages_ <= limit) return;
  if (pages > kLargePages) {
    largest_returned_ = pages;
    returned_at_ns_ = os::now_ns();
  }
  return_idle(limit - limit / 4);
}

void Heap::give(uint32_t first, uint32_t pages) {
  uint64_t limit = kept_limit_.load_relaxed();
  if (2 * uint64_t{pages} > limit && pages <= kLargePages) kept_limit_.store_relaxed(limit = 2 * uint64_t{pages});
  if (!cache_.keep({first, pages}, limit)) give_to_runs(first, pages);
}

void Heap::free(void* p) {
  const int kept_errno = errno;
  const uint32_t first = first_page_of(p);
  const uint32_t pages = runs_.pages_at(first);
  if (file_of(first)->frozen.load_relaxed() != 0) {
    free_frozen(first, pages);
  } else if (any_left_.load_relaxed() != 0 && !left_.none(first, pages)) {
    bool back = false;
    {
      const os::MutexGuard lock(mutex_);
      back = come_back(first, pages);
      if (!back) {
        live_pages_ -= pages;
        runs_.set_state(first, RunState::kGone);
      }
    }
    if (back) {
      give(first, pages);
    } else {
      for_each_kept(first, first + pages, [this](uint32_t from, uint32_t n) {
        give_back(from, n);
        return true;
      });
      left_.for_each_set(first, pages, [this](uint32_t from, uint32_t n) {
        for (uint32_t page = from; page < from + n; ++page) {
          if (replaced_.none(page, 1)) os::give_up_at(at(page), kPage);
        }
      });
    }
  } else {
    give(first, pages);
  }
  errno = kept_errno;
}

bool Heap::resize(void* p, size_t n) {
  const uint32_t first = first_page_of(p);
  const uint32_t have = runs_.pages_at(first);
  if (n > PageRuns::kMaxPages * kPage / 2) return false;
  const uint32_t wanted = pages_for(n);
  if (wanted == have) return true;
  const bool kept_whole = runs_.state_at(first) == RunState::kGrowing || file_of(first)->frozen.load_relaxed() != 0 ||
                          !left_.none(first, have);
  if (wanted < have) {
    if (kept_whole) return wanted > have / 2;
    {
      const os::MutexGuard lock(mutex_);
      runs_.split(first, wanted);
    }
    const int kept_errno = errno;
    give_to_runs(first + wanted, have - wanted);
    errno = kept_errno;
    return true;
  }
  const uint32_t more = wanted - have;
  const os::MutexGuard lock(mutex_);
  if (file_of(first)->frozen.load_relaxed() != 0 || (huge_min_ != 0 && n >= huge_min_) || !takes()) return false;
  if (!runs_.grow(first, wanted)) {
    // At the end of the span there is always more.
    const uint32_t behind = first + have;
    const uint32_t free =
        behind < runs_.end() && runs_.state_at(behind) == RunState::kFree ? runs_.pages_at(behind) : 0;
    if (behind + free != runs_.end() || !extend(more - free) || !runs_.grow(first, wanted)) return false;
  }
  idle_pages_ -= dirty_.count(first + have, more);
  dirty_.set(first + have, more);
  live_pages_ += more;
  return true;
}

bool Heap::trim() {
  if (!started()) return false;
  const os::MutexGuard lock(mutex_);
  retire_frozen();
  flush_cache();
  const uint64_t before = returned_pages_.load_relaxed();
  return_idle(0);
  return returned_pages_.load_relaxed() != before;
}

bool Heap::find(const void* address, size_t n, Place* place, Pages* pages) const {
  const auto from = reinterpret_cast<uintptr_t>(address);
  if (owns(address)) {
    const uint64_t offset = offset_of(address);
    if (n > span_bytes_.load_relaxed() - offset) return false;
    const auto first = static_cast<uint32_t>(offset / kPage);
    const auto last = static_cast<uint32_t>((offset + (n == 0 ? 1 : n) - 1) / kPage);
    const File* file = file_of(first);
    if (file == nullptr || file->frozen.load_relaxed() != 0) return false;
    if (last >= file->end.load_acquire()) return false;  // F3 <- F2: the mapping
    if (any_left_.load_relaxed() != 0 && !left_.none(first, last - first + 1)) return false;
    *place = {static_cast<uint32_t>(file - files_.data()) + 1, static_cast<uint32_t>(file->id),
              offset - file->first * kPage};
    *pages = {first, last - first + 1, false};
    return true;
  }
  const uint32_t n_pieces = n_pieces_.load_acquire();  // G1 <- G0: the pieces' fields
  for (uint32_t i = 0; i < n_pieces; ++i) {
    const Piece& piece = pieces_[i];
    const uint64_t bytes = piece.bytes.load_relaxed();
    if (from - piece.address >= bytes || n > bytes - (from - piece.address)) continue;
    const uint64_t offset = piece.offset + (from - piece.address);
    const auto first = static_cast<uint32_t>(offset / kPage);
    const auto last = static_cast<uint32_t>((offset + (n == 0 ? 1 : n) - 1) / kPage);
    *place = {kGlobalsRegion, static_cast<uint32_t>(globals_.id), offset};
    *pages = {first, last - first + 1, true};
    return true;
  }
  return false;
}

bool Heap::locate(const void* address, size_t n, Place* place) const {
  Pages pages;
  if (!find(address, n, place, &pages)) return false;
  place->from = 0;
  place->end = n;
  return true;
}

Use Heap::publish(const void* address, size_t n, bool /*exclusive*/, Place* place) {
  Pages pages;
  if (!find(address, n, place, &pages)) return Use::kNot;
  place->from = 0;
  place->end = n;
  PageBits& used = pages.global ? globals_used_ : used_;
  PageBits& populated = pages.global ? globals_populated_ : populated_;
  if (!used.set(pages.first, pages.n)) {
    first_uses_.fetch_add_relaxed(1);
    return Use::kLater;
  }
  if (populated.all(pages.first, pages.n)) return Use::kMapped;
  const uintptr_t from = reinterpret_cast<uintptr_t>(address) / kPage * kPage;
  if (!os::populate_for_write(reinterpret_cast<const void*>(from), pages.n * kPage)) return Use::kNot;
  populated.set(pages.first, pages.n);
  populated_pages_.fetch_add_relaxed(pages.n);
  return Use::kMapped;
}

int Heap::descriptor(uint32_t region) const {
  if (region == kGlobalsRegion) return globals_.fd;
  // F1 <- F0: the file's fields
  return region == 0 || region > n_files_.load_acquire() ? -1 : files_[region - 1].fd;
}

bool Heap::add_client(Client* client) {
  const os::MutexGuard lock(mutex_);
  for (Client*& each : clients_) {
    if (each != nullptr) continue;
    each = client;
    return true;
  }
  return false;
}

void Heap::remove_client(Client* client) {
  const os::MutexGuard lock(mutex_);
  for (Client*& each : clients_) {
    if (each == client) each = nullptr;
  }
}

Stats Heap::stats() const {
  const os::MutexGuard lock(mutex_);
  Stats s;
  s.shared_bytes = (live_pages_ + cache_.live_pages()) * kPage + globals_bytes_;
  s.returned_bytes = returned_pages_.load_relaxed() * kPage;
  s.first_uses = first_uses_.load_relaxed();
  s.declined = declined_.load_relaxed();
  s.declined_bytes = declined_bytes_.load_relaxed();
  s.forks = forks_;
  s.forks_copied = forks_copied_;
  return s;
}

}  // namespace zh::heap
