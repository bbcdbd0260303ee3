// See words.h.
#include "tools/top/words.h"

#include <fmt/format.h>

#include <algorithm>

namespace zh::tools::top {
namespace {

using Waits = p2p::Activity::Waits;

std::string in_call(const RankLook& rank) {
  if (!rank.call.empty()) return "in " + rank.call;
  switch (rank.wait.waits) {
    case Waits::kForMessage:
      return "in a receive";
    case Waits::kForReceive:
      return "in a send";
    case Waits::kForMembers:
      return "in a collective";
    default:
      return "in a call";
  }
}

/// "1", "1 and 2", "1, 2 or 3".
std::string listed(const std::vector<int>& ranks, const char* last) {
  std::string out;
  for (size_t i = 0; i < ranks.size(); ++i) {
    out += (i == 0 ? "" : i + 1 == ranks.size() ? fmt::format(" {} ", last) : ", ") + std::to_string(ranks[i]);
  }
  return out;
}

std::string peers_in_words(const p2p::Activity& wait) {
  if (wait.peers_told == 0) return "any rank";
  std::vector<int> ranks(wait.peers.begin(), wait.peers.begin() + wait.peers_told);
  if (wait.peers_told == p2p::Activity::kPeers)
    return listed(ranks, ",") + (wait.any ? " or others" : " and perhaps others");
  return listed(ranks, wait.any ? "or" : "and");
}

/// "for a message of 1 (tag 7, MPI_COMM_WORLD)".
std::string for_what(const p2p::Activity& wait) {
  const std::string peers = peers_in_words(wait);
  std::string what;
  std::vector<std::string> about;
  if (wait.waits == Waits::kForMembers) {
    what = "for " + peers;
  } else if (wait.requests > 1) {
    what = fmt::format("for {} {} requests, with {}", wait.any ? "one of" : "all", wait.requests, peers);
  } else if (wait.waits == Waits::kForMessage) {
    what = "for a message of " + peers;
    about.push_back(wait.tag == p2p::kAnyTag ? "any tag" : fmt::format("tag {}", wait.tag));
  } else {
    what = fmt::format("for {} to receive", peers);
    about.push_back(fmt::format("{}B, tag {}", short_number(static_cast<double>(wait.bytes), 1024), wait.tag));
  }
  if (!comm_text(wait).empty()) about.push_back(comm_text(wait));
  return about.empty() ? what : fmt::format("{} ({})", what, fmt::join(about, ", "));
}

std::string culprit_text(const JobLook& now, const Verdict& verdict) {
  const RankLook* rank = now.rank(verdict.culprit);
  const std::string who = std::to_string(verdict.culprit);
  const std::string waiters = ranges(verdict.waiters) + (verdict.waiters.size() == 1 ? " waits" : " wait") + " for it";
  if (rank == nullptr) return who + " is on another node: " + waiters;
  const bool late = rank->state == RankState::kInHost || rank->state == RankState::kComputing;
  const uint64_t ns = doing_for_ns(*rank, now.seen_ns);
  const std::string time = ns == 0 ? "" : " for " + duration(ns);
  return fmt::format("{} is {}{}{}: {}", who, late ? "late, " : "", doing(*rank), time, waiters);
}

}  // namespace

std::string short_number(double value, double thousand) {
  const char* const units = "KMGTP";
  if (value < 999.5) return fmt::format("{:.0f} ", value);
  size_t unit = 0;
  for (value /= thousand; value >= 999.5 && unit < 4; ++unit) value /= thousand;
  return fmt::format("{:.{}f} {}{}", value, value < 9.95 ? 1 : 0, units[unit], thousand > 1000 ? "i" : "");
}

std::string ranges(const std::vector<int>& ranks, size_t most) {
  std::string out;
  size_t parts = 0;
  for (size_t i = 0; i < ranks.size(); ++parts) {
    if (parts == most) return out + ",...";
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last < i + 2) last = i;  // "1,2"
    out += (out.empty() ? "" : ",") + std::to_string(ranks[i]);
    if (last > i) out += "-" + std::to_string(ranks[last]);
    i = last + 1;
  }
  return out;
}

