// The caches of this machine as a process of it feels them: a sweep of dependent reads over growing memory, and where
// its cost rises. Called by `zerohop tune --json`; no choice of a job depends on it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace zh::tune {

/// Cost of one read where `bytes` are read over and over, in no order that a processor foresees.
struct ReadCost {
  uint64_t bytes = 0;
  double ns = 0;
};
/// By rising bytes.
using ReadCurve = std::vector<ReadCost>;

constexpr size_t kCaches = 3;

/// The sizes behind which a read costs clearly more (kLeastRise), ascending, at most one for each cache and one more,
/// since walks of page tables may add one: each the largest of the curve's sizes that still fits. Found as the steps,
/// in the logarithm, that leave the least squared error; a step has at least two points. There are more steps than
/// caches only if each between two rises is kPlainStep long: else a rise that takes a doubling would pass for two.
/// O(points squared).
[[nodiscard]] std::vector<uint64_t> rises_of(std::span<const ReadCost> curve);
constexpr double kLeastRise = 1.3;
constexpr uint64_t kPlainStep = 4;  ///< its last size as a multiple of the one before its first

/// Bytes of the first level's data cache, the second level's, the last level's; 0: unknown or none.
using CacheBytes = std::array<uint64_t, kCaches>;

/// One cache of a sweep.
struct CacheFound {
  uint64_t bytes = 0;     ///< median of the passes; 0: no rise stands for it
  bool at_least = false;  ///< the sweep ended without a rise behind it: `bytes` is the end
  bool noisy = false;     ///< more than a quarter of the passes did not find it, or are kPassesAgree off the median
};
constexpr double kPassesAgree = 1.5;

/// What passes over the same sizes found of each cache. `described` (what the topology says) decides only which rise
/// stands for which cache, never how large it is: in order, as many as can be, and else the closest. Without a
/// description the first rise is the first level's, the last the last level's.
[[nodiscard]] std::array<CacheFound, kCaches> caches_of(std::span<const ReadCurve> passes, const CacheBytes& described);

/// The sizes of a sweep: four in each doubling from 8 KiB on, two above 4 MiB.
[[nodiscard]] std::vector<uint64_t> sweep_sizes(uint64_t last_bytes);

/// `passes` curves by this thread, which should stay on one processor. Each is the least of kSweepsOfAPass sweeps that
/// lie apart in time, since whoever runs beside only makes reads dearer. Some 0.2 s a sweep of 64 MiB; memory of
/// `last_bytes`. Empty where there is no such memory.
constexpr int kSweepsOfAPass = 3;
[[nodiscard]] std::vector<ReadCurve> sweep_reads(uint64_t last_bytes, int passes);

}  // namespace zh::tune
