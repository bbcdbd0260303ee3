// See run_stats.h.
#include "tools/doctor/run_stats.h"

#include <algorithm>

namespace zh::tools {
namespace {

using nlohmann::json;

/// Messages of smaller sizes are not mapped (PairChoice::mapped of tune/choice.h).
constexpr int64_t kSmallBelow = 512 << 10;

/// False if it is no count, or the sum none.
bool add(const json& count, uint64_t* sum) {
  const bool whole = count.is_number_unsigned() || (count.is_number_integer() && count.get<int64_t>() >= 0);
  return whole && !__builtin_add_overflow(*sum, count.get<uint64_t>(), sum);
}

bool add_calls(const json& rows, RunStats* out) {
  for (const json& row : rows) {
    const auto& call = row.at("call").get_ref<const std::string&>();
    const auto& by = row.at("by").get_ref<const std::string&>();
    uint64_t ranks = 0;
    if (!add(row.at("ranks"), &ranks)) return false;
    auto known = std::find_if(out->calls.begin(), out->calls.end(), [&](const RunStats::Calls& c) {
      return c.call == call && c.by == by && c.ranks == ranks;
    });
    if (known == out->calls.end()) known = out->calls.insert(known, {call, by, ranks, 0, 0});
    if (!add(row.at("calls"), &known->calls) || !add(row.at("bytes"), &known->bytes)) return false;
  }
  return true;
}

void read_job(const json& document, RunStats* out) {
  out->host_version = document.value("host_version", "");
  out->started = document.value("started", "");
  out->written = document.value("written", "");
  out->end = document.value("end", "");
  if (document.contains("world_size")) static_cast<void>(add(document["world_size"], &out->world_size));
  for (const json& word : document.value("command", json::array())) {
    out->command += (out->command.empty() ? "" : " ") + word.get<std::string>();
  }
}

bool add_rank(const json& rank, RunStats* out) {
  for (const auto& [name, rows] : rank.at("sent").at("by_path").items()) {
    auto way = std::find_if(out->ways.begin(), out->ways.end(),
                            [&name = name](const RunStats::Way& w) { return w.name == name; });
    if (way == out->ways.end()) way = out->ways.insert(way, {name});
    for (const json& row : rows) {
      if (!add(row.at("bytes"), &way->bytes) || !add(row.at("bytes"), &out->bytes)) return false;
      if (!add(row.at("messages"), &way->messages) || !add(row.at("messages"), &out->messages)) return false;
      const json& below = row.value("below_bytes", json(0));
      const bool small = name != "mapped" && below.is_number_integer() && below.get<int64_t>() <= kSmallBelow;
      if (small && !add(row.at("bytes"), &out->small_bytes)) return false;
    }
  }
  if (rank.contains("calls") && !add_calls(rank["calls"], out)) return false;
  const json none = 0;
  const json fallbacks = rank.value("fallbacks", json::object());
  for (const auto& [why, count] : fallbacks.items()) {
    if (!add(count, &out->left_to_host[why])) return false;
  }
  const json busy = rank.value("busy_cpu", none);
  out->busy_ranks += busy.is_number() && busy.get<double>() > 0 ? 1 : 0;
  const json mapped = rank.value("mapped", json::object());
  if (!add(mapped.value("windows_refused", none), &out->windows_refused) ||
      !add(mapped.value("revoked", none), &out->revoked)) {
    return false;
  }
  if (!rank.contains("heap")) {
    ++out->ranks_without_heap;
    return true;
  }
  const json& heap = rank["heap"];
  out->heap = true;
  const std::string why = heap.value("declined_why", "");
  if (!why.empty() && out->ranks_declined++ == 0) out->heap_declined = why;
  if (out->heap_refused.empty()) out->heap_refused = heap.value("declined_latest", "");
  return add(heap.value("first_uses", none), &out->heap_first_uses) &&
         add(heap.value("saved_ns", none), &out->heap_saved_ns) &&
         add(heap.value("spent_ns", none), &out->heap_spent_ns) &&
         add(heap.value("declined_bytes", none), &out->heap_declined_bytes) &&
         add(heap.value("returned_bytes", none), &out->heap_returned_bytes) &&
         add(heap.value("forks", none), &out->forks);
}

/// Of a file that has the ranks of several nodes.
bool add_between_nodes(const json& ranks, RunStats* out) {
  std::map<json, json> nodes;
  for (const json& rank : ranks) nodes[rank.value("rank", json())] = rank.value("node", json());
  for (const json& rank : ranks) {
    for (const json& peer : rank.value("peers", json::array())) {
      const auto other = nodes.find(peer.at("rank"));
      if (other == nodes.end() || other->second == rank.value("node", json())) continue;
      if (!add(peer.at("messages"), &out->messages_between_nodes)) return false;
    }
  }
  return true;
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
    read_job(document, &run);
    for (const json& rank : document.at("ranks")) {
      if (!add_rank(rank, &run)) return false;
      ++run.ranks;
    }
    if (!add_between_nodes(document["ranks"], &run)) return false;
  } catch (const json::exception&) {
    return false;
  }
  std::erase_if(run.ways, [](const RunStats::Way& w) { return w.bytes == 0; });
  std::stable_sort(run.ways.begin(), run.ways.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  std::stable_sort(run.calls.begin(), run.calls.end(), [](const auto& a, const auto& b) { return a.calls > b.calls; });
  *out = run;
  return true;
}

}  // namespace zh::tools
