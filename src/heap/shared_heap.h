// What the shared heap offers to the layers above it. The heap itself lives in libzerohop.so, the layers above in the
// module for the host at hand, which the two are linked apart: the module gets a pointer to this interface at the first
// MPI call. It refuses to know peers, messages and who maps what.
#pragma once

#include <cstddef>
#include <cstdint>

namespace zh::heap {

/// Names bytes of the heap so that another process can map them. `region` 0 means "not in the heap".
struct Place {
  uint32_t region = 0;
  uint32_t generation = 0;  ///< the memory file's (os::file_generation)
  uint64_t offset = 0;      ///< bytes from the region's start
};

/// Told of forks of this process, so that the layers above keep peers away from memory that is about to be copied.
/// All three are called in the thread that forks, with the heap locked: they must not allocate.
class ForkClient {
 public:
  /// When this returns, no peer reads or writes this process's memory directly, and no Place published before will be
  /// used again by one that looks later.
  virtual void before_fork() = 0;
  virtual void after_fork_in_parent() = 0;
  virtual void after_fork_in_child() = 0;

 protected:
  ~ForkClient() = default;
};

struct Stats {
  uint64_t reserved_bytes = 0;   ///< address space
  uint64_t live_bytes = 0;       ///< in allocations and adopted global data
  uint64_t idle_bytes = 0;       ///< freed, kept for reuse
  uint64_t adopted_bytes = 0;    ///< global data of the executable and its libraries
  uint64_t allocations = 0;      ///< served by the heap
  uint64_t declined = 0;         ///< large allocations left to libc while the heap was on
  uint64_t declined_bytes = 0;   ///< their bytes
  uint64_t returned_bytes = 0;   ///< freed and given back to the system
  uint64_t left_bytes = 0;       ///< taken out of the heap: the program manages these pages, or the process forked
  uint64_t first_uses = 0;       ///< publish() that found pages not used by a message before
  uint64_t populated_bytes = 0;  ///< backed by publish() before a peer's first access
  uint64_t forks = 0;            ///< forks seen
  uint64_t forks_copied = 0;     ///< of these, those where the child copied
};

class SharedHeap {
 public:
  /// Fills `*place` if all of [address, address + n) is in the heap now. No system call, no lock; O(1).
  [[nodiscard]] virtual bool locate(const void* address, size_t n, Place* place) const = 0;

  /// For a buffer that a message is about to use: as locate(), but false until its pages have been used by a message
  /// once before (a page's first access by a peer costs more than the way without it saves), and with memory behind
  /// every page when it returns true, so that no peer first-touches it. At most one system call.
  [[nodiscard]] virtual bool publish(const void* address, size_t n, Place* place) = 0;

  /// Descriptor of a region, for peers of the same user; -1 if there is none.
  [[nodiscard]] virtual int descriptor(uint32_t region) const = 0;

  /// The host has initialised: looks for what that means for the heap (devices that have memory registered, calls that
  /// were patched), and may decline. Once.
  virtual void host_started() = 0;
  /// No allocation goes into the heap from now on; what is there stays usable. `why` is a static text.
  virtual void decline(const char* why) = 0;
  /// Null while the heap takes allocations, else why it does not.
  [[nodiscard]] virtual const char* declined() const = 0;

  /// False if too many are registered.
  virtual bool add_fork_client(ForkClient* client) = 0;
  virtual void remove_fork_client(ForkClient* client) = 0;

  [[nodiscard]] virtual Stats stats() const = 0;

 protected:
  ~SharedHeap() = default;
};

}  // namespace zh::heap
