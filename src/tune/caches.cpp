// See caches.h.
#include "tune/caches.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <random>

#include "base/shm_types.h"
#include "os/clock.h"
#include "os/vm.h"

namespace zh::tune {
namespace {

constexpr uint64_t kLine = 64;
constexpr size_t kLeastPoints = 2;

/// Sums of logarithms, so that the squared error of any part of a curve is known at once.
class Parts {
 public:
  explicit Parts(std::span<const ReadCost> curve) {
    for (size_t i = 0; i < curve.size(); ++i) {
      const double y = std::log(std::max(middle(curve, i), 1e-3));
      all_.push_back(y);
      sum_.push_back(sum_.back() + y);
      squares_.push_back(squares_.back() + y * y);
    }
  }
  [[nodiscard]] size_t size() const { return all_.size(); }
  /// The median: a point at the foot of a rise does not lift the part before it.
  [[nodiscard]] double height(size_t from, size_t to) const {
    std::vector<double> part(all_.begin() + static_cast<std::ptrdiff_t>(from),
                             all_.begin() + static_cast<std::ptrdiff_t>(to));
    std::sort(part.begin(), part.end());
    const size_t half = part.size() / 2;
    return part.size() % 2 != 0 ? part[half] : (part[half - 1] + part[half]) / 2;
  }
  [[nodiscard]] double error(size_t from, size_t to) const {
    const double sum = sum_[to] - sum_[from];
    return squares_[to] - squares_[from] - sum * sum / static_cast<double>(to - from);
  }

 private:
  /// The median of a point and its neighbours: one that was disturbed does not count, and a step stays where it is.
  static double middle(std::span<const ReadCost> curve, size_t i) {
    if (i == 0 || i + 1 == curve.size()) return curve[i].ns;
    const double before = curve[i - 1].ns;
    const double after = curve[i + 1].ns;
    return std::clamp(curve[i].ns, std::min(before, after), std::max(before, after));
  }

  std::vector<double> all_;
  std::vector<double> sum_ = {0};
  std::vector<double> squares_ = {0};
};

/// Where the `count` flat parts of least error begin and end: count + 1 bounds. Empty if there are too few points.
/// `may_be`: whether the points from one on, to before another, may be a part.
template <typename MayBe>
std::vector<size_t> flat_parts(const Parts& parts, size_t count, const MayBe& may_be) {
  const size_t n = parts.size();
  const double never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> least(count + 1, std::vector<double>(n + 1, never));
  std::vector<std::vector<size_t>> begin(count + 1, std::vector<size_t>(n + 1, 0));
  least[0][0] = 0;
  for (size_t k = 1; k <= count; ++k) {
    for (size_t to = kLeastPoints; to <= n; ++to) {
      for (size_t from = 0; from + kLeastPoints <= to; ++from) {
        if (!may_be(from, to)) continue;
        const double error = least[k - 1][from] + parts.error(from, to);
        if (error < least[k][to]) {
          least[k][to] = error;
          begin[k][to] = from;
        }
      }
    }
  }
  if (least[count][n] == never) return {};
  std::vector<size_t> bounds = {n};
  for (size_t k = count; k > 0; --k) bounds.push_back(begin[k][bounds.back()]);
  std::reverse(bounds.begin(), bounds.end());
  return bounds;
}

bool all_rise(const Parts& parts, const std::vector<size_t>& bounds) {
  for (size_t i = 2; i < bounds.size(); ++i) {
    const double before = parts.height(bounds[i - 2], bounds[i - 1]);
    if (parts.height(bounds[i - 1], bounds[i]) - before < std::log(kLeastRise)) return false;
  }
  return true;
}

double log_distance(uint64_t a, uint64_t b) {
  return std::abs(std::log(static_cast<double>(a) / static_cast<double>(b)));
}

/// Rises from `rise` on, given to caches from `cache` on: each in turn to a later one, as many as can be, those that
/// are described closest to it.
struct Naming {
  CacheBytes bytes{};
  int named = 0;
  double apart = 0;

