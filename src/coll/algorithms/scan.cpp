// Prefix reductions, always in rank order.
#include "coll/algorithms/families.h"

namespace zh::coll {
namespace {

/// From rank to rank, chunk by chunk.
void scan_linear(Builder& b, const Problem& p) {
  ScratchTurns turns(b);
  Chunks(p, p.input()).each([&](Range in) {
    turns.next();
    const Range out = p.output().part(in.at, in.bytes);
    b.copy(in, out);
    if (p.self > 0) {
      const Range before = b.scratch(in.bytes);
      b.receive(p.self - 1, before);
      b.reduce(before, out);
    }
    if (p.self + 1 < p.ranks()) b.send(p.self + 1, out);
  });
}

void exscan_linear(Builder& b, const Problem& p) {
  ScratchTurns turns(b);
  Chunks(p, p.input()).each([&](Range in) {
    turns.next();
    const Range out = p.output().part(in.at, in.bytes);
    const bool has_next = p.self + 1 < p.ranks();
    if (p.self == 0) {
      if (has_next) b.send(1, in);
      return;
    }
    b.receive(p.self - 1, out);
    if (!has_next) return;
    const Range onwards = b.scratch(in.bytes);
    b.copy(in, onwards);
    b.reduce(out, onwards);
    b.send(p.self + 1, onwards);
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

constexpr Algorithm kScan[] = {
    {"linear", "from rank to rank, chunk by chunk", "MPI standard 6.11.1", always, scan_linear},
    {"recursive-doubling", "log2 P rounds of doubling distance", "Hillis and Steele 1986", always, scan_doubling},
};

constexpr Algorithm kExscan[] = {
    {"linear", "from rank to rank, chunk by chunk", "MPI standard 6.11.2", always, exscan_linear},
    {"recursive-doubling", "log2 P rounds of doubling distance", "Hillis and Steele 1986", always, exscan_doubling},
};

}  // namespace

std::span<const Algorithm> scan_algorithms() { return kScan; }
std::span<const Algorithm> exscan_algorithms() { return kExscan; }

}  // namespace zh::coll
