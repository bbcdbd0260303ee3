// The calibration: which shots are taken, in which order ranks take them, and how all ranks learn the result.
#include "tune/calibrate.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/atomic.h"
#include "base/invariant.h"
#include "base/shm_types.h"
#include "os/clock.h"
#include "os/futex.h"
#include "tune/calibration_shm.h"
#include "tune/choice.h"
#include "tune/plausible.h"

namespace zh::tune {
namespace {

constexpr ScratchLimits kScratch{.ring_bytes = 2 << 20, .message_bytes = 1 << 20};
constexpr ScratchLimits kQuickScratch{.ring_bytes = 64 << 10, .message_bytes = Look::kBytes};
constexpr uint64_t kTurnPatienceNs = 10'000'000'000;

struct Size {
  uint64_t bytes;
  uint32_t trips;
};
constexpr PairChoice kUsualChoice;
constexpr Size kSizes[] = {{1 << 10, 50}, {4 << 10, 50}, {16 << 10, 30}, {64 << 10, 20}, {256 << 10, 12}, {1 << 20, 8}};
constexpr uint32_t kRings[] = {2 << 20, 512 << 10, 64 << 10};

constexpr uint64_t head_bytes() { return round_up(sizeof(CalibrationShm), kPage); }

/// Sleeps until `word` is no longer `value`; false after kPatienceNs.
bool wait_change(const Atomic<uint32_t>& word, uint32_t value) {
  const uint64_t until = os::now_ns() + kTurnPatienceNs;
  for (;;) {
    if (word.load_acquire() != value) return true;  // TP1 <- TP0: the fields behind the phase or turn
    const uint64_t now = os::now_ns();
    if (now >= until) return false;
    os::futex_wait(word, value, until - now);
  }
}

void set(Atomic<uint32_t>& word, uint32_t value) {
  word.store_release(value);  // TP0 -> TP1: the fields behind the phase or turn
  os::futex_wake(word, os::kWakeAll);
}
void set(Atomic<uint32_t>& word, Phase phase) { set(word, static_cast<uint32_t>(phase)); }

/// One pair of ranks for each level at which `wanted(level)`.
template <typename Wanted>
void plan(const CalibrationGroup& group, CalibrationShm* shm, Wanted&& wanted) {
  for (uint32_t i = 0; i < group.size; ++i) {
    for (uint32_t j = i + 1; j < group.size; ++j) {
      const int32_t level = group.levels[i * group.size + j];
      bool known = shm->n_pairs == kMaxPairs || !wanted(level);
      for (uint32_t k = 0; k < shm->n_pairs; ++k) known = known || shm->pairs[k].level == level;
      if (!known) shm->pairs[shm->n_pairs++] = {i, j, level};
    }
  }
}

/// As the protocols do it: an eager block in small steps, a larger message in cells; 0: see Shot.
uint32_t chunk_for(Way way, uint64_t bytes) {
  if (way == Way::kCells) return bytes <= kUsualChoice.eager_max ? kUsualChoice.chunk_piped : kUsualChoice.chunk_cells;
  return way == Way::kMappedBoth ? static_cast<uint32_t>(mapped_chunk(bytes, kUsualChoice)) : 0;
}

/// What this job has measured beside what earlier ones did at the same distances.
void join_earlier(const Profile& earlier, Profile* profile) {
  for (uint32_t i = 0; i < profile->n_classes; ++i) {
    DistanceClass& c = profile->classes[i];
    c.attempts = 1;
    c.jobs = c.cells.empty() || c.cells_nt.empty() ? 0 : 1;
    c.measured_at = os::seconds_since_1970();
    c.looked_at = c.measured_at;
    for (uint32_t k = 0; k < earlier.n_classes; ++k) {
      if (earlier.classes[k].level == c.level) c = joined(earlier.classes[k], c);
    }
  }
}

/// Classes of an earlier job at distances that this one does not have.
void keep_others(const Profile& earlier, Profile* profile) {
  for (uint32_t i = 0; i < earlier.n_classes && profile->n_classes < Profile::kMaxClasses; ++i) {
    bool measured = false;
    for (uint32_t k = 0; k < profile->n_classes; ++k) {
      measured = measured || profile->classes[k].level == earlier.classes[i].level;
    }
    if (!measured) profile->classes[profile->n_classes++] = earlier.classes[i];
  }
}

/// Rank 0 between two turns: nobody is in the scratch. `ended` counts both sides of each pair.
bool wait_pair(CalibrationShm* shm, uint32_t ended_before) {
  for (uint32_t seen = ended_before; seen != ended_before + 2; seen = shm->ended.load_acquire()) {  // TE1 <- TE0
    if (!wait_change(shm->ended, seen)) return false;
  }
  return true;
}

/// Whether a virtual machine has put two ranks nearer together, or further apart, between two measurements of a line.
bool moved(float before_ns, float after_ns) {
  constexpr float kMoved = 2;
  return std::max(before_ns, after_ns) > kMoved * std::min(before_ns, after_ns);
}

DistanceClass unknown(int level) {
  DistanceClass out;
  out.level = level;
  out.line_ns = 1;
  out.ring_bytes = kRings[0];
  return out;
}

/// A shot is taken again while something else ran in between; both sides see the same timings, so they agree. Of a
/// point that never had both processors to itself nothing is known.
Timing steady(MeasuringPair& pair, const Shot& shot) {
  constexpr int kAttempts = 6;
  Timing steadiest;
  for (int i = 0; i < kAttempts && (i == 0 || steadiest.disturbed || steadiest.spread > kMaxSpread / 2); ++i) {
    const Timing t = pair.measure(shot);
    if (!t.ok) return t;
    const bool better = t.disturbed == steadiest.disturbed ? t.spread < steadiest.spread : !t.disturbed;
    if (i == 0 || better) steadiest = t;
  }
  steadiest.ok = !steadiest.disturbed;
  return steadiest;
}

Look take_look(MeasuringPair& pair) {
  Look look{.line_ns = pair.line_ns()};
  const auto time_of = [&pair](Way way) {
    const Timing t =
        steady(pair, {.way = way, .bytes = Look::kBytes, .chunk_bytes = chunk_for(way, Look::kBytes), .trips = 20});
    return t.ok && t.spread <= kMaxSpread ? t.us : 0;
  };
  look.mapped_both_us = time_of(Way::kMappedBoth);
  look.cma_write_us = time_of(Way::kCmaWrite);
  return look;
}

DistanceClass* class_at(Profile* profile, int level) {
  for (uint32_t i = 0; i < profile->n_classes; ++i) {
    if (profile->classes[i].level == level) return &profile->classes[i];
  }
  return nullptr;
}

/// Rank 0: what this job is to do, with the pairs that do it.
Phase begin(const CalibrationGroup& group, const MachineId& machine, CalibrationShm* shm, Profile* earlier,
            std::string* note) {
  const Status loaded = load_profile(group.folders, machine, earlier);
  if (loaded.ok() && covers(*earlier, group.levels)) {
    std::memcpy(&shm->profile, earlier, sizeof *earlier);
    *note = "kept profile " + profile_path(group.folders, machine);
    if (!group.quick) return Phase::kReady;
    const int64_t now = os::seconds_since_1970();
    plan(group, shm, [&](int level) {
      const DistanceClass* c = class_at(earlier, level);
      return c != nullptr && wants_look(*c, now);
    });
    return shm->n_pairs > 0 ? Phase::kLook : Phase::kReady;
  }
  if (!loaded.ok() && loaded.code() != Code::kWouldBlock) *note = std::string(loaded.what()) + "; ";
  if (group.may_measure && group.size > 1 && !group.quick) plan(group, shm, [](int) { return true; });
  if (shm->n_pairs == 0) *note += "nothing can be measured here, built-in choices";
  return shm->n_pairs > 0 ? Phase::kMeasure : Phase::kNone;
}

/// Each pair in its turn, while the others sleep. False if a rank did not come.
bool take_turns(const CalibrationGroup& group, CalibrationShm* shm, Phase phase) {
  const ScratchLimits& limits = phase == Phase::kLook ? kQuickScratch : kScratch;
  std::byte* const scratch = group.scratch + head_bytes();
  const uint32_t n_pairs = shm->n_pairs;
  for (uint32_t turn = 0; turn < n_pairs; ++turn) {
    const auto& p = shm->pairs[turn];
    if (group.self == p.first || group.self == p.second) {
      MeasuringPair pair(scratch, limits, group.self == p.first ? 0 : 1, group.pid, group.cma);
      const bool met = pair.meet();
      if (phase == Phase::kLook) {
        const Look look = met ? take_look(pair) : Look{};
        DistanceClass* c = class_at(&shm->profile, p.level);
        if (group.self == p.first && c != nullptr) note_look(c, judge(*c, look), os::seconds_since_1970());
      } else {
        const float line = group.self == p.first && p.second < group.lines.size() ? group.lines[p.second] : 0;
        const DistanceClass c = met ? measure_class(pair, p.level, line, group.bounds) : unknown(p.level);
        if (group.self == p.first) shm->profile.classes[turn] = c;
      }
      shm->ended.fetch_add_acq_rel(1);  // TE0 -> TE1: the class, and nothing more in the scratch
      os::futex_wake(shm->ended, os::kWakeAll);
    }
    if (group.self == 0) {
      if (!wait_pair(shm, 2 * turn)) return false;
      if (turn + 1 < n_pairs) std::memset(scratch, 0, MeasuringPair::control_bytes());
      set(shm->turn, turn + 1);
      ZH_CHECK_INVARIANT(shm->broken_invariant());
    } else if (!wait_change(shm->turn, turn)) {
      return false;
    }
  }
  return true;
}

/// Rank 0, after all turns: what is known now, in words as well.
void conclude(CalibrationShm* shm, Phase phase, const Profile& earlier, std::string* note) {
  if (phase == Phase::kLook) {
    for (uint32_t i = 0; i < shm->n_pairs; ++i) {
      const int level = shm->pairs[i].level;
      const DistanceClass* c = class_at(&shm->profile, level);
      if (c == nullptr || (in_force(*c) && c->doubts == 0)) continue;
      *note += std::string("; contradicted at ") + node::to_string(static_cast<node::Level>(level)) +
               (in_force(*c) ? ", once" : ": built-in choices until two jobs find the same");
    }
    return;
  }
  shm->profile.n_classes = shm->n_pairs;
  join_earlier(earlier, &shm->profile);
  const bool counts =
      std::all_of(shm->profile.classes, shm->profile.classes + shm->n_pairs, [](const auto& c) { return in_force(c); });
  keep_others(earlier, &shm->profile);
  *note += counts ? "measured now, as an earlier job did" : "measured now; built-in choices until a job finds the same";
}

}  // namespace

bool wants_look(const Profile& profile, const std::vector<uint8_t>& levels) {
  const int64_t now = os::seconds_since_1970();
  return std::any_of(profile.classes, profile.classes + profile.n_classes, [&](const DistanceClass& c) {
    return wants_look(c, now) && std::find(levels.begin(), levels.end(), c.level) != levels.end();
  });
}

bool covers(const Profile& profile, const std::vector<uint8_t>& levels) {
  return std::all_of(levels.begin(), levels.end(), [&](uint8_t level) {
    return level == static_cast<uint8_t>(node::Level::kSelf) || covers(profile, static_cast<int>(level));
  });
}

DistanceClass measure_class(MeasuringPair& pair, int level, float line_ns, const node::LineBounds& bounds) {
  DistanceClass out = unknown(level);
  const float line_before = pair.line_ns();
  if (line_before <= 0) return out;
  out.line_ns = line_before;
  const auto point = [&pair](const Shot& shot) { return steady(pair, shot); };
  // The ring: a small one stays in a shared cache, a large one leaves a separate cache alone; which is better differs
  // between processors, so try.
  float best = 0;
  for (const uint32_t ring : kRings) {
    const Timing t = point({.way = Way::kCells,
                            .bytes = 64 << 10,
                            .ring_bytes = ring,
                            .chunk_bytes = chunk_for(Way::kCells, 64 << 10),
                            .trips = 64});
    if (!t.ok) return out;
    if (best <= 0 || t.us < 0.9F * best) {
      best = t.us;
      out.ring_bytes = ring;
    }
  }
  const auto curve = [&](Shot shot, uint64_t from) {
    Curve c;
    for (const Size& size : kSizes) {
      if (size.bytes < from) continue;
      shot.bytes = size.bytes;
      shot.trips = size.trips;
      shot.chunk_bytes = chunk_for(shot.way, size.bytes);
      const Timing t = point(shot);
      if (!t.ok) return Curve{};
      c.add(size.bytes, t.us, t.spread);
    }
    return c;
  };
  out.cells = curve({.way = Way::kCells, .ring_bytes = out.ring_bytes}, 0);
  out.cells_nt = curve({.way = Way::kCells, .store = copy::Store::kNonTemporal, .ring_bytes = out.ring_bytes}, 0);
  out.cma_read = curve({.way = Way::kCmaRead}, 4 << 10);
  out.cma_write = curve({.way = Way::kCmaWrite}, 4 << 10);
  if (!out.cma_read.empty()) out.cma_both = curve({.way = Way::kCmaBoth}, 16 << 10);
  out.mapped_one = curve({.way = Way::kMappedRead}, 0);
  out.mapped_both = curve({.way = Way::kMappedBoth}, 4 << 10);
  out.line_ns = std::max(pair.line_ns(), 1.0F);
  // A way that cannot be measured well is not judged: the built-in choice stays.
  (void)drop_impossible(&out, bounds);
  // The ranks moved between near and far meanwhile: the curves are of no one distance.
  if (moved(line_before, out.line_ns) || (line_ns > 0 && moved(line_ns, out.line_ns))) out.cells = Curve{};
  return out;
}

uint64_t calibration_bytes(bool quick) {
  return head_bytes() + MeasuringPair::scratch_bytes(quick ? kQuickScratch : kScratch);
}

bool prepare_profile(const CalibrationGroup& group, Profile* profile, std::string* note) {
  auto* shm = reinterpret_cast<CalibrationShm*>(group.scratch);
  MachineId machine;
  Profile earlier;
  note->clear();
  if (group.self == 0) {
    machine = this_machine();
    set(shm->phase, begin(group, machine, shm, &earlier, note));
  }
  bool all_came = wait_change(shm->phase, static_cast<uint32_t>(Phase::kBegin));
  const auto phase = static_cast<Phase>(shm->phase.load_acquire());  // TP1 <- TP0
  if (all_came && (phase == Phase::kMeasure || phase == Phase::kLook)) {
    all_came = take_turns(group, shm, phase);
    if (group.self == 0) {
      if (all_came) {
        conclude(shm, phase, earlier, note);
        if (const Status saved = save_profile(group.folders.own, machine, shm->profile); !saved.ok()) {
          *note += std::string(", not kept: ") + saved.what();
        }
      } else {
        *note += "not used: a rank did not come; built-in choices";
      }
      set(shm->phase, all_came ? Phase::kReady : Phase::kNone);
    } else {
      all_came = wait_change(shm->phase, static_cast<uint32_t>(phase));
    }
  }
  if (!all_came || shm->phase.load_acquire() != static_cast<uint32_t>(Phase::kReady)) {  // TP1 <- TP0
    if (note->empty()) *note = "built-in choices (see rank 0)";
    return false;
  }
  std::memcpy(profile, &shm->profile, sizeof *profile);
  if (note->empty()) *note = "profile of rank 0";
  return true;
}

}  // namespace zh::tune
