// Asks the running system what it permits, by doing it. Called by `zerohop doctor` and `zerohop info`.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace zh::os {

/// Whether one process may read a sibling's memory (as ranks are siblings): 0 or -errno. With `opened` the one that is
/// read first allows it (PR_SET_PTRACER).
[[nodiscard]] int probe_sibling_read(bool opened);
/// Whether the kernel module copies, as much as a long message has.
Status probe_copy_module();
/// Whether one process may open and map a memory file of a sibling through /proc/<pid>/fd: 0 or -errno.
[[nodiscard]] int probe_sibling_file();
/// Whether memory can be put behind a shared mapping in advance (MADV_POPULATE_WRITE, Linux 5.14): 0 or -errno.
[[nodiscard]] int probe_populate();
/// Whether /proc/self/pagemap tells which pages were touched.
[[nodiscard]] bool probe_pagemap();
/// Whether memfd works, with pages behind it and through /proc/self/fd.
Status probe_memfd();
/// 0 or -errno.
[[nodiscard]] int probe_pidfd();

struct FileSystemSpace {
  uint64_t size_bytes = 0, free_bytes = 0;
  bool exists = false;
};
[[nodiscard]] FileSystemSpace space_of(const std::string& folder);

}  // namespace zh::os
