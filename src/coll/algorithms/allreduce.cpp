// Allreduces. Each element's result is computed by one expression, whoever computes it, so all ranks get the same bits.
#include <bit>

#include "coll/algorithms/families.h"

namespace zh::coll {
namespace {

void allreduce_recursive_doubling(Builder& b, const Problem& p) {
  allreduce_doubling(b, everybody(p), p.input(), p.output());
}

/// Rabenseifner's, with neighbours first: what is combined is always of ranks that follow each other, so that operands
/// stay in order. The part of a member is then the one with its bits reversed.
void reduce_scatter_allgather(Builder& b, const Problem& p) {
  const Group group = everybody(p);
  const Folded folded(group);
  const Range out = p.output();
  Fold fold = fold_pairs(b, group, folded, p.input(), out);
  if (folded.self != kNoStep) {
    const auto part = [&](uint32_t first, uint32_t last) {
      return blocks(out, first, last, folded.pow2, p.element_bytes);
    };
    uint32_t first = 0;
    uint32_t last = folded.pow2;  // the accumulator holds parts [first, last)
    for (uint32_t mask = 1; mask < folded.pow2; mask *= 2) {
      const uint32_t peer = folded.self ^ mask;
      const uint32_t middle = first + (last - first) / 2;
      const bool upper = peer < folded.self;
      const Range low = part(first, middle);
      const Range high = part(middle, last);
      const Range& give = upper ? low : high;
      const Range& keep = upper ? high : low;
      const uint64_t start = part(first, last).at;
      b.send(group.ranks[folded.index(peer)], fold.acc().part(give.at - start, give.bytes));
      fold.narrow(keep.at - start, keep.bytes);
      const Range other = b.scratch(keep.bytes);
      b.receive(group.ranks[folded.index(peer)], other);
      if (upper) {
        fold.left(other, keep);
        first = middle;
      } else {
        fold.right(other);
        last = middle;
      }
    }
    b.copy(fold.acc(), part(first, last));
    for (uint32_t mask = folded.pow2 / 2; mask > 0; mask /= 2) {
      const uint32_t peer = folded.self ^ mask;
      const uint32_t size = last - first;
      const bool upper = peer < folded.self;
      const uint32_t theirs = upper ? first - size : last;
      b.send(group.ranks[folded.index(peer)], part(first, last));
      b.receive(group.ranks[folded.index(peer)], part(theirs, theirs + size));
      first = upper ? theirs : first;
      last = first + 2 * size;
    }
  }
  unfold_pairs(b, group, folded, out);
}

/// Each of two combines its half where the result is to be, and gives it to the other one. In place nothing is copied
/// before. Not in chunks: where both copy at once, several messages take longer than one.
void halves_of_two(Builder& b, const Problem& p) {
  const uint32_t other = 1 - p.self;
  const auto half = [&](Range whole, uint32_t rank) { return block(whole, rank, 2, p.element_bytes); };
  const Range in = p.in_place ? p.output() : p.input();
  const Range mine = half(p.output(), p.self);
  const Range operand = p.in_place ? b.scratch(mine.bytes) : mine;
  b.send(other, half(in, other));
  b.receive(other, operand);
  b.reduce(p.in_place ? operand : half(in, p.self), mine);
  b.send(other, mine);
  b.receive(other, half(p.output(), other));
}

/// Part k is summed up on its way round, ending on rank k, and goes round once more.
void allreduce_ring(Builder& b, const Problem& p) {
  const uint32_t n = p.ranks();
  if (n == 1) return allreduce_recursive_doubling(b, p);
  if (n == 2) return halves_of_two(b, p);
  const uint32_t next = (p.self + 1) % n;
  const uint32_t previous = (p.self + n - 1) % n;
  const auto part = [&](Range whole, uint32_t i) { return block(whole, i, n, p.element_bytes); };
  const uint64_t largest = part(p.output(), 0).bytes;
  const Range turns[2] = {b.scratch(largest), b.scratch(largest)};
  Range passed = part(p.input(), previous);
  for (uint32_t step = 1; step < n; ++step) {
    b.send(next, passed);
    const uint32_t i = (p.self + 2 * n - 1 - step) % n;
    const Range mine = part(p.input(), i);
    const Range to = step + 1 == n ? part(p.output(), i) : turns[step % 2].part(0, mine.bytes);
    b.receive(previous, to);
    b.reduce(mine, to);
    passed = to;
  }
  for (uint32_t step = 0; step + 1 < n; ++step) {
    b.send(next, part(p.output(), (p.self + n - step) % n));
    b.receive(previous, part(p.output(), (p.self + 2 * n - 1 - step) % n));
  }
}

void allreduce_single_reducer(Builder& b, const Problem& p) {
  const Group group = everybody(p);
  reduce_linear(b, group, 0, p.input(), p.output());
  bcast_linear(b, group, 0, p.output());
}

void allreduce_hierarchical(Builder& b, const Problem& p) {
  const Group node = node_group(p, p.layout->node_of(p.self));
  const Group heads = leaders(p, kNoStep);
  ScratchTurns turns(b);
  Range before{};  // a team goes through its steps in order: it combines the next chunk while one is between nodes
  Chunks(p, p.output()).each([&](Range out) {
    turns.next();
    const Range in = p.input().part(out.at, out.bytes);
    if (node.size() > 1) p.team ? node_reduce(b, node, 0, in, out) : reduce_linear(b, node, 0, in, out);
    allreduce_doubling(b, heads, node.size() > 1 ? out : in, out);
    if (!p.team) return bcast_linear(b, node, 0, out);
    if (before.bytes != 0) node_bcast(b, node, 0, before);
    before = out;
  });
  if (before.bytes != 0) node_bcast(b, node, 0, before);
}

/// A node's ranks and the slices of the vector: as many as the smallest node has ranks, one each for the first ranks of
/// every node.
struct Sliced {
  Group node;
  Group peers;  ///< those of all nodes that have the same slice
  uint32_t slices;
  uint64_t element_bytes;

