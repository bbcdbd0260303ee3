// Adoption: whether pages inside a message may become shared, and the exchange. MPI makes it safe: while a send is
// under way nobody writes its buffer, while a receive is nobody touches it (MPI 4.1, 3.7.2), so pages that lie wholly
// inside a message have no other writer during the call. Pages that the program shares with its own neighbours stay
// private.
#include <cstring>

#include "heap/heap.h"
#include "heap/huge_pages.h"
#include "os/clock.h"
#include "os/own_memory.h"

namespace zh::heap {
namespace {

constexpr uint64_t kLookAgainNs = 10'000'000;
constexpr uint64_t kFirstBackoffNs = 1'000'000;
constexpr uint64_t kMaxBackoffNs = 1'000'000'000;

/// A block that libc has mapped by itself begins with two words of libc's on a page of its own: nobody else writes in
/// that page while the block's first bytes belong to a message. (The bits are those of malloc's chunks since
/// glibc 2.3.)
bool first_of_mapped_block(const void* address) {
  constexpr uintptr_t kWords = 2 * sizeof(size_t);
  constexpr size_t kFlags = 7;
  constexpr size_t kMapped = 2;
  if (reinterpret_cast<uintptr_t>(address) % kPage != kWords) return false;
  size_t words[2];
  std::memcpy(words, static_cast<const std::byte*>(address) - kWords, sizeof words);
  return words[0] == 0 && (words[1] & kFlags) == kMapped && (words[1] & ~kFlags) % kPage == 0 && words[1] > kPage;
}

bool is_waited_on(Pages pages) {
  // Who waits on a futex that processes may share would wait for a page that is somewhere else.
  bool found = false;
  os::for_each_futex_wait([&](uintptr_t address) { found = found || pages.hold(address / kPage); });
  return found;
}

}  // namespace

Pages Heap::wanted_pages(const void* address, size_t n) const {
  Pages pages = pages_inside(address, n);
  if (pages.n != 0 && around_.libc_blocks && first_of_mapped_block(address)) {
    --pages.first;
    ++pages.n;
  }
  return pages;
}

// The whole pages must be reachable; the first and the last one, of which the buffer has a part, may be as well.
bool Heap::locate(const void* address, size_t n, SharedPlace* place) const {
  if (held_pages_.load_acquire() == 0) return false;  // HP1 <- HP0: the file's identity
  const Pages around = pages_around(address, n);
  Pages pages = pages_inside(address, n);
  if (pages.n == 0 || !reachable(pages)) return false;
  if (around.first < pages.first && reachable({around.first, 1})) {
    --pages.first;
    ++pages.n;
  }
  if (around.end() > pages.end() && reachable({pages.end(), 1})) ++pages.n;
  const auto from = reinterpret_cast<uintptr_t>(address);
  const uintptr_t mapped_from = pages.first * kPage;
  const uintptr_t mapped_end = pages.end() * kPage;
  place->region = kRegion;
  place->generation = static_cast<uint32_t>(id_);
  place->offset = from;
  place->from = mapped_from > from ? mapped_from - from : 0;
  place->end = mapped_end - from < n ? mapped_end - from : n;
  return true;
}

Sharing Heap::publish(const void* address, size_t n, const BufferUse& use, SharedPlace* place) {
  const Pages pages = wanted_pages(address, n);
  if (locate(address, n, place)) {
    if (use.saves_ns != 0) pay_back_.save(pages.first, pages.n, use.saves_ns);
    return Sharing::kMapped;
  }
  if (!use.exclusive || !takes() || pages.n == 0) return Sharing::kNot;
  const Sharing answer = adopt_later(pages, use.saves_ns);
  return answer == Sharing::kMapped && !locate(address, n, place) ? Sharing::kNot : answer;
}

Sharing Heap::share(const void* address, size_t n) {
  const Pages pages = wanted_pages(address, n);
  if (!takes() || pages.n == 0) return Sharing::kNot;
  return reachable(pages) ? Sharing::kMapped : adopt(pages);
}

Sharing Heap::adopt_later(Pages pages, uint64_t saves_ns) {
  if (frozen_.load_relaxed() != 0) thaw_in_time();
  // Pages that the memory file still has are not made anew.
  const uint64_t left = table_.count(Bit::kLeft, pages);
  const uint64_t price_ns = price_.of(pages.n - left + left / 4);
  const bool due = around_.at_second_use ? pay_back_.used_before(pages.first)
                                         : saves_ns != 0 && pay_back_.forgo(pages.first, pages.n, saves_ns, price_ns) &&
                                               can_owe(price_ns);
  if (!due) {
    first_uses_.fetch_add_relaxed(1);
    return Sharing::kLater;
  }
  if (os::now_ns() < retry_ns_) return Sharing::kNot;
  return adopt(pages);
}

bool Heap::can_owe(uint64_t price_ns) const {
  const uint64_t spent = pay_back_.spent_ns();
  const uint64_t saved = pay_back_.saved_ns();
  if (spent <= saved) return true;
  const uint64_t part = (os::now_ns() - started_ns_) / kOwedPart;
  return spent - saved + price_ns <= (part > kOwedNs ? part : kOwedNs);
}

Sharing Heap::adopt(Pages pages) {
  const uint64_t begin = os::now_ns();
  const Locked lock(mutex_);
  if (!takes()) return Sharing::kNot;
  if (!table_.prepare(pages)) return refuse(pages, "no address space");
  const char* const why = obstacle(pages);
  const uint64_t looked = os::now_ns();
  if (why != nullptr) {
    pay_back_.spend(looked - begin);
    return refuse(pages, why);
  }
  const uint64_t exchanged = pages.n - table_.count(Bit::kShared, pages);
  const bool fresh = table_.none(Bit::kLeft, pages);
  bool ok = true;
  table_.for_each(Bit::kShared, false, pages, [&](Pages run) { ok = ok && exchange(run); });
  const uint64_t end = os::now_ns();
  // Peers map the pages for about as much again.
  const uint64_t exchange_ns = 2 * (end - looked);
  price_.learn(looked - begin, fresh ? exchanged : 0, exchange_ns);
  pay_back_.shared(pages.first, looked - begin + exchange_ns);
  if (!ok) return refuse(pages, "no memory");
  backoff_ns_ = 0;
  return Sharing::kMapped;
}

Sharing Heap::refuse(Pages pages, const char* why) {
  ++counts_.declined;
  counts_.declined_bytes += pages.bytes();
  counts_.declined_why = why;
  backoff_ns_ = backoff_ns_ == 0 ? kFirstBackoffNs : 2 * backoff_ns_ < kMaxBackoffNs ? 2 * backoff_ns_ : kMaxBackoffNs;
  retry_ns_ = os::now_ns() + backoff_ns_;
  pay_back_.forget(pages.first);
  return Sharing::kNot;
}

bool Heap::open() {
  if (tried_) return fd_ >= 0;
  tried_ = true;
  const char* why = system_obstacle();
  if (why == nullptr) {
    fd_ = os::make_sparse_file("zerohop-heap", uint64_t{1} << kAddressBits);
    id_ = os::file_id(fd_);
    if (fd_ < 0) why = "no memory file can be made";
  }
  if (why != nullptr) decline(why);
  return fd_ >= 0;
}

/// The program has closed the descriptor, or opened something else under its number.
bool Heap::lost() const { return os::file_id(fd_) != id_; }

const char* Heap::obstacle_of_process() {
  const uint64_t now = os::now_ns();
  if (looked_ns_ == 0 || now - looked_ns_ > kLookAgainNs) {
    looked_ns_ = now;
    found_ = system_obstacle();
    if (found_ == nullptr) found_ = os::holder_of_pages();
    if (found_ == nullptr) found_ = os::manages_pages_unseen();
  }
  return found_;
}

// Null if these pages may be adopted.
const char* Heap::obstacle(Pages pages) {
  if (!open()) return why_.load_relaxed();
  if (lost()) {
    decline("the program has closed the heap's descriptor");
    return why_.load_relaxed();
  }
  if (const char* why = limit_obstacle(); why != nullptr) return why;
  thaw();
  if (!table_.none(Bit::kFrozen, pages)) return "a forked child may still see it";
  if (stretches_ >= kMaxStretches) {  // counted up so far; now without those that have gone
    stretches_ = 0;
    for (const Bit bit : {Bit::kShared, Bit::kLeft}) table_.for_each(bit, [this](Pages) { ++stretches_; });
    if (stretches_ >= kMaxStretches) return "too many separate buffers";
  }
  if (!table_.none(Bit::kGuarded, pages)) return "the program has protected it";
  const uintptr_t from = pages.first * kPage;
  const uintptr_t to = pages.end() * kPage;
  for (uint32_t i = 0; i < n_excluded_; ++i) {
    if (from < excluded_[i].to && excluded_[i].from < to) return "it has attributes that shared memory would not keep";
  }
  if (const char* why = obstacle_of_process(); why != nullptr) return why;
  if (os::threads_of_process() != 1 && is_waited_on(pages)) return "a thread waits on a futex in it";
  return obstacle_of_mappings(pages);
}

// What the kernel says of those that are not adopted yet.
const char* Heap::obstacle_of_mappings(Pages pages) {
  const os::Mappings mappings;
  const char* why = nullptr;
  table_.for_each(Bit::kShared, false, pages, [&](Pages run) {
    for (uintptr_t at = run.first * kPage; why == nullptr && at < run.end() * kPage;) {
      os::Mapping mapping;
      const bool found = mappings.find(at, &mapping);
      const bool ours = table_.all(Bit::kLeft, {at / kPage, 1});
      if (!found || !mapping.readable || !mapping.writable || mapping.shared || mapping.executable) {
        why = "it is not private memory that can be read and written";
      } else if (mapping.inode != 0 && !ours) {
        why = "it is a file's";
      } else if (mapping.stack || os::in_thread_stack(mappings, mapping, at)) {
        why = "it is a stack";
      }
      at = found ? mapping.to : run.end() * kPage;
    }
    table_.for_each(Bit::kLeft, false, run, [&](Pages plain) {
      if (why == nullptr) why = obstacle_behind(plain);
    });
  });
  return why;
}

const char* Heap::obstacle_behind(Pages run) const {
  bool knows_huge = false;
  switch (os::behind(run.address(), run.bytes(), &knows_huge)) {
    case os::Behind::kPrivate:
      // A system that does not tell of huge pages: where they are given unasked, or the program has asked.
      if (!knows_huge && !huge_too_ && !shared_memory_has_huge_pages() && run.bytes() >= kHugePage &&
          (private_only_from() != 0 || (huge_wishes_.load_relaxed() != 0 && private_memory_has_huge_pages()))) {
        return "it may have huge pages";
      }
      break;
    case os::Behind::kHuge:
      if (!huge_too_ && !shared_memory_has_huge_pages()) return "it has huge pages";
      break;
    case os::Behind::kUntouched:
      return "it was never written";
    case os::Behind::kFile:
      return "it is a file's";
    case os::Behind::kUnknown:
      return "/proc does not tell of its pages";
  }
  return nullptr;
}

bool Heap::exchange(Pages pages) {
  if (around_.ask_about_blocks != nullptr) around_.ask_about_blocks();
  for (uint64_t page = pages.first; page < pages.end();) {
    // Chunks end at multiples of their size, so that huge pages are not divided.
    const uint64_t step = shared_memory_has_huge_pages() ? kHugePage / kPage : kChunkPages;
    const uint64_t chunk_end = (page / step + 1) * step;
    const uint64_t end = pages.end() < chunk_end ? pages.end() : chunk_end;
    if (!exchange_chunk({page, end - page})) return false;
    page = end;
  }
  ++stretches_;
  ++counts_.adopted;
  return true;
}

// Of pages that have left, the file may have the only copy.
void Heap::punch_unused(Pages pages) {
  table_.for_each(Bit::kLeft, false, pages, [this](Pages run) { punch(run); });
}

bool Heap::exchange_chunk(Pages pages) {
  const uint64_t bytes = pages.bytes();
  std::byte* const at = pages.address();
  std::byte* const copy = os::map_file(fd_, pages.first * kPage, bytes, pages.first * kPage);
  if (copy == nullptr) return false;
  if (shared_memory_has_huge_pages()) os::want_huge_pages(copy, bytes);
  const os::NearMemory where_it_was(at);
  // In one call. An old system has none, and makes them page by page as they are written.
  if (!os::populate_for_write(copy, bytes) && os::can_populate()) {
    os::unmap_raw(copy, bytes);
    punch_unused(pages);
    return false;
  }
  std::memcpy(copy, at, bytes);
  if (!os::move_to(at, copy, bytes)) {
    // Refused before anything happened; or, where the system ran out of memory in the middle, the old mapping is gone,
    // and what it held is in the file.
    const bool untouched = os::is_mapped(at, bytes);
    if (!untouched && !os::map_file_at(at, bytes, fd_, pages.first * kPage, false)) {
      os::say_line("the system has lost memory while it was made shared: out of memory", "");
      __builtin_trap();
    }
    os::unmap_raw(copy, bytes);
    if (untouched) {
      punch_unused(pages);
      return false;
    }
    (void)os::keep_from_children(at, bytes, true);
  }
  clear_bits(pages);  // of what had left
  table_.set(Bit::kShared, pages);
  shared_pages_ += pages.n;
  held_pages_.store_release(shared_pages_ + left_pages_);  // HP0 -> HP1: the file's identity
  counts_.adopted_bytes += bytes;
  return true;
}

}  // namespace zh::heap
