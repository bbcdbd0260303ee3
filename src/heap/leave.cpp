// Shared pages become private memory again: dropped where nobody wants their contents, copied where the caller alone
// uses them, and exchanged without a copy by hand where other threads may be writing.
#include <cstring>

#include "heap/heap.h"
#include "os/own_memory.h"

namespace zh::heap {
namespace {

/// visit(pages) for each chunk; stops when it returns false, and returns that.
template <typename Visit>
bool for_each_chunk(Pages pages, Visit&& visit) {
  for (uint64_t done = 0; done < pages.n; done += kChunkPages) {
    const uint64_t n = pages.n - done < kChunkPages ? pages.n - done : kChunkPages;
    if (!visit(Pages{pages.first + done, n})) return false;
  }
  return true;
}

}  // namespace

void Heap::put(Bit bit, Pages pages, bool value) {
  if (value) {
    table_.set(bit, pages);
  } else {
    table_.clear(bit, pages);
  }
}

void Heap::punch(Pages pages) {
  // What is not wanted here, a forked child may still see.
  if (!table_.none(Bit::kFrozen, pages)) return;
  if (!lost()) (void)os::return_file_pages(fd_, pages.first * kPage, pages.bytes());
}

// False where the system refuses a mapping; these pages stay as they are.
bool Heap::drop(Pages pages) {
  bool ok = true;
  const auto exchange = [&](Pages run) {
    if (table_.all(Bit::kShared, run)) (void)os::return_pages(run.address(), run.bytes());
    if (!os::map_private_at(run.address(), run.bytes())) {
      ok = false;
      return;
    }
    counts_.returned_bytes += table_.count(Bit::kShared, run) * kPage;
    forget(run);
  };
  for_each_held(pages, exchange);
  return ok;
}

// Nobody else uses these pages meanwhile. Fresh private memory takes their place, so that it joins its neighbours in
// one mapping, as the program made it.
bool Heap::copy_back(Pages pages) {
  if (!table_.none(Bit::kGuarded, pages)) return exchange_protected(pages);
  return for_each_chunk(pages, [this](Pages chunk) {
    const bool shared = table_.all(Bit::kShared, chunk);
    const uint64_t bytes = chunk.bytes();
    std::byte* const at = chunk.address();
    std::byte* const copy = shared ? os::map_again(at, bytes) : os::map_lazy(bytes);
    if (copy == nullptr) return false;
    if (!shared) std::memcpy(copy, at, bytes);
    const bool ok = os::map_private_at(at, bytes);
    if (ok) {
      (void)os::populate_for_write(at, bytes);
      std::memcpy(at, copy, bytes);
      if (shared) {
        (void)os::return_pages(copy, bytes);
        counts_.returned_bytes += bytes;
      }
      pass_marks_on(chunk);
      forget(chunk);
    }
    os::unmap_raw(copy, bytes);
    return ok;
  });
}

// What the program has asked for forked children, of memory that is the system's again.
void Heap::pass_on_hidden(Pages pages) {
  table_.for_each(Bit::kHidden, true, pages,
                  [](Pages run) { (void)os::keep_from_children(run.address(), run.bytes(), true); });
}

void Heap::pass_marks_on(Pages pages) {
  pass_on_hidden(pages);
  table_.for_each(Bit::kWiped, true, pages, [](Pages run) { os::wipe_in_children(run.address(), run.bytes()); });
}

// Other threads may write at any time: a private mapping of the same file takes the place of the shared one, and the
// system makes a private copy of each page by a write that changes nothing. Then nothing of the file is seen any more.
bool Heap::leave_beside_threads(Pages pages) {
  if (!table_.none(Bit::kGuarded, pages)) return exchange_protected(pages);
  if (lost()) return copy_back(pages);
  return for_each_chunk(pages, [this](Pages chunk) {
    std::byte* const at = chunk.address();
    if (!os::map_file_at(at, chunk.bytes(), fd_, chunk.first * kPage, true)) return false;
    if (!os::populate_for_write(at, chunk.bytes())) {
      for (uint64_t i = 0; i < chunk.bytes(); i += kPage) os::touch_for_write(at + i);
    }
    pass_on_hidden(chunk);
    wake_futexes(Bit::kShared, chunk);
    punch(chunk);
    const uint64_t n = table_.count(Bit::kShared, chunk);
    table_.clear(Bit::kShared, chunk);
    table_.set(Bit::kLeft, chunk);
    shared_pages_ -= n;
    left_pages_ += n;
    counts_.returned_bytes += n * kPage;
    return true;
  });
}

/// visit(pages, guarded, readable) for each stretch that is protected alike.
template <typename Visit>
void Heap::for_each_protection(Pages pages, Visit&& visit) {
  table_.for_each(Bit::kGuarded, false, pages, [&](Pages run) { visit(run, false, false); });
  table_.for_each(Bit::kGuarded, true, pages, [&](Pages guarded) {
    table_.for_each(Bit::kReadable, false, guarded, [&](Pages run) { visit(run, true, false); });
    table_.for_each(Bit::kReadable, true, guarded, [&](Pages run) { visit(run, true, true); });
  });
}

// Nobody writes what is protected from writing, so these pages are copied aside, and the copies, protected alike, take
// their place in one step.
bool Heap::exchange_protected(Pages pages) {
  bool ok = true;
  const auto each = [&](Pages run, bool guarded, bool readable) {
    const bool left = !table_.none(Bit::kLeft, run);
    if (!guarded) {
      ok = (left ? copy_back(run) : leave_beside_threads(run)) && ok;
      return;
    }
    std::byte* const copy = os::map_lazy(run.bytes());
    if (copy == nullptr || !os::read_protected(run.address(), copy, run.bytes())) {
      os::unmap_raw(copy, run.bytes());
      ok = false;
      return;
    }
    (void)os::protect(copy, run.bytes(), readable);
    if (os::move_to(run.address(), copy, run.bytes())) {
      if (!left) {
        punch(run);
        counts_.returned_bytes += run.bytes();
      }
      pass_marks_on(run);
      forget(run);
    } else {
      os::unmap_raw(copy, run.bytes());
      ok = false;
    }
  };
  for_each_protection(pages, each);
  return ok;
}

// Who waits on a futex that processes may share waits for the file's page; now the word is somewhere else. Being woken
// for nothing is something that waiters expect.
void Heap::wake_futexes(Bit bit, Pages pages) {
  os::for_each_futex_wait([&](uintptr_t address) {
    if (!pages.hold(address / kPage) || table_.none(bit, {address / kPage, 1})) return;
    const uintptr_t page = address / kPage * kPage;
    std::byte* const again = os::map_file(fd_, page, kPage, page);
    if (again == nullptr) return;
    os::wake_futex(again + address % kPage);
    os::unmap_raw(again, kPage);
  });
}

bool Heap::come_back(void* address, size_t bytes) {
  const Locked lock(mutex_);
  bool ok = true;
  keep_peers_away(true);
  for_each_held(pages_around(address, bytes), [&](Pages run) { ok = ok && copy_back(run); });
  keep_peers_away(false);
  return ok;
}

bool Heap::leave(void* address, size_t bytes) {
  const Locked lock(mutex_);
  bool ok = true;
  keep_peers_away(true);
  table_.for_each(Bit::kShared, true, pages_around(address, bytes),
                  [&](Pages run) { ok = ok && leave_beside_threads(run); });
  keep_peers_away(false);
  return ok;
}

// Guarded first: no message finds them while they go.
bool Heap::replace(void* address, size_t bytes, FunctionRef<bool()> unmap) {
  const Locked lock(mutex_);
  const Pages pages = pages_around(address, bytes);
  table_.for_each(Bit::kShared, true, pages, [this](Pages run) { table_.set(Bit::kGuarded, run); });
  if (!unmap()) {
    look_again(pages);
    return false;
  }
  table_.for_each(Bit::kShared, true, pages, [this](Pages run) {
    punch(run);
    counts_.returned_bytes += run.bytes();
    forget(run);
  });
  table_.for_each(Bit::kLeft, true, pages, [this](Pages run) { forget(run); });
  return true;
}

/// visit(pages, mapping) for each part of `pages` by what the system has mapped there; a part of which it tells nothing
/// comes page by page, with a mapping that ends at 0.
template <typename Visit>
void Heap::for_each_mapping(Pages pages, Visit&& visit) {
  const os::Mappings mappings;
  for (uint64_t page = pages.first; page < pages.end();) {
    os::Mapping mapping;
    const bool known = mappings.find(page * kPage, &mapping);
    const uint64_t end = known ? mapping.to / kPage : page + 1;
    const Pages part{page, (end < pages.end() ? end : pages.end()) - page};
    visit(part, known ? mapping : os::Mapping{});
    page = part.end();
  }
}

// A call that the program made on these pages has failed, half-way perhaps, or somebody has unmapped them unseen.
void Heap::look_again(Pages pages) {
  constexpr uint64_t kInode = (uint64_t{1} << 40) - 1;  // the rest of file_id() is the device
  for (const Bit bit : {Bit::kShared, Bit::kLeft}) {
    const auto look = [&](Pages part, const os::Mapping& m) {
      const bool same_file = ((m.inode ^ id_) & kInode) == 0;
      const bool ours =
          m.to != 0 ? same_file && (m.shared || bit == Bit::kLeft) : os::is_mapped(part.address(), part.bytes());
      if (!ours) {
        if (bit == Bit::kShared) punch(part);
        forget(part);
        return;
      }
      put(Bit::kGuarded, part, m.to != 0 && !(m.readable && m.writable));
      put(Bit::kReadable, part, m.to != 0 && m.readable && !m.writable);
    };
    table_.for_each(bit, true, pages, [&](Pages run) { for_each_mapping(run, look); });
  }
}

void Heap::look_again(void* address, size_t bytes) {
  const Locked lock(mutex_);
  look_again(pages_around(address, bytes));
}

void Heap::look_again() {
  const Locked lock(mutex_);
  table_.for_each(Bit::kShared, [this](Pages run) { look_again(run); });
  table_.for_each(Bit::kLeft, [this](Pages run) { look_again(run); });
}

void Heap::drop_contents(void* address, size_t bytes) {
  const Locked lock(mutex_);
  const Pages pages = pages_around(address, bytes);
  // Memory that is made anew each time is not worth sharing, and must cost nothing until it is touched.
  const auto renew = [this](Pages run, bool guarded, bool readable) {
    punch(run);
    if (!os::map_private_at(run.address(), run.bytes())) return;
    if (guarded) (void)os::protect(run.address(), run.bytes(), readable);
    counts_.returned_bytes += run.bytes();
    pass_marks_on(run);
    forget(run);
  };
  table_.for_each(Bit::kShared, true, pages, [&](Pages run) { for_each_protection(run, renew); });
  // What shows behind dropped copies is the file: a hole in it, or, in a forked child, what the parent has there by
  // now.
  table_.for_each(Bit::kLeft, true, pages, [this](Pages run) {
    for_each_mapping(run, [this](Pages part, const os::Mapping& m) {
      if (m.to == 0 || m.executable || !os::map_private_at(part.address(), part.bytes())) return;
      if (!m.writable) (void)os::protect(part.address(), part.bytes(), m.readable);
      pass_marks_on(part);
      forget(part);
    });
  });
}

void Heap::protect(void* address, size_t bytes, Protection protection) {
  const Locked lock(mutex_);
  const bool guarded = protection != Protection::kReadWrite;
  if (guarded) keep_peers_away(true);
  for_each_held(pages_around(address, bytes), [&](Pages run) {
    put(Bit::kGuarded, run, guarded);
    put(Bit::kReadable, run, protection == Protection::kRead);
  });
  if (guarded) keep_peers_away(false);
}

void Heap::mark(Bit bit, void* address, size_t bytes, bool value) {
  if (value) exclude(address, bytes);
  const Locked lock(mutex_);
  for_each_held(pages_around(address, bytes), [&](Pages run) { put(bit, run, value); });
}

void Heap::for_each_private(void* address, size_t bytes, bool left_too, FunctionRef<void(void*, size_t)> visit) {
  table_.for_each(Bit::kShared, false, pages_around(address, bytes), [&](Pages run) {
    if (left_too) return visit(run.address(), run.bytes());
    table_.for_each(Bit::kLeft, false, run, [&](Pages plain) { visit(plain.address(), plain.bytes()); });
  });
}

void Heap::exclude(const void* address, size_t bytes) {
  const Locked lock(mutex_);
  const auto from = reinterpret_cast<uintptr_t>(address);
  const uintptr_t to = from + bytes;
  for (uint32_t i = 0; i < n_excluded_; ++i) {
    Range& range = excluded_[i];
    if (from > range.to || to < range.from) continue;
    if (from < range.from) range.from = from;
    if (to > range.to) range.to = to;
    return;
  }
  if (n_excluded_ == excluded_.size()) {
    decline("much memory has attributes that shared memory would not keep");
    return;
  }
  excluded_[n_excluded_++] = {from, to};
}

}  // namespace zh::heap
