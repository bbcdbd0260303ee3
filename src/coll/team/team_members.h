// What a team of started collectives has to do with its members as processes: whether they live, and who sleeps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "coll/team/services.h"
#include "os/clock.h"

namespace zh::coll {

class TeamMembers {
 public:
  /// `ranks`: node-local indices in the order of members; `self`: this rank's place.
  TeamMembers(Services& services, std::vector<uint32_t> ranks, uint32_t self)
      : services_(services), ranks_(std::move(ranks)), self_(self) {}

  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(ranks_.size()); }
  [[nodiscard]] const std::vector<uint32_t>& ranks() const { return ranks_; }
  /// Whether a member has died, as far as was seen. Looks now and then.
  bool look_for_deaths() {
    if (dead_ || ++looks_ % kLooksPerClock != 0 || !death_checks_.over(kDeathCheckEveryUs)) return dead_;
    dead_ = std::any_of(ranks_.begin(), ranks_.end(), [this](uint32_t rank) { return !services_.alive(rank); });
    return dead_;
  }
  /// Members that sleep look at their flags again.
  void wake_sleepers() {
    const Atomic<uint32_t>* const sleepers = services_.sleepers();
    if (sleepers == nullptr || sleepers->load_relaxed() == 0) return;
    for (uint32_t i = 0; i < size(); ++i) {
      if (i != self_) services_.wake(ranks_[i]);
    }
  }

 private:
  static constexpr uint32_t kLooksPerClock = 16;
  static constexpr double kDeathCheckEveryUs = 5000;

  Services& services_;
  std::vector<uint32_t> ranks_;
  uint32_t self_;
  uint32_t looks_ = 0;
  os::Interval death_checks_;
  bool dead_ = false;
};

}  // namespace zh::coll
