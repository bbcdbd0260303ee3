// See text.h.
#include "tools/info/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/options.h"
#include "tools/cli/text.h"
#include "tune/choice.h"

namespace zh::tools {
namespace {

using nlohmann::json;

std::string text_of(const json& value) { return value.get<std::string>(); }
bool is_true(const json& value) { return value.get<bool>(); }

/// Collects lines.
class Page {
 public:
  explicit Page(size_t columns) : columns_(columns) {}
  void title(const std::string& text) { text_ += "\n" + hanging("", text, columns_); }
  void line(const std::string& text, const std::string& head = "  ") { text_ += hanging(head, text, columns_); }
  /// A name of a column and what there is to say of it.
  void entry(const std::string& name, const std::string& text) { line(text, fmt::format("  {:<13} ", name)); }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  size_t columns_;
  std::string text_;
};

std::string setting(const json& variable) {
  const std::string value = text_of(variable["value"]);
  return " = " + (value.empty() ? "(empty)" : value) + " (" + text_of(variable["source"]) + ")";
}

void variables(const json& info, bool all, Page* page) {
  page->title(all ? "Variables, and settings of ZEROHOP_CONFIG: value (where it comes from)"
                  : "Variables that are set (`zerohop info --variables` lists all)");
  bool none = info["complaints"].empty();
  for (const json& variable : info["variables"]) {
    if (!all && variable["source"] == "default") continue;
    none = false;
    page->line(text_of(variable["name"]) + setting(variable));
    page->line(text_of(variable["meaning"]), "      ");
  }
  if (none) page->line("none");
  for (const json& complaint : info["complaints"]) page->line(text_of(complaint), "  ! ");
}

std::string count(const json& number, const char* one, const char* more) {
  const auto n = number.get<uint64_t>();
  return fmt::format("{} {}", n, n == 1 ? one : more);
}

void machine(const json& m, Page* page) {
  page->title("Machine");
  if (m.contains("error")) {
    page->line(text_of(m["error"]));
    return;
  }
  page->line(text_of(m["cpu_model"]));
  page->line(fmt::format("{}, {}, {} L2 of {} KiB, {} L3 of {} KiB, {}, {}", count(m["cpus"], "CPU", "CPUs"),
                         count(m["cores"], "core", "cores"), m["l2_caches"].get<unsigned>(),
                         m["l2_bytes"].get<uint64_t>() >> 10, m["l3_caches"].get<unsigned>(),
                         m["l3_bytes"].get<uint64_t>() >> 10, count(m["numa_nodes"], "memory node", "memory nodes"),
                         count(m["sockets"], "socket", "sockets")));
  std::string allowed = "this process may use CPUs " + text_of(m["allowed_cpus"]);
  if (!m["cgroup_cpus"].is_null()) {
    allowed += fmt::format(", {:.1f} CPUs' time by its cgroup", m["cgroup_cpus"].get<double>());
  }
  page->line(allowed);
  const json& levels = m["cpu_pairs_by_level"];
  for (const auto& [level, pairs] : levels.items()) {
    page->entry(level, count(pairs, "pair of CPUs", "pairs of CPUs"));
  }
  if (!levels.empty()) page->line("(by hwloc; corrected at MPI_Init by the measured time of a line)");
}

void usable(const json& list, Page* page) {
  page->title("Usable here");
  for (const auto& [name, what] : list.items()) {
    const std::string why_not = text_of(what["why_not"]);
    page->entry(name, (is_true(what["usable"]) ? "yes" : "no") + (why_not.empty() ? "" : ": " + why_not));
  }
}

void heap(const json& s, Page* page) {
  const auto or_none = [](const json& text) { return text_of(text).empty() ? "not in this kernel" : text_of(text); };
  const bool used = is_true(s["used"]);
  page->title("Shared memory of the program's buffers (ZEROHOP_HEAP = " + text_of(s["setting"]) + ")");
  page->entry("used", (used ? "yes: " : "no: ") + text_of(s["why"]));
  if (used) page->entry("takes", "whole pages inside large messages, of buffers that are used again and again");
  page->entry("system", fmt::format("pages of {} B, vm.overcommit_memory {}", s["page_bytes"].get<uint64_t>(),
                                    text_of(s["overcommit_memory"])));
  page->entry("huge pages", "of private memory: " + or_none(s["private_huge_pages"]));
  page->entry("", "of shared memory: " + or_none(s["shared_huge_pages"]));
  if (used && is_true(s["huge_pages_stay_private"])) {
    page->entry("", "so memory in huge pages stays private (ZEROHOP_HEAP=1 takes it, too)");
  }
  for (const auto& [key, what] : {std::pair{"peers_open_files", "peers' memory files cannot be opened"},
                                  std::pair{"memory_in_advance", "no memory in advance (Linux 5.14)"}}) {
    if (is_true(s[key]["usable"])) continue;
    page->line(fmt::format("{}: {}; nothing is mapped by peers", what, std::strerror(s[key]["errno"].get<int>())),
               "  ! ");
  }
  if (!is_true(s["pagemap"])) page->line("/proc/self/pagemap cannot be read", "  ! ");
}

void calibration(const json& c, Page* page) {
  page->title("Calibration: " + text_of(c["path"]));
  if (!is_true(c["used"])) page->line("not used: ZEROHOP_PROFILE names other thresholds");
  if (!is_true(c["present"])) {
    page->line(text_of(c["why_not"]) +
               "; a job's first MPI_Init on a machine measures it (ZEROHOP_LOG=info shows each pair's choices)");
  }
  if (!c["classes"].empty()) {
    page->line(
        "line: a cache line from one to the other; inline: beside the header; block, cells: through shared memory; "
        "mapped: memory that both have (docs/glossary.md)");
  }
  for (const json& d : c["classes"]) {
    // It begins with the level, padded to the column of entry().
    page->line(text_of(d["standing"]).substr(text_of(d["level"]).size() + 1),
               fmt::format("  {:<13} ", text_of(d["level"])));
    const json& choice = d["choice"];
    const auto size = [&choice](const char* key) { return format_size(choice[key].get<uint64_t>()); };
    const auto ever = [&choice](const char* key) { return choice[key].get<uint64_t>() < tune::kNever; };
    const double line_ns = d["line_ns"].get<double>();
    const std::string line = line_ns > 0 ? fmt::format("line {:.0f} ns", line_ns) : "line not known";
    page->entry("",
                fmt::format("{}: inline to {}, one block to {}, {}; {}", line, size("inline_max"), size("eager_max"),
                            ever("single_copy_min") ? "cells to " + size("single_copy_min") + ", then one copy"
                                                    : "then cells, one copy never",
                            ever("mapped_min") ? "mapped from " + size("mapped_min") : "never mapped"));
  }
}

/// One table for each binary interface; those that say the same are told once. `if_none`: what to say of one that is
/// not there.
void collectives(const json& tables, const std::string& what, const std::string& if_none, Page* page) {
  for (const auto& [names, table] : told_once(tables, "path")) {
    page->title(what + " under " + names);
    if (!is_true(table["present"])) {
      page->line(text_of(table["why_not"]) + if_none);
      continue;
    }
    page->line("kept in " + text_of(table["path"]));
    for (const json& e : table["entries"]) {
      const json& chunk = e["chunk_bytes"];
      std::string cut;
      if (!chunk.is_null()) cut = chunk == 0 ? ", whole" : ", in chunks of " + format_size(chunk.get<uint64_t>());
      page->line(fmt::format("{:>4} ranks, {}, from {} on: {}{}", e["ranks"].get<unsigned>(),
                             is_true(e["several_nodes"]) ? "several nodes" : "one node",
                             format_size(e["from_bytes"].get<uint64_t>()), text_of(e["algorithm"]), cut),
                 fmt::format("  {:<14} ", text_of(e["collective"])));
    }
  }
}

}  // namespace

std::vector<std::pair<std::string, json>> told_once(const json& by_name, const char* apart) {
  std::vector<std::pair<std::string, json>> told;
  const auto compared = [apart](json value) {
    value.erase(apart);
    return value;
  };
  for (const auto& [name, value] : by_name.items()) {
    const json mine = compared(value);
    const auto alike = std::ranges::find_if(told, [&](const auto& t) { return compared(t.second) == mine; });
    if (alike != told.end()) {
      alike->first += ", " + name;
    } else {
      told.emplace_back(name, value);
    }
  }
  return told;
}

std::string info_text(const json& info, size_t columns, bool all_variables) {
  Page page(columns);
  page.line("zerohop " + text_of(info["version"]), "");
  if (all_variables) {
    variables(info, true, &page);
    return page.text();
  }
  page.title("MPI here");
  page.line(text_of(info["mpi"]));
  usable(info["usable"], &page);
  machine(info["machine"], &page);
  heap(info["heap"], &page);
  calibration(info["calibration"], &page);
  collectives(info["collectives"], "Algorithms of collectives", ": `zerohop bench algorithms --save` measures one",
              &page);
  collectives(info["collectives_by_model"], "Algorithms of collectives by a model",
              ": `zerohop tune --model --save` makes one, for where nothing was measured", &page);
  variables(info, false, &page);
  return page.text();
}

}  // namespace zh::tools
