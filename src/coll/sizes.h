// The sizes at which the ways of carrying out a collective inside a node begin and end. Pure: all ranks of a team come
// to the same. Used by the teams (coll/team), by the choice among all ways (coll/algorithms/choose.h), and by commands
// that print them.
#pragma once

#include <cstdint>

#include "coll/types.h"

namespace zh::coll {

// --- Blocking collectives of ranks that are all on one node, or of a node's ranks among others

/// Bytes of one contribution that are copied through a grown control block (coll/team/growth.cpp); larger ones are
/// reached where they lie.
constexpr uint64_t kSmallBytes = 16 << 10;
/// The same of a control block that has not grown.
constexpr uint64_t kFirstSmallBytes = 2 << 10;
/// The same of two members that each have a CPU: a message then takes less time (measured from 8 KiB on, near and far).
constexpr uint64_t kSmallBytesOfTwo = 4 << 10;
/// Of a broadcast, a gather or all pieces of a scatter where ranks outnumber CPUs: to be ahead is worth a copy.
constexpr uint64_t kSmallCrowdedBytes = 32 << 10;
/// Reductions and scans of two are one message up to here. Reductions then are shared, as far as they are near; a scan
/// would take more memory than is kept.
constexpr uint64_t kLargestReduceOfTwo = 512 << 10;
constexpr uint64_t kLargestScanOfTwo = 4 << 20;
/// Pieces of a scatter where ranks outnumber CPUs: up to here each is a message.
constexpr uint64_t kLargestScatteredMessage = 256 << 10;

/// What all members of a team know of it.
struct NodeFacts {
  uint32_t ranks = 1;
  bool crowded = false;  ///< ranks take turns on CPUs
  bool grown = true;     ///< the control blocks have

  [[nodiscard]] constexpr uint64_t small() const { return grown ? kSmallBytes : kFirstSmallBytes; }
  [[nodiscard]] constexpr bool two() const { return ranks == 2 && !crowded; }
  /// Of what two exchange.
  [[nodiscard]] constexpr uint64_t small_of_pair() const { return two() && grown ? kSmallBytesOfTwo : small(); }
  /// Where one member alone gives or gets, so that others can be ahead of who is not there yet.
  [[nodiscard]] constexpr uint64_t small_one_way() const {
    return crowded && grown ? kSmallCrowdedBytes : small_of_pair();
  }
};

enum class NodeWay : uint8_t {
  kSmall,    ///< contributions are copied through control blocks
  kMessage,  ///< each piece is a message: both ends copy, and where ranks outnumber CPUs a sender need not wait
  /// Single copy of what lies in members' memory; reductions go through staging areas where members share no cache, or
  /// cannot map the memory.
  kLarge,
};

/// How a blocking collective goes. `bytes`: of the vector, or of a piece; of a reduce-scatter, of all pieces together;
/// of a v- or w-variant, of one member's own pieces, who tells the others.
[[nodiscard]] constexpr NodeWay node_way(Collective collective, uint64_t bytes, const NodeFacts& facts) {
  switch (collective) {
    case Collective::kBarrier:
      return NodeWay::kSmall;
    case Collective::kBcast:
      if (bytes <= facts.small_one_way()) return NodeWay::kSmall;
      return facts.ranks == 2 ? NodeWay::kMessage : NodeWay::kLarge;
    case Collective::kGather:
      if (bytes <= facts.small_one_way()) return NodeWay::kSmall;
      return facts.ranks == 2 || facts.crowded ? NodeWay::kMessage : NodeWay::kLarge;
    case Collective::kScatter: {
      const uint64_t most = facts.two() && facts.grown ? 2 * kSmallBytesOfTwo : facts.small_one_way();
      if (bytes * facts.ranks <= most) return NodeWay::kSmall;
      const bool message = facts.ranks == 2 || (facts.crowded && bytes <= kLargestScatteredMessage);
      return message ? NodeWay::kMessage : NodeWay::kLarge;
    }
    case Collective::kAllgather:
      if (bytes <= facts.small_of_pair()) return NodeWay::kSmall;
      return facts.two() ? NodeWay::kMessage : NodeWay::kLarge;
    case Collective::kAlltoall:
      if (bytes * facts.ranks <= (facts.two() ? 2 * facts.small_of_pair() : facts.small())) return NodeWay::kSmall;
      return facts.two() ? NodeWay::kMessage : NodeWay::kLarge;
    case Collective::kReduce:
    case Collective::kScan:
    case Collective::kExscan: {
      const uint64_t most = collective == Collective::kReduce ? kLargestReduceOfTwo : kLargestScanOfTwo;
      if (facts.two() && bytes > facts.small_of_pair() && bytes <= most) return NodeWay::kMessage;
      return bytes <= facts.small() ? NodeWay::kSmall : NodeWay::kLarge;
    }
    default:
      return bytes <= facts.small() ? NodeWay::kSmall : NodeWay::kLarge;
  }
}

// --- Nonblocking and persistent collectives of ranks that are all on one node

/// Everyone reads everyone. A guess: more have not been measured.
constexpr uint32_t kMostNonblockingRanks = 32;
/// Bytes of a contribution that goes through a slot: of 1 KiB messages are as fast, where ranks share no cache faster.
constexpr uint64_t kSlotBytes = 512;
/// Bytes that one member reads of all. A guess.
constexpr uint64_t kMostReadBytes = 8192;
/// Of a vector or a piece that goes through staging areas. Less is as fast by messages. (Measured at 2 ranks that share
/// no cache, like the largest.)
constexpr uint64_t kLeastStagedBytes = 16 << 10;
constexpr uint64_t kLargestStagedBcast = 256 << 10;
constexpr uint64_t kLargestStagedPiece = 64 << 10;
/// Least bytes of a room in a staging area, which an element has to fit, of at most 128 members.
constexpr uint64_t kLeastRoomBytes = 1024;

}  // namespace zh::coll
