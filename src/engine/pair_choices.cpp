// Which ways this rank takes towards each peer: from the machine's kept calibration, measured now if there is none,
// else built in; then as the user says. Only one-sided choices (a message's header names its way), so ranks need not
// agree.
#include <algorithm>
#include <cstdio>
#include <new>

#include "base/invariant.h"
#include "engine/state.h"
#include "tune/calibrate.h"
#include "tune/kept_shm.h"
#include "tune/profile.h"

namespace zh::engine {

using tune::size_text;

namespace {

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

}  // namespace

std::string Rank::choice_text(uint32_t peer) const {
  const tune::PairChoice& c = state_->endpoint->choice(peer);
  const copy::PeerMemory& memory = state_->endpoint->memory();
  char line[32];
  std::snprintf(line, sizeof line, "%.0f ns", static_cast<double>(node_.line_ns(peer)));
  return "to rank " + std::to_string(node_.world_rank(peer)) + " (" + node::to_string(node_.level(node_.self(), peer)) +
         ", a line " + line + "): inline to " + size_text(c.inline_max) + ", eager to " + size_text(c.eager_max) +
         ", one copy from " +
         (memory.kernel(peer)
              ? size_text(c.single_copy_min) + (memory.by_module(peer) ? " by the kernel module" : "") + " by the " +
                    (c.sender_copies ? "sender" : "receiver") + ", by both ends from " + size_text(c.both_ends_min)
              : std::string("never (no CMA)")) +
         ", mapped from " + size_text(c.mapped.least) + ", non-temporal from " + size_text(c.nontemporal_min) +
         ", ring to " + size_text(c.ring_bytes_max);
}

/// The steps of choose(). The node's first rank reads what is kept, and tells the others.
class Rank::Chooser {
 public:
  explicit Chooser(Rank& rank) : s_(*rank.state_), node_(rank.node_) {}

  /// As named, or kept by an earlier job; what has to be measured, if anything.
  void look_up() {
    if (!s_.config.profile.empty()) {
      have_ = tune::named_profile(s_.config.profile, &profile_);
      s_.profile_note = "thresholds named " + s_.config.profile + " (ZEROHOP_PROFILE)";
    } else if (!s_.config.calibrate) {
      s_.profile_note = "built-in choices (calibration is off)";
    } else if (is_first()) {
      look_up_kept();
    }
  }

  /// The node's first rank tells the others; all ranks meet before hear().
  void tell() {
    if (is_first()) told_ = make_told();
    node_.leave_word(told_);
  }

  /// Measures with the other ranks of the node, where its first one has made room to; all ranks meet before forget().
  void hear() {
    if (const Offset told = node_.word_of(0); told != kNoOffset && !is_first()) {
      const auto& kept = *at<const tune::KeptShm>(node_.base(), told);
      quick_ = kept.quick != 0;
      scratch_ = kept.scratch;
      if (as_calibrated()) {
        have_ = kept.have != 0;
        profile_ = kept.profile;
        s_.profile_note = kept.note;
      }
    }
    if (scratch_ != kNoOffset) measure();
    if (s_.profile_note.empty()) s_.profile_note = "built-in choices";
  }

  /// In the reverse order, so that the arena ends where it did.
  void forget() {
    if (told_ == kNoOffset) return;
    if (scratch_ != kNoOffset) s_.endpoint->drop_scratch(scratch_, tune::calibration_bytes(quick_));
    s_.endpoint->drop_scratch(told_, sizeof(tune::KeptShm));
  }

  [[nodiscard]] tune::PairChoice at_level(node::Level level) const {
    tune::PairChoice c = tune::choose(static_cast<int>(level), have_ ? &profile_ : nullptr);
    if (s_.oversubscribed) c = tune::on_shared_cpus(c, tune::is_far(static_cast<int>(level)));
    if (s_.config.single_copy_min != 0) {
      c.single_copy_min = c.single_copy_min_cold = c.mapped.least = s_.config.single_copy_min;
      c.eager_max = static_cast<uint32_t>(std::min<uint64_t>(tune::PairChoice{}.eager_max, c.single_copy_min - 1));
      if (c.inline_max > c.eager_max) c.inline_max = c.eager_max;
      c.eager_max_cold = c.eager_max;
    }
    return c;
  }

