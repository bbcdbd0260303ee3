#include "emulator.h"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <bitset>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <queue>
#include <unordered_map>
#include <utility>

#include "base/shm_types.h"
#include "checker.h"

namespace zh::emulation {

namespace {

constexpr uint32_t kMostRanks = 256;
constexpr size_t kStackBytes = 256 << 10;
constexpr double kHitNs = 1;
/// Loads that a core has under way at once.
constexpr double kLoadsAtOnce = 10;
/// A rank that waits looks again after so long even if nothing has changed.
constexpr double kRelaxNs = 1000;
constexpr double kMostNs = 2e7;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "emulation: %s\n", what);
  std::abort();
}

struct Line {
  std::bitset<kMostRanks> have;  ///< who has it; one alone may write it
  double free_ns = 0;            ///< until then it serves another request
  std::vector<uint32_t> waiters;
};

struct Fibre {
  ucontext_t start;
  jmp_buf resume;  // without the signal masks that contexts change: half of the time
  std::unique_ptr<char[]> stack;
  bool started = false;
  double ns = 0;
  double touched_ns = -1;                     ///< when the last touch() ended
  double asked_ns = 0;                        ///< when the last line that was asked for comes
  std::unordered_map<uintptr_t, double> due;  ///< lines asked for, and when they come
  double since_ns = 0;                        ///< when it began to wait
  double turn_ns = 0;  ///< when it goes on; of its places in the queue another time is an old one
  bool waits = false;
  bool ended = false;
  bool dead = false;
  std::vector<uintptr_t> noted;  ///< lines read since the last relax()
};

class Emulator {
 public:
  Emulator(const Machine& machine, uint32_t ranks, const std::function<void(uint32_t)>& body)
      : machine_(machine), body_(body), fibres_(ranks) {}

  double run() {
    for (uint32_t r = 0; r < fibres_.size(); ++r) {
      Fibre& f = fibres_[r];
      f.stack = std::make_unique<char[]>(kStackBytes);
      getcontext(&f.start);
      f.start.uc_stack.ss_sp = f.stack.get();
      f.start.uc_stack.ss_size = kStackBytes;
      makecontext(&f.start, &Emulator::enter, 0);
      queue_.emplace(0, r);
    }
    while (!queue_.empty()) {
      const auto [ns, turn] = queue_.top();
      queue_.pop();
      if (turn >= kMostRanks) {
        send_for(ns, turn);
      } else if (fibres_[turn].turn_ns == ns) {
        require(ns < kMostNs, "ranks wait for each other for ever");
        current_ = turn;
        fibre().turn_ns = -1;
        resume(fibre());
      }
    }
    double latest = 0;
    for (const Fibre& f : fibres_) {
      require(f.ended, "ranks wait for each other for ever");
      latest = std::max(latest, f.ns);
    }
    return latest;
  }

  /// The running rank goes on when it is the one whose clock is behind all others'.
  void settle() {
    go_on_at(current_, fibre().ns);
    leave();
  }
  void go_on_at(uint32_t rank, double ns) {
    fibres_[rank].ns = fibres_[rank].turn_ns = ns;
    queue_.emplace(ns, rank);
  }
  void leave() {
    if (_setjmp(fibre().resume) == 0) _longjmp(home_, 1);
  }

