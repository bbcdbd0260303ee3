// Reductions whose result is cut among the ranks.
#include "coll/algorithms/by_nodes.h"
#include "coll/algorithms/families.h"

namespace zh::coll {
namespace {

/// Everybody's part for a rank goes to that rank, one partner after the other, and is combined there.
void reduce_scatter_pairwise(Builder& b, const Problem& p) {
  const uint32_t n = p.ranks();
  const Range mine = p.send_piece(p.self);
  const Range out = p.recv_piece(p.self);
  for (uint32_t step = 1; step < n; ++step) {
    const uint32_t to = (p.self + step) % n;
    b.send(to, p.send_piece(to));
  }
  // In rank order, or in the order in which the partners' turns come.
  const Group group = everybody(p);
  if (!p.commutative) return reduce_linear(b, group, p.self, mine, out);
  std::vector<uint32_t> turns;
  for (uint32_t step = 0; step < n; ++step) turns.push_back((p.self + n - step) % n);
  reduce_linear(b, Group(turns, p.self), 0, mine, out);
}

void reduce_then_scatter(Builder& b, const Problem& p) {
  const uint32_t n = p.ranks();
  const Range last = p.send_piece(n - 1);
  const Range all{Place::kInput, 0, last.at + last.bytes};
  Range result;
  if (p.self == 0) result = b.scratch(all.bytes);
  reduce_binomial(b, everybody(p), all, result);
  if (p.self != 0) {
    b.receive(0, p.recv_piece(p.self));
    return;
  }
  for (uint32_t rank = 1; rank < n; ++rank) {
    const Range piece = p.send_piece(rank);
    b.send(rank, result.part(piece.at, piece.bytes));
  }
  b.copy(result.part(0, p.recv_piece(0).bytes), p.recv_piece(0));
}

/// Leaders combine whole vectors of their nodes. Among themselves they have the pieces of a node's ranks together.
void reduce_scatter_host_leaders(Builder& b, const Problem& p) {
  const uint32_t mine = p.layout->node_of(p.self);
  const Group node = node_group(p, mine);
  const ByNodes by_nodes(*p.layout, true, [&p](uint32_t rank) { return p.send_piece(rank).bytes; });
  const bool alone = node.size() == 1;
  const Range in{p.in_place ? Place::kOutput : Place::kInput, 0, by_nodes.total()};
  const Range own = p.recv_piece(p.self);
  Range here{};
  Range sum = in;
  if (!alone) {
    if (node.self == 0) sum = b.scratch(in.bytes);
    p.team ? node_reduce(b, node, 0, in, sum) : reduce_linear(b, node, 0, in, sum);
  }
  if (node.self == 0) {
    const Range whole = sum;
    if (!by_nodes.straight()) {
      sum = b.scratch(in.bytes);
      by_nodes.each(sum,
                    [&](uint32_t rank, Range piece) { b.copy(whole.part(p.send_piece(rank).at, piece.bytes), piece); });
    }
    here = alone ? own : b.scratch(by_nodes.bytes_of_nodes()[mine]);
    b.reduce_scatter(between_leaders(p), sum, here, by_nodes.bytes_of_nodes());
  }
  node_scatter(b, node, p.team, 0, here, own, by_nodes.bytes_in(mine), p.uniform);
  if (node.self == 0) b.copy(here.part(0, own.bytes), own);
}

/// How the ranks of one node divide the pieces for those of another one among themselves, in order.
struct Division {
  uint32_t pieces;
  uint32_t ranks;

  /// Pieces [first(i), first(i + 1)) are those of the i-th rank.
  [[nodiscard]] uint32_t first(uint32_t i) const { return static_cast<uint32_t>(uint64_t{i} * pieces / ranks); }
  /// The rank that has a piece.
  [[nodiscard]] uint32_t owner(uint32_t piece) const {
    return static_cast<uint32_t>((uint64_t{piece + 1} * ranks + pieces - 1) / pieces - 1);
  }
};

/// What a node's ranks have of `in` is combined, and each gets its part, which it returns.
Range combine_divided(Builder& b, const Problem& p, const Group& node, Range in, const std::vector<uint64_t>& parts) {
  if (node.size() == 1) return in;
  const Range own = b.scratch(parts[node.self]);
  if (p.team) {
    node_reduce_scatter(b, node, in, own, parts);
    return own;
  }
  uint64_t at = 0;
  for (uint32_t i = 0; i < node.size(); at += parts[i++]) reduce_linear(b, node, i, in.part(at, parts[i]), own);
  return own;
}

/// Each rank combines what its node has for its counterparts on one node after the other, and sends it to them. Then it
/// combines what its counterparts have sent to it.
void reduce_scatter_shmem_parallel(Builder& b, const Problem& p) {
  const Layout& layout = *p.layout;
  const uint32_t mine = layout.node_of(p.self);
  const Group node = node_group(p, mine);
  const ByNodes by_nodes(layout, true, [&p](uint32_t rank) { return p.send_piece(rank).bytes; });
  const bool from_output = p.in_place && node.size() > 1;
  const Range all{from_output ? Place::kOutput : Place::kInput, 0, by_nodes.total()};
  Range own{};
  for (uint32_t step = 1; step <= layout.nodes(); ++step) {
    const uint32_t to = (mine + step) % layout.nodes();  // its own node last: others wait for theirs
    const std::vector<uint64_t> pieces = by_nodes.bytes_in(to);
    const Division division{static_cast<uint32_t>(pieces.size()), node.size()};
    std::vector<uint64_t> parts(node.size(), 0);
    for (uint32_t k = 0; k < pieces.size(); ++k) parts[division.owner(k)] += pieces[k];
    const Range sum = combine_divided(b, p, node, by_nodes.part_of(all, to), parts);
    if (to == mine) own = sum;
    uint64_t at = 0;
    for (uint32_t k = division.first(node.self); k < division.first(node.self + 1) && to != mine; at += pieces[k++]) {
      b.send(layout.members(to)[k], sum.part(at, pieces[k]));
    }
  }
  std::vector<uint32_t> counterparts;
  for (uint32_t from = 0; from < layout.nodes(); ++from) {
    const std::span<const uint32_t> ranks = layout.members(from);
    counterparts.push_back(ranks[Division{node.size(), static_cast<uint32_t>(ranks.size())}.owner(node.self)]);
  }
  reduce_linear(b, Group(counterparts, p.self), mine, own, p.recv_piece(p.self));
}

constexpr Algorithm kReduceScatterAlgorithms[] = {
    {"pairwise", "everybody's part to its rank, combined there", "multicore collectives paper, section 4.2", always,
     reduce_scatter_pairwise},
    {"reduce-then-scatter", "binomial reduction to rank 0, which hands out the parts", "MPI standard 6.10", always,
     reduce_then_scatter},
    {kHostLeaders, "leaders combine their nodes, then the host's reduce-scatter among them", kHostLeadersSource,
     if_several_nodes_in_order, reduce_scatter_host_leaders},
    {"shmem-parallel", "every rank of a node combines its counterparts' pieces, then what these send to it",
     "multicore collectives paper, section 4.2", if_several_nodes_consecutive, reduce_scatter_shmem_parallel},
};

}  // namespace

std::span<const Algorithm> reduce_scatter_algorithms() { return kReduceScatterAlgorithms; }

}  // namespace zh::coll