 private:
  /// Of a node on which anybody asks.
  [[nodiscard]] bool is_first() const { return node_.self() == 0 && node_.size() > 1; }
  [[nodiscard]] bool as_calibrated() const { return s_.config.profile.empty() && s_.config.calibrate; }

  /// Where what was looked up lies from now on, with room for a measurement if one is wanted; 0 without memory.
  Offset make_told() {
    const Offset told = s_.endpoint->make_scratch(sizeof(tune::KeptShm));
    if (told == kNoOffset) return told;
    if (wanted_ && !s_.oversubscribed) scratch_ = s_.endpoint->make_scratch(tune::calibration_bytes(quick_));
    auto* kept = new (node_.base() + told) tune::KeptShm{};
    kept->scratch = scratch_;
    kept->have = have_ ? 1 : 0;
    kept->quick = quick_ ? 1 : 0;
    std::snprintf(kept->note, sizeof kept->note, "%s", s_.profile_note.c_str());
    kept->profile = profile_;
    ZH_CHECK_INVARIANT(kept->broken_invariant());
    return told;
  }

  void look_up_kept() {
    const Status loaded = tune::load_profile(folders(), tune::this_machine(), &profile_);
    have_ = loaded.ok() && tune::covers(profile_, levels_of(node_));
    if (have_) s_.profile_note = "kept calibration of this machine";
    if (!loaded.ok() && loaded.code() != Code::kWouldBlock) {
      s_.profile_note = std::string("calibration file ignored: ") + loaded.what();
      s_.complaint = s_.profile_note;
    }
    quick_ = have_ && tune::wants_look(profile_, levels_of(node_));
    wanted_ = !have_ || quick_;
  }

  void measure() {
    tune::CalibrationGroup group;
    group.self = node_.self();
    group.size = node_.size();
    group.pid = node_.pid(node_.self());
    group.cma = s_.config.cma && node_.size() > 1 && node_.cma(node_.self() == 0 ? 1 : 0);
    group.quick = quick_;
    group.bounds = node_.line_bounds();
    group.folders = folders();
    group.scratch = node_.base() + scratch_;
    group.levels = levels_of(node_);
    for (uint32_t i = 0; i < node_.size(); ++i) group.lines.push_back(node_.line_ns(i));
    tune::Profile measured;
    if (tune::prepare_profile(group, &measured, &s_.profile_note)) {
      profile_ = measured;
      have_ = true;
    }
  }

  [[nodiscard]] tune::KeptFolders folders() const {
    return tune::kept_folders(s_.config.calibration_folder, s_.config.site_folder);
  }

  State& s_;
  node::Node& node_;
  Offset told_ = kNoOffset;     ///< of the first rank
  Offset scratch_ = kNoOffset;  ///< for measuring, on all ranks
  tune::Profile profile_ = builtin_profile();
  bool have_ = false;    ///< else thresholds are the built-in ones
  bool wanted_ = false;  ///< a measurement
  bool quick_ = false;   ///< only whether what is kept still holds
};

/// Nobody may send before every receiver's queues stand, which is so when all ranks have met.
Status Rank::choose(node::Bootstrap& world, const Status& opened) {
  Chooser chooser(*this);
  if (opened.ok()) {
    chooser.look_up();
    chooser.tell();
  }
  if (Status status = node_.agree(world, opened); !status.ok()) return status;
  chooser.hear();
  if (Status status = node_.agree(world, kOk); !status.ok()) return status;
  chooser.forget();
  for (uint32_t i = 0; i < node_.size(); ++i) {
    const node::Level level = node_.level(node_.self(), i);
    const bool far = tune::is_far(static_cast<int>(level));
    state_->endpoint->set_choices(i, chooser.at_level(far ? node::Level::kSameCore : level),
                                  chooser.at_level(far ? level : node::Level::kSharedL3), far);
  }
  return kOk;
}

}  // namespace zh::engine
