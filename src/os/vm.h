// Address space: ranges mapped at fixed places, exchanged and given back. Called by src/heap, which lives
// below malloc: nothing here allocates or throws. It refuses to know what the ranges hold.
#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>

namespace zh::os {

/// Zeroed private memory, taken from the system only as it is touched; null if there is no address space.
[[nodiscard]] std::byte* map_lazy(uint64_t bytes);
/// Maps a file's bytes, shared, somewhere at an address that is `at` modulo 2 MiB; null if refused. Children of this
/// process do not have it.
[[nodiscard]] std::byte* map_file(int fd, uint64_t offset, uint64_t bytes, uintptr_t at);
void unmap_raw(std::byte* at, uint64_t bytes);

// The following replace what is mapped at [at, at + bytes), in one step as other threads see it. False if refused;
// what was there before is then still there, unless is_mapped() denies it. All at page bounds.
bool map_file_at(std::byte* at, uint64_t bytes, int fd, uint64_t offset, bool private_copy);
bool map_private_at(std::byte* at, uint64_t bytes);
/// A second mapping of the same shared pages, somewhere; null if refused.
[[nodiscard]] std::byte* map_again(std::byte* at, uint64_t bytes);
/// Moves the mapping of [from, from + bytes) there.
bool move_to(std::byte* at, std::byte* from, uint64_t bytes);
[[nodiscard]] bool is_mapped(const std::byte* at, uint64_t bytes);

/// A process that is forked has nothing there; or has again.
bool keep_from_children(std::byte* at, uint64_t bytes, bool keep);
/// A process that is forked has zeros there.
void wipe_in_children(std::byte* at, uint64_t bytes);
/// Core dumps leave it out.
void keep_out_of_dumps(std::byte* at, uint64_t bytes);
/// Gives the pages of a shared mapping back to the system, which read as zero afterwards.
bool return_pages(std::byte* at, uint64_t bytes);
/// The same through the descriptor: the pages need not be mapped.
bool return_file_pages(int fd, uint64_t offset, uint64_t bytes);
/// Asks for huge pages; best effort.
void want_huge_pages(std::byte* at, uint64_t bytes);
/// True if the pages could be mapped in, with memory behind them (Linux 5.14).
bool populate_for_write(const void* at, uint64_t bytes);
/// Does the system know such a call at all?
[[nodiscard]] bool can_populate();
/// A write that changes nothing, whoever else writes there.
void touch_for_write(std::byte* at);
/// To be read only, or not at all; and as it was.
bool protect(std::byte* at, uint64_t bytes, bool readable);
/// Reads this process's memory whatever its protection; false where the system refuses.
bool read_protected(const std::byte* at, std::byte* out, uint64_t bytes);
/// Waiters on the shared futex at this address, all of them.
void wake_futex(const void* at);

/// A sparse memory file whose descriptor has a high number, out of the way of programs that count on low ones; closed
/// by exec. -1 if there is none to have.
[[nodiscard]] int make_sparse_file(const char* name, uint64_t bytes);
/// Identity of an open file on this machine, 0 if the descriptor is not open.
[[nodiscard]] uint64_t file_id(int fd);
/// The low half of it, by which a process tells peers which file it means.
[[nodiscard]] inline uint32_t file_generation(int fd) { return static_cast<uint32_t>(file_id(fd)); }
bool read_at(int fd, uint64_t offset, std::byte* out, uint64_t bytes);
/// If it is one (>= 0).
void close_fd(int fd);

[[nodiscard]] uint64_t page_bytes();
enum class Limit : uint8_t { kAddressSpace, kData, kFileSize, kLockedMemory };
/// The soft limit (ulimit -v, -d, -f, -l) in bytes; ~0 without one.
[[nodiscard]] uint64_t soft_limit(Limit which);

/// A pipe whose ends exec closes: tells when every process that holds the writing end is gone or runs another program.
struct Tether {
  int reader = -1;
  int writer = -1;
};
bool make_tether(Tether* out);
/// Blocks until nobody holds the writing end any more, or a byte has come.
void wait_for_tether(int reader);
void pull_tether(int writer);

/// A page that holds a lock of the file for as long as any process has it mapped: this one, and children that it forks
/// meanwhile, but not what they run by exec. Null if refused.
[[nodiscard]] std::byte* map_lock(int fd);
/// Nobody has such a page of the file mapped.
[[nodiscard]] bool lock_is_free(int fd);

/// First bytes of a small file of /proc or /sys, ended by 0; false if it cannot be read.
bool read_text(const char* path, char* out, size_t bytes);
/// One line to standard error, by one system call.
void say_line(const char* a, const char* b);

/// While one lives, this thread's new pages come from the memory node of the page at `address`, where the machine has
/// several and the system tells.
class NearMemory {
 public:
  explicit NearMemory(const void* address);
  ~NearMemory();
  NearMemory(const NearMemory&) = delete;
  NearMemory& operator=(const NearMemory&) = delete;

 private:
  static constexpr unsigned kMaxNodes = 1024;
  bool changed_ = false;
  int mode_ = 0;
  unsigned long nodes_[kMaxNodes / (8 * sizeof(unsigned long))];
};

/// No signal handler runs in this thread from block() to unblock(), and it is not cancelled.
class SignalMask {
 public:
  void block();
  void unblock();

 private:
  sigset_t before_{};
  int cancel_ = 0;
};

/// The same while one lives.
class SignalsBlocked {
 public:
  SignalsBlocked() { mask_.block(); }
  ~SignalsBlocked() { mask_.unblock(); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  SignalMask mask_;
};

}  // namespace zh::os
