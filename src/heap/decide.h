// Whether the heap is used at all: decided when the library is loaded, from the environment and from what else is
// loaded. It refuses to know the heap.
#pragma once

namespace zh::heap {

struct Decision {
  bool use = false;
  bool always =
      false;  ///< ZEROHOP_HEAP=1: at the second use, also where private memory has huge pages and shared would not
  const char* why = "";  ///< static text: why not, or by what
};

/// From the environment. No system call.
[[nodiscard]] Decision decide();

}  // namespace zh::heap
