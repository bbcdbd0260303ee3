// Reductions to a root.
#include "coll/algorithms/families.h"

namespace zh::coll {
namespace {

void reduce_linear(Builder& b, const Problem& p) {
  const Group group = everybody(p);
  ScratchTurns turns(b);
  Chunks(p, p.input()).each([&](Range in) {
    turns.next();
    reduce_linear(b, group, p.root, in, p.output().part(in.at, in.bytes));
  });
}

void reduce_binomial(Builder& b, const Problem& p) {
  const Group group = everybody(p);
  if (p.commutative || p.root == 0) {
    reduce_binomial(b, group.rotated(p.root), p.input(), p.output());
    return;
  }
  // The tree keeps the order of ranks only from rank 0 on: the result goes from there to the root.
  if (p.self == 0) {
    const Range result = b.scratch(p.bytes());
    reduce_binomial(b, group, p.input(), result);
    b.send(p.root, result);
    return;
  }
  reduce_binomial(b, group, p.input(), p.output());
  if (p.self == p.root) b.receive(0, p.output());
}

void reduce_hierarchical(Builder& b, const Problem& p) {
  const Layout& layout = *p.layout;
  const Group heads = leaders(p, p.root);
  const uint32_t my_node = layout.node_of(p.self);
  const Group node = node_group(p, my_node);
  ScratchTurns turns(b);
  Chunks(p, p.input()).each([&](Range in) {
    turns.next();
    Range combined = in;
    if (node.size() > 1) {
      if (heads.has_self()) combined = b.scratch(in.bytes);
      const uint32_t head = node.index(heads.ranks[my_node]);
      p.team ? node_reduce(b, node, head, in, combined) : reduce_linear(b, node, head, in, combined);
    }
    reduce_linear(b, heads, layout.node_of(p.root), combined, p.output().part(in.at, in.bytes));
  });
}

/// The result goes to the leader of the root's node, and from there to a root that is another rank.
void reduce_host_leaders(Builder& b, const Problem& p) {
  const Layout& layout = *p.layout;
  const uint32_t to = layout.node_of(p.root);
  const uint32_t receiver = layout.members(to)[0];
  const Group node = node_group(p, layout.node_of(p.self));
  const bool leads = node.self == 0;
  const Range in = p.in_place ? p.output() : p.input();
  const bool alone = node.size() == 1;
  Range combined = in;
  if (!alone && leads) combined = p.self == p.root ? p.output() : b.scratch(p.bytes());
  const Range result = p.self == p.root ? p.output() : combined;
  if (!alone) p.team ? node_reduce(b, node, 0, in, combined) : reduce_linear(b, node, 0, in, combined);
  if (leads) {
    const SharedBy by = between_leaders(p, to);
    p.self != receiver ? b.reduce_leaf(by, combined) : b.reduce_root(by, combined, result);
  }
  if (receiver != p.root) pass(b, p.self, receiver, p.root, result);
}

constexpr Algorithm kReduceAlgorithms[] = {
    {"linear", "the root combines everybody's, chunk by chunk", "MPI standard 6.9.1: exactly in rank order", always,
     reduce_linear, always},
    {"binomial", "a binomial tree; in rank order by way of rank 0", "mlog_nP paper, section 6", always,
     reduce_binomial},
    {"hierarchical", "leaders combine their nodes, the root the leaders', chunk by chunk", "mlog_nP paper, section 6",
     if_nodes_in_order, reduce_hierarchical, always},
    {kHostLeaders, "leaders combine their nodes, then the host's reduction among them", kHostLeadersSource,
     if_several_nodes_in_order, reduce_host_leaders},
};

}  // namespace

std::span<const Algorithm> reduce_algorithms() { return kReduceAlgorithms; }

}  // namespace zh::coll
