// The program's own memory, made shared where messages use it: whole pages inside a message are copied into a memory
// file that is mapped over them at the same address ("adopted"), and become private memory again when the program
// frees, remaps or forks. A page's place in the file is its address. The malloc family (malloc_family.cpp) and the
// calls that manage pages (vm_family.cpp) lead here before the system sees them; the layers above see it as SharedHeap.
// It lives below malloc: nothing here allocates or throws, and one object serves every thread.
#pragma once

#include <array>

#include "base/atomic.h"
#include "base/function_ref.h"
#include "heap/kept_blocks.h"
#include "heap/limits.h"
#include "heap/page_table.h"
#include "heap/pay_back.h"
#include "heap/shared_heap.h"
#include "os/mutex.h"
#include "os/vm.h"

namespace zh::heap {

/// What the heap needs of the allocator behind it, and of the program; injected by the preloaded library.
struct Surroundings {
  uint64_t (*usable_bytes)(void* block) = nullptr;  ///< malloc_usable_size
  void (*free_block)(void* block) = nullptr;
  void (*ask_about_blocks)() = nullptr;  ///< before a page is shared: from now on keep() is asked about each free
  bool (*calls_intact)() = nullptr;      ///< do the program's calls still lead to vm_family.cpp?
  bool libc_blocks = false;              ///< blocks have the form of libc's
  bool keeps_blocks = true;              ///< allocations lead here as well, so that a kept block finds its next user
  bool at_second_use = false;            ///< buffers become shared then, whether it pays or not
};

class Heap final : public SharedHeap {
 public:
  constexpr Heap() = default;
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  /// From now on memory may be adopted. `huge_too`: also where it would lose huge pages. Called once.
  void start(const Surroundings& surroundings, bool huge_too);
  [[nodiscard]] bool started() const { return started_.load_relaxed() != 0; }
  /// Is anything of the program's memory not what the system made it? One load: asked by every call of the two
  /// families.
  [[nodiscard]] bool holds_any() const { return held_pages_.load_relaxed() != 0; }

  // --- adopt.cpp
  /// Fills `*place` if a part of [address, address + n) can be mapped now. No system call, no lock.
  [[nodiscard]] bool locate(const void* address, size_t n, SharedPlace* place) const;
  [[nodiscard]] Sharing publish(const void* address, size_t n, const BufferUse& use, SharedPlace* place) override;
  /// Adopts now all that publish() would adopt at a later use.
  [[nodiscard]] Sharing share(const void* address, size_t n);

  // --- blocks.cpp: what the malloc family asks
  /// A kept block for n bytes, or null.
  [[nodiscard]] void* reuse(size_t n);
  /// `block` is about to be freed. True: it is kept, and the allocator must not see it.
  [[nodiscard]] bool keep(void* block);
  /// `block` is about to be resized: its memory becomes private, contents stay. False if there is no memory for that.
  [[nodiscard]] bool prepare_resize(void* block);
  /// Hands kept blocks to the allocator; true if there were any.
  bool trim();

  // --- leave.cpp: what the calls that manage pages ask
  /// True where [address, +bytes) holds pages that are not what the system made them. Not for a thread in the middle of
  /// such a call.
  [[nodiscard]] bool touches(const void* address, size_t bytes) const {
    return holds_any() && !mutex_.held_by_me() && meets(pages_around(address, bytes));
  }
  /// Runs `unmap` (a call that takes [address, +bytes) away or maps something else there), which says whether it has
  /// succeeded; then the heap forgets these pages.
  bool replace(void* address, size_t bytes, FunctionRef<bool()> unmap);
  /// The contents of [address, +bytes) become private memory. Nobody else uses them meanwhile.
  [[nodiscard]] bool come_back(void* address, size_t bytes);
  /// The same where other threads may be writing: no write is lost.
  [[nodiscard]] bool leave(void* address, size_t bytes);
  /// The contents become zeros.
  void drop_contents(void* address, size_t bytes);
  enum class Protection : uint8_t { kNone, kRead, kReadWrite };
  /// The program is about to protect [address, +bytes), or has made it readable and writable again.
  void protect(void* address, size_t bytes, Protection protection);
  /// Asks the system what has become of [address, +bytes), or of all: after a call that failed half-way, or where
  /// somebody may have unmapped memory unseen.
  void look_again(void* address, size_t bytes);
  void look_again();
  /// A forked child shall see zeros, or nothing, in these pages; or them again. Such memory is not
  /// adopted again.
  void mark(Bit bit, void* address, size_t bytes, bool value);
  /// visit(address, bytes) for each stretch of [address, +bytes) that is private; `left_too`: also where it is not yet
  /// as the system made it.
  void for_each_private(void* address, size_t bytes, bool left_too, FunctionRef<void(void*, size_t)> visit);
  /// The program has advised something that shared memory would not keep: this range is never adopted.
  void exclude(const void* address, size_t bytes);
  /// Does [address, +bytes) hold shared pages that the program has protected?
  [[nodiscard]] bool guarded(const void* address, size_t bytes) const {
    return !table_.none(Bit::kGuarded, pages_around(address, bytes));
  }
  /// A mapping that begins there has gone: what messages did with it says nothing of the next one.
  void forget_uses(const void* address) {
    if (first_uses_.load_relaxed() != 0) pay_back_.forget(pages_inside(address, 2 * kPage).first);
  }
  /// The program wants huge pages.
  void wish_huge_pages() { huge_wishes_.store_relaxed(1); }

  // --- fork.cpp: the handlers of fork()
  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child();

