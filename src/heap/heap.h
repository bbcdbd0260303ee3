// The shared heap of this process: large allocations and large global arrays in memory files that peers can map.
// One span of address space holds the allocations; each memory file backs a stretch of it. The malloc
// family (malloc_family.cpp) and the calls that manage pages (vm_family.cpp) lead here; the layers above see it as
// SharedHeap. It lives below malloc: nothing here allocates or throws, and one object serves every thread.
#pragma once

#include <array>
#include <utility>

#include "base/atomic.h"
#include "heap/limits.h"
#include "heap/page_bits.h"
#include "heap/page_runs.h"
#include "heap/run_cache.h"
#include "heap/shared_heap.h"
#include "os/descendants.h"
#include "os/mutex.h"
#include "os/objects.h"
#include "os/vm.h"

namespace zh::heap {

constexpr uint32_t kMaxFiles = 9;  ///< one, and one more after each fork that froze the one before
constexpr uint32_t kMaxForks = kMaxFiles - 1;
constexpr uint32_t kMaxPieces = 64;
constexpr uint64_t kMaxGlobalBytes = uint64_t{1} << 36;
/// `region` of global data, above those of the memory files.
constexpr uint32_t kGlobalsRegion = kMaxFiles + 1;

class Heap final : public SharedHeap {
 public:
  constexpr Heap() = default;
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  /// From now on allocations may go into the heap. `huge_too`: also those for which private memory would get huge pages
  /// and shared memory would not. Called once, by the decision at load.
  void start(bool huge_too);
  /// Is what leads the program's calls to vm_family.cpp still in place? Asked by host_started().
  void watch_calls(bool (*intact)()) { calls_intact_ = intact; }
  [[nodiscard]] bool started() const { return started_.load_relaxed() != 0; }
  [[nodiscard]] bool takes() const { return takes_.load_relaxed() != 0; }

  /// True for every address of the span.
  [[nodiscard]] bool owns(const void* p) const {
    const uint64_t bytes = span_bytes_.load_acquire();  // S1 <- S0: the base, and the tables of these pages
    return bytes != 0 && offset_of(p) < bytes;
  }

  /// n >= kMinBytes; null if libc is to serve it. `alignment` is a power of two. Pages of fresh memory are not touched.
  [[nodiscard]] void* allocate(size_t n, size_t alignment, bool zeroed);
  /// `p` came from allocate(); anything else ends the process, as libc does.
  void free(void* p);
  [[nodiscard]] size_t usable_bytes(const void* p) const;
  /// Changes the size in place, if it can: shrinks, or grows into free pages behind. n >= kMinBytes.
  [[nodiscard]] bool resize(void* p, size_t n);
  /// For an allocation that grows by moving: with room to grow again in place. Null as allocate().
  [[nodiscard]] void* allocate_growing(size_t n);
  /// Gives idle memory back to the system; true if there was any.
  bool trim();

  /// Takes [address, +bytes) out of the heap: private memory with the same contents at the same address; peers lose
  /// it. `anonymous`: it must not even be a private mapping of a file, and no other thread writes it meanwhile. False
  /// if it cannot. For parts that are not in the span: nothing to do.
  bool leave(const void* address, size_t bytes, bool anonymous);
  /// The same where the caller replaces the mapping: contents are dropped.
  void forget(const void* address, size_t bytes);
  /// The program says that it does not need the contents of [address, +bytes): they will read as zero.
  bool drop_contents(void* address, size_t bytes);
  /// True where [address, +bytes) meets the span or adopted data.
  [[nodiscard]] bool touches(const void* address, size_t bytes) const;
  /// May a range of n bytes for which the program wants huge pages stay?
  [[nodiscard]] bool keeps_huge_wishes(size_t n) const;

  /// Makes large untouched global data of the objects loaded so far part of the heap. While the process has one thread.
  void adopt_globals();
  /// The same for what has contents already (initialised data); they are copied, so not before memory is needed anyway.
  void adopt_data();

  // The handlers of fork(), see fork.cpp.
  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child();