  explicit Sliced(const Problem& p)
      : node(node_group(p, p.layout->node_of(p.self))),
        peers({}, p.self),
        slices(p.layout->smallest_node()),
        element_bytes(p.element_bytes) {
    if (node.self >= slices) return;
    std::vector<uint32_t> ranks;
    for (uint32_t other = 0; other < p.layout->nodes(); ++other) ranks.push_back(p.layout->members(other)[node.self]);
    peers = Group(ranks, p.self);
  }
  /// Nothing for a rank without slice.
  [[nodiscard]] Range slice(Range whole, uint32_t k) const {
    return k < slices ? block(whole, k, slices, element_bytes) : whole.part(whole.bytes, 0);
  }
  /// By rank of the node.
  [[nodiscard]] std::vector<uint64_t> bytes_of_slices(Range whole) const {
    std::vector<uint64_t> bytes;
    for (uint32_t k = 0; k < node.size(); ++k) bytes.push_back(slice(whole, k).bytes);
    return bytes;
  }
};

/// Inside a node that has no team: f(k) for all its slices. Cyclic: every rank starts with another one.
template <typename F>
void each_slice(const Sliced& s, bool cyclic, F&& f) {
  const uint32_t m = s.node.size();
  for (uint32_t i = 0; i < m; ++i) {
    const uint32_t k = ((cyclic ? s.node.self : 0) + i) % m;
    if (k < s.slices) f(k);
  }
}

/// Slice k of what a node's ranks have goes to its k-th rank, which combines it.
void combine_slices(Builder& b, const Problem& p, const Sliced& s, Range in, Range out, bool cyclic) {
  if (s.node.size() == 1) return;
  if (p.team) return node_reduce_scatter(b, s.node, in, s.slice(out, s.node.self), s.bytes_of_slices(out));
  each_slice(s, cyclic, [&](uint32_t k) {
    // Cyclic: with its own operand first, so that nobody's buffer is read by all at once.
    reduce_linear(b, cyclic ? s.node.rotated(k) : s.node, cyclic ? 0 : k, s.slice(in, k), s.slice(out, k));
  });
}

/// The k-th rank of every node combines slice k of its node's ranks, then of all nodes, and hands it to its node. Calls
/// that block do so in chunks, whose slices are as long as other algorithms' chunks.
void sliced(Builder& b, const Problem& p, bool cyclic) {
  const Sliced s(p);
  const bool from_output = p.team && p.in_place;
  Problem cut = p;
  cut.chunk_bytes = p.blocks ? p.chunk_bytes * s.slices : 0;
  ScratchTurns turns(b);
  Range before{};  // a team combines the next chunk while one is between nodes
  Chunks(cut, p.output()).each([&](Range out) {
    turns.next();
    const Range in = from_output ? out : p.input().part(out.at, out.bytes);
    const Range mine = s.slice(out, s.node.self);
    combine_slices(b, p, s, in, out, cyclic);
    allreduce_doubling(b, s.peers, s.node.size() == 1 ? s.slice(in, s.node.self) : mine, mine);
    if (!p.team) return each_slice(s, cyclic, [&](uint32_t k) { bcast_linear(b, s.node, k, s.slice(out, k)); });
    if (before.bytes != 0) node_allgather(b, s.node, before, s.bytes_of_slices(before));
    before = out;
  });
  if (before.bytes != 0) node_allgather(b, s.node, before, s.bytes_of_slices(before));
}

void allreduce_shmem_parallel(Builder& b, const Problem& p) { sliced(b, p, false); }
void allreduce_shmem_cyclic(Builder& b, const Problem& p) { sliced(b, p, true); }

void allreduce_host_leaders(Builder& b, const Problem& p) {
  const Group node = node_group(p, p.layout->node_of(p.self));
  const Range out = p.output();
  const Range in = p.in_place ? out : p.input();
  const bool alone = node.size() == 1;
  if (!alone) p.team ? node_reduce(b, node, 0, in, out) : reduce_linear(b, node, 0, in, out);
  if (node.self == 0) b.allreduce(between_leaders(p), alone ? in : out, out);
  p.team ? node_bcast(b, node, 0, out) : bcast_binomial(b, node, 0, out);
}

constexpr Algorithm kAllreduceAlgorithms[] = {
    {"single-reducer", "rank 0 combines everything and sends it back",
     "multicore collectives paper, section 4.2 (the default)", always, allreduce_single_reducer},
    {"recursive-doubling", "log2 P exchanges of the whole vector", "multicore collectives paper, section 3", always,
     allreduce_recursive_doubling},
    {"reduce-scatter-allgather", "exchanges of halving, then of doubling size (Rabenseifner's)",
     "multicore collectives paper, section 3", always, reduce_scatter_allgather},
    {"ring", "every part goes round twice; moves least, in P steps", "Patarasuk and Yuan 2009", if_commutative,
     allreduce_ring},
    {"hierarchical", "leaders combine their nodes, then each other, chunk by chunk", "mlog_nP paper, section 6",
     if_nodes_in_order, allreduce_hierarchical, always},
    {kShmemParallel, "every rank of a node combines a slice, between nodes as well",
     "multicore collectives paper, section 4.2", if_nodes_in_order, allreduce_shmem_parallel, if_blocking},
    {kShmemCyclic, "as shmem-parallel, each rank starting elsewhere", "multicore collectives paper, section 4.2",
     if_commutative, allreduce_shmem_cyclic, if_blocking},
    {kHostLeaders, "leaders combine their nodes, then the host's allreduce among them", kHostLeadersSource,
     if_several_nodes_in_order, allreduce_host_leaders},
};

}  // namespace

std::span<const Algorithm> allreduce_algorithms() { return kAllreduceAlgorithms; }

}  // namespace zh::coll