std::string printable(std::string_view text) {
  std::string out(text);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

const char* to_string(RankState state) {
  constexpr const char* kNames[] = {"computing", "polling", "in host", "waiting",
                                    "stopped",   "dead",    "left",    "elsewhere"};
  return kNames[static_cast<size_t>(state)];
}

std::string peers_text(const p2p::Activity& wait) {
  if (wait.peers_told == 0) return wait.any ? "any" : "";
  std::string out;
  for (uint32_t i = 0; i < wait.peers_told; ++i) {
    out += (i == 0 ? "" : wait.any ? "|" : ",") + std::to_string(wait.peers[i]);
  }
  return wait.peers_told == p2p::Activity::kPeers ? out + ".." : out;
}

std::string comm_text(const p2p::Activity& wait) {
  if (!wait.comm_name().empty()) return printable(wait.comm_name());
  return wait.context == 0 ? "" : fmt::format("communicator {:#x}", wait.context);
}

std::string doing(const RankLook& rank) {
  switch (rank.state) {
    case RankState::kWaiting:
      if (rank.wait.waits == Waits::kUntold || (rank.wait.peers_told == 0 && !rank.wait.any))
        return "waiting " + in_call(rank);
      return "waiting " + in_call(rank) + " " + for_what(rank.wait);
    case RankState::kPolling:
      return "polling in vain";
    case RankState::kInHost:
      return rank.call.empty() ? "in the MPI library" : "in the MPI library's " + rank.call;
    case RankState::kStopped:
      return "stopped by a signal or a debugger";
    case RankState::kLeft:
      return "no longer in the job";
    default:
      return to_string(rank.state);
  }
}

uint64_t doing_for_ns(const RankLook& rank, uint64_t now_ns) {
  switch (rank.state) {
    case RankState::kWaiting:
      return now_ns - std::min(now_ns, rank.wait.began_ns);
    case RankState::kInHost:
      return rank.host_ns;
    case RankState::kPolling:
      return rank.polls_ns;
    case RankState::kComputing:
      return rank.away_ns;
    default:
      return 0;
  }
}

std::string verdict_text(const JobLook& now, const Verdict& verdict) {
  if (verdict.cycle.empty()) return verdict.culprit < 0 ? "" : culprit_text(now, verdict);
  std::string out = "deadlock: ";
  for (size_t i = 0; i < verdict.cycle.size(); ++i) {
    const RankLook& rank = *now.rank(verdict.cycle[i]);
    const std::string what = doing(rank);
    out += (i == 0 ? "" : ", ") + fmt::format("{} waits{}", rank.rank, what.substr(what.find(' ')));
  }
  out += verdict.cycle.size() > 1 ? ", which closes it" : "";
  const size_t behind = verdict.blocked.size() - verdict.cycle.size();
  return behind == 0 ? out : out + fmt::format("; {} more {} behind", behind, behind == 1 ? "waits" : "wait");
}

std::vector<std::string> rank_lines(const JobLook& now) {
  struct Line {
    std::string what;
    std::vector<int> ranks;
    uint64_t least_ns = 0;
  };
  std::vector<Line> lines;
  for (const RankLook& rank : now.ranks) {
    const std::string what = doing(rank);
    const uint64_t ns = doing_for_ns(rank, now.seen_ns);
    auto at = std::find_if(lines.begin(), lines.end(), [&](const Line& line) { return line.what == what; });
    if (at == lines.end()) at = lines.insert(lines.end(), {what, {}, ns});
    at->ranks.push_back(rank.rank);
    at->least_ns = std::min(at->least_ns, ns);
  }
  std::vector<std::string> out;
  for (const Line& line : lines) {
    const std::string time = line.least_ns == 0 ? "" : ", for " + duration(line.least_ns);
    out.push_back(
        fmt::format("{} {}: {}{}", line.ranks.size() == 1 ? "rank" : "ranks", ranges(line.ranks), line.what, time));
  }
  return out;
}

}  // namespace zh::tools::top
