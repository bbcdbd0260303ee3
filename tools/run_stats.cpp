// See run_stats.h.
#include "run_stats.h"

#include <algorithm>

namespace zh::tools {
namespace {

using nlohmann::json;

/// False if it is no count, or the sum none.
bool add(const json& count, uint64_t* sum) {
  const bool whole = count.is_number_unsigned() || (count.is_number_integer() && count.get<int64_t>() >= 0);
  return whole && !__builtin_add_overflow(*sum, count.get<uint64_t>(), sum);
}

bool add_rank(const json& rank, RunStats* out) {
  for (const auto& [name, rows] : rank.at("sent").at("by_path").items()) {
    auto way = std::find_if(out->ways.begin(), out->ways.end(),
                            [&name = name](const RunStats::Way& w) { return w.name == name; });
    if (way == out->ways.end()) way = out->ways.insert(way, {name, 0});
    for (const json& row : rows) {
      if (!add(row.at("bytes"), &way->bytes) || !add(row.at("bytes"), &out->bytes)) return false;
    }
  }
  if (!rank.contains("heap")) return true;
  const json& heap = rank["heap"];
  out->heap = true;
  const std::string why = heap.value("declined_why", "");
  if (!why.empty() && out->ranks_declined++ == 0) out->heap_declined = why;
  const json none = 0;
  return add(heap.value("declined_bytes", none), &out->heap_declined_bytes) &&
         add(heap.value("returned_bytes", none), &out->heap_returned_bytes) &&
         add(heap.value("forks", none), &out->forks);
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
      if (!add_rank(rank, &run)) return false;
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
