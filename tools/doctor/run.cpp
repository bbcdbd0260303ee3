// What `zerohop doctor --stats` says of a run: what zerohop served of it, how it ended, the ways of its messages and
// why no more of them were mapped, and its collectives.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "tools/doctor/doctor.h"

namespace zh::tools {
namespace {

constexpr size_t kMostNamed = 5;

/// "1 call", "12 calls".
std::string count(uint64_t n, const char* what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

std::string rank_count(uint64_t ranks) { return count(ranks, "rank"); }

/// Alone a rank has nothing to gain.
bool counts(const RunStats::Calls& calls) { return calls.ranks != 1 && calls.by != "nothing to do"; }

std::string percent(double part) { return fmt::format("{:.1f} %", 100 * part); }

Check check_job(const RunStats& run) {
  Check c{"job", rank_count(run.ranks)};
  if (run.world_size > run.ranks) c.finding += fmt::format(" of {}", run.world_size);
  if (!run.host_version.empty()) c.finding += " under " + run.host_version;
  if (!run.started.empty()) c.finding += fmt::format(", from {} to {}", run.started, run.written);
  if (!run.command.empty()) c.finding += ": " + run.command;
  if (run.end == "MPI_Finalize" || run.end.empty()) return c;
  return c.mark(
      State::kWarn,
      "the counters are those of that moment: " +
          (run.end == "running" ? "the job was running, or was killed since" : "the job ended by: " + run.end),
      "none is needed if the job was to end so");
}

Check check_collectives(const RunStats& run) {
  uint64_t all = 0;
  uint64_t bytes = 0;
  std::map<std::string, uint64_t> by;
  std::vector<RunStats::Calls> named;
  for (const RunStats::Calls& calls : run.calls) {
    if (!counts(calls)) continue;
    named.push_back(calls);
    all += calls.calls;
    bytes += calls.bytes;
    by[calls.by == "team" || calls.by == "host" ? calls.by : "schedules"] += calls.calls;
  }
  if (all == 0) return {"collectives", "none were counted"};
  Check c{"collectives", count(all, "call") + " of " + amount(bytes)};
  const char* separator = ": ";
  for (const auto& [way, calls] : by) {
    c.finding += separator + way + " " + percent(static_cast<double>(calls) / static_cast<double>(all));
    separator = ", ";
  }
  for (size_t i = 0; i < std::min(named.size(), kMostNamed); ++i) {
    const RunStats::Calls& calls = named[i];
    c.finding += fmt::format("{}{} of {} by {} {} of {}", i == 0 ? "; " : ", ", calls.call, rank_count(calls.ranks),
                             calls.by, count(calls.calls, "call"), amount(calls.bytes));
  }
  if (named.size() > kMostNamed) c.finding += ", and others (--json)";
  return c;
}

double share(uint64_t part, uint64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<uint64_t>(whole, 1));
}

/// Of the bytes sent; where more were mapped nobody asks why the others were not.
constexpr double kWellMapped = 0.9;

std::string seconds(uint64_t ns) { return fmt::format("{:.3g}", static_cast<double>(ns) / 1e9); }

/// Why no more bytes were mapped, what can be mended first; `mendable` if there is such a reason.
std::string why_not_mapped(const RunStats& run, bool* mendable) {
  std::string why;
  const auto say = [&](const std::string& reason, bool can_be_mended) {
    why += (why.empty() ? "" : "; ") + reason;
    *mendable = *mendable || can_be_mended;
  };
  if (run.ranks_declined > 0) {
    say("no more buffers became shared in " + std::to_string(run.ranks_declined) + " ranks: " + run.heap_declined,
        true);
  }
  if (run.windows_refused > 0) {
    say("peers' memory could not be mapped, " + std::to_string(run.windows_refused) +
            " times: `zerohop doctor` looks at peer_files",
        true);
  }
  if (!run.heap_refused.empty()) {
    say("buffers of " + amount(run.heap_declined_bytes) + " had to stay private, the latest because " +
            run.heap_refused,
        true);
  }
  if (run.ranks_without_heap > 0) {
    say("ranks whose buffers were not shared (ZEROHOP_HEAP=0, or zerohop stayed out): " +
            std::to_string(run.ranks_without_heap) + " of " + std::to_string(run.ranks),
        false);
  }
  if (share(run.small_bytes, run.bytes) >= 0.1) {
    say(percent(share(run.small_bytes, run.bytes)) + " were in messages too small to be worth it", false);
  }
  if (run.heap_first_uses > 0) {
    say(std::to_string(run.heap_first_uses) +
            " uses came before their buffer had been used often enough for sharing to pay",
        false);
  }
  if (run.revoked > 0) say("buffers were taken back while they were used: the program forks or protects them", false);
  return why.empty() ? "no reason was counted" : why;
}

}  // namespace

std::string amount(uint64_t bytes) {
  if (bytes == ~uint64_t{0}) return "unlimited";
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  auto n = static_cast<double>(bytes);
  for (; n >= 1024 && unit + 1 < std::size(kUnits); n /= 1024) ++unit;
  return fmt::format("{:.{}f} {}", n, unit == 0 ? 0 : 1, kUnits[unit]);
}

Check check_served(const RunStats& run) {
  uint64_t calls = 0;
  uint64_t served = 0;
  for (const RunStats::Calls& c : run.calls) {
    if (!counts(c)) continue;
    calls += c.calls;
    if (c.by != "host") served += c.calls;
  }
  uint64_t left = 0;
  for (const auto& [why, times] : run.left_to_host) left += why.starts_with("messages: ") ? times : 0;
  const std::string part = left > 0 ? percent(share(run.messages, run.messages + left)) + " of " : "";
  Check c{"served", "zerohop carried " + part + count(run.messages + left, "message") + " inside nodes"};
  if (calls > 0)
    c.finding +=
        fmt::format(" and served {} of {} of collectives", percent(share(served, calls)), count(calls, "call"));
  if (run.messages_between_nodes > 0)
    c.finding += fmt::format("; by the MPI library: {} to other nodes", count(run.messages_between_nodes, "message"));
  const char* separator = "; left to the MPI library: ";
  for (const auto& [why, times] : run.left_to_host) {
    c.finding += separator + fmt::format("“{}” {}", why, count(times, "time"));
    separator = ", ";
  }
  if (run.messages + served > 0 || run.ranks < 2) return c;
  if (!run.end.empty() && run.end != "MPI_Finalize")
    return {"served", "not known: the counters are of the job's start"};
  c.finding = "nothing: " + c.finding;
  return c.mark(
      State::kWarn, "all communication took the time that it takes without zerohop",
      "docs/user/limits.md says what stays with the MPI library; `zerohop info --collective` why a call does");
}

Check check_run(const RunStats& run) {
  Check c{"run"};
  c.finding = percent(run.mapped_share()) + " of the " + amount(run.bytes) + " sent inside nodes by " +
              rank_count(run.ranks) + " went through mapped memory";
  const char* separator = "; the rest: ";
  for (const RunStats::Way& way : run.ways) {
    if (way.name == "mapped") continue;
    c.finding +=
        separator + way.name + " " + percent(share(way.bytes, run.bytes)) + " in " + count(way.messages, "message");
    separator = ", ";
  }
  if (run.heap && run.heap_declined_bytes + run.heap_returned_bytes + run.forks != 0) {
    c.finding += "; buffers that stayed private: " + amount(run.heap_declined_bytes) +
                 ", made private again: " + amount(run.heap_returned_bytes) + ", forks: " + std::to_string(run.forks);
  }
  if (run.heap_spent_ns != 0) {
    c.finding += "; sharing saved " + seconds(run.heap_saved_ns) + " s, cost " + seconds(run.heap_spent_ns) + " s";
  }
  if (run.bytes == 0 || (run.mapped_share() >= kWellMapped && run.ranks_declined == 0)) return c;
  bool mendable = false;
  const std::string why = why_not_mapped(run, &mendable);
  c.finding += ". Why not more: " + why;
  if (!mendable) return c;
  return c.mark(State::kWarn, "large messages of those buffers are copied twice, or by the kernel, instead of straight",
                "docs/design/heap.md names each reason and what to do");
}

Check check_company(const RunStats& run) {
  Check c{"processors", "no rank found that other programs want its processor"};
  if (run.busy_ranks == 0) return c;
  c.finding = "other programs wanted the processors of " + std::to_string(run.busy_ranks) + " of " +
              rank_count(run.ranks) + ", which therefore slept soon when they waited";
  return c.mark(State::kWarn, "a rank that waits is woken by its peer, which takes some microseconds a message",
                "leave the job's processors to it: fewer ranks, or other programs elsewhere (taskset, cpusets)");
}

std::vector<Check> run_checks(const RunStats& run) {
  return {check_served(run), check_job(run), check_run(run), check_collectives(run), check_company(run)};
}

}  // namespace zh::tools
