// See draw.h. Columns come in the order of their weight while there is room, and stand in the order of the list.
#include "tools/top/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "tools/cli/text.h"
#include "tools/top/words.h"

namespace zh::tools::top {
namespace {

constexpr const char* kRed = "\x1b[31m";
constexpr const char* kYellow = "\x1b[33m";
constexpr const char* kCyan = "\x1b[36m";
constexpr const char* kBold = "\x1b[1m";
constexpr const char* kPlain = "\x1b[0m";
constexpr uint64_t kLongNs = 1'000'000'000;  // a wait that is worth a colour

struct Column {
  const char* head;
  int weight;  // 0: always there
  size_t widest;
  bool left;
  std::function<std::string(const RankLook&)> cell;
};

std::string cut(const std::string& text, size_t columns) {
  return text.size() <= columns ? text : text.substr(0, columns - 1) + "~";
}

/// `ever`: whether there were any messages at all.
std::string rate_text(const Rates& rates, bool ever) {
  if (rates.messages < 0.5 && rates.bytes < 0.5) return ever ? "-" : "";
  return fmt::format("{}B/s {}/s", short_number(rates.bytes, 1000), short_number(rates.messages, 1000));
}

bool ever(const TrafficByPath& traffic) {
  return std::any_of(traffic.begin(), traffic.end(), [](const Traffic& t) { return t.messages > 0; });
}

bool waits(const RankLook& r) { return r.state == RankState::kWaiting; }

std::vector<Column> columns_of_ranks(const JobLook& before, const JobLook& now) {
  using R = const RankLook&;
  constexpr size_t kAny = 99;
  std::vector<Column> all = {
      {"rank", 0, kAny, false, [](R r) { return std::to_string(r.rank); }},
      {"pid", 4, kAny, false, [](R r) { return r.pid == 0 ? "" : std::to_string(r.pid); }},
      {"state", 0, kAny, true, [](R r) { return std::string(to_string(r.state)); }},
      {"for", 0, kAny, false,
       [&now](R r) {
         const uint64_t ns = doing_for_ns(r, now.seen_ns);
         return ns == 0 ? "" : duration(ns);
       }},
      {"call", 0, 20, true, [](R r) { return r.call; }},
      {"with", 0, 14, true, [](R r) { return waits(r) ? peers_text(r.wait) : ""; }},
      {"tag", 1, kAny, false,
       [](R r) {
         if (!waits(r) || r.wait.waits == p2p::Activity::Waits::kForMembers) return std::string();
         return r.wait.tag == p2p::kAnyTag ? "any" : std::to_string(r.wait.tag);
       }},
      {"communicator", 3, 24, true, [](R r) { return waits(r) ? comm_text(r.wait) : ""; }},
      {"size", 3, kAny, false,
       [](R r) {
         return waits(r) && r.wait.bytes > 0 ? short_number(static_cast<double>(r.wait.bytes), 1024) + "B" : "";
       }},
      {"messages", 2, kAny, false,
       [&](R r) { return rate_text(rates_of(before, now, r, p2p::Path::kCount), ever(r.sent) || ever(r.received)); }},
      {"unexpected", 5, kAny, false,
       [](R r) { return r.unexpected_high == 0 ? "" : fmt::format("{} of {}", r.unexpected, r.unexpected_high); }},
      {"posted", 5, kAny, false, [](R r) { return r.posted == 0 ? "" : std::to_string(r.posted); }},
      {"memory", 6, kAny, false, [](R r) { return short_number(static_cast<double>(r.backed_bytes), 1024) + "B"; }},
  };
  for (uint32_t path = 0; path < p2p::kPaths; ++path) {
    all.push_back({kPathNames[path], 7, kAny, false, [&before, &now, path](R r) {
                     const bool any = r.sent[path].messages + r.received[path].messages > 0;
                     return rate_text(rates_of(before, now, r, static_cast<p2p::Path>(path)), any);
                   }});
  }
  all.push_back({"CPU", 1, kAny, false, [&](R r) {
                   const double percent = cpu_percent(before, now, r);
                   return percent < 0 ? "" : fmt::format("{:.0f}%", percent);
                 }});
  return all;
}

std::vector<const RankLook*> sorted(const JobLook& before, const JobLook& now, Sort sort) {
  std::vector<const RankLook*> ranks;
  for (const RankLook& r : now.ranks) ranks.push_back(&r);
  const auto key = [&](const RankLook* r) {
    if (sort == Sort::kWait) return waits(*r) ? static_cast<double>(doing_for_ns(*r, now.seen_ns)) : 0.0;
    if (sort == Sort::kTraffic) return rates_of(before, now, *r, p2p::Path::kCount).bytes;
    return sort == Sort::kCpu ? cpu_percent(before, now, *r) : 0.0;
  };
  std::stable_sort(ranks.begin(), ranks.end(), [&](const auto* a, const auto* b) { return key(a) > key(b); });
  return ranks;
}

const char* color_of(const RankLook& r, const Verdict& verdict, uint64_t now_ns) {
  if (std::binary_search(verdict.blocked.begin(), verdict.blocked.end(), r.rank) || r.rank == verdict.culprit)
    return kRed;
  if (r.state >= RankState::kStopped) return kRed;
  if (r.state == RankState::kInHost) return kCyan;
  return waits(r) && doing_for_ns(r, now_ns) > kLongNs ? kYellow : "";
}

/// What there is no room for, in a line; then heads and rows, a row is a rank's in that order.
std::vector<std::string> table(const std::vector<Column>& all, const std::vector<const RankLook*>& ranks, size_t room) {
  struct Drawn {
    size_t width;
    bool left;
    std::vector<std::string> cells;
  };
  std::vector<Drawn> drawn(all.size());
  std::vector<size_t> by_weight;
  for (size_t i = 0; i < all.size(); ++i) {
    drawn[i] = {0, all[i].left, {all[i].head}};
    size_t filled = 0;
    for (const RankLook* r : ranks) {
      drawn[i].cells.push_back(cut(printable(all[i].cell(*r)), all[i].widest));
      filled += drawn[i].cells.back().empty() ? 0 : 1;
    }
    for (const std::string& cell : drawn[i].cells) drawn[i].width = std::max(drawn[i].width, cell.size());
    if (filled > 0) by_weight.push_back(i);
  }
  std::stable_sort(by_weight.begin(), by_weight.end(),
                   [&](size_t a, size_t b) { return all[a].weight < all[b].weight; });
  std::vector<size_t> chosen;
  std::string left_out;
  size_t used = 0;
  for (const size_t i : by_weight) {
    const size_t more = drawn[i].width + (chosen.empty() ? 0 : 2);
    if (used + more > room) {
      left_out += std::string(left_out.empty() ? "no room for " : ", ") + all[i].head;
      continue;
    }
    used += more;
    chosen.push_back(i);
  }
  std::sort(chosen.begin(), chosen.end());
  std::vector<std::string> lines(ranks.size() + 1);
  for (const size_t i : chosen) {
    for (size_t row = 0; row < lines.size(); ++row) {
      const std::string& cell = drawn[i].cells[row];
      const std::string blanks(drawn[i].width - cell.size(), ' ');
      lines[row] += (i == chosen.front() ? "" : "  ") + (drawn[i].left ? cell + blanks : blanks + cell);
    }
  }
  lines.insert(lines.begin(), cut(left_out, room));
  return lines;
}

std::vector<std::string> head_lines(const JobLook& before, const JobLook& now, const std::string& says,
                                    const View& view) {
  std::string first = "job " + printable(now.id);
  std::string second;
  if (now.problem.empty()) {
    first += fmt::format(", {} ranks here", now.ranks.size());
    if (now.nodes > 1) first += fmt::format(" of {} on {} nodes", now.world_size, now.nodes);
    Rates sum;
    std::array<size_t, 7> states{};
    for (const RankLook& r : now.ranks) {
      const Rates rates = rates_of(before, now, r, p2p::Path::kCount);
      sum = {sum.messages + rates.messages / 2, sum.bytes + rates.bytes / 2};
      ++states[static_cast<size_t>(r.state)];
    }
    for (size_t i = 0; i < states.size(); ++i) {
      if (states[i] > 0)
        second += fmt::format("{}{} {}", second.empty() ? "" : ", ", states[i], to_string(static_cast<RankState>(i)));
    }
    if (sum.messages >= 0.5)
      second += fmt::format("; {}B/s, {}messages/s", short_number(sum.bytes, 1000), short_number(sum.messages, 1000));
  }
  std::vector<std::string> lines{cut(first + ": " + printable(now.program), view.columns)};
  if (!second.empty()) lines.push_back(cut(second, view.columns));
  std::string rest = wrapped(says.empty() ? now.problem : says, 0, 2, view.columns);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    lines.push_back(rest.substr(0, end));
    rest.erase(0, end + 1);
    if (view.colors) lines.back() = kRed + lines.back() + kPlain;
  }
  if (view.colors) lines.front() = kBold + lines.front() + kPlain;
  return lines;
}

}  // namespace

