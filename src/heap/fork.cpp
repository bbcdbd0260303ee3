// fork() without exec: a child must see the memory as it was, and neither side the other's later writes. Private memory
// has that from the system, shared memory does not. So a private mapping of the same pages takes the place of the
// shared one before the fork: both sides read the file's pages, and who writes one gets a copy, as after any fork.
// Nobody writes the file's pages meanwhile: the buffers are private, and become shared again when no child can see them
// any more. Where a device holds pages they must stay, so there the child copies all, while the parent waits. Shared
// pages are kept from children, so one that is made without these handlers has nothing there.
#include <utility>

#include "heap/heap.h"
#include "os/clock.h"
#include "os/own_memory.h"

namespace zh::heap {
namespace {

/// What a thread uses of its stack, on either side of a frame, until it is out of the handlers.
constexpr uint64_t kStackPages = 16;

}  // namespace

// The stack that the fork runs on must be there before the child can copy anything, and all threads' own data, which
// are on stacks that the program may have given them: libc looks at them in the child first of all.
void Heap::give_back_stacks() {
  const auto give_back = [this](uintptr_t near) {
    const uint64_t page = near / kPage;
    if (table_.none(Bit::kShared, {page, 1})) return;
    table_.for_each(Bit::kShared, true, {page - kStackPages, 2 * kStackPages},
                    [this](Pages run) { (void)leave_beside_threads(run); });
  };
  const char here = 0;
  give_back(reinterpret_cast<uintptr_t>(&here));
  give_back(os::Mutex::this_thread());
  os::for_each_thread(give_back);
}

// Every child holds a lock of the file by a page that it inherits.
bool Heap::lock_for_child() {
  if (!lost()) children_ = os::map_lock(fd_);
  return children_ != nullptr;
}

bool Heap::freeze() {
  bool ok = true;
  table_.for_each(Bit::kShared, [&](Pages run) {
    table_.for_each(Bit::kGuarded, false, run, [&](Pages plain) { ok = freeze(plain) && ok; });
  });
  table_.for_each(Bit::kShared, [&](Pages run) { ok = exchange_protected(run) && ok; });  // those that are protected
  wake_futexes(Bit::kFrozen, {0, ~uint64_t{0}});                                          // all threads are asked once
  return ok;
}

// Other threads may write at any time: they write the file until the mapping changes, and copies of their own after.
bool Heap::freeze(Pages pages) {
  if (!os::map_file_at(pages.address(), pages.bytes(), fd_, pages.first * kPage, true)) return false;
  pass_on_hidden(pages);
  pay_back_.returned(pages.first, pages.n, pages.n * price_.page_ns() / 8);
  counts_.returned_bytes += pages.bytes();
  table_.clear(Bit::kShared, pages);
  table_.set(Bit::kLeft, pages);
  table_.set(Bit::kFrozen, pages);
  shared_pages_ -= pages.n;
  left_pages_ += pages.n;
  frozen_.store_relaxed(1);
  return true;
}

// What left before may still be the file's pages, which this process has only read since.
void Heap::freeze_left() {
  if (children_ == nullptr) {
    table_.for_each(Bit::kLeft, [](Pages run) { (void)os::populate_for_write(run.address(), run.bytes()); });
    return;
  }
  table_.for_each(Bit::kLeft, [this](Pages run) { table_.set(Bit::kFrozen, run); });
  frozen_.store_relaxed(1);
}

uint64_t Heap::pages_for_children() const {
  uint64_t n = 0;
  if (frozen_.load_relaxed() == 0) return 0;
  table_.for_each(Bit::kFrozen, [&](Pages run) { n += run.n - table_.count(Bit::kLeft, run); });
  return n;
}

// Once no child can see the file's pages: what nobody has mapped any more goes.
void Heap::thaw() {
  if (frozen_.load_relaxed() == 0 || lost() || !os::lock_is_free(fd_)) return;
  table_.for_each(Bit::kFrozen, [this](Pages run) {
    table_.clear(Bit::kFrozen, run);
    table_.for_each(Bit::kLeft, false, run, [this](Pages gone) { punch(gone); });
  });
  frozen_.store_relaxed(0);
}

// Where nothing else asks: what a child has seen of freed memory goes some time after the child.
void Heap::thaw_in_time() {
  constexpr uint64_t kEveryNs = 10'000'000;
  const uint64_t now = os::now_ns();
  if (now - thawed_ns_.load_relaxed() < kEveryNs) return;
  thawed_ns_.store_relaxed(now);
  const Locked lock(mutex_);
  thaw();
}

void Heap::before_fork() {
  if (!started()) return;
  if (mutex_.held_by_me()) {  // fork() may call _Fork()
    ++forks_inside_;
    return;
  }
  os::SignalMask signals;  // another thread's fork may be under way
  signals.block();
  mutex_.lock();
  fork_signals_ = signals;
  fork_way_ = ForkWay::kNone;
  for (Client* client : clients_) {
    if (client == nullptr || !client->has_memory() || tether_.writer >= 0) continue;
    if (!os::make_tether(&tether_))
      os::say_line("a forked child will share memory of MPI_Alloc_mem: no descriptor", "");
  }
  if (shared_pages_ + left_pages_ == 0) return;
  for (uint32_t i = 0; i < kept_.blocks(); ++i) {  // nobody wants what is in them
    (void)drop_block(kept_.at(i).address, kept_.at(i).bytes);
  }
  if (shared_pages_ + left_pages_ == 0) return;
  const uint64_t begin = os::now_ns();
  thaw();
  // What a child that lives on keeps of memory that is free here has a bound: then the pages become private by copies.
  constexpr uint64_t kMostKeptPages = (uint64_t{64} << 20) / kPage;
  const bool locked = pages_for_children() < kMostKeptPages && lock_for_child();
  if (left_pages_ != 0 && !lost()) freeze_left();
  if (shared_pages_ == 0) return;
  ++counts_.forks;
  give_back_stacks();
  // A device that the program has opened since may write to these very pages: they must stay.
  if (os::holder_of_pages() != nullptr && (tether_.writer >= 0 || os::make_tether(&tether_))) {
    fork_way_ = ForkWay::kCopy;
    ++counts_.forks_copied;
    return;
  }
  fork_way_ = ForkWay::kFrozen;
  keep_peers_away(true);
  bool ok = true;
  if (locked) {
    ok = freeze();
  } else {
    table_.for_each(Bit::kShared, [&](Pages run) { ok = leave_beside_threads(run) && ok; });
  }
  if (!ok) os::say_line("a forked child will lack memory: out of memory", "");
  pay_back_.spend(os::now_ns() - begin);
}

void Heap::after_fork_in_parent() {
  if (!started() || leaves_inner_fork()) return;
  if (tether_.writer >= 0) {
    os::close_fd(tether_.writer);
    os::wait_for_tether(tether_.reader);
    os::close_fd(tether_.reader);
    tether_ = {};
  }
  if (fork_way_ == ForkWay::kFrozen) keep_peers_away(false);
  if (children_ != nullptr) os::unmap_raw(std::exchange(children_, nullptr), kPage);
  os::SignalMask signals = fork_signals_;
  mutex_.unlock();
  signals.unblock();
}

void Heap::after_fork_in_child() {
  if (!started() || leaves_inner_fork()) return;
  decline("a forked child that runs no other program");
  children_ = nullptr;  // it stays mapped
  if (fork_way_ == ForkWay::kCopy) copy_in_child();
  if (tether_.writer >= 0) {
    for (Client* client : clients_) {
      if (client != nullptr) client->copy_in_child();
    }
    os::close_fd(tether_.reader);
    os::pull_tether(tether_.writer);
    os::close_fd(tether_.writer);
    tether_ = {};
  }
  table_.for_each(Bit::kLeft, [this](Pages run) {
    table_.for_each(Bit::kWiped, true, run,
                    [](Pages wiped) { (void)os::map_private_at(wiped.address(), wiped.bytes()); });
  });
  if (fd_ >= 0 && !lost()) os::close_fd(fd_);
  fd_ = -1;
  for (Client*& client : clients_) {
    if (client != nullptr) client->in_child();
    client = nullptr;
  }
  os::SignalMask signals = fork_signals_;
  mutex_.unlock();
  signals.unblock();
}

// The child's own memory in place of the parent's, which waits.
void Heap::copy_in_child() {
  bool ok = true;
  table_.for_each(Bit::kShared, [&](Pages run) {
    table_.for_each(Bit::kHidden, false, run, [&](Pages seen) {
      ok = ok && os::map_private_at(seen.address(), seen.bytes());
      table_.for_each(Bit::kWiped, false, seen, [&](Pages wanted) {
        ok = ok && os::read_at(fd_, wanted.first * kPage, wanted.address(), wanted.bytes());
      });
      table_.for_each(Bit::kGuarded, true, seen, [&](Pages guarded) {
        table_.for_each(Bit::kReadable, false, guarded,
                        [](Pages p) { (void)os::protect(p.address(), p.bytes(), false); });
        table_.for_each(Bit::kReadable, true, guarded,
                        [](Pages p) { (void)os::protect(p.address(), p.bytes(), true); });
      });
    });
  });
  if (!ok) {
    os::say_line("a forked child could not copy its memory: out of memory", "");
    __builtin_trap();
  }
  table_.for_each(Bit::kShared, [this](Pages run) { forget(run); });
}

}  // namespace zh::heap
