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
  bool used = false;
  std::string why;               ///< why not, or by what
  bool huge_too = false;         ///< ZEROHOP_HEAP=1: also where memory loses huge pages by it
  bool huge_pages_stay = false;  ///< memory in huge pages stays private
  uint64_t page_bytes = 0;       ///< of the system
  std::string overcommit;        ///< the settings as the system shows them, "" where it has none
  std::string private_huge_pages;
  std::string shared_huge_pages;
  int populate = 0;      ///< 0 or -errno
  int sibling_file = 0;  ///< 0 or -errno
  bool pagemap = true;
};

/// Tries and reads the running system.
[[nodiscard]] HeapFacts look_at_heap(const Options& options);

}  // namespace zh::tools
