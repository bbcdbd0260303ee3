// CMA transfers in batches of address lists on both sides. The kernel reports whole progress from the front, so a
// transfer that fails part-way tells how far it came and another way can finish it.
#include "copy/cma.h"

#include <sys/uio.h>

#include "os/error.h"
#include "os/peer_mem.h"

namespace zh::copy {
namespace {

/// Pieces per side and call. Each further piece costs the kernel about as much as the call's own overhead divided by
/// ten, so longer lists gain nothing and would only make the stack frame larger.
constexpr size_t kPieces = 128;
/// A call moves at most 2 GiB - 1 page; stay below.
constexpr uint64_t kCallBytes = 1U << 30;

/// Shortens a list that describes `have` bytes to `want` bytes; returns its new length.
size_t trim(iovec* list, size_t n, uint64_t have, uint64_t want) {
  while (have > want) {
    const uint64_t excess = have - want;
    if (list[n - 1].iov_len > excess) {
      list[n - 1].iov_len -= excess;
      return n;
    }
    have -= list[n - 1].iov_len;
    --n;
  }
  return n;
}

}  // namespace

Status transfer(KernelMove move, const char* what, const Buffer& local, const Buffer& remote, uint64_t from, uint64_t n,
                uint64_t* done) {
  *done = 0;
  while (*done < n) {
    iovec here[kPieces];
    iovec there[kPieces];
    const uint64_t rest = n - *done;
    const uint64_t ask = rest < kCallBytes ? rest : kCallBytes;
    uint64_t here_bytes = 0;
    uint64_t there_bytes = 0;
    size_t n_here = to_iovecs(local, from + *done, ask, here, kPieces, &here_bytes);
    size_t n_there = to_iovecs(remote, from + *done, ask, there, kPieces, &there_bytes);
    if (here_bytes > there_bytes) {
      n_here = trim(here, n_here, here_bytes, there_bytes);
    } else {
      n_there = trim(there, n_there, there_bytes, here_bytes);
    }
    const ssize_t moved = move(here, n_here, there, n_there);
    if (moved < 0) return os::from_errno(what, static_cast<int>(-moved));
    // The kernel tells of a bad page by a short count first and by an error if asked again from there.
    if (moved == 0) return {Code::kIo, what, EFAULT};
    *done += static_cast<uint64_t>(moved);
  }
  return kOk;
}

Status cma_read(pid_t pid, const Buffer& local, const Buffer& remote, uint64_t from, uint64_t n, uint64_t* done) {
  const auto move = [pid](const iovec* here, size_t n_here, const iovec* there, size_t n_there) {
    return os::peer_read(pid, here, n_here, there, n_there);
  };
  return transfer(move, "process_vm_readv: read a peer's buffer", local, remote, from, n, done);
}

Status cma_write(pid_t pid, const Buffer& local, const Buffer& remote, uint64_t from, uint64_t n, uint64_t* done) {
  const auto move = [pid](const iovec* here, size_t n_here, const iovec* there, size_t n_there) {
    return os::peer_write(pid, here, n_here, there, n_there);
  };
  return transfer(move, "process_vm_writev: write a peer's buffer", local, remote, from, n, done);
}

}  // namespace zh::copy