  void read(const void* p) {
    settle();
    Line& line = line_of(p);
    fibre().noted.push_back(key(p));
    if (line.have.test(current_)) {
      fibre().ns = std::max(fibre().ns + kHitNs, fibre().due[key(p)]);
    } else {
      await_turn(line);
      fibre().ns = fetch(line, 1);
    }
    settle();
  }
  void prefetch(const void* p) {
    settle();
    Line& line = line_of(p);
    fibre().noted.push_back(key(p));
    if (line.have.test(current_)) return;
    asked_.push_back({current_, key(p)});
    queue_.emplace(fibre().ns, kMostRanks + static_cast<uint32_t>(asked_.size()) - 1);
  }
  void touch(const void* p) {
    settle();
    Line& line = line_of(p);
    if (line.have.test(current_)) return;
    const bool follows = fibre().ns == fibre().touched_ns;
    fibre().touched_ns = fibre().ns = fetch(line, follows ? 1 / kLoadsAtOnce : 1);
  }
  void write(const void* p) {
    settle();
    Line& line = line_of(p);
    await_turn(line);
    const bool mine = line.have.test(current_) && line.have.count() == 1;
    fibre().ns += mine ? kHitNs : farthest(line);
    line.free_ns = fibre().ns;
    settle();
    line.have.reset();
    line.have.set(current_);
    wake(line);
  }
  /// The value of an atomic, as all see it; `initial` if nobody has written it.
  uint64_t& value(const void* p, uint64_t initial) { return values_.try_emplace(p, initial).first->second; }
  /// Between two looks: until a line that has been read since the last time is written, or for a while.
  void relax() {
    Fibre& f = fibre();
    bool stale = somebody_died_;
    for (const uintptr_t k : f.noted) stale = stale || !lines_[k].have.test(current_);
    for (const uintptr_t k : f.noted) lines_[k].waiters.push_back(current_);
    f.waits = !stale;
    f.since_ns = f.ns;
    f.noted.clear();
    go_on_at(current_, f.ns + (stale ? kHitNs : kRelaxNs));
    leave();
    f.waits = false;
  }
  void die() {
    fibre().dead = fibre().ended = somebody_died_ = true;
    for (uint32_t r = 0; r < fibres_.size(); ++r) {
      if (std::exchange(fibres_[r].waits, false)) go_on_at(r, fibre().ns);
    }
    leave();
  }
  [[nodiscard]] bool alive(uint32_t rank) const { return !fibres_[rank].dead; }
  void align() {
    aligned_.push_back(current_);
    if (aligned_.size() < fibres_.size()) return leave();
    double latest = 0;
    for (const Fibre& f : fibres_) latest = std::max(latest, f.ns);
    for (const uint32_t r : std::exchange(aligned_, {})) {
      go_on_at(r, latest);
    }
    leave();
  }

  [[nodiscard]] Fibre& fibre() { return fibres_[current_]; }
  [[nodiscard]] uint32_t current() const { return current_; }

 private:
  static void enter();
  void resume(Fibre& f) {
    if (_setjmp(home_) != 0) return;
    if (!std::exchange(f.started, true)) setcontext(&f.start);
    _longjmp(f.resume, 1);
  }
  static uintptr_t key(const void* p) { return reinterpret_cast<uintptr_t>(p) / kLineBytes; }
  Line& line_of(const void* p) { return lines_[key(p)]; }
  /// When the line is there; a load behind others costs but a `share` of the way.
  double fetch(Line& line, double share) {
    const double cost = nearest(line);
    const double begin = std::max(fibre().ns, line.free_ns);
    line.free_ns = begin + (line.have.count() == 1 ? cost : machine_.read_ns);
    line.have.set(current_);
    return begin + cost * share;
  }
  [[nodiscard]] double nearest(const Line& line) const {
    double least = line.have.none() ? 0 : machine_.far_ns;
    for (uint32_t r = 0; r < fibres_.size(); ++r) {
      if (line.have.test(r)) least = std::min(least, machine_.line_ns(current_, r));
    }
    return least;
  }
  /// A line that was asked for, as soon as nobody else is served.
  void send_for(double ns, uint32_t turn) {
    const auto [rank, line_key] = asked_[turn - kMostRanks];
    Line& line = lines_[line_key];
    current_ = rank;
    if (line.have.test(rank)) return;
    if (line.free_ns > ns) return queue_.emplace(line.free_ns, turn), void();
    Fibre& f = fibre();
    const double cost = nearest(line);
    f.asked_ns = std::max(f.asked_ns + cost / kLoadsAtOnce, ns + cost);
    f.due[line_key] = f.asked_ns;
    line.free_ns = ns + (line.have.count() == 1 ? cost : machine_.read_ns);
    line.have.set(rank);
  }
  void await_turn(const Line& line) {
    while (line.free_ns > fibre().ns) {
      fibre().ns = line.free_ns;
      settle();
    }
  }
  void wake(Line& line) {
    for (const uint32_t r : std::exchange(line.waiters, {})) {
      Fibre& f = fibres_[r];
      if (!std::exchange(f.waits, false)) continue;
      go_on_at(r, std::max(f.since_ns, fibre().ns));
    }
  }
  [[nodiscard]] double farthest(const Line& line) const {
    double most = kHitNs;
    for (uint32_t r = 0; r < fibres_.size(); ++r) {
      if (r != current_ && line.have.test(r)) most = std::max(most, machine_.line_ns(current_, r));
    }
    return most;
  }

