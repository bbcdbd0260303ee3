// What this process's own memory is made of, as the system tells: mappings, the pages behind them, where threads have
// their stacks, and who else holds on to pages. Called by src/heap before memory is exchanged; nothing here allocates.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/function_ref.h"

namespace zh::os {

/// One mapping of this process (a line of /proc/self/maps).
struct Mapping {
  uintptr_t from = 0;
  uintptr_t to = 0;
  bool readable = false;
  bool writable = false;
  bool executable = false;
  bool shared = false;
  bool stack = false;  ///< of the first thread
  uint64_t inode = 0;  ///< 0: anonymous memory
};

/// Looks mappings up: by a query of one address (Linux 6.11), else in the text.
class Mappings {
 public:
  /// `by_text`: never by query; for tests.
  explicit Mappings(bool by_text = false);
  ~Mappings();
  Mappings(const Mappings&) = delete;
  Mappings& operator=(const Mappings&) = delete;

  /// The mapping that holds `address`; false if none does, or if the system does not tell.
  [[nodiscard]] bool find(uintptr_t address, Mapping* out) const;

 private:
  [[nodiscard]] bool find_in_text(uintptr_t address, Mapping* out) const;

  int fd_ = -1;
  bool by_text_ = false;
};

enum class Behind : uint8_t {
  kPrivate,    ///< every page is memory of this process alone
  kUntouched,  ///< some page has nothing behind it yet, or the page of zeros that all share
  kFile,       ///< some page is a file's, or shared
  kHuge,       ///< some page is part of a huge one
  kUnknown     ///< the system does not tell
};
/// What is behind the pages of [at, at + bytes). `knows_huge` receives whether the system told of huge pages and of the
/// page of zeros (Linux 6.7); `plain`: do not ask it that way, for tests.
[[nodiscard]] Behind behind(const void* at, uint64_t bytes, bool* knows_huge, bool plain = false);

/// Is `address`, in this mapping, in a thread's stack or in its thread's own data behind it? libc unmaps such memory by
/// itself. The first thread's stack is a mapping of its own. A stack of which the program has protected a part is
/// several mappings.
[[nodiscard]] bool in_thread_stack(const Mappings& mappings, const Mapping& mapping, uintptr_t address);

/// visit(address) with an address in the own data of each thread but the first.
void for_each_thread(FunctionRef<void(uintptr_t address)> visit);

/// Why pages of this process may not be exchanged, as a static text: locked or pinned memory, or an open device or
/// object that remembers pages (RDMA, GPU, vfio, io_uring, userfaultfd). Null if nothing is known.
[[nodiscard]] const char* holder_of_pages();

/// Why memory of this process may be unmapped by calls that are not seen, as a static text: a runtime that makes direct
/// system calls (Go's), or a second libc (dlmopen). Null if nothing is known.
[[nodiscard]] const char* manages_pages_unseen();

/// Threads of this process; 0 if /proc does not tell.
[[nodiscard]] uint32_t threads_of_process();

/// visit(address) with the first argument of each futex wait that a thread of this process is in.
void for_each_futex_wait(FunctionRef<void(uintptr_t address)> visit);

}  // namespace zh::os
