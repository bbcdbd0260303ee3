// See check_rank.h.
#include "coll/analysis/check_rank.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "coll/schedule/interval_map.h"

namespace zh::coll {
namespace {

std::string place_name(Place place) {
  return place == Place::kInput ? "input" : place == Place::kOutput ? "output" : "scratch";
}

class Waits {
 public:
  explicit Waits(const Schedule& schedule) : schedule_(schedule) {
    const size_t n = schedule.steps.size();
    if (n > kMostRows) {
      seen_.resize(n, kNoStep);
      return;
    }
    words_ = (n + 63) / 64;
    bits_.resize(n * words_, 0);
    for (size_t i = 0; i < n; ++i) {
      for (const uint32_t wait : schedule.waits_of(schedule.steps[i])) {
        for (size_t w = 0; w < words_; ++w) bits_[i * words_ + w] |= bits_[wait * words_ + w];
        bits_[i * words_ + wait / 64] |= uint64_t{1} << wait % 64;
      }
    }
  }
  /// Whether `later` starts only after `earlier` is complete.
  [[nodiscard]] bool ordered(uint32_t earlier, uint32_t later) {
    return bits_.empty() ? search(earlier, later) : (bits_[later * words_ + earlier / 64] >> earlier % 64 & 1) != 0;
  }

 private:
  static constexpr size_t kMostRows = 8192;  ///< a bit for each pair of steps: 8 MiB

  /// Goes back from `later`. Most steps name what they wait for themselves, so it is seldom far.
  bool search(uint32_t earlier, uint32_t later) {
    ++searches_;
    open_.assign(1, later);
    while (!open_.empty()) {
      const Step& step = schedule_.steps[open_.back()];
      open_.pop_back();
      for (const uint32_t wait : schedule_.waits_of(step)) {
        if (wait == earlier) return true;
        if (wait < earlier || seen_[wait] == searches_) continue;
        seen_[wait] = searches_;
        open_.push_back(wait);
      }
    }
    return false;
  }

  const Schedule& schedule_;
  size_t words_ = 0;
  std::vector<uint64_t> bits_;  ///< by step: all that it waits for
  std::vector<uint32_t> seen_;  ///< by step: the last search that came by
  std::vector<uint32_t> open_;
  uint32_t searches_ = 0;
};

std::string check_bounds(const Problem& problem, const Schedule& schedule, uint32_t rank) {
  const uint64_t sizes[] = {problem.input_bytes(), problem.output_bytes(), schedule.scratch_bytes};
  for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (uint64_t{step.first_wait} + step.n_waits > schedule.waits.size()) return step_name(rank, i) + "no such waits";
    if (uint64_t{step.first_part} + step.n_parts > schedule.parts.size()) return step_name(rank, i) + "no such parts";
    for (const uint32_t wait : schedule.waits_of(step)) {
      if (wait >= i) return step_name(rank, i) + "waits for itself or a later step";
    }
    const auto outside = [&](Place place, uint64_t at, uint64_t bytes) {
      const uint64_t size = sizes[static_cast<size_t>(place)];
      return bytes != 0 && (at > size || bytes > size - at);
    };
    if (step.reads() && outside(step.from, step.from_at, schedule.read(step))) {
      return step_name(rank, i) + "reads outside of the " + place_name(step.from);
    }
    const uint64_t written = step.writes() ? schedule.written(step) : 0;
    if (outside(step.to, step.to_at, written)) {
      return step_name(rank, i) + "writes outside of the " + place_name(step.to);
    }
    if (written != 0 && step.to == Place::kInput) return step_name(rank, i) + "writes the input";
  }
  return "";
}

std::string check_races(const Schedule& schedule, Waits& waits, uint32_t rank) {
  struct Users {
    uint32_t writer = kNoStep;
    std::vector<uint32_t> readers;
  };
  IntervalMap<Users> users[2] = {IntervalMap<Users>(Users{}), IntervalMap<Users>(Users{})};
  std::string fault;
  const auto touch = [&](uint32_t self, Place place, uint64_t at, uint64_t bytes, bool writes) {
    if (place == Place::kInput) return;  // nobody writes it
    users[place == Place::kScratch ? 1 : 0].visit(at, bytes, [&](uint64_t, uint64_t, Users& last) {
      const auto race = [&](uint32_t other) {
        if (other == kNoStep || other == self || waits.ordered(other, self)) return;
        fault = step_name(rank, self) + "touches the same " + place_name(place) + " as step " + std::to_string(other) +
                " without waiting for it";
      };
      race(last.writer);
      if (!writes) {
        last.readers.push_back(self);
        return;
      }
      for (const uint32_t reader : last.readers) race(reader);
      last.readers.clear();
      last.writer = self;
    });
  };
  for (uint32_t i = 0; i < schedule.steps.size() && fault.empty(); ++i) {
    const Step& step = schedule.steps[i];
    if (step.reads()) touch(i, step.from, step.from_at, schedule.read(step), false);
    if (step.writes()) touch(i, step.to, step.to_at, schedule.written(step), true);
  }
  return fault;
}

/// Of messages of one pair and tag the order of starting decides which is which, so there must be one.
std::string check_tags(const Schedule& schedule, Waits& waits, uint32_t rank) {
  std::vector<std::pair<uint64_t, uint32_t>> seen;
  for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    const uint64_t sends = step.kind == StepKind::kSend ? 1 : 0;
    if (step.message()) seen.emplace_back((uint64_t{step.peer} << 32 | step.tag) * 2 + sends, i);
  }
  std::sort(seen.begin(), seen.end());
  for (size_t k = 1; k < seen.size(); ++k) {
    const auto [tag, earlier] = seen[k - 1];
    if (tag != seen[k].first || waits.ordered(earlier, seen[k].second)) continue;
    return step_name(rank, seen[k].second) + "does not wait for step " + std::to_string(earlier) + " of the same tag";
  }
  return "";
}

/// A rank takes its shared steps, of its node and of leaders, in the order in which they may begin, so there must be
/// one.
std::string check_shared_order(const Schedule& schedule, Waits& waits, uint32_t rank) {
  uint32_t before = kNoStep;
  for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (!step.shared()) continue;
    if (before != kNoStep && !waits.ordered(before, i)) {
      return step_name(rank, i) + "does not wait for the shared step " + std::to_string(before);
    }
    before = i;
  }
  return "";
}

}  // namespace

std::string step_name(size_t rank, size_t step) {
  return "rank " + std::to_string(rank) + ", step " + std::to_string(step) + ": ";
}

std::string check_rank(const Problem& problem, const Schedule& schedule, uint32_t rank) {
  std::string fault = check_bounds(problem, schedule, rank);
  if (!fault.empty()) return fault;
  Waits waits(schedule);
  fault = check_races(schedule, waits, rank);
  if (fault.empty()) fault = check_tags(schedule, waits, rank);
  return fault.empty() ? check_shared_order(schedule, waits, rank) : fault;
}

}  // namespace zh::coll