  // SharedHeap
  [[nodiscard]] bool locate(const void* address, size_t n, Place* place) const override;
  [[nodiscard]] Use publish(const void* address, size_t n, bool exclusive, Place* place) override;
  [[nodiscard]] int descriptor(uint32_t region) const override;
  void host_started() override;
  void decline(const char* why) override;
  [[nodiscard]] const char* declined() const override { return why_.load_relaxed(); }
  bool add_client(Client* client) override;
  void remove_client(Client* client) override;
  [[nodiscard]] Stats stats() const override;

 private:
  /// One memory file and the pages of the span that it backs.
  struct File {
    uint32_t first = 0;
    Atomic<uint32_t> end{0};  ///< page after its last one; grows until the file is frozen
    int fd = -1;
    uint64_t id = 0;
    Atomic<uint32_t> frozen{0};  ///< mapped privately since a fork
    bool collected = false;      ///< no child maps it any more: what is freed goes back to the system
  };
  /// Adopted global data: pages of one memory file at addresses of their own.
  struct Piece {
    uintptr_t address = 0;
    Atomic<uint64_t> bytes{0};  ///< 0 once it has left
    uint64_t offset = 0;        ///< in the file

    [[nodiscard]] bool meets(uintptr_t from, size_t n) const {
      const uint64_t size = bytes.load_relaxed();
      return size != 0 && from < address + size && address < from + n;
    }
  };
  struct Pages {
    uint32_t first = 0;  ///< in the span, or in the globals' file
    uint32_t n = 0;
    bool global = false;
  };
  enum class ForkWay : uint32_t { kNone, kFreeze, kCopy };

  bool may_open();  // needs the lock, as the following
  bool open();
  bool open_globals();
  bool grow_tables(uint32_t pages);
  bool add_file();
  bool extend(uint32_t pages);
  bool flush_cache();
  void retire_frozen();
  uint32_t take_from_runs(uint32_t pages, uint32_t alignment);
  uint32_t take(uint32_t pages, uint32_t alignment);
  void give(uint32_t first, uint32_t pages);
  void give_to_runs(uint32_t first, uint32_t pages);
  void return_idle(uint64_t keep);  // needs the lock, and leaves it meanwhile
  void give_back(uint32_t first, uint32_t pages);
  [[nodiscard]] uint64_t idle_limit() const;
  void free_frozen(uint32_t first, uint32_t pages);
  void collect_frozen(File& file);
  [[nodiscard]] uint32_t first_page_of(const void* p) const;
  [[nodiscard]] const File* file_of(uint32_t page) const;
  [[nodiscard]] File* file_of(uint32_t page) { return const_cast<File*>(std::as_const(*this).file_of(page)); }
  /// Bytes from the span's start, modulo 2^64.
  [[nodiscard]] uint64_t offset_of(const void* p) const {
    return reinterpret_cast<uintptr_t>(p) - reinterpret_cast<uintptr_t>(base_);
  }
  [[nodiscard]] std::byte* at(uint32_t page) const { return base_ + page * kPage; }
  /// True where the program has closed the descriptor, or opened something else under its number.
  [[nodiscard]] static bool lost(const File& file) { return os::file_id(file.fd) != file.id; }
  [[nodiscard]] bool find(const void* address, size_t n, Place* place, Pages* pages) const;
  bool freeze_all();  // needs the lock, as the following
  bool freeze(File& file);
  void copy_in_child(const File& file);
  static void copy_range_in_child(std::byte* to, uint64_t bytes, const File& file, uint64_t offset);
  void let_children_see(bool see);
  static bool privatise(std::byte* address, uint64_t bytes, const File& file, uint64_t offset, bool anonymous);
  void mark_left(uint32_t first, uint32_t pages);
  bool come_back(uint32_t first, uint32_t pages);
  bool drop_left(void* address, size_t bytes);
  void keep_peers_away(bool away);
  bool adopt(const os::Range& range, bool with_contents);