const char* to_string(Sort sort) {
  constexpr const char* kNames[] = {"rank", "wait", "traffic", "CPU"};
  return kNames[static_cast<size_t>(sort)];
}

Rates rates_of(const JobLook& before, const JobLook& now, const RankLook& rank, p2p::Path path) {
  const RankLook* earlier = before.rank(rank.rank);
  if (earlier == nullptr || now.seen_ns <= before.seen_ns) return {};
  const double seconds = static_cast<double>(now.seen_ns - before.seen_ns) * 1e-9;
  Rates sum;
  const auto add = [&](const TrafficByPath& from, const TrafficByPath& to) {
    for (size_t i = 0; i < p2p::kPaths; ++i) {
      const bool counts =
          path == p2p::Path::kCount ? i != static_cast<size_t>(p2p::Path::kSelf) : i == static_cast<size_t>(path);
      if (!counts) continue;
      sum.messages += static_cast<double>(to[i].messages - from[i].messages) / seconds;
      sum.bytes += static_cast<double>(to[i].bytes - from[i].bytes) / seconds;
    }
  };
  add(earlier->sent, rank.sent);
  add(earlier->received, rank.received);
  return sum;
}

double cpu_percent(const JobLook& before, const JobLook& now, const RankLook& rank) {
  const RankLook* earlier = before.rank(rank.rank);
  if (earlier == nullptr || rank.pid == 0 || now.seen_ns <= before.seen_ns || rank.cpu_ns < earlier->cpu_ns) return -1;
  return 100.0 * static_cast<double>(rank.cpu_ns - earlier->cpu_ns) / static_cast<double>(now.seen_ns - before.seen_ns);
}

std::vector<std::string> draw(const JobLook& before, const JobLook& now, const View& view) {
  const Verdict verdict = judge(before, now);
  std::vector<std::string> lines = head_lines(before, now, verdict_text(now, verdict), view);
  if (now.ranks.empty()) return lines;
  const std::vector<const RankLook*> ranks = sorted(before, now, view.sort);
  std::vector<std::string> rows = table(columns_of_ranks(before, now), ranks, view.columns);
  for (size_t i = 0; view.colors && i < rows.size(); ++i) {
    const char* color = i < 2 ? (i == 0 ? "" : kBold) : color_of(*ranks[i - 2], verdict, now.seen_ns);
    if (*color != '\0') rows[i] = color + rows[i] + kPlain;
  }
  lines.insert(lines.end(), rows.begin(), rows.end());
  if (view.lines > 1 && lines.size() > view.lines) {
    const size_t hidden = lines.size() - view.lines + 1;
    lines.resize(view.lines - 1);
    lines.push_back(fmt::format("... {} more ranks", hidden));
  }
  return lines;
}

}  // namespace zh::tools::top
