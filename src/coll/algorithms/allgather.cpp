// Allgathers. The own piece goes from the input to its place in the output by a plain copy, which is nothing when the
// call is made in place; no message ever overwrites it.
#include <bit>

#include "coll/algorithms/by_nodes.h"
#include "coll/algorithms/families.h"

namespace zh::coll {
namespace {

void allgather_own_piece(Builder& b, const Problem& p) { b.copy(p.send_piece(p.self), p.recv_piece(p.self)); }

void allgather_ring(Builder& b, const Problem& p) {
  const uint32_t n = p.ranks();
  allgather_own_piece(b, p);
  for (uint32_t step = 0; step + 1 < n; ++step) {
    const uint32_t out = (p.self + n - step) % n;
    b.send((p.self + 1) % n, step == 0 ? p.send_piece(p.self) : p.recv_piece(out));
    b.receive((p.self + n - 1) % n, p.recv_piece((out + n - 1) % n));
  }
}

/// Bruck's: any number of ranks, any pieces, log2 P messages. Piece i in scratch is that of rank self + i.
void allgather_bruck(Builder& b, const Problem& p) {
  const uint32_t n = p.ranks();
  std::vector<uint64_t> start(n + 1, 0);
  for (uint32_t i = 0; i < n; ++i) start[i + 1] = start[i] + p.recv_piece((p.self + i) % n).bytes;
  const Range all = b.scratch(start[n]);
  b.copy(p.send_piece(p.self), all.part(0, start[1]));
  for (uint32_t have = 1; have < n; have *= 2) {
    const uint32_t more = have < n - have ? have : n - have;
    b.send((p.self + n - have) % n, all.part(0, start[more]));
    b.receive((p.self + have) % n, all.part(start[have], start[have + more] - start[have]));
  }
  allgather_own_piece(b, p);
  // Uniform pieces lie as two runs, from the next rank to the last and from the first to the one before.
  for (uint32_t i = 1; i < n;) {
    const uint32_t rank = (p.self + i) % n;
    const uint32_t run = !p.uniform ? 1 : rank > p.self ? n - rank : n - i;
    Range to = p.recv_piece(rank);
    to.bytes = start[i + run] - start[i];
    b.copy(all.part(start[i], to.bytes), to);
    i += run;
  }
}

void allgather_recursive_doubling(Builder& b, const Problem& p) {
  const uint32_t n = p.ranks();
  if (!std::has_single_bit(n) || !p.uniform) return allgather_bruck(b, p);
  allgather_own_piece(b, p);
  const auto run = [&](uint32_t first, uint32_t ranks) {
    return Range{Place::kOutput, p.recv_piece(first).at, ranks * p.bytes()};
  };
  for (uint32_t have = 1; have < n; have *= 2) {
    const uint32_t peer = p.self ^ have;
    b.send(peer, have == 1 ? p.send_piece(p.self) : run(p.self & ~(have - 1), have));
    b.receive(peer, run(peer & ~(have - 1), have));
  }
}

/// The pieces of a node's ranks in the output: uniform ones that follow each other as one run.
std::vector<Range> runs_of(const Problem& p, uint32_t node) {
  std::vector<Range> runs;
  uint32_t last = kNoStep;
  for (const uint32_t rank : p.layout->members(node)) {
    if (p.uniform && last != kNoStep && rank == last + 1) {
      runs.back().bytes += p.bytes();
    } else {
      runs.push_back(p.recv_piece(rank));
    }
    last = rank;
  }
  return runs;
}

/// All ranks of a node get its own pieces: up to the leader, and from there to every other rank but the piece's owner.
void exchange_in_node(Builder& b, const Problem& p, const Group& node) {
  const uint32_t leader = node.ranks[0];
  if (p.self != leader) b.send(leader, p.send_piece(p.self));
  for (uint32_t i = 0; i < node.size(); ++i) {
    const uint32_t owner = node.ranks[i];
    const Range piece = p.recv_piece(owner);
    if (p.self != leader) {
      if (owner != p.self) b.receive(leader, piece);
      continue;
    }
    if (owner != leader) b.receive(owner, piece);
    for (uint32_t k = 1; k < node.size(); ++k) {
      if (k != i) b.send(node.ranks[k], i == 0 ? p.send_piece(p.self) : piece);
    }
  }
}

void allgather_leader_ring(Builder& b, const Problem& p) {
  const Layout& layout = *p.layout;
  const uint32_t nodes = layout.nodes();
  const uint32_t mine = layout.node_of(p.self);
  const Group node = node_group(p, mine);
  const uint32_t leader = node.ranks[0];
  allgather_own_piece(b, p);
  if (p.team) {
    for (uint32_t i = 0; i < node.size(); ++i) node_bcast(b, node, i, p.recv_piece(node.ranks[i]));
  } else {
    exchange_in_node(b, p, node);
  }
  // Whole nodes' pieces round the ring of leaders, each shared inside the node while the next one travels.
  const uint32_t next = layout.members((mine + 1) % nodes)[0];
  const uint32_t previous = layout.members((mine + nodes - 1) % nodes)[0];
  for (uint32_t step = 0; step + 1 < nodes; ++step) {
    const uint32_t out = (mine + nodes - step) % nodes;
    if (p.self == leader) {
      for (const Range& run : runs_of(p, out)) b.send(next, run);
    }
    for (const Range& run : runs_of(p, (out + nodes - 1) % nodes)) {
      if (p.self == leader) b.receive(previous, run);
      p.team ? node_bcast(b, node, 0, run) : bcast_linear(b, node, 0, run);
    }
  }
}

/// Without a team. Nobody gets its own piece back, which may lie where it is sent from.
void pass_down(Builder& b, const ByNodes& by_nodes, Range all, const Group& node, uint32_t mine) {
  for (uint32_t i = 1; i < node.size(); ++i) {
    const Range own = by_nodes.piece(all, mine, i);
    const uint64_t before = own.at - all.at;
    for (const Range& run : {all.part(0, before), all.part(before + own.bytes, all.bytes - before - own.bytes)}) {
      if (node.self == 0) b.send(node.ranks[i], run);
      if (node.self == i) b.receive(node.ranks[0], run);
    }
  }
}

void allgather_host_leaders(Builder& b, const Problem& p) {
  const uint32_t mine = p.layout->node_of(p.self);
  const Group node = node_group(p, mine);
  const ByNodes by_nodes(*p.layout, p.uniform, [&p](uint32_t rank) { return p.recv_piece(rank).bytes; });
  const bool straight = by_nodes.straight();
  const Range all = straight ? Range{Place::kOutput, 0, by_nodes.total()} : b.scratch(by_nodes.total());
  const bool team = p.team && node.size() > 1;
  node_gather(b, node, team, p.send_piece(p.self), by_nodes.part_of(all, mine), by_nodes.bytes_in(mine), p.uniform);
  if (node.self == 0) b.allgather(between_leaders(p), mine, all, by_nodes.bytes_of_nodes());
  team ? node_bcast(b, node, 0, all) : pass_down(b, by_nodes, all, node, mine);
  const bool has_own = straight && (team || node.self == 0);
  if (!has_own) allgather_own_piece(b, p);
  if (straight) return;
  by_nodes.each(all, [&](uint32_t rank, Range piece) {
    if (rank != p.self) b.copy(piece, p.recv_piece(rank));
  });
}

constexpr Algorithm kAllgatherAlgorithms[] = {
    {"ring", "every rank passes pieces on to the next", "multicore collectives paper, section 2", always,
     allgather_ring},
    {"recursive-doubling", "exchanges of doubling size; Bruck's where ranks are no power of two",
     "multicore collectives paper, section 2", always, allgather_recursive_doubling},
    {"bruck", "log2 P messages of doubling size, then a rotation", "Bruck et al. 1997", always, allgather_bruck},
    {"leader-ring", "ring of whole nodes' pieces among leaders, shared inside nodes meanwhile",
     "multicore collectives paper, section 4.1", always, allgather_leader_ring},
    {kHostLeaders, "nodes' pieces to leaders, the host's allgather among them, shared inside nodes", kHostLeadersSource,
     if_several_nodes, allgather_host_leaders},
};

}  // namespace

std::span<const Algorithm> allgather_algorithms() { return kAllgatherAlgorithms; }

}  // namespace zh::coll
