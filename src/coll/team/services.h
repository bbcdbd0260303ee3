// What a team needs of the rank that it belongs to; engine::Rank implements it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/atomic.h"
#include "base/shm_types.h"
#include "base/status.h"
#include "copy/layout.h"
#include "copy/memory_access.h"
#include "node/node.h"
#include "p2p/activity.h"
#include "p2p/types.h"

namespace zh::p2p {
struct Request;
}

namespace zh::coll {

class Services {
 public:
  virtual ~Services() = default;

  /// Start of the node's segment.
  [[nodiscard]] virtual std::byte* base() const = 0;
  /// 128-byte aligned memory in this rank's part of the segment; kNoOffset when the budget is used up.
  [[nodiscard]] virtual Offset allocate(uint64_t bytes) = 0;
  /// The same for what makes teams faster: a part of the budget stays for allocate().
  [[nodiscard]] virtual Offset allocate_spare(uint64_t bytes) = 0;

  /// The memory of the node's ranks.
  [[nodiscard]] virtual copy::MemoryAccess& memory() = 0;

  /// Point-to-point on a context of the team's own; null only when out of memory.
  [[nodiscard]] virtual p2p::Request* send(uint32_t dest, uint64_t context, int32_t tag, const copy::Buffer& data,
                                           p2p::SendMode mode) = 0;
  [[nodiscard]] virtual p2p::Request* recv(uint32_t source, uint64_t context, int32_t tag,
                                           const copy::Buffer& data) = 0;
  [[nodiscard]] virtual bool done(const p2p::Request* request) const = 0;
  /// Frees a request that is done; `*bytes` is what a receive got.
  virtual Code finish(p2p::Request* request, uint64_t* bytes) = 0;
  /// Frees a receive that no message comes for, or a send that nobody takes.
  virtual void abandon(p2p::Request* request) = 0;

  /// Turns everything else that this rank has to do until `ready(context)` is true, waiting as is right here. No lock
  /// is held while it asks.
  /// `tell`: with node-local indices for peers.
  virtual void wait(bool (*ready)(void*), void* context, p2p::Tell tell) = 0;
  /// How often a flag is looked at before wait() is called: 1 where ranks outnumber CPUs.
  [[nodiscard]] virtual uint32_t polls() const = 0;
  /// Asked after some of these: whether to look any longer would keep a rank of the node from its CPU.
  [[nodiscard]] virtual bool keeps_cpu_from_peer() = 0;
  /// How many ranks of the node sleep in wait(), or are about to; null: none ever does.
  [[nodiscard]] virtual const Atomic<uint32_t>* sleepers() const = 0;
  /// Wakes a rank, if it sleeps, to look at its flags.
  virtual void wake(uint32_t rank) = 0;
  /// A reduction of that many bytes of input has gone through staging areas.
  virtual void count_staged(uint64_t bytes) = 0;
  /// Contributions of this many bytes and more for that rank go past this one's caches: it shares none of them. It may
  /// change while a job runs.
  [[nodiscard]] virtual uint64_t streamed_from(uint32_t rank) const = 0;
  /// How far two ranks of the node are apart; all ranks know the same.
  [[nodiscard]] virtual node::Level level(uint32_t a, uint32_t b) const = 0;
  /// Ranks that may copy from or into one rank's memory through the kernel at once, 1 or more.
  [[nodiscard]] virtual uint32_t copiers() const = 0;
  /// False once that rank's process has ended. Cheap enough to ask in a wait now and then.
  [[nodiscard]] virtual bool alive(uint32_t rank) = 0;
};

constexpr uint64_t kNeverStreamed = ~uint64_t{0};

/// Contributions of so many bytes and more go past this rank's caches: most other members share none of them with it.
inline uint64_t streamed_from_most(const Services& services, std::span<const uint32_t> members, uint32_t self) {
  constexpr uint64_t kLargest = 1 << 20;  // a pair that streams from here on only shares a cache
  uint32_t apart = 0;
  uint64_t least = kNeverStreamed;
  for (uint32_t i = 0; i < members.size(); ++i) {
    const uint64_t from = i == self ? kNeverStreamed : services.streamed_from(members[i]);
    apart += from <= kLargest ? 1 : 0;
    least = std::min(least, from);
  }
  return 2 * apart > members.size() - 1 ? least : kNeverStreamed;
}

}  // namespace zh::coll
