// What ZEROHOP_LOG=debug tells of messages: each decision when it is made for the first time. Called by the protocols
// at places that are seldom reached; where nobody listens there is no Trace. It refuses to decide anything.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "copy/mapped_memory.h"
#include "p2p/counters.h"
#include "tune/choice.h"

namespace zh::p2p {

/// Ranks are world ranks, as the program knows them. The owner calls under its lock.
class Trace {
 public:
  /// `world_ranks`: by the node's numbers of its ranks.
  Trace(const Log& log, std::vector<int> world_ranks)
      : log_(log), ranks_(std::move(world_ranks)), seen_(ranks_.size() * kPaths) {}

  void connected(uint32_t peer, const tune::PairChoice& choice, bool is_far);
  /// Speaks for the first message of each way and size class to each peer.
  void sent(uint32_t peer, Path path, uint64_t bytes, const tune::PairChoice& choice, bool is_far);
  void grown(uint32_t peer, const char* ring, uint64_t size, const char* unit) const;
  void moved(uint32_t peer, bool is_far) const;
  /// `peer` was found lagging behind its senders, or has caught up.
  void lags(uint32_t peer, bool lagging) const;
  /// A single copy from or to memory of `peer` ended after `moved` of `bytes` bytes; the rest goes another way.
  void ended_early(uint32_t peer, const Status& why, uint64_t moved, uint64_t bytes) const;
  void cannot_map(uint32_t peer) const;
  /// A buffer that messages use again becomes no shared memory.
  void stays_private(const void* address, uint64_t bytes, const copy::MappedMemory::Declined& declined);

 private:
  Log log_;
  std::vector<int> ranks_;
  uint64_t declined_ = 0;
  std::vector<uint64_t> seen_;  ///< by peer and way: bit i stands for size class i
};

}  // namespace zh::p2p