  /// visit(first, pages) for each stretch of [first, end) that has not left, while it returns true; what it returned.
  template <typename Visit>
  bool for_each_kept(uint32_t first, uint32_t end, Visit&& visit) {
    bool ok = true;
    for (uint32_t page = first; ok && page < end;) {
      const uint32_t from = page;
      const bool kept = left_.none(page, 1);
      if (any_left_.load_relaxed() == 0) {
        page = end;
      } else {
        while (page < end && left_.none(page, 1) == kept) ++page;
      }
      if (kept) ok = visit(from, page - from);
    }
    return ok;
  }
  [[nodiscard]] Pages pages_of(const void* address, size_t bytes) const;
  template <typename Visit>
  void for_each_part(const void* address, size_t bytes, bool frozen_too, Visit&& visit);
  template <typename Visit>
  void for_each_piece(const void* address, size_t bytes, Visit&& visit) {
    const auto from = reinterpret_cast<uintptr_t>(address);
    for (Piece& piece : pieces_) {
      if (piece.meets(from, bytes)) visit(piece);
    }
  }

  // Read by every call of the malloc family, written once.
  alignas(64) Atomic<uint64_t> span_bytes_{0};  ///< as far as it is mapped; 0 until there is a base
  Atomic<uint32_t> started_{0};
  Atomic<uint32_t> takes_{0};
  Atomic<uint32_t> any_left_{0};
  Atomic<uint32_t> n_files_{0};
  std::byte* base_ = nullptr;
  uint64_t huge_min_ = 0;  ///< allocations from here on are left to libc; 0 = none
  uint32_t max_pages_ = 0;
  uint32_t table_pages_ = 0;  ///< pages for which there are tables
  bool huge_too_ = false;
  bool registered_ = false;  ///< a device may hold on to the physical pages
  bool (*calls_intact_)() = nullptr;
  bool tried_ = false;
  bool checked_ = false;
  Atomic<const char*> why_{nullptr};
  PageBits dirty_;      ///< may hold something else than zeros
  PageBits used_;       ///< a message has used it
  PageBits populated_;  ///< has memory behind it, put there or found by publish()
  PageBits left_;       ///< no longer the heap's: private memory
  PageBits replaced_;   ///< of these, what the program has unmapped or mapped something else over
  std::array<File, kMaxFiles> files_{};
  File globals_;
  std::array<Piece, kMaxPieces> pieces_{};
  Atomic<uint32_t> n_pieces_{0};
  PageBits globals_used_;
  PageBits globals_populated_;
  Atomic<uint64_t> kept_limit_{0};  ///< pages that each shard of the cache may keep, and that may be idle in any case

  RunCache cache_;

  // Under the lock.
  alignas(64) mutable os::Mutex mutex_;
  PageRuns runs_;
  uint64_t live_pages_ = 0;  ///< together with what the cache counts
  uint64_t idle_pages_ = 0;  ///< free and dirty
  uint64_t allocations_ = 0;
  uint64_t largest_returned_ = 0;  ///< pages of the last large allocation that went back at once
  uint64_t returned_at_ns_ = 0;
  uint64_t globals_bytes_ = 0;
  uint32_t objects_at_load_ = 0;
  uint64_t forks_ = 0;
  uint64_t forks_with_heap_ = 0;
  uint64_t forks_copied_ = 0;
  static constexpr uint32_t kMaxClients = 64;
  std::array<Client*, kMaxClients> clients_{};
  os::Descendants descendants_;
  bool child_ = false;
  ForkWay fork_way_ = ForkWay::kNone;
  bool peers_away_ = false;
  // A signal handler forks, and has interrupted this thread under the lock, or in its shard of the cache.
  bool fork_under_lock_ = false;
  bool fork_in_cache_ = false;
  bool retire_later_ = false;  ///< the free runs belong to a file that is frozen
  int fork_reader_ = -1;
  int fork_writer_ = -1;

  Atomic<uint64_t> declined_{0};
  Atomic<uint64_t> declined_bytes_{0};
  Atomic<uint64_t> returned_pages_{0};
  Atomic<uint64_t> left_pages_{0};
  Atomic<uint64_t> first_uses_{0};
  Atomic<uint64_t> populated_pages_{0};
};

/// The process's heap, as libzerohop.so has it.
extern Heap process_heap;

}  // namespace zh::heap
