// Turns curves into thresholds; built-in ones, by distance, where no profile is at hand.
#include "tune/choice.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "node/node.h"
#include "tune/profile.h"

namespace zh::tune {
namespace {

constexpr uint64_t kLargest = 4 << 20;
/// A way must be better by this factor, so that noise does not turn a choice.
constexpr float kClearly = 0.95F;
/// A threshold leaves its built-in place for a gain of this factor, on average of the sizes between: curves of one shot
/// at a time do not know messages that follow each other, the built-in thresholds were measured with them.
constexpr float kWorthMoving = 0.85F;

bool is_amd() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_is("amd") != 0;
#else
  return false;
#endif
}

/// Measured far, one way: Zen 4 512 B in 0.49 us instead of 0.61, 1 KiB in 0.52 instead of 0.88; elsewhere ordinary
/// stores are as fast there.
uint32_t far_streaming_min() { return is_amd() ? copy::kLeastStreamedBytes : 2 << 10; }

/// Where cells are not faster at all sizes.
uint64_t single_copy_from(bool far) { return far ? 4 << 20 : 2 << 20; }

PairChoice built_in(bool far) {
  PairChoice choice;
  choice.single_copy_min = choice.single_copy_min_cold = single_copy_from(far);
  if (far) {
    choice.nontemporal_min = far_streaming_min();
    choice.ring_bytes_max = 4 << 20;
    choice.mapped = {4 << 20, 0.02F};
  } else {
    choice.ring_bytes_max = 512 << 10;
  }
  if (!is_amd()) return choice;
  // Measured on Zen 4, us, through the kernel by both ends and through cells: near 1 MiB 54 and 32, 4 MiB 259 and 176;
  // of buffers used once 99 and 56, 390 and 257; far 4 MiB 459 and 192, used once 459 and 335.
  choice.single_copy_min = choice.single_copy_min_cold = kNever;
  // With data written before and read after, us a message, mapped and through cells: near 512 KiB 30 and 31, 1 MiB 45
  // and 56, 2 MiB 78 and 128, 4 MiB 195 and 338; far 1 MiB 78 and 79, 2 MiB 150 and 159, 4 MiB 1029 and 317, 16 MiB
  // 2513 and 2315. The sender writes anew what the receiver has read, which costs it as much as the copy saves.
  choice.mapped = {far ? kNever : 1 << 20, 0.02F};
  // A line that the receiver holds is slow to write here, so those of a ring have to leave its cache; elsewhere a ring
  // that stays in the cache of both is twice as fast. 64 KiB of buffers used again and used once take, near, 2.6 and
  // 2.6 us through 2 MiB, 4.2 and 2.6 through 1 MiB, 2.7 and 3.1 through 4 MiB.
  choice.ring_bytes_max = 2 << 20;
  return choice;
}

/// The class of `level` if its curves count; null otherwise.
const DistanceClass* find_class(const Profile& profile, int level) {
  for (uint32_t i = 0; i < profile.n_classes; ++i) {
    const DistanceClass& c = profile.classes[i];
    if (c.level == level && in_force(c)) return &c;
  }
  return nullptr;
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

/// Whether a threshold at `measured` instead of `built_in` is worth it: the mean of the time ratios over the sizes that
/// would go the other way. `ratio` as in crossover().
template <typename Ratio>
bool worth_moving(uint64_t from, uint64_t measured, uint64_t built_in, Ratio&& ratio) {
  const uint64_t low = std::max(from, std::min(measured, built_in));
  const uint64_t high = std::min(2 * kLargest, std::max(measured, built_in));
  float sum = 0;
  int sizes = 0;
  for (uint64_t n = low; n < high; n *= 2) {
    sum += std::log(ratio(n));
    ++sizes;
  }
  if (sizes == 0) return false;
  const float mean = sum / static_cast<float>(sizes);
  return (measured < built_in ? mean : -mean) < std::log(kWorthMoving);
}

/// From where on a way is used: as measured if that is worth leaving `built_in`.
template <typename Ratio>
uint64_t threshold(uint64_t from, uint64_t built_in, Ratio&& ratio) {
  const uint64_t measured = crossover(from, ratio);
  return worth_moving(from, measured, built_in, ratio) ? measured : built_in;
}

}  // namespace

bool is_far(int level) { return level > static_cast<int>(node::Level::kSharedL2); }

bool in_force(const DistanceClass& c) { return c.jobs >= kConfirmed && !c.cells.empty() && !c.cells_nt.empty(); }

bool covers(const Profile& profile, int level) {
  return std::any_of(profile.classes, profile.classes + profile.n_classes, [level](const DistanceClass& c) {
    return c.level == level && (in_force(c) || c.attempts >= kMostAttempts);
  });
}

PairChoice choose(int level, const Profile* profile) {
  if (profile != nullptr && profile->papers != 0) return paper_choice(level);
  const bool far = is_far(level);
  PairChoice choice = built_in(far);
  if (profile == nullptr) return choice;
  const DistanceClass* c = find_class(*profile, level);
  if (c == nullptr) return choice;
  constexpr uint64_t kLeastMeasured = 512;
  const uint64_t nt = threshold(kLeastMeasured, choice.nontemporal_min,
                                [&](uint64_t n) { return c->cells_nt.us_at(n) / c->cells.us_at(n); });
  choice.nontemporal_min = static_cast<uint32_t>(std::min<uint64_t>(nt, 1 << 30));
  // The ring that was found is the best for ordinary stores. Where others write, lines had better be in no cache: 8 KiB
  // take 1.2 us through the built-in 4 MiB and 1.5 through 512 KiB (Xeon, two cores).
  if (nt >= choice.eager_max) choice.ring_bytes_max = c->ring_bytes;
  const auto two_copies = [&](uint64_t n) { return n >= nt ? c->cells_nt.us_at(n) : c->cells.us_at(n); };
  // What a transfer costs beside its bytes and beyond the curves: its descriptor, the answer, the end, and lines that
  // its sender has written. Seen to be 1.3 to 1.5 us from 16 to 256 KiB where a line takes 0.15.
  const float agree_us = 9 * c->line_ns / 1000;
  if (!c->cma_read.empty() && !c->cma_write.empty()) {
    constexpr uint64_t kMedium = 64 << 10;
    choice.sender_copies = c->cma_write.us_at(kMedium) < c->cma_read.us_at(kMedium);
    const Curve& alone = choice.sender_copies ? c->cma_write : c->cma_read;
    choice.both_ends_min = c->cma_both.empty() ? kNever : threshold(16 << 10, choice.both_ends_min, [&](uint64_t n) {
      return c->cma_both.us_at(n) / alone.us_at(n);
    });
    choice.single_copy_min = threshold(4 << 10, choice.single_copy_min, [&](uint64_t n) {
      return ((n >= choice.both_ends_min ? c->cma_both : alone).us_at(n) + agree_us) / two_copies(n);
    });
    // The curves are of buffers that were just copied. Of some that messages have once (Xeon, two cores), 64 KiB take
    // 7.4 us through cells and 14.7 by the kernel; of one that each message has, 7.5 and 5.3.
    choice.single_copy_min_cold = std::max(choice.single_copy_min_cold, choice.single_copy_min);
    if (choice.eager_max >= choice.single_copy_min) {
      choice.eager_max = static_cast<uint32_t>(choice.single_copy_min) - 1;
    }
  }
  if (!c->mapped_one.empty() && !c->mapped_both.empty()) {
    // Both ends must learn of each other first; seen to be half as much again as for a copy by one.
    const float meet_us = 6 * c->line_ns / 1000;
    // Never from a smaller size than built in: the curves are of data that nobody has just written, or reads next.
    choice.mapped.least = threshold(choice.mapped.least, choice.mapped.least, [&](uint64_t n) {
      return (least(c->mapped_one, c->mapped_both, n) + meet_us) / two_copies(n);
    });
    const uint64_t n = std::min(choice.mapped.least, kLargest);
    float others_us = two_copies(n);
    if (!c->cma_read.empty() && !c->cma_write.empty()) {
      others_us = std::min(others_us, least(c->cma_read, c->cma_write, n) + agree_us);
    }
    const float saved_us = others_us - least(c->mapped_one, c->mapped_both, n) - meet_us;
    choice.mapped.ns_per_byte = std::max(0.0F, saved_us) * 1000 / 2 / static_cast<float>(n);
  }
  return choice;
}

Crossovers crossovers_of(const DistanceClass& c) {
  constexpr uint64_t kFrom = 1 << 10;  // the first point of a curve
  Crossovers out;
  if (!c.cells.empty() && !c.cells_nt.empty()) {
    out.nontemporal = crossover(kFrom, [&](uint64_t n) { return c.cells_nt.us_at(n) / c.cells.us_at(n); });
  }
  if (!c.cma_both.empty() && !(c.cma_read.empty() && c.cma_write.empty())) {
    out.kernel_both =
        crossover(kFrom, [&](uint64_t n) { return c.cma_both.us_at(n) / least(c.cma_read, c.cma_write, n); });
  }
  if (!c.mapped_both.empty() && !c.mapped_one.empty()) {
    out.mapped_both = crossover(kFrom, [&](uint64_t n) { return c.mapped_both.us_at(n) / c.mapped_one.us_at(n); });
  }
  return out;
}

PairChoice on_shared_cpus(PairChoice choice, bool far) {
  // Measured with 8 ranks on 2 processors, 64 KiB eager and mapped: near 10.9 and 9.1 us (pairs), 55 and 51 (exchange);
  // far, where one end alone reads what the other processor has in its cache, 11.1 and 9.2, 73 and 120. A ring of 4 MiB
  // costs 16 KiB messages a third of their speed.
  const uint32_t eager = far ? 64 << 10 : 32 << 10;
  constexpr uint32_t kRing = 128 << 10;
  choice.eager_max = static_cast<uint32_t>(std::min<uint64_t>(eager, choice.single_copy_min - 1));
  choice.eager_max_cold = choice.eager_max;
  choice.piped_min = choice.piped_max = choice.eager_max;
  choice.ring_bytes_max = std::min(choice.ring_bytes_max, kRing);
  // Each ringful costs a turn of the scheduler as well.
  choice.chunk_cells = std::min<uint32_t>(choice.chunk_cells, 8 << 10);
  choice.single_copy_min = std::min(choice.single_copy_min, single_copy_from(far));
  choice.single_copy_min_cold = choice.single_copy_min;
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
  choice.single_copy_min_cold = choice.single_copy_min;
  choice.eager_max = static_cast<uint32_t>(std::min<uint64_t>(choice.eager_max, choice.single_copy_min));
  choice.eager_max_cold = choice.eager_max;
  return choice;
}

}  // namespace zh::tune
