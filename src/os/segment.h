// Shared memory objects: made as a memfd or as a file that loses its name, reached by descriptor, mapped, backed with
// pages. Called by src/node (the segment) and src/copy (regions). It refuses to know what lies in the memory.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace zh::os {

/// A descriptor that closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  int release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

/// Anonymous memory file of `bytes`, sparse. `name` shows in /proc/<pid>/maps only.
Status make_memfd(const char* name, uint64_t bytes, Descriptor* out);
/// The same as a file without a name in `folder`; if `keep_name`, it keeps one until the caller unlinks `*path`.
Status make_file(const std::string& folder, uint64_t bytes, bool keep_name, Descriptor* out, std::string* path);
/// Folders that may hold such a file, best first: /dev/shm, $TMPDIR, /tmp; only those that are writable.
[[nodiscard]] std::string find_shared_folder();
void remove_name(const std::string& path);

/// Opens descriptor `fd` of process `pid` through /proc. Needs the same PID namespace and the right to ptrace.
Status open_peer_descriptor(pid_t pid, int fd, Descriptor* out);
/// The same, but only if it is the memory file that was meant (make_memfd, a name that begins with "zerohop", of this
/// generation): a program may have closed the descriptor, and its number be another file's now.
Status open_peer_memory(pid_t pid, int fd, uint32_t generation, Descriptor* out);
Status open_path(const std::string& path, Descriptor* out);

Status map_shared(int fd, uint64_t bytes, std::byte** out);
/// The same, of which only the first `open_bytes` (whole pages) can be touched until make_writable(): what is closed
/// takes no memory even where the program locks all of its own (mlockall).
Status map_shared_closed(int fd, uint64_t bytes, uint64_t open_bytes, std::byte** out);
/// The same as map_shared() of [offset, offset + bytes), offset a multiple of the page size; read-only on request.
Status map_shared_range(int fd, uint64_t offset, uint64_t bytes, bool writable, std::byte** out);
void unmap(std::byte* address, uint64_t bytes);
/// Lets a range that was mapped read-only, or closed, be read and written.
Status make_writable(std::byte* address, uint64_t bytes);
/// Length of the file behind a descriptor; 0 if it cannot be told.
[[nodiscard]] uint64_t size_of(int fd);

/// Backs [offset, offset + bytes) with pages, so that touching them cannot raise SIGBUS. kNoMemory when a file system,
/// cgroup or other limit is in the way; nothing is then kept beyond what was there.
Status back_range(int fd, uint64_t offset, uint64_t bytes);
/// Maps the pages of [address, +bytes) into this process at once instead of one fault each; best effort.
void populate(std::byte* address, uint64_t bytes);
/// The same for memory that is only read.
void populate_for_reading(std::byte* address, uint64_t bytes);
/// Gives the pages of the range back to the system (they read as zero afterwards).
Status release_range(int fd, uint64_t offset, uint64_t bytes);
/// Free bytes of the file system that holds `fd` (tmpfs size limit); ~0 if it has none.
[[nodiscard]] uint64_t free_bytes_of(int fd);

/// Hands a descriptor to processes of the same user over a Unix socket with an abstract name, or, where network
/// namespaces differ, a path in `folder`. Only peers of the same user are answered.
class DescriptorServer {
 public:
  DescriptorServer() = default;
  ~DescriptorServer();
  DescriptorServer(const DescriptorServer&) = delete;
  DescriptorServer& operator=(const DescriptorServer&) = delete;

  /// Binds to a name made from `token`; abstract if folder is "".
  Status listen(uint64_t token, const std::string& folder);
  [[nodiscard]] const std::string& address() const { return address_; }  ///< starts with '@' if abstract
  /// Serves `fd` to `clients` connections, each at most timeout_ns from now.
  Status serve(int fd, int clients, uint64_t timeout_ns);

 private:
  Descriptor socket_;
  std::string address_;
};
/// Gets the descriptor from a server's address.
Status receive_descriptor(const std::string& address, uint64_t timeout_ns, Descriptor* out);

}  // namespace zh::os
