// Address space: ranges reserved, mapped at fixed places, copied aside and given back. Called by src/heap, which lives
// below malloc: nothing here allocates or throws. It refuses to know what the ranges hold.
#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>

namespace zh::os {

/// Maps where nothing is mapped yet; false if something is, or if the address does not exist.
bool map_new_file_at(std::byte* at, uint64_t bytes, int fd, uint64_t offset);
bool map_new_lazy_at(std::byte* at, uint64_t bytes);
/// A process that is forked without the handlers of fork() has nothing there; or has again.
void keep_from_children(std::byte* at, uint64_t bytes, bool keep);
/// Zeroed private memory, taken from the system only as it is touched; null if there is no address space.
[[nodiscard]] std::byte* map_lazy(uint64_t bytes);

// The following replace what is mapped at [at, at + bytes), in one step as other threads see it. False if refused;
// what was there before is then still there. All at page bounds.
bool map_file_at(std::byte* at, uint64_t bytes, int fd, uint64_t offset, bool private_copy);
bool map_lazy_at(std::byte* at, uint64_t bytes);
/// No access and no memory, still reserved.
bool give_up_at(std::byte* at, uint64_t bytes);
/// Moves the mapping of [from, from + bytes) there.
bool move_to(std::byte* at, std::byte* from, uint64_t bytes);

/// Gives the pages of a shared mapping back to the system, which read as zero afterwards. Goes through the program's
/// own madvise(), so that whoever caches registrations of memory sees it.
bool return_pages(std::byte* at, uint64_t bytes);
/// The same through the descriptor: the pages need not be mapped.
bool return_file_pages(int fd, uint64_t offset, uint64_t bytes);
/// Asks for huge pages; best effort.
void want_huge_pages(std::byte* at, uint64_t bytes);
/// True if the pages could be mapped in, with memory behind them (Linux 5.14).
bool populate_for_write(const void* at, uint64_t bytes);

/// A sparse memory file whose descriptor has a high number, out of the way of programs that count on low ones; closed
/// by exec. -1 if there is none to have.
[[nodiscard]] int make_sparse_file(const char* name, uint64_t bytes);
/// Identity of an open file on this machine, 0 if the descriptor is not open.
[[nodiscard]] uint64_t file_id(int fd);
/// The low half of it, by which a process tells peers which file it means.
[[nodiscard]] inline uint32_t file_generation(int fd) { return static_cast<uint32_t>(file_id(fd)); }
[[nodiscard]] uint64_t backed_bytes_of(int fd);
/// First stretch of [from, end) with memory behind it; false if there is none.
bool next_data(int fd, uint64_t from, uint64_t end, uint64_t* data_from, uint64_t* data_end);
bool write_at(int fd, uint64_t offset, const std::byte* data, uint64_t bytes);
bool read_at(int fd, uint64_t offset, std::byte* out, uint64_t bytes);
void close_fd(int fd);

/// Threads of this process; 0 if /proc does not tell.
[[nodiscard]] uint32_t threads_of_process();
[[nodiscard]] uint64_t physical_bytes();
/// A descriptor of a device that reads and writes memory by itself is open (InfiniBand, Omni-Path, Slingshot, ...).
[[nodiscard]] bool uses_rdma_device();
[[nodiscard]] uint64_t page_bytes();
/// Differs between processes; the kernel's gift at their start.
[[nodiscard]] uint64_t random_number();
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

/// First bytes of a small file of /proc or /sys, ended by 0; false if it cannot be read.
bool read_text(const char* path, char* out, size_t bytes);
/// One line to standard error, by one system call.
void say_line(const char* a, const char* b);

/// No signal handler runs in this thread while one lives.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace zh::os