  [[nodiscard]] bool better_than(const Naming& other) const {
    return named != other.named ? named > other.named : apart < other.apart;
  }
};
Naming named_by(std::span<const uint64_t> rises, const CacheBytes& described, size_t cache = 0) {
  if (rises.empty() || cache == kCaches) return {};
  Naming best = named_by(rises, described, cache + 1);
  if (described[cache] == 0) return best;
  const Naming without = named_by(rises.subspan(1), described, cache);
  if (without.better_than(best)) best = without;
  Naming with = named_by(rises.subspan(1), described, cache + 1);
  with.bytes[cache] = rises.front();
  ++with.named;
  with.apart += log_distance(rises.front(), described[cache]);
  return with.better_than(best) ? with : best;
}

CacheBytes named_in_order(const std::vector<uint64_t>& rises) {
  if (rises.size() < 2) return {rises.empty() ? 0 : rises.front(), 0, 0};
  return {rises.front(), rises.size() > 2 ? rises[1] : 0, rises.back()};
}

/// The walk of one size: every line once, page by page so that addresses cost little, in an order that no processor
/// foresees. Each line holds where the next one is.
class Walk {
 public:
  Walk(std::byte* memory, uint64_t bytes, std::mt19937_64* random) : memory_(memory), lines_(bytes / kLine) {
    std::vector<uint32_t> pages((bytes + kPage - 1) / kPage);
    std::iota(pages.begin(), pages.end(), 0U);
    std::shuffle(pages.begin(), pages.end(), *random);
    std::array<uint32_t, kPage / kLine> within{};
    std::iota(within.begin(), within.end(), 0U);
    std::byte* last = nullptr;
    uint64_t n = 0;
    for (const uint32_t page : pages) {
      std::shuffle(within.begin(), within.end(), *random);
      for (const uint32_t line : within) {
        std::byte* here = memory_ + page * kPage + line * kLine;
        if (n % (lines_ / kWalkers) == 0 && n / (lines_ / kWalkers) < kWalkers) at_[n / (lines_ / kWalkers)] = here;
        if (last != nullptr) next_of(last) = here;
        last = here;
        ++n;
      }
    }
    next_of(last) = at_[0];
  }

  [[nodiscard]] uint64_t lines() const { return lines_; }

  /// ns of a read, of `reads` of them.
  double read(uint64_t reads) {
    const uint64_t before = os::now_ns();
    for (uint64_t i = 0; i < reads / kWalkers; ++i) {
      for (std::byte*& at : at_) at = next_of(at);
    }
    const uint64_t after = os::now_ns();
    // What was read is used, so that it is read.
    for (std::byte*& at : at_) asm volatile("" : "+r"(at));
    const uint64_t made = reads / kWalkers * kWalkers;
    return static_cast<double>(after - before) / static_cast<double>(made);
  }

 private:
  /// Several at once take as many times less time; between two visits of a line lie all the others all the same.
  static constexpr uint64_t kWalkers = 4;

  static std::byte*& next_of(std::byte* line) { return *reinterpret_cast<std::byte**>(line); }

