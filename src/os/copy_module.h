// Memory of another process through the kernel module zerohop (docs/kernel-module.md), where the kernel's own calls are
// refused. Called by src/node (joining, live probe) and src/copy (buffers, transfers). It refuses to know who needs it,
// and what becomes of a copy that ends early.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"

namespace zh::os {

/// One process's way in; tests have their own. Any thread.
class CopyModule {
 public:
  struct Secret {
    uint64_t words[4];
  };
  virtual ~CopyModule() = default;
  /// Comes to those who have the same secret, once. `*member`: its number among them, from 1.
  virtual Status join(const Secret& secret, uint32_t* member) = 0;
  /// They may read the pages of [address, +bytes), and write them, until this process changes the mapping or the module
  /// makes room; so it is called before each message, and costs little where nothing has changed. 0 or -errno: ENOMEM
  /// (RLIMIT_MEMLOCK), EDQUOT (the pool), EFAULT (no such memory, or it may not be written).
  virtual int let_in(const void* address, uint64_t bytes, bool writable) = 0;
  /// As peer_read() of addresses of `member`; ENOENT: it has not let others in there, or no longer.
  virtual ssize_t read(uint32_t member, const iovec* local, size_t nlocal, const iovec* remote, size_t nremote) = 0;
  /// As peer_write().
  virtual ssize_t write(uint32_t member, const iovec* local, size_t nlocal, const iovec* remote, size_t nremote) = 0;
};

constexpr const char* kCopyDevice = "/dev/zerohop";
/// Opens `device`. kNotSupported: the module is not loaded; kNotPermitted.
Status open_copy_module(const char* device, std::unique_ptr<CopyModule>* out);

}  // namespace zh::os
