// Memory of another process through the kernel: process_vm_readv/writev (CMA), and the permission that Yama asks for.
// Called by src/copy (transfers) and src/node (live probe). It refuses to know buffers, chunks and retries.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>

namespace zh::os {

/// Copies from `remote` (addresses of process `pid`) to `local`, at most IOV_MAX elements a side.
/// Returns bytes moved, perhaps fewer than asked (the kernel stops at the first remote page it cannot reach), or
/// -errno: EPERM (Yama, seccomp, user namespaces), ESRCH (the process is gone), EFAULT, ENOSYS.
ssize_t peer_read(pid_t pid, const iovec* local, size_t nlocal, const iovec* remote, size_t nremote);
/// The same from `local` to `remote`.
ssize_t peer_write(pid_t pid, const iovec* local, size_t nlocal, const iovec* remote, size_t nremote);

/// Yama's ptrace scope: 0 to 3, or -1 where Yama is absent (CMA then needs only the same user).
[[nodiscard]] int yama_scope();
/// Lets any process of this user reach this one's memory (PR_SET_PTRACER, ANY): what scope 1 needs. 0 or -errno.
/// It widens who may attach a debugger to this process, so it is called only when scope is 1 and the setting ptracer
/// allows.
int allow_any_tracer();

}  // namespace zh::os
