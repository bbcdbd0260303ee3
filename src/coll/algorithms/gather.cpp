// Gathers and scatters, uniform and by lists.
#include <algorithm>

#include "coll/algorithms/by_nodes.h"
#include "coll/algorithms/families.h"

namespace zh::coll {
namespace {

/// The root with each of the others.
void linear(Builder& b, const Problem& p) {
  const bool gathers = p.collective == Collective::kGather;
  if (p.self != p.root) {
    gathers ? b.send(p.root, p.send_piece(p.self)) : b.receive(p.root, p.recv_piece(p.self));
    return;
  }
  b.copy(p.send_piece(p.self), p.recv_piece(p.self));
  for (uint32_t i = 1; i < p.ranks(); ++i) {
    const uint32_t rank = (p.root + i) % p.ranks();
    gathers ? b.receive(rank, p.recv_piece(rank)) : b.send(rank, p.send_piece(rank));
  }
}

/// Pieces of a subtree: those of the ranks from root + v on, which may go on with rank 0 after the last one. Both ends
/// of a message cut there, since at the root the two parts lie apart.
class Subtrees {
 public:
  Subtrees(Builder& b, const Problem& p, Range leaf)
      : p_(p), v_((p.self + p.ranks() - p.root) % p.ranks()), tree_(v_, p.ranks()) {
    if (v_ != 0 && tree_.span > 1) own_ = b.scratch(tree_.span * p.bytes());
    if (v_ != 0 && tree_.span == 1) own_ = leaf;
  }

  [[nodiscard]] const Binomial& tree() const { return tree_; }
  [[nodiscard]] uint32_t v() const { return v_; }
  [[nodiscard]] uint32_t rank(uint32_t v) const { return (v + p_.root) % p_.ranks(); }
  /// This rank's piece within its subtree's.
  [[nodiscard]] Range first() const { return own_.part(0, p_.bytes()); }

  /// Calls f for the one or two parts of the subtree of v, which is this rank or a child of it.
  template <typename F>
  void parts(uint32_t v, Place at_root, F&& f) const {
    const uint32_t span = Binomial(v, p_.ranks()).span;
    const uint32_t start = rank(v);
    const uint32_t before_end = std::min(span, p_.ranks() - start);
    const auto part = [&](uint32_t from, uint32_t n) {
      if (v_ == 0) return Range{at_root, rank(v + from) * p_.bytes(), n * p_.bytes()};
      return own_.part((v - v_ + from) * p_.bytes(), n * p_.bytes());
    };
    f(part(0, before_end));
    if (before_end < span) f(part(before_end, span - before_end));
  }