  std::byte* memory_;
  uint64_t lines_;
  std::array<std::byte*, kWalkers> at_{};
};

double read_cost(std::byte* memory, uint64_t bytes, std::mt19937_64* random) {
  constexpr uint64_t kLeastReads = 1 << 14;
  constexpr uint64_t kMostReads = 1 << 17;
  constexpr size_t kParts = 5;  // one that was interrupted does not count
  Walk walk(memory, bytes, random);
  (void)walk.read(std::max(walk.lines(), kLeastReads));
  const uint64_t reads = std::clamp(walk.lines(), kLeastReads, kMostReads) / kParts;
  std::array<double, kParts> costs{};
  for (double& cost : costs) cost = walk.read(reads);
  std::nth_element(costs.begin(), costs.begin() + kParts / 2, costs.end());
  return costs[kParts / 2];
}

}  // namespace

std::vector<uint64_t> rises_of(std::span<const ReadCost> curve) {
  const Parts parts(curve);
  for (size_t count = kCaches + 2; count > 1; --count) {
    const auto may_be = [&](size_t from, size_t to) {
      const bool between = from > 0 && to < curve.size();
      return count <= kCaches + 1 || !between || curve[to - 1].bytes >= kPlainStep * curve[from - 1].bytes;
    };
    const std::vector<size_t> bounds = flat_parts(parts, count, may_be);
    if (bounds.empty() || !all_rise(parts, bounds)) continue;
    std::vector<uint64_t> rises;
    for (size_t i = 1; i + 1 < bounds.size(); ++i) rises.push_back(curve[bounds[i] - 1].bytes);
    return rises;
  }
  return {};
}

std::array<CacheFound, kCaches> caches_of(std::span<const ReadCurve> passes, const CacheBytes& described) {
  std::array<CacheFound, kCaches> out{};
  const bool known = std::any_of(described.begin(), described.end(), [](uint64_t bytes) { return bytes != 0; });
  std::array<std::vector<uint64_t>, kCaches> found;
  uint64_t end = 0;
  for (const ReadCurve& pass : passes) {
    const std::vector<uint64_t> rises = rises_of(pass);
    const CacheBytes named = known ? named_by(rises, described).bytes : named_in_order(rises);
    for (size_t i = 0; i < kCaches; ++i) {
      if (named[i] != 0) found[i].push_back(named[i]);
    }
    if (!pass.empty()) end = pass.back().bytes;
  }
  for (size_t i = 0; i < kCaches; ++i) {
    std::vector<uint64_t>& sizes = found[i];
    if (sizes.empty()) continue;
    std::sort(sizes.begin(), sizes.end());
    const uint64_t middle = sizes[sizes.size() / 2];
    const auto agree = std::count_if(sizes.begin(), sizes.end(), [middle](uint64_t bytes) {
      return log_distance(bytes, middle) <= std::log(kPassesAgree) + 1e-9;
    });
    out[i].bytes = middle;
    out[i].noisy = 4 * (passes.size() - static_cast<size_t>(agree)) > passes.size();
  }
  if (found.back().empty() && described.back() != 0 && end != 0) {
    out.back().bytes = end;
    out.back().at_least = true;
  }
  return out;
}

std::vector<uint64_t> sweep_sizes(uint64_t last_bytes) {
  constexpr uint64_t kFirst = 8 << 10;
  constexpr uint64_t kCoarse = 4 << 20;
  std::vector<uint64_t> sizes;
  for (uint64_t octave = kFirst; octave <= last_bytes; octave *= 2) {
    const uint64_t steps = octave < kCoarse ? 4 : 2;
    for (uint64_t i = 0; i < steps; ++i) {
      const uint64_t bytes = (octave + i * octave / steps) / kPage * kPage;
      if (bytes <= last_bytes && (sizes.empty() || bytes > sizes.back())) sizes.push_back(bytes);
    }
  }
  return sizes;
}

std::vector<ReadCurve> sweep_reads(uint64_t last_bytes, int passes) {
  const std::vector<uint64_t> sizes = sweep_sizes(last_bytes);
  if (sizes.empty()) return {};
  std::byte* memory = os::map_lazy(sizes.back());
  if (memory == nullptr) return {};
  os::want_huge_pages(memory, sizes.back());
  std::mt19937_64 random(1);
  std::vector<ReadCurve> curves(static_cast<size_t>(passes));
  for (int sweep = 0; sweep < kSweepsOfAPass; ++sweep) {
    for (ReadCurve& curve : curves) {
      curve.resize(sizes.size(), {0, std::numeric_limits<double>::infinity()});
      for (size_t i = 0; i < sizes.size(); ++i) {
        curve[i] = {sizes[i], std::min(curve[i].ns, read_cost(memory, sizes[i], &random))};
      }
    }
  }
  os::unmap_raw(memory, sizes.back());
  return curves;
}

}  // namespace zh::tune
