// See info_heap.h.
#include "info_heap.h"

#include <cstdio>
#include <cstring>
#include <utility>

#include "base/options.h"

namespace zh::tools {

using nlohmann::json;

namespace {

std::string or_none(const json& text) {
  return text.get<std::string>().empty() ? "not in this kernel" : text.get<std::string>();
}

}  // namespace

json heap_section(const HeapFacts& facts) {
  return {{"setting", facts.setting},
          {"used", facts.used},
          {"why", facts.why},
          {"huge_pages_stay_private", facts.huge_pages_stay},
          {"page_bytes", facts.page_bytes},
          {"overcommit_memory", facts.overcommit},
          {"private_huge_pages", facts.private_huge_pages},
          {"shared_huge_pages", facts.shared_huge_pages},
          {"peers_open_files", {{"usable", facts.sibling_file == 0}, {"errno", -facts.sibling_file}}},
          {"memory_in_advance", {{"usable", facts.populate == 0}, {"errno", -facts.populate}}},
          {"pagemap", facts.pagemap}};
}

void print_heap_section(const json& s) {
  const bool used = s["used"];
  std::printf("\nShared memory of the program's buffers (ZEROHOP_HEAP = %s)\n",
              s["setting"].get<std::string>().c_str());
  std::printf("  used      %s: %s\n", used ? "yes" : "no", s["why"].get<std::string>().c_str());
  if (used) std::printf("  takes     whole pages inside large messages, of buffers that are used again and again\n");
  std::printf("  system    pages of %llu B, vm.overcommit_memory %s\n",
              static_cast<unsigned long long>(s["page_bytes"].get<uint64_t>()),
              s["overcommit_memory"].get<std::string>().c_str());
  std::printf("  huge pages of private memory: %s\n             of shared memory:  %s\n",
              or_none(s["private_huge_pages"]).c_str(), or_none(s["shared_huge_pages"]).c_str());
  if (used && s["huge_pages_stay_private"].get<bool>()) {
    std::printf("             so memory in huge pages stays private (ZEROHOP_HEAP=1 takes it, too)\n");
  }
  for (const auto& [key, what] : {std::pair{"peers_open_files", "peers' memory files cannot be opened"},
                                  std::pair{"memory_in_advance", "no memory in advance (Linux 5.14)"}}) {
    if (!s[key]["usable"].get<bool>())
      std::printf("  ! %s: %s; nothing is mapped by peers\n", what, std::strerror(s[key]["errno"].get<int>()));
  }
  if (!s["pagemap"].get<bool>()) std::printf("  ! /proc/self/pagemap cannot be read\n");
}

}  // namespace zh::tools
