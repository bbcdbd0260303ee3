// fork() without exec: both sides must see what they would see of private memory. Either the files are frozen - mapped
// privately at the same addresses by the process that forks, which its child inherits, so that each page is copied when
// one of them writes it - or, where little memory is in use and no other thread can write meanwhile, the child copies
// everything and the parent stays as it was. Frozen memory is no longer the heap's.
#include <cstring>

#include "heap/heap.h"
#include "os/objects.h"
#include "os/vm.h"

namespace zh::heap {
namespace {

/// Up to this much, a copy by the child (about 3 us for each page) is worth it, for the parent's memory stays mapped.
constexpr uint64_t kCopyBytes = 8 << 20;

}  // namespace

void Heap::before_fork() {
  fork_way_ = ForkWay::kNone;
  if (!started()) return;
  fork_under_lock_ = mutex_.held_by_me();
  fork_in_cache_ = cache_.held_by_me();
  if (!fork_under_lock_) mutex_.lock();
  if (!fork_under_lock_ && !fork_in_cache_) flush_cache();
  cache_.lock_all();
  ++forks_;
  bool any = globals_.fd >= 0 && globals_.frozen.load_relaxed() == 0;
  uint64_t backed = any ? os::backed_bytes_of(globals_.fd) : 0;
  const uint32_t n = n_files_.load_relaxed();
  bool any_lost = any && lost(globals_);
  for (uint32_t i = 0; i < n; ++i) {
    if (files_[i].frozen.load_relaxed() != 0) continue;
    any = true;
    any_lost = any_lost || lost(files_[i]);
    backed += os::backed_bytes_of(files_[i].fd);
  }
  if (n > 0) descendants_.reserve();
  if (!any) return;
  if (++forks_with_heap_ > kMaxForks) decline("the program forks again and again");
  keep_peers_away(true);
  peers_away_ = true;
  os::Tether tether;
  // A stack in the heap (coroutines, contexts) must be there before the child can copy anything.
  const bool on_heap = touches(&tether, sizeof tether);
  const bool small = takes() && backed <= kCopyBytes && !on_heap && os::threads_of_process() == 1;
  // A device writes to physical pages, so they must stay the parent's; without its descriptor a file cannot be mapped
  // again. Then the child copies, however much it is, and other threads' writes meanwhile may be seen by it.
  const bool copy = (registered_ || any_lost || small) && os::make_tether(&tether);
  if (!copy && !any_lost && freeze_all()) {
    fork_way_ = ForkWay::kFreeze;
    return;
  }
  if (!copy && !os::make_tether(&tether)) return;  // no descriptors left: the child has nothing there
  fork_way_ = ForkWay::kCopy;
  if (any_lost) let_children_see(true);
  fork_reader_ = tether.reader;
  fork_writer_ = tether.writer;
  ++forks_copied_;
}

void Heap::after_fork_in_parent() {
  if (!started()) return;
  if (fork_way_ == ForkWay::kCopy) {
    os::close_fd(fork_writer_);
    os::wait_for_tether(fork_reader_);
    os::close_fd(fork_reader_);
    let_children_see(false);
  }
  if (peers_away_) keep_peers_away(false);
  peers_away_ = false;
  cache_.unlock_all(fork_in_cache_);
  if (!fork_under_lock_) mutex_.unlock();
}

void Heap::after_fork_in_child() {
  if (!started()) return;
  descendants_.take();
  child_ = true;
  decline("a forked child that runs no other program");
  const uint32_t n = n_files_.load_relaxed();
  if (fork_way_ == ForkWay::kCopy) {
    for (uint32_t i = 0; i < n; ++i) copy_in_child(files_[i]);
    for (uint32_t i = 0; i < n_pieces_.load_relaxed(); ++i) {
      copy_range_in_child(reinterpret_cast<std::byte*>(pieces_[i].address), pieces_[i].bytes.load_relaxed(), globals_,
                          pieces_[i].offset);
    }
    os::close_fd(fork_reader_);
    os::pull_tether(fork_writer_);
    os::close_fd(fork_writer_);
  }
  retire_later_ = true;
  for (uint32_t i = 0; i < n; ++i) files_[i].frozen.store_relaxed(1);
  globals_.frozen.store_relaxed(1);
  for (Piece& piece : pieces_) piece.bytes.store_relaxed(0);
  for (Client*& client : clients_) {
    if (client != nullptr) client->in_child();
    client = nullptr;
  }
  cache_.unlock_all(fork_in_cache_);
  if (!fork_under_lock_) mutex_.unlock();
}

void Heap::let_children_see(bool see) {
  for (uint32_t i = 0; i < n_files_.load_relaxed(); ++i) {
    const File& file = files_[i];
    if (file.frozen.load_relaxed() != 0) continue;
    for_each_kept(file.first, file.end.load_relaxed(), [&](uint32_t first, uint32_t pages) {
      os::keep_from_children(at(first), pages * kPage, !see);
      return true;
    });
  }
  for (const Piece& piece : pieces_) {
    const uint64_t bytes = piece.bytes.load_relaxed();
    if (bytes != 0) os::keep_from_children(reinterpret_cast<std::byte*>(piece.address), bytes, !see);
  }
}

// The child's own memory in place of the parent's; the parent waits.
void Heap::copy_range_in_child(std::byte* to, uint64_t bytes, const File& file, uint64_t offset) {
  if (bytes == 0) return;
  bool ok = true;
  if (lost(file)) {
    constexpr uint64_t kStep = 2 << 20;
    for (uint64_t done = 0; ok && done < bytes; done += kStep) {
      const uint64_t n = bytes - done < kStep ? bytes - done : kStep;
      std::byte* copy = os::map_lazy(n);
      ok = copy != nullptr;
      if (ok) std::memcpy(copy, to + done, n);
      ok = ok && os::move_to(to + done, copy, n);
    }
  } else {
    ok = os::map_lazy_at(to, bytes);
    uint64_t from = 0;
    uint64_t end = 0;
    for (uint64_t done = offset; ok && os::next_data(file.fd, done, offset + bytes, &from, &end); done = end) {
      ok = os::read_at(file.fd, from, to + (from - offset), end - from);
    }
  }
  if (!ok) {
    os::say_line("a forked child could not copy the heap: out of memory", "");
    __builtin_trap();
  }
}

void Heap::copy_in_child(const File& file) {
  if (file.frozen.load_relaxed() != 0) return;
  for_each_kept(file.first, file.end.load_relaxed(), [&](uint32_t first, uint32_t pages) {
    copy_range_in_child(at(first), pages * kPage, file, (first - file.first) * kPage);
    return true;
  });
}

bool Heap::freeze(File& file) {
  if (file.frozen.load_relaxed() != 0) return true;
  // Idle memory first: frozen, it could not be returned while the child lives.
  if (!fork_under_lock_) {
    runs_.for_each(RunState::kFree, [this](Run run) {
      dirty_.for_each_set(run.first, run.pages, [this](uint32_t from, uint32_t n) { give_back(from, n); });
    });
  }
  const bool ok = for_each_kept(file.first, file.end.load_relaxed(), [&](uint32_t first, uint32_t pages) {
    return os::map_file_at(at(first), pages * kPage, file.fd, (first - file.first) * kPage, true);
  });
  if (!ok) return false;
  file.frozen.store_relaxed(1);
  left_pages_.fetch_add_relaxed(file.end.load_relaxed() - file.first);
  return true;
}

bool Heap::freeze_all() {
  bool ok = true;
  const uint32_t n = n_files_.load_relaxed();
  for (uint32_t i = 0; i < n; ++i) ok = freeze(files_[i]) && ok;
  retire_later_ = true;
  if (!fork_under_lock_) retire_frozen();
  for (Piece& piece : pieces_) {
    const uint64_t bytes = piece.bytes.load_relaxed();
    if (bytes == 0) continue;
    if (!os::map_file_at(reinterpret_cast<std::byte*>(piece.address), bytes, globals_.fd, piece.offset, true)) {
      ok = false;
      continue;
    }
    piece.bytes.store_relaxed(0);
    left_pages_.fetch_add_relaxed(bytes / kPage);
  }
  if (ok) globals_.frozen.store_relaxed(1);
  return ok;
}

// An allocation in memory that a fork froze. Its private copies go back to the system now; what lies in the file below
// them as soon as no child can see it any more.
void Heap::free_frozen(uint32_t first, uint32_t pages) {
  if (replaced_.none(first, pages)) {
    os::give_up_at(at(first), pages * kPage);
  } else {
    for (uint32_t page = first; page < first + pages; ++page) {
      if (replaced_.none(page, 1)) os::give_up_at(at(page), kPage);
    }
  }
  const os::MutexGuard lock(mutex_);
  live_pages_ -= pages;
  runs_.set_state(first, RunState::kGone);
  File* file = file_of(first);
  if (child_ || file == nullptr || lost(*file) || !descendants_.all_ended()) return;
  if (file->collected) {
    os::return_file_pages(file->fd, (first - file->first) * kPage, pages * kPage);
  } else {
    collect_frozen(*file);
  }
}

void Heap::collect_frozen(File& file) {
  file.collected = true;
  const uint32_t end = file.end.load_relaxed();
  runs_.for_each(RunState::kGone, [&](Run run) {
    if (run.first < file.first || run.first >= end) return;
    os::return_file_pages(file.fd, (run.first - file.first) * kPage, run.pages * kPage);
  });
  // Pages rewritten since: the program sees its private copy, nobody the old one.
  os::PageStates map;
  const auto look = [&](Run run) {
    if (run.first < file.first || run.first >= end) return;
    constexpr uint32_t kBatch = 512;
    os::PageState states[kBatch];
    for (uint32_t done = 0; done < run.pages; done += kBatch) {
      const uint32_t n = run.pages - done < kBatch ? run.pages - done : kBatch;
      if (!map.states(at(run.first + done), n, states)) return;
      for (uint32_t i = 0; i < n; ++i) {
        if (states[i] != os::PageState::kPrivate) continue;
        os::return_file_pages(file.fd, (run.first + done + i - file.first) * kPage, kPage);
      }
    }
  };
  runs_.for_each(RunState::kLive, look);
  runs_.for_each(RunState::kGrowing, look);
}

}  // namespace zh::heap
