// See parts.h.
#include "coll/schedule/parts.h"

#include <algorithm>
#include <bit>

#include "base/shm_types.h"

namespace zh::coll {
namespace {

constexpr uint64_t kSmall = 4096;  // memory for every operand costs less than waiting for its last use
constexpr uint32_t kStagedSlots = 8;

/// Memory for operands that arrive one after the other: each its own while they are small, else two by turns.
class Slots {
 public:
  Slots(Builder& b, uint64_t bytes, uint32_t most) : mark_(b.scratch_mark()), b_(b) {
    const uint32_t n = std::min(most, bytes <= kSmall ? std::max(kStagedSlots, std::bit_width(most)) : 2u);
    for (uint32_t i = 0; i < n; ++i) free_.push_back(b.scratch(bytes));
  }
  ~Slots() { b_.scratch_release(mark_); }
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;
  /// The one that was used longest ago and is not `busy`.
  [[nodiscard]] Range next(Range busy) {
    const Range slot = free_[turn_ % free_.size()];
    ++turn_;
    if (busy.place == Place::kScratch && busy.at == slot.at && free_.size() > 1) return next({});
    return slot;
  }

 private:
  uint64_t mark_;
  Builder& b_;
  std::vector<Range> free_;
  size_t turn_ = 0;
};

}  // namespace

Group::Group(std::span<const uint32_t> members, uint32_t rank) : ranks(members.begin(), members.end()) {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  if (found != ranks.end()) self = static_cast<uint32_t>(found - ranks.begin());
}

Group Group::rotated(uint32_t first) const {
  Group turned = *this;
  std::rotate(turned.ranks.begin(), turned.ranks.begin() + first, turned.ranks.end());
  if (has_self()) turned.self = (self + size() - first) % size();
  return turned;
}

uint32_t Group::index(uint32_t rank) const {
  return static_cast<uint32_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

Group everybody(const Problem& problem) { return {problem.layout->everybody(), problem.self}; }

Group node_group(const Problem& problem, uint32_t node) { return {problem.layout->members(node), problem.self}; }

Group leaders(const Problem& problem, uint32_t root) {
  const Layout& layout = *problem.layout;
  std::vector<uint32_t> ranks;
  for (uint32_t node = 0; node < layout.nodes(); ++node) {
    const bool has_root = root != kNoStep && layout.node_of(root) == node;
    ranks.push_back(has_root ? root : layout.members(node)[0]);
  }
  return {ranks, problem.self};
}

Binomial::Binomial(uint32_t v, uint32_t n) {
  const uint32_t reach = v == 0 ? std::bit_ceil(n) : v & (~v + 1);
  parent = v - (v == 0 ? 0 : reach);
  span = std::min(reach, n - v);
  for (uint32_t m = reach / 2; m > 0; m /= 2) {
    if (v + m < n) children[n_children++] = v + m;
  }
}

Range blocks(Range whole, uint64_t first, uint64_t last, uint64_t n, uint64_t element_bytes) {
  const uint64_t elements = whole.bytes / element_bytes;
  // The first elements % n parts have one more.
  const auto start = [&](uint64_t i) { return (elements / n * i + std::min(i, elements % n)) * element_bytes; };
  return whole.part(start(first), start(last) - start(first));
}

Range block(Range whole, uint64_t i, uint64_t n, uint64_t element_bytes) {
  return blocks(whole, i, i + 1, n, element_bytes);
}

uint64_t piece_bytes(const Problem& problem, uint64_t vector_bytes) {
  if (problem.chunk_bytes == 0) return 0;
  return round_up(std::max(problem.chunk_bytes, (vector_bytes + kMostChunks - 1) / kMostChunks), problem.element_bytes);
}

Chunks::Chunks(const Problem& problem, Range whole, uint64_t vector_bytes)
    : whole_(whole), size_(problem.chunk_bytes == 0 ? whole.bytes : piece_bytes(problem, vector_bytes)) {}

void ScratchTurns::next() {
  // A last chunk that is shorter takes less: the second turn starts where the first one's largest ended.
  if (turn_ == 1) second_ = b_.scratch_mark();
  b_.scratch_release(turn_ % 2 == 0 ? mark_ : second_);
  ++turn_;
}

void Fold::right(Range operand) {
  builder_.reduce(acc_, operand);
  acc_ = operand;
}

void Fold::left(Range operand, Range home) {
  if (acc_.place == Place::kInput) {
    builder_.copy(acc_, home);
    acc_ = home;
  }
  builder_.reduce(operand, acc_);
}

void bcast_linear(Builder& b, const Group& group, uint32_t root, Range data) {
  if (!group.has_self()) return;
  if (group.self != root) {
    b.receive(group.ranks[root], data);
    return;
  }
  for (uint32_t i = 1; i < group.size(); ++i) b.send(group.ranks[(root + i) % group.size()], data);
}

void bcast_binomial(Builder& b, const Group& group, uint32_t root, Range data) {
  if (!group.has_self()) return;
  const uint32_t n = group.size();
  const uint32_t v = (group.self + n - root) % n;
  const Binomial tree(v, n);
  if (v != 0) b.receive(group.ranks[(tree.parent + root) % n], data);
  for (const uint32_t child : tree.kids()) b.send(group.ranks[(child + root) % n], data);
}

void reduce_linear(Builder& b, const Group& group, uint32_t root, Range in, Range out) {
  if (!group.has_self()) return;
  if (group.self != root) {
    b.send(group.ranks[root], in);
    return;
  }
  const uint32_t n = group.size();
  if (n == 1) {
    b.copy(in, out);
    return;
  }
  // The last operand is received where the result belongs, so the operands before it must not lie there.
  const bool own_last = root == n - 1;
  Slots slots(b, in.bytes, n);
  Range mine = in;
  if (in.place == out.place && in.at == out.at && !own_last) {
    mine = b.scratch(in.bytes);
    b.copy(in, mine);
  }
  const auto operand = [&](uint32_t i, Range busy) {
    if (i == root && i == 0) return mine;
    const Range to = i == n - 1 ? out : slots.next(busy);
    if (i == root) {
      b.copy(mine, to);
    } else {
      b.receive(group.ranks[i], to);
    }
    return to;
  };
  Fold fold(b, operand(0, {}));
  for (uint32_t i = 1; i < n; ++i) fold.right(operand(i, fold.acc()));
}

void node_bcast(Builder& b, const Group& node, uint32_t root, Range data) {
  if (!node.has_self() || node.size() == 1) return;
  const SharedBy by{node.ranks[root], root};
  node.self == root ? b.bcast_root(by, data) : b.bcast_leaf(by, data);
}

void node_reduce(Builder& b, const Group& node, uint32_t root, Range in, Range out) {
  if (!node.has_self()) return;
  if (node.size() == 1) {
    b.copy(in, out);
    return;
  }
  const SharedBy by{node.ranks[root], root};
  node.self == root ? b.reduce_root(by, in, out) : b.reduce_leaf(by, in);
}

void node_reduce_scatter(Builder& b, const Group& node, Range in, Range own, std::span<const uint64_t> parts) {
  if (!node.has_self()) return;
  if (node.size() == 1) {
    b.copy(in, own);
    return;
  }
  b.reduce_scatter({node.ranks[0]}, in, own, parts);
}

void node_allgather(Builder& b, const Group& node, Range all, std::span<const uint64_t> parts) {
  if (!node.has_self() || node.size() == 1) return;
  b.allgather({node.ranks[0]}, node.self, all, parts);
}

uint32_t node_gather(Builder& b, const Group& node, bool team, Range own, Range all, std::span<const uint64_t> parts,
                     bool even) {
  if (!node.has_self()) return kNoStep;
  if (team && node.size() > 1) {
    const SharedBy first{node.ranks[0]};
    return node.self == 0 ? b.gather_root(first, own, all, parts, even) : b.gather_leaf(first, own, even);
  }
  if (node.self != 0) return b.send(node.ranks[0], own);
  const uint32_t copied = b.copy(own, all.part(0, parts[0]));
  uint64_t at = parts[0];
  for (uint32_t i = 1; i < node.size(); at += parts[i++]) b.receive(node.ranks[i], all.part(at, parts[i]));
  return copied;
}

void node_scatter(Builder& b, const Group& node, bool team, uint32_t root, Range all, Range own,
                  std::span<const uint64_t> parts, bool even) {
  if (!node.has_self() || node.size() == 1) return;
  if (team) {
    const SharedBy by{node.ranks[root], root};
    node.self == root ? b.scatter_root(by, all, parts, even) : b.scatter_leaf(by, own, even);
    return;
  }
  if (node.self != root) {
    b.receive(node.ranks[root], own);
    return;
  }
  uint64_t at = 0;
  for (uint32_t i = 0; i < node.size(); at += parts[i++]) {
    if (i != root) b.send(node.ranks[i], all.part(at, parts[i]));
  }
}

uint32_t pass(Builder& b, uint32_t self, uint32_t from, uint32_t to, Range data, Builder::After after) {
  if (self == from) return data.bytes == 0 ? b.signal(to, after) : b.send(to, data, after);
  if (self == to) return data.bytes == 0 ? b.await(from, after) : b.receive(from, data, after, true);
  return kNoStep;
}

SharedBy between_leaders(const Problem& problem, uint32_t node) {
  return {problem.layout->members(node)[0], node, true};
}

void reduce_binomial(Builder& b, const Group& group, Range in, Range out) {
  if (!group.has_self()) return;
  const uint32_t n = group.size();
  const Binomial tree(group.self, n);
  if (n == 1) b.copy(in, out);
  Slots slots(b, in.bytes, tree.n_children);
  Fold fold(b, in);
  // The smallest subtree is ready first, and its ranks follow this one's.
  for (uint32_t k = tree.n_children; k-- > 0;) {
    const Range to = k == 0 && group.self == 0 ? out : slots.next(fold.acc());
    b.receive(group.ranks[tree.children[k]], to);
    fold.right(to);
  }
  if (group.self != 0) b.send(group.ranks[tree.parent], fold.acc());
}

Folded::Folded(const Group& group) : pow2(std::bit_floor(group.size())), pairs(group.size() - pow2) {
  if (!group.has_self()) return;
  if (group.self >= 2 * pairs) {
    self = group.self - pairs;
  } else if (group.self % 2 != 0) {
    self = group.self / 2;
  }
}

Fold fold_pairs(Builder& b, const Group& group, const Folded& folded, Range in, Range out) {
  Fold fold(b, in);
  if (group.self >= 2 * folded.pairs) return fold;
  if (group.self % 2 == 0) {
    b.send(group.ranks[group.self + 1], in);
    return fold;
  }
  const Range lower = b.scratch(in.bytes);
  b.receive(group.ranks[group.self - 1], lower);
  fold.left(lower, out);
  return fold;
}

void unfold_pairs(Builder& b, const Group& group, const Folded& folded, Range out) {
  if (group.self >= 2 * folded.pairs) return;
  if (group.self % 2 == 0) {
    b.receive(group.ranks[group.self + 1], out);
  } else {
    b.send(group.ranks[group.self - 1], out);
  }
}

void allreduce_doubling(Builder& b, const Group& group, Range in, Range out) {
  if (!group.has_self()) return;
  const Folded folded(group);
  const uint64_t mark = b.scratch_mark();
  Fold fold = fold_pairs(b, group, folded, in, out);
  if (folded.self != kNoStep) {
    Slots slots(b, in.bytes, std::max(2u, static_cast<uint32_t>(std::bit_width(folded.pow2))));
    for (uint32_t mask = 1; mask < folded.pow2; mask *= 2) {
      const uint32_t v = folded.self ^ mask;
      const uint32_t peer = group.ranks[folded.index(v)];
      b.send(peer, fold.acc());
      const Range other = slots.next(fold.acc());
      b.receive(peer, other);
      if (v > folded.self) {
        fold.right(other);
      } else {
        fold.left(other, out);
      }
    }
    b.copy(fold.acc(), out);
  }
  unfold_pairs(b, group, folded, out);
  b.scratch_release(mark);
}

}  // namespace zh::coll
