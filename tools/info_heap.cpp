// See info_heap.h.
#include "info_heap.h"

#include <cstdio>
#include <cstring>
#include <utility>

#include "base/options.h"

namespace zh::tools {

using nlohmann::json;

namespace {

std::string in_gib(const json& bytes) {
  if (bytes.is_null()) return "unlimited";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes.get<uint64_t>()) / (1 << 30));
  return text;
}

std::string or_none(const json& text) {
  return text.get<std::string>().empty() ? "not in this kernel" : text.get<std::string>();
}

}  // namespace

json heap_section(const HeapFacts& facts) {
  const auto or_null = [](uint64_t value, uint64_t nothing) { return value == nothing ? json(nullptr) : json(value); };
  return {{"setting", facts.setting},
          {"used", facts.used},
          {"why", facts.why},
          {"used_without_launcher", facts.used_by_hand},
          {"threshold_bytes", facts.threshold},
          {"private_from_bytes", or_null(facts.private_from, 0)},
          {"span_bytes", facts.span_bytes},
          {"physical_bytes", facts.physical_bytes},
          {"address_space_limit_bytes", or_null(facts.address_space, ~uint64_t{0})},
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
  std::printf("\nShared heap (ZEROHOP_HEAP = %s)\n", s["setting"].get<std::string>().c_str());
  std::printf("  used      %s: %s\n", used ? "yes" : "no", s["why"].get<std::string>().c_str());
  if (used) {
    std::printf("  takes     allocations of %s and more, and large global data\n",
                format_size(s["threshold_bytes"].get<uint64_t>()).c_str());
  }
  std::printf("  addresses up to %s (memory %s, ulimit -v %s)\n",
              s["span_bytes"] == 0 ? "none" : in_gib(s["span_bytes"]).c_str(), in_gib(s["physical_bytes"]).c_str(),
              in_gib(s["address_space_limit_bytes"]).c_str());
  std::printf("  system    pages of %llu B, vm.overcommit_memory %s\n",
              static_cast<unsigned long long>(s["page_bytes"].get<uint64_t>()),
              s["overcommit_memory"].get<std::string>().c_str());
  std::printf("  huge pages of private memory: %s\n             of shared memory:  %s\n",
              or_none(s["private_huge_pages"]).c_str(), or_none(s["shared_huge_pages"]).c_str());
  if (used && !s["private_from_bytes"].is_null()) {
    std::printf("             so allocations of %s and more stay private (ZEROHOP_HEAP=1 takes them, too)\n",
                format_size(s["private_from_bytes"].get<uint64_t>()).c_str());
  }
  for (const auto& [key, what] : {std::pair{"peers_open_files", "peers' memory files cannot be opened"},
                                  std::pair{"memory_in_advance", "no memory in advance (Linux 5.14)"}}) {
    if (!s[key]["usable"].get<bool>())
      std::printf("  ! %s: %s; nothing is mapped by peers\n", what, std::strerror(s[key]["errno"].get<int>()));
  }
  if (!s["pagemap"].get<bool>())
    std::printf("  ! /proc/self/pagemap cannot be read; global data is only mapped from the first MPI call on\n");
}

}  // namespace zh::tools
