// See coll_report.h.
#include "tools/bench/coll_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "tools/bench/limits.h"
#include "tools/bench/report.h"

namespace zh::tools {
namespace {

constexpr const char* kMean = "time_us";
constexpr const char* kMetrics[3] = {"t_min_us", kMean, "t_max_us"};
constexpr const char* kRaw = "flat";
/// What a call sends between machines, where that was counted.
constexpr const char* kSentBytes = "sent_bytes";
constexpr const char* kSentPackets = "sent_packets";
/// Of a started call beside which the rank computes: what it takes more than the computation, and that.
constexpr const char* kLeftMetric = "left_us";
constexpr const char* kComputed = "computed_us";

/// What a row is, apart from size and metric.
using RowGroup = std::tuple<std::string, std::string, std::string, int, std::string, std::string>;
RowGroup group_of(const Row& r) {
  return {r.key.bench, r.key.variant, r.key.buffers, r.key.ranks, r.placement, r.host};
}

/// The rows of one case: least, mean and greatest time of the ranks.
struct Triple {
  const Row* row[3] = {nullptr, nullptr, nullptr};
  template <typename Value>
  [[nodiscard]] std::string text(Value&& value) const {
    std::string s;
    for (const Row* r : row) {
      const std::string cell = r == nullptr ? "-" : value(*r);
      s += fmt::format("{:>10}", cell);
    }
    return s;
  }
};

std::string peer_text(const Row& r, const std::string& peer) {
  const auto it = r.peers.find(peer);
  return it == r.peers.end() ? std::string("-") : number_text(it->second.mid);
}

std::string times_of_peer(const Triple& t, const std::string& peer) {
  return t.text([&](const Row& r) { return peer_text(r, peer); });
}

/// What a started call leaves of its time to a rank that computes meanwhile.
struct Overlap {
  const Row* left = nullptr;
  const Row* computed = nullptr;
  [[nodiscard]] std::string text(uint64_t size) const {
    if (left == nullptr || computed == nullptr) return {};
    return fmt::format("{:>8} {:>10}{:>10}  {:>10}{:>10} {:>8}{:>10}  {:<24}{:<24}{}\n", size,
                       peer_text(*computed, computed->host), number_text(computed->zerohop.mid),
                       peer_text(*left, left->host), number_text(left->zerohop.mid), left->best_peer,
                       peer_text(*left, left->best_peer), interval_text(left->to_best_peer),
                       interval_text(left->to_own_host), interval_text(left->noise));
  }
  [[nodiscard]] static std::string heading(const std::string& host) {
    return fmt::format("{:>8} {:>20}  {:>20} {:>18}  {:<24}{:<24}{}\n", "bytes", "computed " + host + ", zh",
                       "left " + host + ", zh", "best, its left", "/ best peer (95 %)", "/ own host (95 %)",
                       "host / host (95 %)");
  }
};

/// Between machines: bytes and packets of the own host and of zerohop.
struct Sent {
  const Row* bytes = nullptr;
  const Row* packets = nullptr;
  [[nodiscard]] std::string text() const {
    if (bytes == nullptr || packets == nullptr) return {};
    return fmt::format("  sent {} B in {}, zerohop {} B in {}", peer_text(*bytes, bytes->host),
                       peer_text(*packets, packets->host), number_text(bytes->zerohop.mid),
                       number_text(packets->zerohop.mid));
  }
};

std::string heading_of(const Row& r, const Row* raw) {
  std::string s =
      fmt::format("\n{}{}{} · {}", r.key.bench, r.key.variant.empty() ? "" : " ", r.key.variant, launches_text(r));
  if (r.key.bench == "allreduce" && raw != nullptr)
    s += fmt::format(" · 8 B without MPI {} µs", number_text(raw->zerohop.mid));
  s += fmt::format("\n{:>8} {:>6} {:>30}{:>30} {:>8}{:>30}  {:<24}{:<24}{}\n", "bytes", "reps",
                   r.host + " min, avg, max", "zerohop min, avg, max", "best", "its min, avg, max",
                   "/ best peer (95 %)", "/ own host (95 %)", "host / host (95 %)");
  return s;
}

/// A geometric mean of medians has no interval here, so it is said to lie below or above its goal, no more.
/// Goals are of blocking calls.
double goal_of(const CollSummary& s) {
  const std::string& variant = s.key.variant;
  const bool started = variant.starts_with("nonblocking") || variant.starts_with("persistent");
  return started || s.to_best_peer.sizes < s.sizes ? 0 : collective_bound(s.key.bench, s.key.ranks);
}

std::string goal_text(const CollSummary& s) {
  const double bound = goal_of(s);
  return bound == 0 ? "" : fmt::format("   {} {:.2f}", misses_goal(s) ? "ABOVE" : "below", bound);
}

std::string mean_text(const MeanRatio& m, int sizes) {
  if (m.sizes == 0) return "-";
  return fmt::format("{:.3f}{}", m.mean, m.sizes == sizes ? "" : fmt::format(" ({} sizes)", m.sizes));
}

nlohmann::json json_of(const MeanRatio& m) {
  return m.sizes == 0 ? nlohmann::json() : nlohmann::json{{"mean", m.mean}, {"sizes", m.sizes}};
}

/// The sizes at which zerohop is slower than `what` by more than 5 %, the whole interval.
std::string slower_than(const Judged& judged, const char* what, Interval Row::*ratio) {
  constexpr double kSlower = 1.05;
  std::string out;
  for (const Row& r : judged.rows) {
    const Interval& i = r.*ratio;
    if (r.key.metric != kMean || r.key.bench == kRaw || !i.valid || i.low <= kSlower) continue;
    out += fmt::format("  {}{}{} {} B, {} ranks, {}: {}\n", r.key.bench, r.key.variant.empty() ? "" : " ",
                       r.key.variant, r.key.size, r.key.ranks, r.placement, interval_text(i));
  }
  return out.empty() ? fmt::format("Slower than {} by more than 5 %: no size for certain\n", what)
                     : fmt::format("Slower than {} by more than 5 %:\n{}", what, out);
}

std::string slower_rows_of(const Judged& judged) {
  return "\n" + slower_than(judged, "its own host", &Row::to_own_host) +
         slower_than(judged, "the best peer", &Row::to_best_peer);
}

}  // namespace

Repetitions repetitions_of(const std::vector<LaunchRecord>& records) {
  Repetitions least;
  for (const LaunchRecord& r : records) {
    if (!r.zerohop) continue;
    for (const auto& c : r.document.value("cases", nlohmann::json::array())) {
      const auto iters = c.value("iters", std::vector<int>{});
      if (iters.empty()) continue;
      CaseKey key;
      key.bench = c.value("bench", "");
      key.buffers = c.value("buffers", "");
      key.variant = c.value("variant", "");
      key.size = c.value("size", uint64_t{0});
      key.ranks = r.document.value("ranks", 0);
      const int here = iters[iters.size() / 2];
      auto [it, fresh] = least.try_emplace({r.host, key}, here);
      if (!fresh) it->second = std::min(it->second, here);
    }
  }
  return least;
}

std::vector<CollSummary> summaries_of(const Judged& judged) {
  std::map<RowGroup, CollSummary> by_group;
  const auto add = [](const Interval& ratio, MeanRatio* logs) {
    if (ratio.mid <= 0) return;
    logs->mean += std::log(ratio.mid);
    ++logs->sizes;
  };
  for (const Row& r : judged.rows) {
    if (r.key.metric != kMean || r.key.bench == kRaw) continue;
    CollSummary& summary = by_group[group_of(r)];
    summary.key = r.key;
    summary.key.size = 0;
    summary.placement = r.placement;
    summary.host = r.host;
    ++summary.sizes;
    add(r.to_best_peer, &summary.to_best_peer);
    add(r.to_own_host, &summary.to_own_host);
  }
  std::vector<CollSummary> all;
  for (auto& [group, summary] : by_group) {
    for (MeanRatio* m : {&summary.to_best_peer, &summary.to_own_host}) {
      if (m->sizes > 0) m->mean = std::exp(m->mean / m->sizes);
    }
    all.push_back(summary);
  }
  return all;
}

bool misses_goal(const CollSummary& summary) {
  const double bound = goal_of(summary);
  return bound != 0 && summary.to_best_peer.mean > bound;
}

std::string coll_table_of(const Judged& judged, const Repetitions& repetitions, bool with_goals) {
  std::map<RowGroup, std::map<uint64_t, Triple>> by_group;
  std::map<std::pair<RowGroup, uint64_t>, Sent> sent;
  std::map<RowGroup, std::map<uint64_t, Overlap>> overlaps;
  for (const Row& r : judged.rows) {
    if (r.key.metric == kSentBytes) sent[{group_of(r), r.key.size}].bytes = &r;
    if (r.key.metric == kSentPackets) sent[{group_of(r), r.key.size}].packets = &r;
    if (r.key.metric == kLeftMetric) overlaps[group_of(r)][r.key.size].left = &r;
    if (r.key.metric == kComputed) overlaps[group_of(r)][r.key.size].computed = &r;
    for (int m = 0; m < 3; ++m) {
      if (r.key.metric == kMetrics[m]) by_group[group_of(r)][r.key.size].row[m] = &r;
    }
  }
  const auto raw_beside = [&](const Row& r) -> const Row* {
    const auto it = by_group.find({kRaw, "", r.key.buffers, r.key.ranks, r.placement, r.host});
    return it == by_group.end() ? nullptr : it->second.begin()->second.row[1];
  };
  const auto sent_text = [&](const RowGroup& group, uint64_t size) {
    const auto it = sent.find({group, size});
    return it == sent.end() ? std::string() : it->second.text();
  };
  std::string out;
  for (const auto& [group, sizes] : by_group) {
    bool first = true;
    for (const auto& [size, t] : sizes) {
      const Row* mean = t.row[1];
      if (mean == nullptr) continue;
      if (first) out += heading_of(*mean, raw_beside(*mean));
      first = false;
      CaseKey key = mean->key;
      key.metric.clear();
      const auto reps = repetitions.find({mean->host, key});
      out += fmt::format("{:>8} {:>6} {}{} {:>8}{}  {:<24}{:<24}{}{}\n", size,
                         reps == repetitions.end() ? 0 : reps->second, times_of_peer(t, mean->host),
                         t.text([](const Row& r) { return number_text(r.zerohop.mid); }), mean->best_peer,
                         times_of_peer(t, mean->best_peer), interval_text(mean->to_best_peer),
                         interval_text(mean->to_own_host), interval_text(mean->noise), sent_text(group, size));
    }
    const auto overlap = overlaps.find(group);
    if (overlap == overlaps.end()) continue;
    out += Overlap::heading(std::get<5>(group));
    for (const auto& [size, o] : overlap->second) out += o.text(size);
  }
  out += "\nGeometric mean of the ratios over the sizes\n";
  for (const CollSummary& s : summaries_of(judged)) {
    out += fmt::format("{:<22} {:<14} {:>3} ranks  {:<5} under {:<8} {:>2} sizes   / best peer {}   / own host {}{}\n",
                       s.key.bench, s.key.variant, s.key.ranks, s.placement, s.host, s.sizes,
                       mean_text(s.to_best_peer, s.sizes), mean_text(s.to_own_host, s.sizes),
                       with_goals ? goal_text(s) : "");
  }
  out += slower_rows_of(judged);
  return out + closing_of(judged,
                          fmt::format(
                              "least, mean and greatest over the ranks; ratios are of the mean; bytes are those of one "
                              "rank's block{}{}",
                              sent.empty() ? "" : "; sent: by a call, between machines, with all headers, in packets",
                              overlaps.empty() ? ""
                                               : "; left: of a call's time when its rank computes between start and "
                                                 "wait, as long as the blocking call takes"));
}

nlohmann::json json_of(const std::vector<CollSummary>& summaries) {
  nlohmann::json all = nlohmann::json::array();
  for (const CollSummary& s : summaries) {
    all.push_back({{"bench", s.key.bench},
                   {"variant", s.key.variant},
                   {"buffers", s.key.buffers},
                   {"ranks", s.key.ranks},
                   {"placement", s.placement},
                   {"host", s.host},
                   {"sizes", s.sizes},
                   {"to_best_peer", json_of(s.to_best_peer)},
                   {"to_own_host", json_of(s.to_own_host)}});
  }
  return all;
}

}  // namespace zh::tools
