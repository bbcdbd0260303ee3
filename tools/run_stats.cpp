// See run_stats.h.
#include "run_stats.h"

#include <algorithm>

namespace zh::tools {
namespace {

using nlohmann::json;

void add_rank(const json& rank, RunStats* out) {
  for (const auto& [name, rows] : rank.at("sent").at("by_path").items()) {
    uint64_t bytes = 0;
    for (const json& row : rows) bytes += row.at("bytes").get<uint64_t>();
    auto way = std::find_if(out->ways.begin(), out->ways.end(),
                            [&name = name](const RunStats::Way& w) { return w.name == name; });
    if (way == out->ways.end()) way = out->ways.insert(way, {name, 0});
    way->bytes += bytes;
    out->bytes += bytes;
  }
  if (!rank.contains("heap")) return;
  const json& heap = rank["heap"];
  out->heap = true;
  const std::string why = heap.value("declined_why", "");
  if (!why.empty() && out->ranks_declined++ == 0) out->heap_declined = why;
  out->heap_declined_bytes += heap.value("declined_bytes", uint64_t{0});
  out->heap_returned_bytes += heap.value("returned_bytes", uint64_t{0});
  out->forks += heap.value("forks", uint64_t{0});
}

}  // namespace

double RunStats::mapped_share() const {
  for (const Way& w : ways) {
    if (w.name == "mapped" && bytes != 0) return static_cast<double>(w.bytes) / static_cast<double>(bytes);
  }
  return 0;
}

bool read_run(const json& document, RunStats* out) {
  RunStats run;
  try {
    if (document.at("schema") != 1) return false;
    for (const json& rank : document.at("ranks")) {
      add_rank(rank, &run);
      ++run.ranks;
    }
  } catch (const json::exception&) {
    return false;
  }
  std::erase_if(run.ways, [](const RunStats::Way& w) { return w.bytes == 0; });
  std::stable_sort(run.ways.begin(), run.ways.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  *out = run;
  return true;
}

}  // namespace zh::tools
