// The limits that the benchmarks are judged by, as tables. Called by the judge and the reports; holds numbers and no
// logic beyond saying which limit applies to which case.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace zh::tools {

/// What a limit compares. Every kind is one number per round, so that its interval can be judged.
enum class Compare : uint8_t {
  kBestPeer,        ///< zerohop's time / the best peer's time, at most
  kBestPeerExcess,  ///< (zerohop's time - raw line) / (best peer's time - raw line), at most
  kOwnHost,         ///< zerohop's time / its own host's in the same process (paired blocks), at most
  kHeapOff,         ///< zerohop's time / its time with the shared heap switched off, at most
  kRawRatio,        ///< zerohop's time / the best raw way's, at most
  kRawExtra,        ///< zerohop's time - the best raw way's - raw line, microseconds, at most
  kValueAtLeast,    ///< the metric itself
  kValueAtMost,
};

struct Limit {
  std::string_view bench;
  std::string_view metric;
  uint64_t size_min;  ///< bytes, inclusive
  uint64_t size_max;
  std::string_view buffers;    ///< malloc, static, alloc_mem or empty: any
  std::string_view variant;    ///< empty: any
  std::string_view placement;  ///< near, far or empty: any
  int ranks;                   ///< 0: any
  Compare compare;
  double bound;
  std::string_view text;
};

std::span<const Limit> limits();

/// Private buffers up to here may take kCellsBound of the time when the best peer is Intel MPI, whose cells are as good
/// as cells get (docs/results/README.md gives the reason).
constexpr uint64_t kCellsBytes = 256 << 10;
constexpr double kCellsBound = 1.10;

/// What the geometric mean of a collective's ratios to the best peer may be at most; 0: nothing is said of it.
double collective_bound(std::string_view collective, int ranks);

std::string_view name_of(Compare c);

}  // namespace zh::tools
