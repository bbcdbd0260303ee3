// See waits.h. A rank is free if it does not wait, or if it waits for something that a free rank may bring: for one of
// its peers where one is enough, else for all of them. Who is not free once nothing more can be freed waits for ever.
#include "tools/top/waits.h"

#include <algorithm>
#include <map>
#include <set>

namespace zh::tools::top {
namespace {

using p2p::Activity;

class Graph {
 public:
  Graph(const JobLook& before, const JobLook& now) : now_(now) {
    const bool apart = now.seen_ns >= before.seen_ns + kLastsNs;
    for (const RankLook& r : now.ranks) {
      const RankLook* earlier = before.rank(r.rank);
      if (apart && earlier != nullptr && lasts(*earlier, r)) peers_[r.rank] = peers_of(r);
    }
  }

  [[nodiscard]] Verdict verdict() const {
    Verdict out;
    const std::set<int> blocked = blocked_ranks();
    out.blocked.assign(blocked.begin(), blocked.end());
    if (!blocked.empty()) {
      out.cycle = cycle_in(blocked);
    } else {
      find_culprit(&out);
    }
    return out;
  }

 private:
  static bool lasts(const RankLook& before, const RankLook& now) {
    const Activity& a = before.wait;
    const Activity& b = now.wait;
    const bool told = b.waits == Activity::Waits::kForMessage || b.waits == Activity::Waits::kForReceive ||
                      b.waits == Activity::Waits::kForMembers;
    return now.state == RankState::kWaiting && before.state == RankState::kWaiting && told &&
           a.began_ns == b.began_ns && a.still_ns == b.still_ns && (b.any || b.peers_told > 0);
  }

  /// Where one of more ranks than can be told is enough, any rank may be it.
  [[nodiscard]] static bool for_anybody(const Activity& wait) {
    return wait.any && (wait.peers_told == 0 || wait.peers_told == Activity::kPeers);
  }

  [[nodiscard]] std::vector<int> peers_of(const RankLook& r) const {
    if (!for_anybody(r.wait)) return {r.wait.peers.begin(), r.wait.peers.begin() + r.wait.peers_told};
    std::vector<int> all;
    for (const RankLook& other : now_.ranks) {
      if (other.rank != r.rank) all.push_back(other.rank);
    }
    if (now_.nodes > 1) all.push_back(-1);  // somebody of another node
    return all;
  }

  [[nodiscard]] std::set<int> blocked_ranks() const {
    std::set<int> blocked;
    for (const auto& [rank, peers] : peers_) blocked.insert(rank);
    const auto is_blocked = [&](int rank) { return blocked.count(rank) != 0; };
    for (bool changed = true; changed;) {
      changed = false;
      for (const auto& [rank, peers] : peers_) {
        const bool stays = now_.rank(rank)->wait.any ? std::all_of(peers.begin(), peers.end(), is_blocked)
                                                     : std::any_of(peers.begin(), peers.end(), is_blocked);
        changed = (!stays && blocked.erase(rank) != 0) || changed;
      }
    }
    return blocked;
  }

  /// Each blocked rank waits for at least one that is blocked.
  [[nodiscard]] std::vector<int> cycle_in(const std::set<int>& blocked) const {
    std::vector<int> way{*blocked.begin()};
    for (;;) {
      const std::vector<int>& peers = peers_.at(way.back());
      const auto next = std::find_if(peers.begin(), peers.end(), [&](int peer) { return blocked.count(peer) != 0; });
      if (next == peers.end()) return way;  // a rank of any peers, which are none: alone in its job
      const auto closes = std::find(way.begin(), way.end(), *next);
      if (closes != way.end()) {
        way.erase(way.begin(), closes);
        std::rotate(way.begin(), std::min_element(way.begin(), way.end()), way.end());
        return way;
      }
      way.push_back(*next);
    }
  }

  /// The ranks at the ends of the chains from `rank`, which wait for nobody.
  void find_roots(int rank, std::set<int>* seen, std::set<int>* roots) const {
    if (!seen->insert(rank).second) return;
    const auto waits = peers_.find(rank);
    if (waits != peers_.end()) {
      for (const int peer : waits->second) find_roots(peer, seen, roots);
    } else if (rank >= 0 && !in_motion(now_.rank(rank))) {
      roots->insert(rank);
    }
  }

  static bool in_motion(const RankLook* r) {
    return r != nullptr && r->state == RankState::kWaiting && r->wait.waits != Activity::Waits::kUntold;
  }

  [[nodiscard]] int severity(int rank) const {
    const RankLook* r = now_.rank(rank);
    if (r == nullptr || r->state == RankState::kWaiting) return -1;
    return static_cast<int>(r->state);
  }

  void find_culprit(Verdict* out) const {
    std::map<int, std::vector<int>> waiters;
    for (const auto& [rank, peers] : peers_) {
      std::set<int> seen;
      std::set<int> roots;
      find_roots(rank, &seen, &roots);
      for (const int root : roots) waiters[root].push_back(rank);
    }
    for (const auto& [root, ranks] : waiters) {
      const bool more = out->culprit < 0 || ranks.size() > out->waiters.size() ||
                        (ranks.size() == out->waiters.size() && severity(root) > severity(out->culprit));
      if (!more) continue;
      out->culprit = root;
      out->waiters = ranks;
    }
  }

  const JobLook& now_;
  std::map<int, std::vector<int>> peers_;  // by the rank that waits
};

}  // namespace

Verdict judge(const JobLook& before, const JobLook& now) { return Graph(before, now).verdict(); }

}  // namespace zh::tools::top
