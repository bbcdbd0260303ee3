// Alltoalls, uniform and by lists. Nothing here needs to know what other ranks send each other.
#include <algorithm>
#include <bit>

#include "coll/algorithms/families.h"

namespace zh::coll {
namespace {

constexpr uint32_t kUnderWay = 16;  // messages in each direction at a time: more only crowd queues and cells

void own_piece(Builder& b, const Problem& p) { b.copy(p.send_piece(p.self), p.recv_piece(p.self)); }

/// One partner at a time, both directions at once. For powers of two partners face each other in every step.
void pairwise(Builder& b, const Problem& p) {
  const uint32_t n = p.ranks();
  own_piece(b, p);
  uint32_t sent = kNoStep;
  uint32_t received = kNoStep;
  for (uint32_t step = 1; step < n; ++step) {
    const bool facing = std::has_single_bit(n);
    const uint32_t to = facing ? p.self ^ step : (p.self + step) % n;
    const uint32_t from = facing ? to : (p.self + n - step) % n;
    const uint32_t out = b.send(to, p.send_piece(to), {sent, received});
    const uint32_t in = b.receive(from, p.recv_piece(from), {sent, received});
    // A step without bytes leaves the one before it to wait for.
    if (out != kNoStep) sent = out;
    if (in != kNoStep) received = in;
  }
}

/// All at once, as far as the cap lets them.
void linear(Builder& b, const Problem& p) {
  const uint32_t n = p.ranks();
  own_piece(b, p);
  std::vector<uint32_t> sent;
  std::vector<uint32_t> received;
  const auto before = [](const std::vector<uint32_t>& steps) {
    return steps.size() < kUnderWay ? kNoStep : steps[steps.size() - kUnderWay];
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
void bruck(Builder& b, const Problem& p) {
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

constexpr Algorithm kAlgorithms[] = {
    {"linear", "everybody with everybody, 16 messages each way at a time", "multicore collectives paper, section 3",
     always, linear},
    {"pairwise", "one partner at a time, both directions at once", "multicore collectives paper, section 4.3", always,
     pairwise},
    {"bruck", "log2 P messages, each byte forwarded up to log2 P times", "Bruck et al. 1997", if_uniform, bruck},
};

}  // namespace

std::span<const Algorithm> alltoall_algorithms() { return kAlgorithms; }

}  // namespace zh::coll
