// Barriers: messages without bytes.
#include "coll/algorithms/families.h"

namespace zh::coll {
namespace {

/// Among the members of a group; `before` is what the first round waits for. Returns what to wait for after it.
uint32_t dissemination_round(Builder& b, const Group& group, uint32_t before) {
  const uint32_t n = group.size();
  uint32_t heard = before;
  for (uint32_t distance = 1; distance < n; distance *= 2) {
    b.signal(group.ranks[(group.self + distance) % n], {heard});
    const uint32_t now = b.await(group.ranks[(group.self + n - distance) % n], {heard});
    heard = now;
  }
  return heard;
}

void barrier_dissemination(Builder& b, const Problem& p) { dissemination_round(b, everybody(p), kNoStep); }

/// The same, where the node's team tells of its ranks, and them.
void by_team(Builder& b, const Problem& p, const Group& node) {
  const SharedBy leader{node.ranks[0]};
  if (node.self != 0) {
    b.reduce_leaf(leader, {});
    b.bcast_leaf(leader, {});
    return;
  }
  const uint32_t here = b.reduce_root(leader, {}, {});
  b.bcast_root(leader, {}, {dissemination_round(b, leaders(p, kNoStep), here)});
}

/// The team tells its leader, leaders meet, and each tells its team.
void barrier_host_leaders(Builder& b, const Problem& p) {
  const Group node = node_group(p, p.layout->node_of(p.self));
  const SharedBy leader{node.ranks[0]};
  const bool alone = node.size() == 1;
  if (node.self != 0) {
    p.team ? b.bcast_leaf(leader, {}, {b.reduce_leaf(leader, {})}) : b.await(node.ranks[0], {b.signal(node.ranks[0])});
    return;
  }
  uint32_t heard = kNoStep;
  if (p.team && !alone) heard = b.reduce_root(leader, {}, {});
  for (uint32_t i = 1; i < node.size() && !p.team; ++i) heard = b.await(node.ranks[i], {heard});
  const uint32_t met = b.barrier(between_leaders(p), {heard});
  if (p.team && !alone) b.bcast_root(leader, {}, {met});
  for (uint32_t i = 1; i < node.size() && !p.team; ++i) b.signal(node.ranks[i], {met});
}

/// Ranks tell their leader, leaders each other, and the leader its ranks.
void barrier_hierarchical(Builder& b, const Problem& p) {
  const Group node = node_group(p, p.layout->node_of(p.self));
  if (p.team && node.size() > 1) return by_team(b, p, node);
  if (node.self != 0) {
    b.await(node.ranks[0], {b.signal(node.ranks[0])});
    return;
  }
  uint32_t heard = kNoStep;
  for (uint32_t i = 1; i < node.size(); ++i) heard = b.await(node.ranks[i], {heard});
  heard = dissemination_round(b, leaders(p, kNoStep), heard);
  for (uint32_t i = 1; i < node.size(); ++i) b.signal(node.ranks[i], {heard});
}

constexpr Algorithm kBarrierAlgorithms[] = {
    {"dissemination", "log2 P rounds of messages without bytes", "Hensgen, Finkel, Manber 1988", always,
     barrier_dissemination},
    {"hierarchical", "leaders hear of their nodes, then of each other", "mlog_nP paper, section 6", always,
     barrier_hierarchical},
    {kHostLeaders, "leaders hear of their nodes, then meet by the host's barrier", kHostLeadersSource, if_several_nodes,
     barrier_host_leaders},
};

}  // namespace

std::span<const Algorithm> barrier_algorithms() { return kBarrierAlgorithms; }

}  // namespace zh::coll