  const Machine& machine_;
  const std::function<void(uint32_t)>& body_;
  std::vector<Fibre> fibres_;
  jmp_buf home_;
  uint32_t current_ = 0;
  bool somebody_died_ = false;
  std::vector<uint32_t> aligned_;
  std::vector<std::pair<uint32_t, uintptr_t>> asked_;  ///< by prefetch(): who, and which line
  std::unordered_map<uintptr_t, Line> lines_;
  std::unordered_map<const void*, uint64_t> values_;
  using Turn = std::pair<double, uint32_t>;
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> queue_;
};

Emulator* g_emulator = nullptr;

void Emulator::enter() {
  Emulator& e = *g_emulator;
  const uint32_t me = e.current_;
  e.body_(me);
  e.fibres_[me].ended = true;
  e.leave();
}

}  // namespace

double run(const Machine& machine, uint32_t ranks, const std::function<void(uint32_t)>& body) {
  Emulator emulator(machine, ranks, body);
  g_emulator = &emulator;
  const double ns = emulator.run();
  g_emulator = nullptr;
  return ns;
}

uint32_t self() { return g_emulator->current(); }
double now_ns() { return g_emulator->fibre().ns; }
void wait(const std::function<bool()>& ready) {
  while (!ready()) g_emulator->relax();
}
void align() { g_emulator->align(); }
void die() {
  g_emulator->die();
  std::abort();  // nobody comes back here
}
bool alive(uint32_t rank) { return g_emulator == nullptr || g_emulator->alive(rank); }
void spend(double ns) {
  g_emulator->fibre().ns += ns;
  g_emulator->settle();
}
void touch(const void* p, uint64_t bytes) {
  const auto first = reinterpret_cast<uintptr_t>(p) / kLineBytes;
  const auto last = (reinterpret_cast<uintptr_t>(p) + bytes - 1) / kLineBytes;
  for (uintptr_t line = first; line <= last; ++line)
    g_emulator->touch(reinterpret_cast<const void*>(line * kLineBytes));
}

}  // namespace zh::emulation

// Below the instrumented zh::Atomic. Outside run() there is one thread, and nothing costs anything.
namespace zh::mc {

using emulation::g_emulator;

uint64_t load(const void* where, uint64_t initial, Order, const Site&) {
  if (g_emulator == nullptr) return initial;
  g_emulator->read(where);
  return g_emulator->value(where, initial);
}
void store(void* where, uint64_t initial, uint64_t value, Order, const Site&) {
  if (g_emulator == nullptr) return;
  g_emulator->write(where);
  g_emulator->value(where, initial) = value;
}
uint64_t update_begin(void* where, uint64_t initial, Order, const Site&) {
  if (g_emulator == nullptr) return initial;
  g_emulator->write(where);
  return g_emulator->value(where, initial);
}
void update_end(void* where, uint64_t value, Order, const Site&) {
  if (g_emulator != nullptr) g_emulator->value(where, value) = value;
}
bool compare(void* where, uint64_t initial, uint64_t* expected, Order success, Order, const Site& site) {
  const uint64_t found = update_begin(where, initial, success, site);
  return found == *expected || (*expected = found, false);
}
void fence(const Site&) {}
void relax() {
  if (g_emulator != nullptr) g_emulator->relax();
}
void prefetch(const void* where) {
  if (g_emulator != nullptr) g_emulator->prefetch(where);
}

}  // namespace zh::mc
