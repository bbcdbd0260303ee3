// See limits.h.
#include "tools/bench/limits.h"

namespace zh::tools {
namespace {

constexpr uint64_t kK = 1024;
constexpr uint64_t kM = 1024 * kK;
constexpr uint64_t kAnySize = ~uint64_t{0};

// One line per sentence of "what it must show". Times are one way (ping-pong) or per message (streams).
constexpr Limit kP2pLimits[] = {
    {"latency", "time_us", 8, 8, "malloc", "", "", 2, Compare::kBestPeerExcess, 0.5,
     "above the raw line at most half of the best peer"},
    {"latency", "time_us", kK, kK, "malloc", "", "", 2, Compare::kBestPeer, 0.75, "at most 0.75 of the best peer"},
    {"latency", "time_us", 8, 4 * kM, "malloc", "", "", 2, Compare::kBestPeer, 1.05,
     "no size slower than the best peer"},
    {"latency", "time_us", 8, 4 * kM, "alloc_mem", "", "", 2, Compare::kBestPeer, 1.05,
     "no size slower than the best peer"},
    {"latency", "time_us", 8, 4 * kM, "static", "", "", 2, Compare::kBestPeer, 1.05,
     "no size slower than the best peer"},
    {"latency", "time_us", 16 * kK, 16 * kK, "", "", "", 2, Compare::kBestPeer, 0.8, "at most 0.8 of the best peer"},
    {"latency", "time_us", 64 * kK, 4 * kM, "", "", "near", 2, Compare::kBestPeer, 1 / 1.6,
     "1.6 times as fast as the best peer"},
    {"latency", "time_us", kM, 4 * kM, "", "", "far", 2, Compare::kBestPeer, 1 / 4.0,
     "4 times as fast as the best peer"},
    {"latency", "time_us", 8, kAnySize, "", "", "", 2, Compare::kHeapOff, 1.05, "not slower than with the heap off"},
    {"noreuse", "time_us", 8, kAnySize, "", "", "", 2, Compare::kHeapOff, 1.05, "not slower than with the heap off"},
    {"first", "time_us", 8, kAnySize, "", "", "", 2, Compare::kHeapOff, 1.05, "not slower than with the heap off"},
    {"latency", "time_us", 64 * kK, 4 * kM, "", "", "", 2, Compare::kRawRatio, 1.20, "within 20 % of the best raw way"},
    {"latency", "time_us", 8, 4 * kK, "", "", "", 2, Compare::kRawExtra, 0.080, "raw way + one line + 80 ns"},
    {"latency", "time_us", 8, kAnySize, "", "", "", 2, Compare::kOwnHost, 1.05, "not slower than its own host"},
    {"bandwidth", "time_us", 8, kAnySize, "", "", "", 2, Compare::kOwnHost, 1.05, "not slower than its own host"},
    {"bidirectional", "time_us", 8, kAnySize, "", "", "", 2, Compare::kOwnHost, 1.05, "not slower than its own host"},
    {"rate", "time_us", 8, 8, "", "", "", 2, Compare::kBestPeer, 1 / 1.5, "1.5 times the best peer's message rate"},
    {"rate", "time_us", 8, 8, "", "", "", 2, Compare::kRawRatio, 1.30, "or within 30 % of the raw ring"},
    {"overlap", "over_share", 256 * kK, kAnySize, "", "receiver_computes", "", 2, Compare::kValueAtLeast, 0.95,
     "95 % over when a computing receiver waits"},
    {"queues", "growth", 8, 8, "", "", "", 2, Compare::kValueAtMost, 2.0, "10,000 others at most double the latency"},
    {"skew", "slope", 16 * kK, 16 * kK, "", "measured_defaults", "", 2, Compare::kValueAtMost, 0.1,
     "producer time flat"},
    {"skew", "slope", 16 * kK, 16 * kK, "", "single_copy_skew_on", "", 2, Compare::kValueAtMost, 0.1,
     "producer time flat"},
    {"skew", "slope", 16 * kK, 16 * kK, "", "single_copy_skew_off", "", 2, Compare::kValueAtLeast, 0.8,
     "producer time linear"},
    {"pairs", "time_us", 8, 8, "", "", "", 8, Compare::kBestPeer, 1 / 1.3, "1.3 times as fast as the best peer"},
    {"exchange", "time_us", 8, 8, "", "", "", 8, Compare::kBestPeer, 1 / 1.3, "1.3 times as fast as the best peer"},
    {"everybody", "memory_share", 8, 8, "", "", "", 0, Compare::kValueAtMost, 1.0,
     "memory: 4 MiB per rank + 64 KiB per peer"},
    {"everybody", "wall_share", 8, 8, "", "", "", 0, Compare::kValueAtMost, 1.0,
     "whole job: host's time + max(10 %, 0.5 s)"},
};

/// 1.5 times as fast as the best peer with a processor for each rank; twice, or 1.3 times, with several ranks on each.
struct CollectiveLimit {
  std::string_view collective;
  double at_two;
  double at_many;
};
constexpr CollectiveLimit kCollectiveLimits[] = {
    {"barrier", 1 / 1.5, 1 / 2.0},   {"bcast", 1 / 1.5, 1 / 1.3},          {"reduce", 1 / 1.5, 1 / 2.0},
    {"allreduce", 1 / 1.5, 1 / 2.0}, {"allgather", 1 / 1.5, 1 / 2.0},      {"alltoall", 1 / 1.5, 1 / 2.0},
    {"gather", 1 / 1.5, 1 / 1.3},    {"reduce_scatter", 1 / 1.5, 1 / 2.0}, {"scatter", 1 / 1.5, 1 / 1.3},
};
constexpr int kMany = 8;

}  // namespace

double collective_bound(std::string_view collective, int ranks) {
  for (const CollectiveLimit& l : kCollectiveLimits) {
    if (l.collective == collective) return ranks == 2 ? l.at_two : ranks >= kMany ? l.at_many : 0;
  }
  return 0;
}

std::span<const Limit> limits() { return kP2pLimits; }

std::string_view name_of(Compare c) {
  switch (c) {
    case Compare::kBestPeer:
      return "best_peer";
    case Compare::kBestPeerExcess:
      return "best_peer_above_line";
    case Compare::kOwnHost:
      return "own_host";
    case Compare::kHeapOff:
      return "heap_off";
    case Compare::kRawRatio:
      return "raw";
    case Compare::kRawExtra:
      return "raw_extra_us";
    case Compare::kValueAtLeast:
      return "at_least";
    case Compare::kValueAtMost:
      return "at_most";
  }
  return "";
}

}  // namespace zh::tools
