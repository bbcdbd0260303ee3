// The line measurement; see line_time.h.
#include "node/line_time.h"

#include <bit>

#include "os/clock.h"

namespace zh::node {
namespace {

constexpr uint32_t kBatches = 8;
constexpr uint32_t kRoundTrips = 16;
constexpr uint32_t kAttempts = 4;
constexpr uint64_t kMeetNs = 1'000'000;  // the partner may still be on its way out of the collective
constexpr uint64_t kBounceNs = 200'000;  // a partner that was descheduled spoils the measurement: give up

/// Spins until `ball` holds `value`; false after the limit.
bool await(const Atomic<uint32_t>& ball, uint32_t value, uint64_t limit_ns) {
  for (uint32_t i = 0; i < 2000; ++i) {
    if (ball.load_acquire() == value) return true;  // N1 -> N1: the partner's previous accesses
    cpu_relax();
  }
  const uint64_t deadline = os::now_ns() + limit_ns;
  do {
    for (uint32_t i = 0; i < 256; ++i) {
      if (ball.load_acquire() == value) return true;  // N1 -> N1
      cpu_relax();
    }
  } while (os::now_ns() < deadline);
  return false;
}

/// One-way time in ns, or 0. Values of `ball` are unique per round, so a round that was given up cannot confuse the
/// next.
float bounce(SlotShm& mine, const SlotShm& theirs, bool first, uint32_t round) {
  uint32_t value = round << 16;
  float best = 0;
  // Meet.
  mine.ball.store_release(++value);  // N1 -> N1
  if (!await(theirs.ball, value, kMeetNs)) return 0;
  const double per_ns = os::ticks_per_us() / 1000.0;
  for (uint32_t batch = 0; batch < kBatches; ++batch) {
    const uint64_t start = os::ticks();
    for (uint32_t i = 0; i < kRoundTrips; ++i) {
      ++value;
      if (first) {
        mine.ball.store_release(value);  // N1 -> N1
        if (!await(theirs.ball, value, kBounceNs)) return best;
      } else {
        if (!await(theirs.ball, value, kBounceNs)) return best;
        mine.ball.store_release(value);  // N1 -> N1
      }
    }
    const float one_way = static_cast<float>(static_cast<double>(os::ticks() - start) / per_ns / (2.0 * kRoundTrips));
    if (batch > 0 && (best == 0 || one_way < best)) best = one_way;
  }
  return best;
}

}  // namespace

void measure_lines(std::byte* base, uint32_t self) {
  const HeaderShm& header = *at<HeaderShm>(base, 0);
  SlotShm* slots = at<SlotShm>(base, header.slots);
  float* row = at<float>(base, header.lines) + size_t{self} * header.ranks;
  (void)os::ticks_per_us();  // calibrate before anyone waits
  // Partner = self XOR distance: every rank is in one pair per round, without any further agreement.
  const uint32_t end = std::bit_ceil(header.ranks);
  const uint32_t step_all = header.ranks <= 8 ? 1 : 0;
  uint32_t round = 0;
  for (uint32_t distance = 1; distance < end; distance = step_all != 0 ? distance + 1 : distance * 2) {
    ++round;
    const uint32_t partner = self ^ distance;
    if (partner >= header.ranks) continue;
    // A partner that was descheduled spoils an attempt. One end may need the second attempt alone: it then gives up.
    for (uint32_t attempt = 0; attempt < kAttempts && row[partner] == 0; ++attempt) {
      row[partner] = bounce(slots[self], slots[partner], self < partner, round * kAttempts + attempt);
    }
  }
}

Level corrected(Level from_topology, float line_ns, bool settled) {
  if (line_ns <= 0 || !settled || from_topology == Level::kSelf) return from_topology;
  if (line_ns <= kNearLineNs && from_topology > Level::kSameCore) return Level::kSameCore;
  if (line_ns >= kFarLineNs && from_topology == Level::kSameCore) return Level::kSharedL3;
  return from_topology;
}

}  // namespace zh::node
