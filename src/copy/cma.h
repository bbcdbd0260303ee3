// Single copy through the kernel (process_vm_readv/writev) between two buffers, either of which may be non-contiguous.
// LiMIC's copy (paper section 4.2) in its present-day form. It refuses to know messages and matching.
#pragma once

#include <sys/types.h>

#include "base/status.h"
#include "copy/layout.h"

namespace zh::copy {

/// Copies packed bytes [from, from + n) from `remote` (addresses of process `pid`) to the same positions of `local`.
/// `*done` receives the bytes moved from the front even when the call fails part-way (EFAULT, short count).
Status cma_read(pid_t pid, const Buffer& local, const Buffer& remote, uint64_t from, uint64_t n, uint64_t* done);
/// The same towards `remote`.
Status cma_write(pid_t pid, const Buffer& local, const Buffer& remote, uint64_t from, uint64_t n, uint64_t* done);

}  // namespace zh::copy
