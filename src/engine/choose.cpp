// Which ways this rank takes towards each peer: from the machine's kept calibration, measured now if there is none,
// else built in; then as the user says. Only one-sided choices (a message's header names its way), so ranks need not
// agree.
#include <algorithm>
#include <cstdio>

#include "engine/state.h"
#include "tune/calibrate.h"
#include "tune/profile.h"

namespace zh::engine {

namespace {

/// What the ranks tell each other before anyone measures.
struct Offer {
  uint64_t scratch;  ///< where this rank, first of its node, has made room to measure; 0: it has not
};

tune::Profile builtin_profile() {
  tune::Profile profile;
  (void)tune::named_profile("builtin", &profile);
  return profile;
}

/// node::Level between every two ranks, as tune::CalibrationGroup wants it.
std::vector<uint8_t> levels_of(const node::Node& node) {
  std::vector<uint8_t> levels;
  levels.reserve(size_t{node.size()} * node.size());
  for (uint32_t i = 0; i < node.size(); ++i) {
    for (uint32_t j = 0; j < node.size(); ++j) levels.push_back(static_cast<uint8_t>(node.level(i, j)));
  }
  return levels;
}

std::string size_text(uint64_t bytes) {
  if (bytes >= uint64_t{1} << 30) return "never";
  if (bytes % (1 << 20) == 0) return std::to_string(bytes >> 20) + "M";
  if (bytes % (1 << 10) == 0) return std::to_string(bytes >> 10) + "K";
  return std::to_string(bytes);
}

}  // namespace

std::string Rank::choice_text(uint32_t peer) const {
  const tune::PairChoice& c = state_->endpoint->choice(peer);
  const bool cma = node_.cma(peer) && state_->config.cma;
  char line[32];
  std::snprintf(line, sizeof line, "%.0f ns", static_cast<double>(node_.line_ns(peer)));
  return "to rank " + std::to_string(node_.world_rank(peer)) + " (" + node::to_string(node_.level(node_.self(), peer)) +
         ", a line " + line + "): inline to " + size_text(c.inline_max) + ", eager to " + size_text(c.eager_max) +
         ", one copy from " +
         (cma ? size_text(c.single_copy_min) + " by the " + (c.sender_copies ? "sender" : "receiver") +
                    ", by both ends from " + size_text(c.both_ends_min)
              : std::string("never (no CMA)")) +
         ", mapped from " + size_text(c.mapped_min) + ", non-temporal from " + size_text(c.nontemporal_min) +
         ", ring to " + size_text(c.ring_bytes_max);
}

Status Rank::choose(node::Bootstrap& world) {
  State& s = *state_;
  p2p::Endpoint& e = *s.endpoint;
  tune::Profile profile = builtin_profile();
  const std::string folder = tune::cache_folder(s.config.calibration_folder);
  bool have = false;
  Offer offer{0};
  bool quick = false;
  if (!s.config.profile.empty()) {
    have = tune::named_profile(s.config.profile, &profile);
    s.profile_note = "thresholds named " + s.config.profile + " (ZEROHOP_PROFILE)";
  } else if (s.config.calibrate) {
    const Status loaded = tune::load_profile(folder, tune::this_machine(), &profile);
    have = loaded.ok() && tune::covers(profile, levels_of(node_));
    if (have) s.profile_note = "kept calibration of this machine";
    const bool unusable = !loaded.ok() && loaded.code() != Code::kWouldBlock;
    if (unusable) {
      s.profile_note = std::string("calibration file ignored: ") + loaded.what();
      if (node_.self() == 0) s.complaint = s.profile_note;
    }
    quick = have && tune::wants_look(profile, levels_of(node_));
    if ((!have || quick) && node_.self() == 0 && node_.size() > 1 && !s.oversubscribed) {
      offer.scratch = e.make_scratch(tune::calibration_bytes(quick));
    }
  } else {
    s.profile_note = "built-in choices (calibration is off)";
  }
  std::vector<Offer> offers(static_cast<size_t>(world.size()));
  if (Status status = world.allgather(&offer, sizeof offer, offers.data()); !status.ok()) return status;
  const Offset scratch = offers[static_cast<size_t>(node_.world_rank(0))].scratch;
  if (scratch != kNoOffset) {
    tune::CalibrationGroup group;
    group.self = node_.self();
    group.size = node_.size();
    group.pid = node_.pid(node_.self());
    group.cma = s.config.cma && node_.size() > 1 && node_.cma(node_.self() == 0 ? 1 : 0);
    group.quick = quick;
    group.folder = folder;
    group.scratch = node_.base() + scratch;
    group.levels = levels_of(node_);
    for (uint32_t i = 0; i < node_.size(); ++i) group.lines.push_back(node_.line_ns(i));
    tune::Profile measured;
    if (tune::prepare_profile(group, &measured, &s.profile_note)) {
      profile = measured;
      have = true;
    }
  }
  bool measured_somewhere = false;
  for (const Offer& o : offers) measured_somewhere = measured_somewhere || o.scratch != kNoOffset;
  if (measured_somewhere) {  // nobody touches a scratch any more when this has come back
    if (Status status = world.allgather(&offer, sizeof offer, offers.data()); !status.ok()) return status;
    if (offer.scratch != kNoOffset) e.drop_scratch(offer.scratch, tune::calibration_bytes(quick));
  }
  if (s.profile_note.empty()) s.profile_note = "built-in choices";
  for (uint32_t i = 0; i < node_.size(); ++i) {
    const node::Level level = node_.level(node_.self(), i);
    const auto at_level = [&](node::Level l) {
      tune::PairChoice c = tune::choose(static_cast<int>(l), have ? &profile : nullptr);
      if (s.oversubscribed) c = tune::on_shared_cpus(c, tune::is_far(static_cast<int>(l)));
      if (s.config.single_copy_min != 0) {
        c.single_copy_min = s.config.single_copy_min;
        c.eager_max = static_cast<uint32_t>(std::min<uint64_t>(tune::PairChoice{}.eager_max, c.single_copy_min - 1));
        if (c.inline_max > c.eager_max) c.inline_max = c.eager_max;
      }
      return c;
    };
    const bool far = tune::is_far(static_cast<int>(level));
    e.set_choices(i, at_level(far ? node::Level::kSameCore : level), at_level(far ? level : node::Level::kSharedL3),
                  far);
  }
  return kOk;
}

}  // namespace zh::engine
