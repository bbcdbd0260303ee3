// See placement.h.
#include "tools/bench/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <tuple>

#include "tools/bench/report.h"

namespace zh::tools {
namespace {

constexpr int kMostFailures = 3;  // in a row, of one kind: its host does not work

std::string kind_of(const std::string& host, bool zerohop, const std::string& setting) {
  return host + (zerohop ? " zerohop " : " bare ") + setting;
}

std::string placement_told(const LaunchRecord& r) { return r.document.value("placement", ""); }
bool is_placed(const std::string& placement) { return placement == "near" || placement == "far"; }

/// Pairs of a reference launch and one of another kind, closest in time first, each launch in one pair.
void pair(const std::vector<size_t>& references, const std::vector<size_t>& others, int* next_free,
          std::vector<LaunchRecord>* launches) {
  std::vector<std::tuple<double, size_t, size_t>> candidates;
  for (const size_t r : references) {
    for (const size_t o : others) candidates.emplace_back(std::abs((*launches)[r].at_s - (*launches)[o].at_s), r, o);
  }
  std::sort(candidates.begin(), candidates.end());
  std::vector<size_t> taken;
  const auto is_taken = [&](size_t i) { return std::find(taken.begin(), taken.end(), i) != taken.end(); };
  for (const auto& [apart, r, o] : candidates) {
    if (is_taken(r) || is_taken(o)) continue;
    (*launches)[o].round = (*launches)[r].round;
    taken.insert(taken.end(), {r, o});
  }
  for (const size_t o : others) {
    if (!is_taken(o)) (*launches)[o].round = (*next_free)++;
  }
}

/// What stands in one table.
auto table_key(const Row& r) { return std::tie(r.placement, r.key.bench, r.key.buffers, r.key.ranks, r.host); }

/// Launches behind the rows of a table, by host: the least of its rows.
std::map<std::string, int> launches_by_placement(const std::vector<const Row*>& rows) {
  std::map<std::string, int> least;
  const auto add = [&](const std::string& name, int count) {
    const auto [it, fresh] = least.try_emplace(name, count);
    if (!fresh) it->second = std::min(it->second, count);
  };
  for (const Row* r : rows) {
    add("zerohop", r->rounds);
    for (const auto& [host, value] : r->peers) add(host, value.count);
  }
  return least;
}

bool is_resolved(const std::map<std::string, int>& launches, const std::vector<std::string>& hosts) {
  const auto enough = [&](const std::string& name) {
    return launches.contains(name) && launches.at(name) >= kPlacementLaunches;
  };
  return enough("zerohop") && std::all_of(hosts.begin(), hosts.end(), enough);
}

/// The rows of each table, and every host that is in one of them.
struct PlacementTables {
  std::vector<std::string> hosts;
  std::vector<std::vector<const Row*>> parts;
};
PlacementTables placement_tables(const Judged& judged) {
  PlacementTables t;
  std::vector<const Row*> rows;
  for (const Row& r : judged.rows) {
    rows.push_back(&r);
    for (const auto& [host, value] : r.peers) {
      if (std::find(t.hosts.begin(), t.hosts.end(), host) == t.hosts.end()) t.hosts.push_back(host);
    }
  }
  std::sort(t.hosts.begin(), t.hosts.end());
  std::stable_sort(rows.begin(), rows.end(), [](const Row* a, const Row* b) { return table_key(*a) < table_key(*b); });
  for (const Row* r : rows) {
    if (t.parts.empty() || table_key(*t.parts.back().front()) != table_key(*r)) t.parts.emplace_back();
    t.parts.back().push_back(r);
  }
  return t;
}

std::string one_table(const std::vector<const Row*>& rows, const std::vector<std::string>& hosts) {
  const Row& first = *rows.front();
  const std::map<std::string, int> launches = launches_by_placement(rows);
  std::string counts;
  for (const auto& [name, count] : launches) counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", name, count);
  std::string lacking;
  if (!is_resolved(launches, hosts))
    lacking = fmt::format("  not resolved: fewer than {} launches of a host\n", kPlacementLaunches);
  std::string out =
      fmt::format("\n{} · {} · {} · {} ranks · zerohop under {} · raw line {} µs · launches: {}\n{}{:<12}",
                  first.placement, first.key.bench, first.key.buffers, first.key.ranks, first.host,
                  number_text(first.line_us), counts, lacking, "size");
  for (const std::string& h : hosts) out += fmt::format("{:>10}", h);
  out += fmt::format("{:>10}{:>10}  {:<24}{}\n", "zerohop", "raw", "/ best peer (95 %)", "/ own host");
  for (const Row* r : rows) {
    out += fmt::format("{:<12}", case_text(r->key));
    for (const std::string& h : hosts) {
      const auto it = r->peers.find(h);
      out += fmt::format("{:>10}",
                         it == r->peers.end() ? "-" : number_text(it->second.mid) + (h == r->best_peer ? "*" : ""));
    }
    const std::string own = r->to_own_host.count == 0 ? "-" : number_text(r->to_own_host.mid);
    out += fmt::format("{:>10}{:>10}  {:<24}{}\n", number_text(r->zerohop.mid),
                       r->raw_us ? number_text(*r->raw_us) : "-", interval_text(r->to_best_peer), own);
  }
  return out;
}

}  // namespace

void PlacementCounts::note(const std::string& kind, const std::string& placement) {
  if (!is_placed(placement)) return;
  current_ = placement;
  ++counts_[placement][kind];
}

int PlacementCounts::lacking(const std::string& kind, const std::string& placement) const {
  const auto by_kind = counts_.find(placement);
  if (by_kind == counts_.end()) return wanted_;
  const auto it = by_kind->second.find(kind);
  return wanted_ - (it == by_kind->second.end() ? 0 : it->second);
}

std::optional<size_t> PlacementCounts::next(const std::vector<std::string>& kinds) const {
  const auto most_lacking = [&](const std::string& placement) {
    std::optional<size_t> most;
    for (size_t i = 0; i < kinds.size(); ++i) {
      const int lacks = lacking(kinds[i], placement);
      if (lacks > 0 && (!most || lacks > lacking(kinds[*most], placement))) most = i;
    }
    return most;
  };
  if (const auto here = most_lacking(current_)) return here;
  for (const auto& [placement, counts] : counts_) {
    if (const auto elsewhere = most_lacking(placement)) return elsewhere;
  }
  return std::nullopt;
}

void launch_by_placement(const std::vector<PlacedGroup>& groups, double minutes,
                         const std::function<void(const std::string& placement)>& between, Rounds* rounds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(minutes * 60);
  const auto time_is_up = [&] { return std::chrono::steady_clock::now() >= end; };
  std::vector<PlacementCounts> counts(groups.size(), PlacementCounts(kPlacementLaunches));
  std::map<std::string, int> failures;
  std::string placement;
  bool more = true;
  for (int pass = 0; more && !time_is_up(); ++pass) {
    more = false;
    for (size_t g = 0; g < groups.size(); ++g) {
      for (size_t n = 0; n < groups[g].planned.size() && !time_is_up(); ++n) {
        std::vector<std::string> kinds;
        std::vector<const PlannedLaunch*> working;
        for (const PlannedLaunch& p : groups[g].planned) {
          const std::string kind = kind_of(p.host->name, p.zerohop, p.setting);
          if (failures[groups[g].name + kind] >= kMostFailures) continue;
          kinds.push_back(kind);
          working.push_back(&p);
        }
        const auto chosen = counts[g].next(kinds);
        if (!chosen) break;
        more = true;
        int& failed = failures[groups[g].name + kinds[*chosen]];
        const LaunchRecord* made = rounds->launch(groups[g].name, pass, 0, *working[*chosen]);
        failed = made == nullptr ? failed + 1 : 0;
        if (made == nullptr) continue;
        counts[g].note(kinds[*chosen], placement_told(*made));
        if (is_placed(placement_told(*made))) placement = placement_told(*made);
      }
    }
    between(placement);
  }
  if (more) fmt::print(stderr, "the time is up ({:g} minutes)\n", minutes);
}

std::vector<LaunchRecord> paired_by_time(const std::vector<LaunchRecord>& launches) {
  std::vector<LaunchRecord> out = launches;
  std::map<std::pair<std::string, std::string>, std::map<std::string, std::vector<size_t>>> parts;
  for (size_t i = 0; i < out.size(); ++i)
    parts[{out[i].group, placement_told(out[i])}][kind_of(out[i].host, out[i].zerohop, out[i].setting)].push_back(i);
  for (auto& [part, kinds] : parts) {
    const auto reference = std::find_if(kinds.begin(), kinds.end(), [&](const auto& entry) {
      return out[entry.second.front()].zerohop && out[entry.second.front()].setting.empty();
    });
    if (reference == kinds.end()) continue;
    int next_free = 0;
    for (const size_t i : reference->second) out[i].round = next_free++;
    for (const auto& [kind, others] : kinds) {
      if (kind != reference->first) pair(reference->second, others, &next_free, &out);
    }
  }
  return out;
}

std::string placement_table_of(const Judged& judged) {
  const PlacementTables tables = placement_tables(judged);
  std::string out;
  for (const auto& rows : tables.parts) out += one_table(rows, tables.hosts);
  return out;
}

nlohmann::json placement_json_of(const Judged& judged) {
  const PlacementTables tables = placement_tables(judged);
  nlohmann::json all = nlohmann::json::array();
  for (const auto& rows : tables.parts) {
    const Row& r = *rows.front();
    const std::map<std::string, int> launches = launches_by_placement(rows);
    all.push_back({{"placement", r.placement},
                   {"bench", r.key.bench},
                   {"buffers", r.key.buffers},
                   {"ranks", r.key.ranks},
                   {"host", r.host},
                   {"launches", launches},
                   {"resolved", is_resolved(launches, tables.hosts)}});
  }
  return all;
}

}  // namespace zh::tools
