// Laying out a rank's part of the segment, and its view of the others'.
#include "p2p/channels.h"

#include <utility>

#include "os/clock.h"
#include "os/mutex.h"

namespace zh::p2p {

namespace {
constexpr uint64_t kAwayUs = 50;
constexpr uint64_t kMatchedRingBytes = 64 << 10;
}  // namespace

Channels::Channels(node::Node& node, const EndpointConfig& config)
    : node_(node), config_(config), base_(node.base()), self_(node.self()) {}

Status Channels::open() {
  const uint32_t n = node_.size();
  if (Status s = arena_.open(node_, PartShm::size_bytes(n)); !s.ok()) return s;
  annex_.open_annex(node_);
  // A fresh segment is zero-filled, and zero is every member's initial state.
  part_ = at<PartShm>(base_, node_.part(self_));
  peers_.resize(n);
  unconnected_ = n;
  for (uint32_t i = 0; i < n; ++i) {
    peers_[i].part = at<PartShm>(base_, node_.part(i));
    peers_[i].guard = &peers_[config_.ablations.coarse_lock ? 0 : i].part->queues;
  }
  ticks_away_ = os::ticks_in_us(kAwayUs);
  if (config_.log.wants(LogLevel::kDebug)) {
    std::vector<int> world_ranks;
    for (uint32_t i = 0; i < n; ++i) world_ranks.push_back(node_.world_rank(i));
    trace_ = std::make_unique<Trace>(config_.log, std::move(world_ranks));
  }
  if (const Offset offset = config_.timeline ? arena_.allocate(sizeof(TimelineShm)) : kNoOffset; offset != kNoOffset) {
    timeline_ = at<TimelineShm>(base_, offset);
    watched_ = true;
    part_->account.timeline.store_release(offset);  // TN4 -> TN5: memory of zeros
  }
  const Offset matched = arena_.allocate(kMatchedRingBytes);
  if (matched == kNoOffset) return arena_.refusal();
  if (!matched_ring_.attach(base_, matched, kMatchedRingBytes)) return {Code::kNoMemory, "no memory for cells"};
  return kOk;
}

void Channels::tell(Event event) {
  if (event.kind == Event::Kind::kSent && sent_to_ != nullptr) sent_to_[event.peer].add(event.bytes);
  if (timeline_ == nullptr) return;
  event.end_ticks = os::ticks();
  event.thread = static_cast<uint32_t>(os::Mutex::this_thread() / kLineBytes);
  timeline_->add(event);
}

}  // namespace zh::p2p
