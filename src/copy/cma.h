// Single copy through the kernel (process_vm_readv/writev, or its module) between two buffers, either of which may be
// non-contiguous. LiMIC's copy (paper section 4.2) in its present-day form. It refuses to know messages and matching.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include "base/function_ref.h"
#include "base/status.h"
#include "copy/layout.h"

namespace zh::copy {

/// A call of the kernel: moves what both lists describe, between this process and the other one. Returns the bytes
/// moved from the front, perhaps fewer, or -errno.
using KernelMove = FunctionRef<ssize_t(const iovec* here, size_t n_here, const iovec* there, size_t n_there)>;

/// Moves packed bytes [from, from + n) between `remote`, of another process, and the same positions of `local`. `*done`
/// receives the bytes moved from the front even when `move` fails part-way (EFAULT, ENOENT, short count). `what` names
/// it.
Status transfer(KernelMove move, const char* what, const Buffer& local, const Buffer& remote, uint64_t from, uint64_t n,
                uint64_t* done);

/// Copies packed bytes [from, from + n) from `remote` (addresses of process `pid`) to the same positions of `local`.
Status cma_read(pid_t pid, const Buffer& local, const Buffer& remote, uint64_t from, uint64_t n, uint64_t* done);
/// The same towards `remote`.
Status cma_write(pid_t pid, const Buffer& local, const Buffer& remote, uint64_t from, uint64_t n, uint64_t* done);

}  // namespace zh::copy
