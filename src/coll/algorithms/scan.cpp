// Prefix reductions, always in rank order.
#include "coll/algorithms/families.h"

namespace zh::coll {
namespace {

/// From member to member.
void scan_chain(Builder& b, const Group& group, Range in, Range out) {
  b.copy(in, out);
  if (group.self > 0) {
    const Range before = b.scratch(in.bytes);
    b.receive(group.ranks[group.self - 1], before);
    b.reduce(before, out);
  }
  if (group.self + 1 < group.size()) b.send(group.ranks[group.self + 1], out);
}

void exscan_chain(Builder& b, const Group& group, Range in, Range out) {
  const bool has_next = group.self + 1 < group.size();
  if (group.self == 0) {
    if (has_next) b.send(group.ranks[1], in);
    return;
  }
  b.receive(group.ranks[group.self - 1], out);
  if (!has_next) return;
  const Range onwards = b.scratch(in.bytes);
  b.copy(in, onwards);
  b.reduce(out, onwards);
  b.send(group.ranks[group.self + 1], onwards);
}

template <void (*kChain)(Builder&, const Group&, Range, Range)>
void scan_linear(Builder& b, const Problem& p) {
  const Group group = everybody(p);
  ScratchTurns turns(b);
  Chunks(p, p.input()).each([&](Range in) {
    turns.next();
    kChain(b, group, in, p.output().part(in.at, in.bytes));
  });
}

/// After round k a rank has combined the 2^k ranks that end with it.
void doubling(Builder& b, const Problem& p, bool exclusive) {
  const uint32_t n = p.ranks();
  const Range out = p.output();
  Range acc = p.input();
  bool first = true;
  const uint64_t mark = b.scratch_mark();
  for (uint32_t have = 1; have < n; have *= 2) {
    const bool sends = p.self + have < n;
    if (sends) b.send(p.self + have, acc);
    if (p.self < have) continue;
    const bool sends_later = p.self + 2 * have < n;
    const Range before = b.scratch(p.bytes());
    b.receive(p.self - have, before);
    if (exclusive) {
      if (first) {
        b.copy(before, out);
      } else {
        b.reduce(before, out);
      }
      if (!sends_later) {
        first = false;
        continue;
      }
    }
    if (first) {
      const Range home = exclusive ? b.scratch(p.bytes()) : out;
      b.copy(p.input(), home);
      acc = home;
      first = false;
    }
    b.reduce(before, acc);
  }
  if (!exclusive && first) b.copy(p.input(), out);
  b.scratch_release(mark);
}

void scan_doubling(Builder& b, const Problem& p) { doubling(b, p, false); }
void exscan_doubling(Builder& b, const Problem& p) { doubling(b, p, true); }

/// The last rank of a node has what its ranks combine to. Leaders get what the nodes before combine to, which all of
/// the node put before their own results.
void host_leaders(Builder& b, const Problem& p, bool exclusive) {
  const uint32_t mine = p.layout->node_of(p.self);
  const Group node = node_group(p, mine);
  const uint32_t last = node.size() - 1;
  const Range in = p.input();
  const Range out = p.output();
  if (p.team && last > 0) {
    const SharedBy all{node.ranks[0]};
    exclusive ? b.exscan(all, in, out) : b.scan(all, in, out);
  } else {
    exclusive ? exscan_chain(b, node, in, out) : scan_chain(b, node, in, out);
  }
  Range sum = exclusive ? in : out;
  if (node.self == last && exclusive && last > 0) {
    sum = b.scratch(in.bytes);
    b.copy(in, sum);
    b.reduce(out, sum);
  }
  if (node.self == 0 && last > 0) sum = b.scratch(in.bytes);
  if (last > 0) pass(b, p.self, node.ranks[last], node.ranks[0], sum);
  const Range before = node.self == 0 || mine > 0 ? b.scratch(in.bytes) : Range{};
  if (node.self == 0) b.exscan(between_leaders(p), sum, before);
  if (mine == 0) return;
  p.team ? node_bcast(b, node, 0, before) : bcast_binomial(b, node, 0, before);
  exclusive&& node.self == 0 ? b.copy(before, out) : b.reduce(before, out);
}

void scan_host_leaders(Builder& b, const Problem& p) { host_leaders(b, p, false); }
void exscan_host_leaders(Builder& b, const Problem& p) { host_leaders(b, p, true); }

/// Every prefix of ranks is one of whole nodes and of the first ranks of the next.
bool if_nodes_follow(const Problem& p) { return if_several_nodes(p) && p.layout->consecutive(); }

constexpr Algorithm kScan[] = {
    {"linear", "from rank to rank, chunk by chunk", "MPI standard 6.11.1", always, scan_linear<scan_chain>, always},
    {"recursive-doubling", "log2 P rounds of doubling distance", "Hillis and Steele 1986", always, scan_doubling},
    {kHostLeaders, "inside nodes, then the host's exscan of whole nodes among leaders", kHostLeadersSource,
     if_nodes_follow, scan_host_leaders},
};

constexpr Algorithm kExscan[] = {
    {"linear", "from rank to rank, chunk by chunk", "MPI standard 6.11.2", always, scan_linear<exscan_chain>, always},
    {"recursive-doubling", "log2 P rounds of doubling distance", "Hillis and Steele 1986", always, exscan_doubling},
    {kHostLeaders, "inside nodes, then the host's exscan of whole nodes among leaders", kHostLeadersSource,
     if_nodes_follow, exscan_host_leaders},
};

}  // namespace

std::span<const Algorithm> scan_algorithms() { return kScan; }
std::span<const Algorithm> exscan_algorithms() { return kExscan; }

}  // namespace zh::coll