 private:
  const Problem& p_;
  uint32_t v_;
  Binomial tree_;
  Range own_;
};

void gather_binomial(Builder& b, const Problem& p) {
  const Subtrees subtrees(b, p, p.send_piece(p.self));
  const Binomial& tree = subtrees.tree();
  if (subtrees.v() == 0) {
    b.copy(p.send_piece(p.self), p.recv_piece(p.self));
  } else {
    b.copy(p.send_piece(p.self), subtrees.first());
  }
  for (uint32_t k = tree.n_children; k-- > 0;) {
    subtrees.parts(tree.children[k], Place::kOutput,
                   [&](Range part) { b.receive(subtrees.rank(tree.children[k]), part); });
  }
  if (subtrees.v() == 0) return;
  subtrees.parts(subtrees.v(), Place::kOutput, [&](Range part) { b.send(subtrees.rank(tree.parent), part); });
}

void scatter_binomial(Builder& b, const Problem& p) {
  const Subtrees subtrees(b, p, p.recv_piece(p.self));
  const Binomial& tree = subtrees.tree();
  if (subtrees.v() != 0) {
    subtrees.parts(subtrees.v(), Place::kInput, [&](Range part) { b.receive(subtrees.rank(tree.parent), part); });
  }
  for (const uint32_t child : tree.kids()) {
    subtrees.parts(child, Place::kInput, [&](Range part) { b.send(subtrees.rank(child), part); });
  }
  b.copy(subtrees.v() == 0 ? p.send_piece(p.self) : subtrees.first(), p.recv_piece(p.self));
}

ByNodes by_nodes_of(const Problem& p) {
  return {*p.layout, true, [&p](uint32_t) { return p.bytes(); }};
}

/// The pieces go to the leader of the root's node, and from there to a root that is another rank.
void gather_host_leaders(Builder& b, const Problem& p) {
  const Layout& layout = *p.layout;
  const uint32_t to = layout.node_of(p.root);
  const uint32_t receiver = layout.members(to)[0];
  const uint32_t mine = layout.node_of(p.self);
  const Group node = node_group(p, mine);
  const ByNodes by_nodes = by_nodes_of(p);
  const bool at_root = p.self == p.root;
  const bool leads = node.self == 0;
  Range all{};
  if (at_root && by_nodes.straight()) {
    all = {Place::kOutput, 0, by_nodes.total()};
  } else if (at_root || p.self == receiver) {
    all = b.scratch(by_nodes.total());
  }
  Range here = p.send_piece(p.self);
  if (p.self == receiver) {
    here = by_nodes.part_of(all, mine);
  } else if (leads && node.size() > 1) {
    here = b.scratch(by_nodes.bytes_of_nodes()[mine]);
  }
  const uint32_t given = node_gather(b, node, p.team, p.send_piece(p.self), here, by_nodes.bytes_in(mine), true);
  if (leads) {
    const SharedBy by = between_leaders(p, to);
    p.self == receiver ? b.gather_root(by, here, all, by_nodes.bytes_of_nodes(), by_nodes.even())
                       : b.gather_leaf(by, here, by_nodes.even());
  }
  if (receiver != p.root) pass(b, p.self, receiver, p.root, all, {given});
  if (!at_root || by_nodes.straight()) return;
  by_nodes.each(all, [&](uint32_t rank, Range piece) {
    b.copy(rank == p.self ? p.send_piece(p.self) : piece, p.recv_piece(rank));
  });
}

/// The root serves its own node, and its leader the others. Between leaders as gather_host_leaders().
void scatter_host_leaders(Builder& b, const Problem& p) {
  const Layout& layout = *p.layout;
  const uint32_t from = layout.node_of(p.root);
  const uint32_t sender = layout.members(from)[0];
  const uint32_t mine = layout.node_of(p.self);
  const Group node = node_group(p, mine);
  const ByNodes by_nodes = by_nodes_of(p);
  const bool at_root = p.self == p.root;
  const bool leads = node.self == 0;
  const Range own = p.recv_piece(p.self);
  Range all{};
  if (at_root && by_nodes.straight()) {
    all = {Place::kInput, 0, by_nodes.total()};
  } else if (at_root || p.self == sender) {
    all = b.scratch(by_nodes.total());
  }
  if (at_root && !by_nodes.straight()) {
    by_nodes.each(all, [&](uint32_t rank, Range piece) { b.copy(p.send_piece(rank), piece); });
  }
  if (sender != p.root) pass(b, p.self, p.root, sender, all);
  Range here{};  // the pieces of the node, on the rank that serves it
  if (mine == from) {
    here = at_root ? by_nodes.part_of(all, mine) : Range{};
  } else if (leads) {
    here = node.size() > 1 ? b.scratch(by_nodes.bytes_of_nodes()[mine]) : own;
  }
  if (leads) {
    const SharedBy by = between_leaders(p, from);
    p.self == sender ? b.scatter_root(by, all, by_nodes.bytes_of_nodes(), by_nodes.even())
                     : b.scatter_leaf(by, here, by_nodes.even());
  }
  node_scatter(b, node, p.team, mine == from ? node.index(p.root) : 0, here, own, by_nodes.bytes_in(mine), true);
  if (at_root) b.copy(p.send_piece(p.self), own);
  if (leads && mine != from) b.copy(here.part(0, own.bytes), own);
}

constexpr Algorithm kGather[] = {
    {"linear", "everybody sends to the root", "MPI standard 6.5; mlog_nP paper, section 6", always, linear},
    {"binomial", "subtrees collect before they send", "mlog_nP paper, section 6", if_uniform, gather_binomial},
    {kHostLeaders, "nodes' pieces to leaders, then the host's gather among them", kHostLeadersSource,
     if_several_nodes_uniform, gather_host_leaders},
};

constexpr Algorithm kScatter[] = {
    {"linear", "the root sends to everybody", "MPI standard 6.6; mlog_nP paper, section 6", always, linear},
    {"binomial", "recursive halving of what is sent", "multicore collectives paper, section 4.1", if_uniform,
     scatter_binomial},
    {kHostLeaders, "the host's scatter among leaders of whole nodes' pieces, then inside nodes", kHostLeadersSource,
     if_several_nodes_uniform, scatter_host_leaders},
};

}  // namespace

std::span<const Algorithm> gather_algorithms() { return kGather; }
std::span<const Algorithm> scatter_algorithms() { return kScatter; }

}  // namespace zh::coll
