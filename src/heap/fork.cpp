// fork() without exec: a child must see the memory as it was, and neither side the other's later writes. Private memory
// has that from the system, shared memory does not. Where little is shared the child copies it, while the parent waits
// in its handler and stays as it was; else it becomes private before the fork. Shared pages are kept from children, so
// one that is made without these handlers has nothing there.
#include "heap/heap.h"
#include "os/own_memory.h"

namespace zh::heap {
namespace {

/// What a thread uses of its stack, on either side of a frame, until it is out of the handlers.
constexpr uint64_t kStackPages = 16;
/// From this fork on, forks seem to be the program's habit.
constexpr uint64_t kManyForks = 3;

}  // namespace

// The stack that the fork runs on must be there before the child can copy anything, and all threads' own data, which
// are on stacks that the program may have given them: libc looks at them in the child first of all.
void Heap::give_back_stacks() {
  const auto give_back = [](uintptr_t near, void* argument) {
    Heap& heap = *static_cast<Heap*>(argument);
    const uint64_t page = near / kPage;
    if (heap.table_.none(Bit::kShared, {page, 1})) return;
    heap.table_.for_each(Bit::kShared, true, {page - kStackPages, 2 * kStackPages},
                         [&heap](Pages run) { (void)heap.leave_beside_threads(run); });
  };
  const char here = 0;
  give_back(reinterpret_cast<uintptr_t>(&here), this);
  give_back(os::Mutex::this_thread(), this);
  os::for_each_thread(give_back, this);
}

bool Heap::come_back_before_fork() {
  const bool alone = os::threads_of_process() == 1;
  bool ok = true;
  table_.for_each(Bit::kShared, [&](Pages run) { ok = ok && (alone ? copy_back(run) : leave_beside_threads(run)); });
  return ok;
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
  if (shared_pages_ == 0) return;
  for (uint32_t i = 0; i < kept_.blocks(); ++i) {  // nobody wants what is in them
    (void)drop_block(kept_.at(i).address, kept_.at(i).bytes);
  }
  if (shared_pages_ == 0) return;
  ++counts_.forks;
  give_back_stacks();
  const uint64_t limit = counts_.forks < kManyForks ? kForkCopyBytes : kForkAgainBytes;
  // A device that the program has opened since may write to these very pages: they must stay.
  const bool child_copies = shared_pages_ * kPage <= limit || os::holder_of_pages() != nullptr;
  if (child_copies && !lost() && (tether_.writer >= 0 || os::make_tether(&tether_))) {
    fork_way_ = ForkWay::kCopy;
    ++counts_.forks_copied;
    return;
  }
  fork_way_ = ForkWay::kReturned;
  keep_peers_away(true);
  if (!come_back_before_fork()) os::say_line("a forked child will lack memory: out of memory", "");
  uses_wanted_ += around_.uses / 2;
  if (++fork_returns_ == kMaxForkReturns) decline("the program forks again and again");
}

void Heap::after_fork_in_parent() {
  if (!started() || leaves_inner_fork()) return;
  if (tether_.writer >= 0) {
    os::close_fd(tether_.writer);
    os::wait_for_tether(tether_.reader);
    os::close_fd(tether_.reader);
    tether_ = {};
  }
  if (fork_way_ == ForkWay::kReturned) keep_peers_away(false);
  os::SignalMask signals = fork_signals_;
  mutex_.unlock();
  signals.unblock();
}

void Heap::after_fork_in_child() {
  if (!started() || leaves_inner_fork()) return;
  decline("a forked child that runs no other program");
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
