// Near and far, while the job runs. Some envelopes carry their sender's clock. The receiver compares it with its own
// and leaves what it finds in the ring, where the sender sees it when it next looks for room; so neither end reads a
// line for it that it would not read anyway. Each end judges for its own sends.
#include "os/clock.h"
#include "p2p/channels.h"

namespace zh::p2p {

void Channels::set_choices(uint32_t peer, const tune::PairChoice& near, const tune::PairChoice& far, bool is_far) {
  Channel& p = peers_[peer];
  p.near = near;
  p.far = far;
  p.choice = is_far ? far : near;
  p.is_far = is_far;
  if (line_limits_.most != 0 || !os::ticks_are_steady()) return;
  const double per_ns = os::ticks_per_us() / 1000;
  const node::LineBounds bounds = config_.lines.value_or(node_.line_bounds());
  const auto ticks = [per_ns](float ns) { return static_cast<int32_t>(ns * per_ns); };
  line_limits_ = {ticks(bounds.near_ns), ticks(bounds.far_ns), ticks(bounds.most_ns)};
}

void Channels::stamp(shm::EnvelopeShm* slot) const {
  if (line_limits_.most == 0 || !slot->has_room_for_stamp(slot->kind == static_cast<uint8_t>(Kind::kInline))) return;
  slot->stamped = 1;
  slot->set_stamp(static_cast<uint32_t>(os::ticks()));
}

void Channels::note_age(uint32_t sender, const shm::EnvelopeShm& slot, shm::EnvelopeRingShm* ring) {
  if (expects_.load_relaxed() == 0) return;
  Channel& peer = peers_[sender];
  const auto age = static_cast<int32_t>(static_cast<uint32_t>(os::ticks()) - slot.stamp());
  if (!peer.watch.add(age, line_limits_)) return;
  ring->line.store_relaxed(peer.watch.word());
  if (!peer.watch.judge(peer.out.line_seen(), line_limits_)) return;
  const bool is_far = peer.watch.verdict() == Distance::kFar;
  if (is_far == peer.is_far) return;
  peer.is_far = is_far;
  peer.choice = is_far ? peer.far : peer.near;
  ++counters().distance_changes;
  if (trace_) trace_->moved(sender, is_far);
}

}  // namespace zh::p2p
