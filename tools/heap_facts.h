// What decides about the shared heap of a program that is started from here: `zerohop info` prints it, `zerohop doctor`
// judges it. Nothing here knows how either looks.
#pragma once

#include <cstdint>
#include <string>

namespace zh {
class Options;
}

namespace zh::tools {

struct HeapFacts {
  std::string setting;        ///< of ZEROHOP_HEAP
  bool switched_off = false;  ///< by the user's variables
  bool used = false;          ///< by a program behind `zerohop run` or a launcher of MPI programs
  std::string why;            ///< why not, or by what
  bool used_by_hand = false;  ///< also by one that is only started with LD_PRELOAD
  bool huge_too = false;      ///< ZEROHOP_HEAP=1: also what private memory would hold in huge pages
  uint64_t threshold = 0;     ///< smaller allocations stay with libc
  uint64_t page_bytes = 0;    ///< of the system
  uint64_t physical_bytes = 0;
  uint64_t address_space = ~uint64_t{0};  ///< RLIMIT_AS, ~0 without one
  uint64_t span_bytes = 0;                ///< address space for allocations; 0: too little
  std::string overcommit;                 ///< the settings as the system shows them, "" where it has none
  std::string private_huge_pages;
  std::string shared_huge_pages;
  uint64_t private_from = 0;  ///< allocations from here on stay private because of huge pages; 0: none do
  int populate = 0;           ///< 0 or -errno
  int sibling_file = 0;       ///< 0 or -errno
  bool pagemap = true;
};

/// Tries and reads the running system.
[[nodiscard]] HeapFacts look_at_heap(const Options& options);

}  // namespace zh::tools
