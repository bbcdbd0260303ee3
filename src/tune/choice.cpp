// Turns curves into thresholds; built-in ones, by distance, where no profile is at hand.
#include "tune/choice.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "node/node.h"
#include "tune/profile.h"

namespace zh::tune {
namespace {

constexpr uint64_t kNever = uint64_t{1} << 40;
constexpr uint64_t kLargest = 4 << 20;
/// A way must be better by this factor, so that noise does not turn a choice.
constexpr float kClearly = 0.95F;

/// Measured far, one way: Zen 4 512 B in 0.49 us instead of 0.61, 1 KiB in 0.52 instead of 0.88; elsewhere ordinary
/// stores are as fast there.
uint32_t far_streaming_min() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_is("amd")) return copy::kLeastStreamedBytes;
#endif
  return 2 << 10;
}

PairChoice built_in(bool far) {
  PairChoice choice;
  if (far) {
    choice.nontemporal_min = far_streaming_min();
    choice.single_copy_min = 4 << 20;
  } else {
    // Measured on two makes of processor: 4 MiB is best on one and half as fast as this on the other.
    choice.ring_bytes_max = 512 << 10;
  }
  return choice;
}

/// The class that was measured at the same kind of distance; null if there is none.
const DistanceClass* find_class(const Profile& profile, int level, bool far) {
  const DistanceClass* found = nullptr;
  for (uint32_t i = 0; i < profile.n_classes; ++i) {
    const DistanceClass& c = profile.classes[i];
    if (is_far(c.level) != far || c.jobs < kConfirmed || c.cells.empty() || c.cells_nt.empty()) continue;
    if (found == nullptr || std::abs(c.level - level) < std::abs(found->level - level)) found = &c;
  }
  return found;
}

float least(const Curve& a, const Curve& b, uint64_t bytes) {
  if (a.empty()) return b.us_at(bytes);
  if (b.empty()) return a.us_at(bytes);
  return std::min(a.us_at(bytes), b.us_at(bytes));
}

/// The power of two >= `from` from which on a way is used: where the product of its time ratios to the other way, over
/// all larger sizes, is least. So one point that noise has moved does not decide. kNever if the way does not win.
template <typename Ratio>
uint64_t crossover(uint64_t from, Ratio&& ratio) {
  uint64_t threshold = kNever;
  float sum = 0;
  float least_sum = 0;
  for (uint64_t n = kLargest; n >= from; n /= 2) {
    sum += std::log(ratio(n) / kClearly);
    if (sum < least_sum) {
      least_sum = sum;
      threshold = n;
    }
  }
  return threshold;
}

}  // namespace

bool is_far(int level) { return level > static_cast<int>(node::Level::kSharedL2); }

bool covers(const Profile& profile, int level) {
  const bool given_up = std::any_of(profile.classes, profile.classes + profile.n_classes, [level](const auto& c) {
    return is_far(c.level) == is_far(level) && c.attempts >= kMostAttempts;
  });
  return given_up || find_class(profile, level, is_far(level)) != nullptr;
}

PairChoice choose(int level, const Profile* profile) {
  if (profile != nullptr && profile->papers != 0) return paper_choice(level);
  const bool far = is_far(level);
  PairChoice choice = built_in(far);
  if (profile == nullptr) return choice;
  const DistanceClass* c = find_class(*profile, level, far);
  if (c == nullptr) return choice;
  choice.ring_bytes_max = c->ring_bytes;
  constexpr uint64_t kLeastMeasured = 512;
  uint64_t nt = crossover(kLeastMeasured, [&](uint64_t n) { return c->cells_nt.us_at(n) / c->cells.us_at(n); });
  if (nt == kLeastMeasured) nt = std::min<uint64_t>(nt, choice.nontemporal_min);  // shorter ones as built in
  choice.nontemporal_min = static_cast<uint32_t>(std::min<uint64_t>(nt, 1 << 30));
  const auto two_copies = [&](uint64_t n) { return n >= nt ? c->cells_nt.us_at(n) : c->cells.us_at(n); };
  // What a transfer costs beside its bytes and beyond the curves: its descriptor, the answer, the end. Seen to be 0.5
  // to 1 us where a line takes 0.13.
  const float agree_us = 4 * c->line_ns / 1000;
  if (!c->cma_read.empty() && !c->cma_write.empty()) {
    constexpr uint64_t kMedium = 64 << 10;
    choice.sender_copies = c->cma_write.us_at(kMedium) < c->cma_read.us_at(kMedium);
    const Curve& alone = choice.sender_copies ? c->cma_write : c->cma_read;
    choice.both_ends_min = c->cma_both.empty()
                               ? kNever
                               : crossover(16 << 10, [&](uint64_t n) { return c->cma_both.us_at(n) / alone.us_at(n); });
    choice.single_copy_min = crossover(4 << 10, [&](uint64_t n) {
      return ((n >= choice.both_ends_min ? c->cma_both : alone).us_at(n) + agree_us) / two_copies(n);
    });
    if (choice.eager_max >= choice.single_copy_min) {
      choice.eager_max = static_cast<uint32_t>(choice.single_copy_min) - 1;
    }
  }
  if (!c->mapped_one.empty() && !c->mapped_both.empty()) {
    // Both ends must learn of each other first; seen to be half as much again as for a copy by one.
    const float meet_us = 1.5F * agree_us;
    const uint64_t mapped = crossover(
        1 << 10, [&](uint64_t n) { return (least(c->mapped_one, c->mapped_both, n) + meet_us) / two_copies(n); });
    choice.mapped_min = static_cast<uint32_t>(std::min<uint64_t>(mapped, 1 << 30));
  }
  return choice;
}

PairChoice paper_choice(int level) {
  PairChoice choice;
  const auto distance = static_cast<node::Level>(level);
  if (distance <= node::Level::kSharedL2) {
    choice.single_copy_min = 32 << 10;
  } else if (distance <= node::Level::kSameSocket) {
    choice.single_copy_min = 2 << 10;
  } else {
    choice.single_copy_min = 1 << 10;
  }
  choice.eager_max = static_cast<uint32_t>(std::min<uint64_t>(choice.eager_max, choice.single_copy_min));
  return choice;
}

}  // namespace zh::tune
