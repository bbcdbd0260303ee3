// What callers of point-to-point see: who, which message, into which buffer, and how it ended.
// MPI-free: a source is a number chosen by the caller (the shim passes the rank in the communicator).
#pragma once

#include <cstdint>
#include <optional>

#include "base/log.h"
#include "base/status.h"
#include "copy/layout.h"
#include "node/node.h"

namespace zh::copy {
class RegionOwner;
}
namespace zh::heap {
class SharedHeap;
}

namespace zh::p2p {

constexpr int32_t kAnySource = -1;
constexpr int32_t kAnyTag = -1;
constexpr int32_t kAnyPeer = -1;

/// MPI standard 3.4. Buffered sends are standard sends of a private copy, made by the caller.
enum class SendMode : uint8_t { kStandard, kSynchronous, kReady };

/// Who makes the single copy of a message: the designs of the LiMIC paper's section 4.3, and this library's own. In the
/// order of the setting's words.
enum class Copier : uint8_t {
  kBoth,     ///< both ends, as buffers and measured costs have it
  kReceive,  ///< the receiver alone, in its calls
  kWait,     ///< whichever end first waits for it; calls that start it copy nothing
  kLater     ///< the end whose call comes later, in that call
};

/// Designs that are not this library's, to be compared with its own.
struct Ablations {
  Copier copier = Copier::kBoth;
  bool coarse_lock = false;  ///< one lock for the queues of all receivers of the node (LiMIC paper, section 4.4)
  bool keep_copies = true;   ///< false: no sender copies a message to be free of a receiver that stays away
};

/// What an Endpoint is configured by.
struct EndpointConfig {
  bool cma = true;                             ///< ZEROHOP_CMA
  int skew = -1;                               ///< the setting skew: -1 and 1: follow the receiver's skew; 0: never
  const copy::RegionOwner* regions = nullptr;  ///< mappable memory that this process asks for, or null
  heap::SharedHeap* heap = nullptr;            ///< mappable memory of its allocations and global data, or null
  std::optional<node::LineBounds> lines;       ///< that make a pair near, or far, while the job runs; none: the node's
  Log log;                                     ///< ZEROHOP_LOG: told of each decision at level debug
  uint32_t polled_senders = 8;                 ///< of a receiver; those that connect later ring its bell
  Ablations ablations;                         ///< the settings copier, queue_lock and keep_copies
  bool timeline = false;                       ///< tell of messages and calls (timeline.h)
};

struct SendArgs {
  uint32_t dest = 0;     ///< node-local index of the receiving rank
  int32_t source = 0;    ///< this rank's number in the context, as the receiver names it
  int32_t tag = 0;       ///< >= 0
  uint64_t context = 0;  ///< separates communicators
  copy::Buffer data;
  SendMode mode = SendMode::kStandard;
};

struct RecvArgs {
  int32_t peer = kAnyPeer;      ///< node-local index of `source`, or kAnyPeer with kAnySource
  int32_t source = kAnySource;  ///< the sender's number in the context, or kAnySource
  int32_t tag = kAnyTag;
  uint64_t context = 0;
  copy::Buffer buffer;  ///< bytes = capacity
};

/// How a receive (or a send, then only `code`) ended.
struct Result {
  int32_t source = kAnySource;
  int32_t tag = kAnyTag;
  uint64_t bytes = 0;     ///< bytes received: min(sent, capacity)
  Code code = Code::kOk;  ///< kTruncated: sent > capacity; kPeerDead
  bool cancelled = false;
};

}  // namespace zh::p2p