  // --- heap.cpp
  [[nodiscard]] int descriptor(uint32_t region) const override { return region == kRegion ? fd_ : -1; }
  void host_started() override;
  void decline(const char* why) override;
  [[nodiscard]] const char* declined() const override { return why_.load_relaxed(); }
  bool add_client(Client* client) override;
  void remove_client(Client* client) override;
  [[nodiscard]] Stats stats() const override;

 private:
  static constexpr uint32_t kRegion = 1;
  /// No signal handler runs while the lock is held: it might fork.
  class Locked {
   public:
    explicit Locked(os::Mutex& mutex) : lock_(mutex) {}

   private:
    os::SignalsBlocked signals_;
    os::MutexGuard lock_;
  };
  enum class ForkWay : uint8_t { kNone, kCopy, kFrozen };

  [[nodiscard]] bool takes() const { return started() && why_.load_relaxed() == nullptr; }
  [[nodiscard]] bool meets(Pages pages) const {
    return !table_.none(Bit::kShared, pages) || !table_.none(Bit::kLeft, pages);
  }
  [[nodiscard]] bool reachable(Pages pages) const {
    return table_.all(Bit::kShared, pages) && table_.none(Bit::kGuarded, pages);
  }
  [[nodiscard]] Pages wanted_pages(const void* address, size_t n) const;
  Sharing adopt_later(Pages pages, uint64_t saves_ns);
  [[nodiscard]] bool can_owe(uint64_t price_ns) const;
  Sharing adopt(Pages pages);
  void thaw_in_time();
  Sharing refuse(Pages pages, const char* why);

  // Under the lock.
  bool open();
  [[nodiscard]] bool lost() const;
  [[nodiscard]] const char* obstacle(Pages pages);
  [[nodiscard]] const char* obstacle_of_process();
  [[nodiscard]] const char* obstacle_of_mappings(Pages pages);
  [[nodiscard]] const char* obstacle_behind(Pages run) const;
  bool exchange(Pages pages);
  bool exchange_chunk(Pages pages);
  void forget(Pages pages);
  void put(Bit bit, Pages pages, bool value);
  /// visit(run) for each shared stretch of `pages`, then for each that has left.
  template <typename Visit>
  void for_each_held(Pages pages, Visit&& visit) {
    table_.for_each(Bit::kShared, true, pages, visit);
    table_.for_each(Bit::kLeft, true, pages, visit);
  }
  void punch(Pages pages);
  void punch_unused(Pages pages);
  bool drop(Pages pages);
  bool drop_block(void* block, uint64_t bytes);
  bool copy_back(Pages pages);
  bool leave_beside_threads(Pages pages);
  bool exchange_protected(Pages pages);
  void pass_on_hidden(Pages pages);
  void pass_marks_on(Pages pages);
  template <typename Visit>
  void for_each_protection(Pages pages, Visit&& visit);
  template <typename Visit>
  void for_each_mapping(Pages pages, Visit&& visit);
  void look_again(Pages pages);
  void give_back_stacks();
  void wake_futexes(Bit bit, Pages pages);
  void keep_peers_away(bool away);
  void release_old_blocks(uint64_t bytes, KeptBlock* out, uint32_t* n);
  void free_blocks(const KeptBlock* blocks, uint32_t n);
  void release_idle_blocks();
  void clear_bits(Pages pages);
  bool lock_for_child();
  [[nodiscard]] uint64_t pages_for_children() const;
  void freeze_left();
  bool freeze();
  bool freeze(Pages pages);
  void thaw();
  void copy_in_child();

  // Read by every call of the two families, seldom written.
  alignas(64) Atomic<uint64_t> held_pages_{0};
  Atomic<uint32_t> started_{0};
  Atomic<const char*> why_{nullptr};
  PayBack pay_back_;
  Price price_;
  Atomic<uint32_t> reuses_missed_{0};
  PageTable table_;
  KeptBlocks kept_;
  Surroundings around_;
  bool huge_too_ = false;
  Atomic<uint32_t> huge_wishes_{0};

  alignas(64) mutable os::Mutex mutex_;
  int fd_ = -1;
  uint64_t id_ = 0;
  bool tried_ = false;
  uint64_t shared_pages_ = 0;
  uint64_t left_pages_ = 0;
  Atomic<uint32_t> frozen_{0};     ///< some page is
  Atomic<uint64_t> thawed_ns_{0};  ///< when that was looked at for a message
  uint32_t stretches_ = 0;         ///< separate ones that are shared: an upper bound
  uint64_t retry_ns_ = 0;          ///< nothing is tried before
  uint64_t backoff_ns_ = 0;
  uint64_t looked_ns_ = 0;  ///< when the process was looked at
  const char* found_ = nullptr;
  struct Range {
    uintptr_t from = 0;
    uintptr_t to = 0;
  };
  std::array<Range, 256> excluded_{};
  uint32_t n_excluded_ = 0;
  static constexpr uint32_t kMaxClients = 64;
  std::array<Client*, kMaxClients> clients_{};

  /// True in the handlers of a fork inside the one that is looked after.
  [[nodiscard]] bool leaves_inner_fork() { return forks_inside_ != 0 && forks_inside_-- != 0; }

  uint32_t forks_inside_ = 0;
  ForkWay fork_way_ = ForkWay::kNone;
  os::SignalMask fork_signals_;
  os::Tether tether_;
  std::byte* children_ = nullptr;  ///< while a fork is under way: what a child keeps of the file's lock
  uint64_t started_ns_ = 0;

  Stats counts_;
  Atomic<uint64_t> first_uses_{0};
};

/// The process's heap, as libzerohop.so has it.
extern Heap process_heap;

}  // namespace zh::heap
