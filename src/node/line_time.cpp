// The line measurement; see line_time.h.
#include "node/line_time.h"

#include <algorithm>
#include <bit>

#include "os/clock.h"
#include "os/futex.h"
#include "os/yield.h"

namespace zh::node {
namespace {

constexpr uint32_t kBatches = 8;
constexpr uint32_t kRoundTrips = 16;
constexpr uint32_t kSpins = 2000;
constexpr uint64_t kMeetNs = 8'000'000;          // the partner may still be on its way out of the collective
constexpr uint64_t kMeetPatientNs = 20'000'000;  // ... or wait for its turn on a processor
constexpr uint64_t kBounceNs = 200'000;          // a partner that was descheduled spoils the attempt: give up
constexpr uint64_t kNapNs = 50'000;
constexpr uint64_t kSleepNs = 400'000'000;

// What a ball holds: the round, the attempt in it, and how often it has been thrown. So it only rises.
constexpr uint32_t kRoundShift = 24;
constexpr uint32_t kAttemptShift = 16;
constexpr uint32_t kLastAttempt = 0xfe;
constexpr uint32_t kEnded = 0xff;
uint32_t ball_of(uint32_t round, uint32_t attempt) { return round << kRoundShift | attempt << kAttemptShift; }

/// One rank's part in one round.
struct Player {
  Atomic<uint32_t>& mine;
  const Atomic<uint32_t>& theirs;
  bool first;
  uint32_t round;
};

/// Waits until both ends are at the same attempt, `attempt` or a later one of the partner's. False when the partner has
/// ended this round, or does not come.
bool meet(const Player& p, uint32_t* attempt, uint64_t deadline) {
  p.mine.store_release(ball_of(p.round, *attempt));  // N1 -> N1
  for (uint32_t i = 1;; ++i) {
    const uint32_t seen = p.theirs.load_acquire();  // N1 -> N1: the partner's previous accesses
    const uint32_t their_round = seen >> kRoundShift;
    const uint32_t their_attempt = seen >> kAttemptShift & 0xff;
    if (their_round > p.round || (their_round == p.round && their_attempt == kEnded)) return false;
    if (their_round == p.round && their_attempt >= *attempt) {
      if (their_attempt > *attempt) p.mine.store_release(ball_of(p.round, their_attempt));  // N1 -> N1
      *attempt = their_attempt;
      return true;
    }
    cpu_relax();
    if (i % kSpins != 0) continue;
    if (os::now_ns() > deadline) return false;
    os::yield_cpu();
  }
}

/// Spins until `ball` holds `value`; false after the limit.
bool await(const Atomic<uint32_t>& ball, uint32_t value) {
  for (uint32_t i = 0; i < kSpins; ++i) {
    if (ball.load_acquire() == value) return true;  // N1 -> N1: the partner's previous accesses
    cpu_relax();
  }
  const uint64_t deadline = os::now_ns() + kBounceNs;
  do {
    for (uint32_t i = 0; i < 256; ++i) {
      if (ball.load_acquire() == value) return true;  // N1 -> N1
      cpu_relax();
    }
  } while (os::now_ns() < deadline);
  return false;
}

/// One-way time in ns, or 0.
float bounce(const Player& p, uint32_t attempt) {
  uint32_t value = ball_of(p.round, attempt);
  float best = 0;
  const double per_ns = os::ticks_per_us() / 1000.0;
  for (uint32_t batch = 0; batch < kBatches; ++batch) {
    const uint64_t start = os::ticks();
    for (uint32_t i = 0; i < kRoundTrips; ++i) {
      ++value;
      if (p.first) {
        p.mine.store_release(value);  // N1 -> N1
        if (!await(p.theirs, value)) return best;
      } else {
        if (!await(p.theirs, value)) return best;
        p.mine.store_release(value);  // N1 -> N1
      }
    }
    const float one_way = static_cast<float>(static_cast<double>(os::ticks() - start) / per_ns / (2.0 * kRoundTrips));
    if (batch > 0 && (best == 0 || one_way < best)) best = one_way;
  }
  return best;
}

float play(const Player& p, bool patient) {
  const uint64_t deadline = os::now_ns() + (patient ? kMeetPatientNs : kMeetNs);
  float line_ns = 0;
  for (uint32_t attempt = 0; attempt <= kLastAttempt && line_ns == 0; ++attempt) {
    if (!meet(p, &attempt, deadline)) break;
    line_ns = bounce(p, attempt);
    // Two that spin on one processor stay there for milliseconds; one that wakes is given another that is idle.
    if (line_ns == 0 && p.first) os::futex_wait(p.mine, p.mine.load_relaxed(), kNapNs);
  }
  p.mine.store_release(ball_of(p.round, kEnded));  // N1 -> N1
  return line_ns;
}

}  // namespace

void measure_lines(std::byte* base, uint32_t self, const std::vector<uint32_t>& who, bool patient) {
  const HeaderShm& header = *at<HeaderShm>(base, 0);
  SlotShm* slots = at<SlotShm>(base, header.slots);
  const auto place = std::ranges::lower_bound(who, self);
  if (place == who.end() || *place != self) {
    const uint64_t deadline = os::now_ns() + kSleepNs;
    for (const uint32_t rank : who) {
      // N3 -> N3: a rank that has ended measuring
      for (uint64_t now = os::now_ns(); slots[rank].measured.load_acquire() == 0 && now < deadline; now = os::now_ns())
        os::futex_wait(slots[rank].measured, 0, deadline - now);
    }
    return;
  }
  float* row = at<float>(base, header.lines) + size_t{self} * header.ranks;
  (void)os::ticks_per_us();  // calibrate before anyone waits
  // Partner = place XOR distance: every rank is in one pair per round, without any further agreement.
  const auto mine = static_cast<uint32_t>(place - who.begin());
  const auto count = static_cast<uint32_t>(who.size());
  const uint32_t end = std::bit_ceil(count);
  const uint32_t step_all = count <= 8 ? 1 : 0;
  uint32_t round = 0;
  for (uint32_t distance = 1; distance < end; distance = step_all != 0 ? distance + 1 : distance * 2) {
    ++round;
    const uint32_t theirs = mine ^ distance;
    if (theirs >= count) continue;
    const uint32_t partner = who[theirs];
    row[partner] = play({slots[self].ball, slots[partner].ball, self < partner, round}, patient);
  }
  slots[self].measured.store_release(1);  // N3 -> N3
  os::futex_wake(slots[self].measured, os::kWakeAll);
}

float line_between(const float* rows, uint32_t ranks, uint32_t a, uint32_t b) {
  const float there = rows[size_t{a} * ranks + b];
  const float back = rows[size_t{b} * ranks + a];
  // Both ends timed the same bounces; one end may have given up alone at the last.
  return there > 0 && back > 0 ? std::min(there, back) : std::max(there, back);
}

LineBounds line_bounds(const float* rows, uint32_t ranks, const std::vector<uint32_t>& who, bool is_virtual) {
  if (!is_virtual) return {};
  for (const uint32_t a : who) {
    const auto is_near = [&](uint32_t b) {
      const float line_ns = line_between(rows, ranks, a, b);
      return a != b && line_ns > 0 && line_ns <= kVirtualLines.near_ns;
    };
    if (std::ranges::count_if(who, is_near) > 1) return {};
  }
  return kVirtualLines;
}

Level corrected(Level from_topology, float line_ns, bool settled, const LineBounds& bounds) {
  if (bounds.most_ns == 0 || line_ns <= 0 || !settled || from_topology == Level::kSelf) return from_topology;
  if (line_ns <= bounds.near_ns && from_topology > Level::kSameCore) return Level::kSameCore;
  if (line_ns >= bounds.far_ns && from_topology == Level::kSameCore) return Level::kSharedL3;
  return from_topology;
}

}  // namespace zh::node
