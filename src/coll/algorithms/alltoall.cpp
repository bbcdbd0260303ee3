// Alltoalls, uniform and by lists. Nothing here needs to know what other ranks send each other.
#include <algorithm>
#include <bit>

#include "coll/algorithms/families.h"

namespace zh::coll {
namespace {

constexpr uint32_t kPairsUnderWay = 16;  // messages in each direction at a time: more only crowd queues and cells

void alltoall_own_piece(Builder& b, const Problem& p) { b.copy(p.send_piece(p.self), p.recv_piece(p.self)); }

/// Whom rank `self` of n faces in a step, 1 <= step <= n: everybody in one of them, itself where it has nothing to do.
/// Each faces who faces it, so that every link is used both ways. For powers of two those nearby come first; else it is
/// a tournament by the circle method, the last rank of an even number standing still.
uint32_t facing(uint32_t self, uint32_t n, uint32_t step) {
  if (std::has_single_bit(n)) return step < n ? self ^ step : self;
  const uint32_t circle = n - (n % 2 == 0 ? 1 : 0);
  if (step > circle) return self;
  const uint32_t still = n - 1;
  // Twice the place of the one whom the circle leaves without partner is the step.
  if (circle != n && self == still) return static_cast<uint32_t>(uint64_t{step} * (n / 2) % circle);
  const uint32_t other = (step % circle + circle - self) % circle;
  return other == self && circle != n ? still : other;
}

/// One partner at a time, both directions at once.
void alltoall_pairwise(Builder& b, const Problem& p) {
  const uint32_t n = p.ranks();
  alltoall_own_piece(b, p);
  uint32_t sent = kNoStep;
  uint32_t received = kNoStep;
  for (uint32_t step = 1; step <= n; ++step) {
    const uint32_t other = facing(p.self, n, step);
    if (other == p.self) continue;
    const uint32_t out = b.send(other, p.send_piece(other), {sent, received});
    const uint32_t in = b.receive(other, p.recv_piece(other), {sent, received});
    // A step without bytes leaves the one before it to wait for.
    if (out != kNoStep) sent = out;
    if (in != kNoStep) received = in;
  }
}

/// All at once, as far as the cap lets them.
void alltoall_linear(Builder& b, const Problem& p) {
  const uint32_t n = p.ranks();
  alltoall_own_piece(b, p);
  std::vector<uint32_t> sent;
  std::vector<uint32_t> received;
  const auto before = [](const std::vector<uint32_t>& steps) {
    return steps.size() < kPairsUnderWay ? kNoStep : steps[steps.size() - kPairsUnderWay];
  };
  for (uint32_t step = 1; step < n; ++step) {
    const uint32_t to = (p.self + step) % n;
    const uint32_t from = (p.self + n - step) % n;
    const uint32_t in = b.receive(from, p.recv_piece(from), {before(received)});
    const uint32_t out = b.send(to, p.send_piece(to), {before(sent)});
    if (in != kNoStep) received.push_back(in);
    if (out != kNoStep) sent.push_back(out);
  }
}

/// Bruck's: log2 P messages, for pieces so small that messages cost more than bytes. Piece i in scratch is for rank
/// self + i; in the round of bit k those with that bit move by 2^k ranks.
void alltoall_bruck(Builder& b, const Problem& p) {
  const uint32_t n = p.ranks();
  const uint64_t bytes = p.bytes();
  const Range pieces = b.scratch(n * bytes);
  const uint32_t after = n - p.self;
  const Range mine = p.send_piece(p.self);
  b.copy({mine.place, mine.at, after * bytes}, pieces.part(0, after * bytes));
  b.copy({mine.place, 0, p.self * bytes}, pieces.part(after * bytes, p.self * bytes));
  for (uint32_t bit = 1; bit < n; bit *= 2) {
    uint32_t moved = 0;
    for (uint32_t i = bit; i < n; ++i) moved += (i & bit) != 0 ? 1 : 0;
    const uint64_t mark = b.scratch_mark();
    const Range out = b.scratch(moved * bytes);
    const Range in = b.scratch(moved * bytes);
    // Runs of `bit` pieces move together.
    const auto each_run = [&](auto&& f) {
      uint64_t at = 0;
      for (uint32_t i = bit; i < n; i += 2 * bit) {
        const uint64_t run = std::min(bit, n - i) * bytes;
        f(pieces.part(i * bytes, run), at);
        at += run;
      }
    };
    each_run([&](Range run, uint64_t at) { b.copy(run, out.part(at, run.bytes)); });
    b.send((p.self + bit) % n, out);
    b.receive((p.self + n - bit) % n, in);
    each_run([&](Range run, uint64_t at) { b.copy(in.part(at, run.bytes), run); });
    b.scratch_release(mark);
  }
  // Piece i now is the one that rank self - i sent here.
  for (uint32_t i = 0; i < n; ++i) b.copy(pieces.part(i * bytes, bytes), p.recv_piece((p.self + n - i) % n));
}

/// A rank that is one of consecutive ones has nothing to sort: its own buffers are by nodes.
bool is_sorted(const Problem& p, const Group& node) { return node.size() == 1 && p.layout->consecutive(); }

/// What a node's ranks have for all, `in` rank by rank, to `out`, where what goes to one rank lies together.
void sort_by_receiver(Builder& b, const Problem& p, uint32_t senders, Range in, Range out) {
  uint64_t at = 0;
  for (uint32_t node = 0; node < p.layout->nodes(); ++node) {
    for (const uint32_t receiver : p.layout->members(node)) {
      for (uint32_t i = 0; i < senders; ++i) {
        b.copy(in.part((uint64_t{i} * p.ranks() + receiver) * p.bytes(), p.bytes()), out.part(at, p.bytes()));
        at += p.bytes();
      }
    }
  }
}

/// What has come so from all nodes, to `out`, rank by rank.
void sort_by_sender(Builder& b, const Problem& p, uint32_t receivers, Range in, Range out) {
  uint64_t at = 0;
  for (uint32_t node = 0; node < p.layout->nodes(); ++node) {
    const std::span<const uint32_t> senders = p.layout->members(node);
    for (uint32_t i = 0; i < receivers; ++i) {
      for (size_t k = 0; k < senders.size();) {
        size_t run = 1;
        while (k + run < senders.size() && senders[k + run] == senders[k] + run) ++run;
        b.copy(in.part(at, run * p.bytes()),
               out.part((uint64_t{i} * p.ranks() + senders[k]) * p.bytes(), run * p.bytes()));
        at += run * p.bytes();
        k += run;
      }
    }
  }
}

/// For small pieces: leaders sort them.
void alltoall_host_leaders(Builder& b, const Problem& p) {
  const uint32_t mine = p.layout->node_of(p.self);
  const Group node = node_group(p, mine);
  const uint64_t bytes = p.ranks() * p.bytes();
  const Range in{Place::kInput, 0, bytes};
  const Range out{Place::kOutput, 0, bytes};
  const std::vector<uint64_t> of_members(node.size(), bytes);
  std::vector<uint64_t> of_nodes;
  for (uint32_t i = 0; i < p.layout->nodes(); ++i) {
    of_nodes.push_back(node.size() * p.layout->members(i).size() * p.bytes());
  }
  if (is_sorted(p, node)) {
    b.alltoall(between_leaders(p), mine, in, out, of_nodes);
    return;
  }
  Range all{};
  if (node.self == 0) all = b.scratch(node.size() * bytes);
  node_gather(b, node, p.team, in, all, of_members, true);
  if (node.self == 0) {
    const Range sorted = b.scratch(all.bytes);
    sort_by_receiver(b, p, node.size(), all, sorted);
    b.alltoall(between_leaders(p), mine, sorted, all, of_nodes);
    sort_by_sender(b, p, node.size(), all, sorted);
    all = sorted;
  }
  node_scatter(b, node, p.team, 0, all, out, of_members, true);
  if (node.self == 0) b.copy(all.part(0, bytes), out);
}

/// Leaders copy piece by piece: not more of them than a plan should have.
bool if_few_pieces(const Problem& p) {
  constexpr uint64_t kMost = 1 << 16;
  uint64_t largest = 0;
  for (uint32_t node = 0; node < p.layout->nodes(); ++node) {
    largest = std::max<uint64_t>(largest, p.layout->members(node).size());
  }
  return if_several_nodes_uniform(p) && largest * p.ranks() <= kMost;
}

constexpr Algorithm kAlltoallAlgorithms[] = {
    {"linear", "everybody with everybody, 16 messages each way at a time", "multicore collectives paper, section 3",
     always, alltoall_linear},
    {"pairwise", "one partner at a time, both directions at once", "multicore collectives paper, section 4.3", always,
     alltoall_pairwise},
    {"bruck", "log2 P messages, each byte forwarded up to log2 P times", "Bruck et al. 1997", if_uniform,
     alltoall_bruck},
    {kHostLeaders, "leaders sort their nodes' pieces, then the host's alltoall among them", kHostLeadersSource,
     if_few_pieces, alltoall_host_leaders},
};

}  // namespace

std::span<const Algorithm> alltoall_algorithms() { return kAlltoallAlgorithms; }

}  // namespace zh::coll
