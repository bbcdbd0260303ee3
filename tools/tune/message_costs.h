// What a message costs on this machine, as the models of the mlog_nP paper split it: overhead and latency at each end,
// gap and network, out of launches of the benchmarks of strided messages and of parameterized round trips
// (bench/mpi/strided.c, prtt.c). Called by `zerohop tune`; starts nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/parameters.h"
#include "tools/bench/judge.h"
#include "tools/bench/stats.h"

namespace zh::tools {

/// One parameter with its spread over the launches. µs at one end; the two ends of a message are taken to cost the same
/// (mlog_nP paper, section 3.1), and inside a node they are all of it (n = 2).
struct MessageCost {
  uint64_t bytes = 0;
  uint64_t stride = 0;  ///< bytes; 0: `us` is the overhead o(s), else the latency l(s, d)
  Interval us;

  /// Its interval is so wide, or so little is known, that another run may find a quarter more or less.
  [[nodiscard]] bool noisy() const;
};

struct MessageCosts {
  std::string placement;           ///< of the launches used: "near", "far", "several" (machines); "" if there is none
  int launches = 0;                ///< used
  int left_out = 0;                ///< at another placement
  double line_us = 0;              ///< median of their raw cache line times
  std::vector<MessageCost> costs;  ///< by stride, then by size
  std::vector<MessageCost> busy;   ///< contiguous: how long the sender is busy, by parameterized round trips
  std::vector<MessageCost> gaps;   ///< ... how soon one message follows another
};

/// Those of the placement that most launches had. A latency is a launch's own difference between strided and contiguous
/// message of one size.
[[nodiscard]] MessageCosts message_costs_of(std::span<const LaunchRecord> launches);

/// A level inside a node, where a message's two ends are all of it (n = 2). Without a single overhead it is unusable
/// (Parameters::fault()).
[[nodiscard]] model::LevelCosts level_costs(const MessageCosts& measured);

/// The level between nodes, of launches whose ranks lay on different ones (section 5.1): o' is how long a sender is
/// busy, at most half of a contiguous message's time, and what both ends leave of that is the network's. `two_pairs`:
/// of launches of two pairs at once; the link is what the second pair adds to the gap, at most the network's time.
/// Without launches no link is known.
[[nodiscard]] model::LevelCosts between_costs(const MessageCosts& between, const MessageCosts& two_pairs);

}  // namespace zh::tools
