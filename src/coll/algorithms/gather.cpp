// Gathers and scatters, uniform and by lists.
#include <algorithm>

#include "coll/algorithms/families.h"

namespace zh::coll {
namespace {

void gather_linear(Builder& b, const Problem& p) {
  if (p.self != p.root) {
    b.send(p.root, p.send_piece(p.self));
    return;
  }
  b.copy(p.send_piece(p.self), p.recv_piece(p.self));
  for (uint32_t i = 1; i < p.ranks(); ++i) {
    const uint32_t rank = (p.root + i) % p.ranks();
    b.receive(rank, p.recv_piece(rank));
  }
}

void scatter_linear(Builder& b, const Problem& p) {
  if (p.self != p.root) {
    b.receive(p.root, p.recv_piece(p.self));
    return;
  }
  b.copy(p.send_piece(p.self), p.recv_piece(p.self));
  for (uint32_t i = 1; i < p.ranks(); ++i) {
    const uint32_t rank = (p.root + i) % p.ranks();
    b.send(rank, p.send_piece(rank));
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

constexpr Algorithm kGather[] = {
    {"linear", "everybody sends to the root", "MPI standard 6.5; mlog_nP paper, section 6", always, gather_linear},
    {"binomial", "subtrees collect before they send", "mlog_nP paper, section 6", if_uniform, gather_binomial},
};

constexpr Algorithm kScatter[] = {
    {"linear", "the root sends to everybody", "MPI standard 6.6; mlog_nP paper, section 6", always, scatter_linear},
    {"binomial", "recursive halving of what is sent", "multicore collectives paper, section 4.1", if_uniform,
     scatter_binomial},
};

}  // namespace

std::span<const Algorithm> gather_algorithms() { return kGather; }
std::span<const Algorithm> scatter_algorithms() { return kScatter; }

}  // namespace zh::coll
