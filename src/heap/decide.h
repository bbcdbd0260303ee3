// Whether the heap is used at all: decided when the library is loaded, from the environment and from what else is
// loaded. It refuses to know the heap.
#pragma once

namespace zh::heap {

struct Decision {
  bool use = false;
  bool huge_too = false;  ///< ZEROHOP_HEAP=1: also where private memory would get huge pages and the heap does not
  const char* why = "";   ///< static text: why not, or by what
};

/// `own_malloc`: another allocator than libc's stands behind this library, or before it. `launched`: answer as for a
/// program that a launcher starts, also where the environment names none. No system call.
[[nodiscard]] Decision decide(bool own_malloc, bool launched = false);

}  // namespace zh::heap
