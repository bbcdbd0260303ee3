// What `zerohop doctor --stats` says of a run beside the ways of its messages: how it ended, and its collectives.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>

#include "doctor.h"

namespace zh::tools {
namespace {

constexpr size_t kMostNamed = 5;

/// In the largest unit of which there is one.
std::string amount(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  auto n = static_cast<double>(bytes);
  for (; n >= 1024 && unit + 1 < std::size(kUnits); n /= 1024) ++unit;
  char text[32];
  std::snprintf(text, sizeof text, "%.*f %s", unit == 0 ? 0 : 1, n, kUnits[unit]);
  return text;
}

/// "1 call", "12 calls".
std::string times(uint64_t calls) { return std::to_string(calls) + (calls == 1 ? " call" : " calls"); }

Check check_job(const RunStats& run) {
  Check c{"job", State::kOk, "", "", ""};
  c.finding = std::to_string(run.ranks) + (run.ranks == 1 ? " rank" : " ranks");
  if (run.world_size > run.ranks) c.finding += " of " + std::to_string(run.world_size);
  if (!run.host_version.empty()) c.finding += " under " + run.host_version;
  if (!run.started.empty()) c.finding += ", from " + run.started + " to " + run.written;
  if (!run.command.empty()) c.finding += ": " + run.command;
  if (run.end == "MPI_Finalize" || run.end.empty()) return c;
  c.state = State::kWarn;
  c.cost = "the counters are those of that moment: ";
  c.cost += run.end == "running" ? "the job was running, or was killed since" : "the job ended by: " + run.end;
  c.cure = "none is needed if the job was to end so";
  return c;
}

Check check_collectives(const RunStats& run) {
  Check c{"collectives", State::kOk, "none were counted", "", ""};
  uint64_t all = 0;
  uint64_t bytes = 0;
  std::map<std::string, uint64_t> by;
  for (const RunStats::Calls& calls : run.calls) {
    all += calls.calls;
    bytes += calls.bytes;
    by[calls.by == "team" || calls.by == "host" ? calls.by : "schedules"] += calls.calls;
  }
  if (all == 0) return c;
  c.finding = times(all) + " of " + amount(bytes);
  const char* separator = ": ";
  for (const auto& [way, calls] : by) {
    char text[64];
    std::snprintf(text, sizeof text, "%s%s %.1f %%", separator, way.c_str(),
                  100 * static_cast<double>(calls) / static_cast<double>(all));
    c.finding += text;
    separator = ", ";
  }
  for (size_t i = 0; i < std::min(run.calls.size(), kMostNamed); ++i) {
    const RunStats::Calls& calls = run.calls[i];
    c.finding += (i == 0 ? "; " : ", ") + calls.call + " of " + std::to_string(calls.ranks) + " ranks by " + calls.by +
                 " " + times(calls.calls) + " of " + amount(calls.bytes);
  }
  if (run.calls.size() > kMostNamed) c.finding += ", and others (--json)";
  return c;
}

}  // namespace

std::vector<Check> run_checks(const RunStats& run) { return {check_job(run), check_run(run), check_collectives(run)}; }

}  // namespace zh::tools
