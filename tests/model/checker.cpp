// The explorer: fibres, the weak memory, and the search over choices. See checker.h.
#include "checker.h"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

namespace zh::mc {

namespace {

constexpr uint32_t kMaxThreads = 5;  // clock entry 0 is the setup, thread t is entry t + 1
constexpr uint32_t kClocks = kMaxThreads + 1;
constexpr uint32_t kNever = ~0U;
constexpr uint64_t kStepsMax = 20000;
constexpr size_t kStackBytes = 256 << 10;

using Clock = std::array<uint32_t, kClocks>;

void join(Clock& a, const Clock& b) {
  for (uint32_t i = 0; i < kClocks; ++i) a[i] = std::max(a[i], b[i]);
}

bool has_acquire(Order o) { return o == Order::kAcquire || o == Order::kAcqRel || o == Order::kSeqCst; }
bool has_release(Order o) { return o == Order::kRelease || o == Order::kAcqRel || o == Order::kSeqCst; }

struct Store {
  uint64_t value;
  Clock sync;                          ///< what an acquiring load of it learns
  std::array<uint32_t, kClocks> seen;  ///< when each thread first saw it, kNever if not yet
};

struct Access {
  uint32_t thread;
  uint32_t transition;
  bool writes;
};

struct Location {
  const void* address = nullptr;
  std::vector<Store> stores;
  std::vector<Access> accesses;
  Clock writes_cv{};  ///< dependence clocks of the search
  Clock all_cv{};
};

struct Plain {
  uint32_t writer = 0;
  uint32_t written = 0;
  std::array<uint32_t, kClocks> read{};
};

/// What a thread will do next.
struct Pending {
  const void* address = nullptr;  ///< null: not announced; &fence_location_ for fences
  bool writes = false;
  Site site{"", 0, ""};
};

enum class Life : uint8_t { kReady, kWaiting, kEnded };

struct Fibre {
  ucontext_t start;
  jmp_buf resume;
  std::unique_ptr<char[]> stack;
  bool started = false;
  bool announced = false;
  Life life = Life::kEnded;
  Pending pending;
  Clock clock{};                                          ///< happens-before
  Clock acquire_later{};                                  ///< learnt by relaxed loads, valid after a fence
  Clock release_before{};                                 ///< what a fence released
  Clock depends{};                                        ///< dependence clock of the search
  std::vector<std::pair<const void*, uint32_t>> attempt;  ///< locations read, and which store
  bool in_attempt = false;
};

struct Node {
  bool value_choice;
  uint32_t chosen;
  uint32_t alternatives;  ///< value choice
  uint32_t enabled = 0, backtrack = 0, done = 0, sleep = 0;
};

enum class End : uint8_t { kRunning, kFinished, kPruned, kFailed };

class Explorer {
 public:
  Explorer(const Options& options, const std::function<std::unique_ptr<Scenario>()>& make)
      : options_(options), make_(make) {}

  Report explore();

  // Called on a fibre.
  void announce(const void* address, bool writes, const Site& site);
  Location& location(const void* address, uint64_t initial);
  uint64_t load(const void* where, uint64_t initial, Order order, const Site& site);
  void store(void* where, uint64_t initial, uint64_t value, Order order, const Site& site);
  uint64_t update_begin(void* where, uint64_t initial, Order order, const Site& site);
  void update_end(void* where, uint64_t value, Order order, const Site& site);
  bool compare(void* where, uint64_t initial, uint64_t* expected, Order success, Order failure, const Site& site);
  void fence(const Site& site);
  void data(const void* address, bool writes);
  void await(const std::function<bool()>& attempt);
  [[noreturn]] void stop(End end, const std::string& what);
  void fail(const std::string& what);
  [[nodiscard]] bool on_fibre() const { return current_ != kNever; }
  [[nodiscard]] uint32_t current() const { return current_; }
  void fibre_main();

 private:
  void run_once();
  void run_fibre(uint32_t t);
  [[noreturn]] void switch_back();
  [[nodiscard]] bool pick(uint32_t* thread);
  uint32_t choose_value(uint32_t alternatives);
  bool next_path();
  void note_race(const Location& l, uint32_t t, bool writes);
  void note_transition(Location& l, uint32_t t, bool writes);
  void wake_waiters(const void* address);
  [[nodiscard]] bool dependent(const Pending& a, const Pending& b) const {
    return a.address == b.address && (a.writes || b.writes);
  }
  Order weakened(Order order, const Site& site, const char* kind);
  bool torn(const Site& site);
  void push_store(Location& l, uint64_t value, Order order, const Clock* continued);
  uint64_t read_store(Location& l, uint32_t index, Order order);
  [[nodiscard]] uint32_t oldest_visible(const Location& l) const;
  void trace(const char* what, const void* address, uint64_t value, const Site& site);
  static std::string site_name(const Site& site, const char* kind);

  const Options& options_;
  const std::function<std::unique_ptr<Scenario>()>& make_;
  Report report_;
  std::unique_ptr<Scenario> scenario_;
  std::array<Fibre, kMaxThreads> fibres_;
  uint32_t threads_ = 0;
  uint32_t current_ = kNever;
  jmp_buf home_;
  End end_ = End::kRunning;
  std::string failure_;

  std::unordered_map<const void*, uint32_t> index_;
  std::vector<Location> locations_;
  uint32_t location_count_ = 0;
  std::unordered_map<const void*, Plain> plain_;
  Clock sc_{};
  char fence_location_ = 0;

  std::vector<Node> path_;
  size_t depth_ = 0;
  uint32_t sleep_ = 0;
  uint32_t last_thread_ = kNever;
  uint32_t preemptions_ = 0;
  uint32_t stale_ = 0;
  uint64_t steps_ = 0;
  struct Transition {
    uint32_t thread;
    size_t node;
  };
  std::vector<Transition> transitions_;
  size_t pending_node_ = 0;

  bool tracing_ = false;
  std::string trace_;
  std::set<std::pair<const char*, int>> seen_sites_[3];
};

Explorer* g_explorer = nullptr;

void fibre_entry() { g_explorer->fibre_main(); }

// --- Fibres

void Explorer::fibre_main() {
  scenario_->run(current_);
  fibres_[current_].life = Life::kEnded;
  fibres_[current_].announced = true;
  switch_back();
}

void Explorer::switch_back() { _longjmp(home_, 1); }

void Explorer::run_fibre(uint32_t t) {
  Fibre& f = fibres_[t];
  current_ = t;
  if (_setjmp(home_) == 0) {
    if (f.started) _longjmp(f.resume, 1);
    f.started = true;
    setcontext(&f.start);
    std::abort();
  }
  current_ = kNever;
}

// Stops the fibre before a shared operation; it goes on when the search has picked it.
void Explorer::announce(const void* address, bool writes, const Site& site) {
  Fibre& f = fibres_[current_];
  f.pending = {address, writes, site};
  f.announced = true;
  if (_setjmp(f.resume) == 0) switch_back();
}

void Explorer::stop(End end, const std::string& what) {
  end_ = end;
  if (end == End::kFailed) failure_ = what;
  switch_back();
}

void Explorer::fail(const std::string& what) {
  if (on_fibre()) stop(End::kFailed, "thread " + std::to_string(current_) + ": " + what);
  if (end_ != End::kFailed) {
    end_ = End::kFailed;
    failure_ = "at the end: " + what;
  }
}

// --- Memory

Location& Explorer::location(const void* address, uint64_t initial) {
  auto [it, added] = index_.try_emplace(address, location_count_);
  if (!added) return locations_[it->second];
  if (location_count_ == locations_.size()) locations_.emplace_back();
  Location& l = locations_[location_count_++];
  l.address = address;
  l.stores.clear();
  l.accesses.clear();
  l.writes_cv = l.all_cv = Clock{};
  Store first{initial, Clock{}, {}};
  first.seen.fill(kNever);
  first.seen[0] = 0;
  l.stores.push_back(first);
  return l;
}

uint32_t Explorer::oldest_visible(const Location& l) const {
  const Clock& clock = fibres_[current_].clock;
  for (size_t i = l.stores.size() - 1; i > 0; --i) {
    for (uint32_t k = 0; k < kClocks; ++k) {
      if (l.stores[i].seen[k] <= clock[k]) return static_cast<uint32_t>(i);
    }
  }
  return 0;
}

uint64_t Explorer::read_store(Location& l, uint32_t index, Order order) {
  Fibre& f = fibres_[current_];
  Store& s = l.stores[index];
  uint32_t& seen = s.seen[current_ + 1];
  if (seen == kNever) seen = f.clock[current_ + 1];
  if (has_acquire(order)) {
    join(f.clock, s.sync);
  } else {
    join(f.acquire_later, s.sync);
  }
  if (f.in_attempt) f.attempt.emplace_back(l.address, index);
  return s.value;
}

void Explorer::push_store(Location& l, uint64_t value, Order order, const Clock* continued) {
  Fibre& f = fibres_[current_];
  Store s{value, has_release(order) ? f.clock : f.release_before, {}};
  if (continued != nullptr) join(s.sync, *continued);
  s.seen.fill(kNever);
  s.seen[current_ + 1] = f.clock[current_ + 1];
  l.stores.push_back(s);
  ++f.clock[current_ + 1];  // what follows the store is not part of what it released
  wake_waiters(l.address);
}

// A thread that rests in await() goes on when a location that it has read is written.
void Explorer::wake_waiters(const void* address) {
  for (uint32_t t = 0; t < threads_; ++t) {
    Fibre& f = fibres_[t];
    if (t == current_ || f.life != Life::kWaiting) continue;
    if (std::any_of(f.attempt.begin(), f.attempt.end(), [&](const auto& a) { return a.first == address; })) {
      f.life = Life::kReady;
      f.announced = false;
    }
  }
}

std::string Explorer::site_name(const Site& site, const char* kind) {
  const char* slash = std::strrchr(site.file, '/');
  return std::string(slash != nullptr ? slash + 1 : site.file) + ":" + std::to_string(site.line) + " " + site.function +
         " " + kind;
}

Order Explorer::weakened(Order order, const Site& site, const char* kind) {
  if (order == Order::kRelaxed) return order;
  if (seen_sites_[0].insert({site.file, site.line}).second) report_.sites.insert(site_name(site, kind));
  if (options_.mutation.kind == Mutation::Kind::kRelaxed && options_.mutation.site == site_name(site, kind)) {
    return Order::kRelaxed;
  }
  return order;
}

bool Explorer::torn(const Site& site) {
  if (seen_sites_[1].insert({site.file, site.line}).second) report_.sites.insert(site_name(site, "rmw"));
  return options_.mutation.kind == Mutation::Kind::kTorn && options_.mutation.site == site_name(site, "rmw");
}

void Explorer::trace(const char* what, const void* address, uint64_t value, const Site& site) {
  if (!tracing_) return;
  char line[256];
  const char* slash = std::strrchr(site.file, '/');
  std::snprintf(line, sizeof line, "  thread %u: %-7s %p = %llu  (%s:%d %s)\n", current_, what, address,
                static_cast<unsigned long long>(value), slash != nullptr ? slash + 1 : site.file, site.line,
                site.function);
  trace_ += line;
}

uint64_t Explorer::load(const void* where, uint64_t initial, Order order, const Site& site) {
  announce(where, false, site);
  order = weakened(order, site, "acquire");
  Location& l = location(where, initial);
  note_transition(l, current_, false);
  const auto latest = static_cast<uint32_t>(l.stores.size() - 1);
  const uint32_t back = choose_value(latest - oldest_visible(l) + 1);
  const uint64_t value = read_store(l, latest - back, order);
  trace(back == 0 ? "load" : "stale", where, value, site);
  return value;
}

void Explorer::store(void* where, uint64_t initial, uint64_t value, Order order, const Site& site) {
  announce(where, true, site);
  order = weakened(order, site, "release");
  Location& l = location(where, initial);
  note_transition(l, current_, true);
  push_store(l, value, order, nullptr);
  trace("store", where, value, site);
}

uint64_t Explorer::update_begin(void* where, uint64_t initial, Order order, const Site& site) {
  announce(where, true, site);
  const Order actual = weakened(order, site, "update");
  Location& l = location(where, initial);
  note_transition(l, current_, true);
  const uint64_t value = read_store(l, static_cast<uint32_t>(l.stores.size() - 1), actual);
  trace("rmw", where, value, site);
  return value;
}

void Explorer::update_end(void* where, uint64_t value, Order order, const Site& site) {
  const Order actual = weakened(order, site, "update");
  const bool split = torn(site);
  if (split) announce(where, true, site);
  Location& l = location(where, 0);
  if (split) note_transition(l, current_, true);
  const Clock before = l.stores.back().sync;
  push_store(l, value, actual, split ? nullptr : &before);
  trace("... to", where, value, site);
}

bool Explorer::compare(void* where, uint64_t initial, uint64_t* expected, Order success, Order failure,
                       const Site& site) {
  announce(where, true, site);
  const Order good = weakened(success, site, "update");
  if (good == Order::kRelaxed) failure = Order::kRelaxed;
  Location& l = location(where, initial);
  note_transition(l, current_, true);
  const auto latest = static_cast<uint32_t>(l.stores.size() - 1);
  // It may fail with an old value, but it can only succeed on the latest.
  uint32_t candidates[64];
  uint32_t n = 0;
  candidates[n++] = latest;
  for (uint32_t i = latest; i-- > oldest_visible(l) && n < 64;) {
    if (l.stores[i].value != *expected) candidates[n++] = i;
  }
  const uint32_t index = candidates[choose_value(n)];
  const bool found = index == latest && l.stores[index].value == *expected;
  const uint64_t value = read_store(l, index, found ? good : failure);
  trace(found ? "cas" : "cas no", where, value, site);
  *expected = value;
  return found;
}

void Explorer::fence(const Site& site) {
  announce(&fence_location_, true, site);
  note_transition(location(&fence_location_, 0), current_, true);
  if (weakened(Order::kSeqCst, site, "fence") == Order::kRelaxed) return;
  Fibre& f = fibres_[current_];
  join(f.clock, f.acquire_later);
  join(f.clock, sc_);
  sc_ = f.clock;
  f.release_before = f.clock;
  trace("fence", nullptr, 0, site);
}

void Explorer::data(const void* address, bool writes) {
  Fibre& f = fibres_[current_];
  Plain& p = plain_[address];
  const uint32_t me = current_ + 1;
  if (p.writer != me && p.written > f.clock[p.writer]) {
    fail(std::string("data race: ") + (writes ? "write" : "read") + " after thread " + std::to_string(p.writer - 1) +
         "'s write");
  }
  if (writes) {
    for (uint32_t k = 0; k < kClocks; ++k) {
      if (k != me && p.read[k] > f.clock[k]) {
        fail("data race: write after thread " + std::to_string(k - 1) + "'s read");
      }
    }
    p.writer = me;
    p.written = f.clock[me];
    p.read.fill(0);
  } else {
    p.read[me] = f.clock[me];
  }
}

void Explorer::await(const std::function<bool()>& attempt) {
  for (;;) {
    Fibre& f = fibres_[current_];
    f.attempt.clear();
    f.in_attempt = true;
    const bool got = attempt();
    f.in_attempt = false;
    if (got) return;
    for (const auto& [address, index] : f.attempt) {
      // It failed on an old value: the same execution without this attempt is searched anyway.
      if (locations_[index_[address]].stores.size() - 1 != index) stop(End::kPruned, "");
    }
    f.life = Life::kWaiting;
    f.pending = {nullptr, false, {"", 0, ""}};
    f.announced = true;
    if (_setjmp(f.resume) == 0) switch_back();
  }
}

// --- Search

// Two operations of different threads on one location that nothing orders: the other order must be tried as well.
void Explorer::note_race(const Location& l, uint32_t t, bool writes) {
  if (!options_.exhaustive) return;
  for (const Access& a : l.accesses) {
    if (a.thread == t || !(a.writes || writes)) continue;
    if (a.transition + 1 <= fibres_[t].depends[a.thread + 1]) continue;
    Node& node = path_[transitions_[a.transition].node];
    const uint32_t bit = 1U << t;
    node.backtrack |= (node.enabled & bit) != 0 ? bit : node.enabled;
  }
}

void Explorer::note_transition(Location& l, uint32_t t, bool writes) {
  Fibre& f = fibres_[t];
  ++f.clock[t + 1];
  note_race(l, t, writes);
  const auto index = static_cast<uint32_t>(transitions_.size());
  transitions_.push_back({t, pending_node_});
  if (!options_.exhaustive) return;
  join(f.depends, writes ? l.all_cv : l.writes_cv);
  f.depends[t + 1] = index + 1;
  join(l.all_cv, f.depends);
  if (writes) join(l.writes_cv, f.depends);
  l.accesses.push_back({t, index, writes});
}

uint32_t Explorer::choose_value(uint32_t alternatives) {
  if (!options_.exhaustive && stale_ >= options_.stale_reads) alternatives = 1;
  if (alternatives <= 1) return 0;
  if (depth_ == path_.size()) path_.push_back({true, 0, alternatives});
  const Node& node = path_[depth_++];
  if (node.chosen != 0) ++stale_;
  return node.chosen;
}

bool Explorer::pick(uint32_t* thread) {
  uint32_t enabled = 0;
  bool waiting = false;
  for (uint32_t t = 0; t < threads_; ++t) {
    if (fibres_[t].life == Life::kReady) enabled |= 1U << t;
    waiting = waiting || fibres_[t].life == Life::kWaiting;
  }
  if (enabled == 0) {
    end_ = waiting ? End::kFailed : End::kFinished;
    if (waiting) {
      failure_ = "deadlock: waiting";
      for (uint32_t t = 0; t < threads_; ++t) {
        if (fibres_[t].life == Life::kWaiting) failure_ += " thread " + std::to_string(t);
      }
    }
    return false;
  }
  const bool last_enabled = last_thread_ != kNever && (enabled >> last_thread_ & 1) != 0;
  if (depth_ == path_.size()) {
    Node node{false, 0, 0};
    node.enabled = enabled;
    node.sleep = options_.exhaustive ? sleep_ : 0;
    const uint32_t awake = enabled & ~node.sleep;
    if (awake == 0) {
      end_ = End::kPruned;
      return false;
    }
    node.chosen =
        last_enabled && (awake >> last_thread_ & 1) != 0 ? last_thread_ : static_cast<uint32_t>(__builtin_ctz(awake));
    node.backtrack = 1U << node.chosen;
    if (!options_.exhaustive && (!last_enabled || preemptions_ < options_.preemptions)) node.backtrack = enabled;
    path_.push_back(node);
  }
  const Node& node = path_[depth_];
  pending_node_ = depth_++;
  if (last_enabled && node.chosen != last_thread_) ++preemptions_;
  // Threads whose next step was explored before, and that this step does not touch, need not go first again.
  uint32_t asleep = 0;
  for (uint32_t t = 0; t < threads_; ++t) {
    const bool before = ((node.sleep | node.done) >> t & 1) != 0;
    if (before && t != node.chosen && !dependent(fibres_[t].pending, fibres_[node.chosen].pending)) asleep |= 1U << t;
  }
  sleep_ = asleep;
  *thread = last_thread_ = node.chosen;
  return true;
}

void Explorer::run_once() {
  index_.clear();
  location_count_ = 0;
  plain_.clear();
  sc_ = Clock{};
  depth_ = 0;
  sleep_ = 0;
  last_thread_ = kNever;
  preemptions_ = stale_ = 0;
  steps_ = 0;
  transitions_.clear();
  trace_.clear();
  end_ = End::kRunning;
  scenario_ = make_();
  threads_ = scenario_->threads();
  for (uint32_t t = 0; t < threads_; ++t) {
    Fibre& f = fibres_[t];
    if (!f.stack) f.stack.reset(new char[kStackBytes]);
    getcontext(&f.start);
    f.start.uc_stack.ss_sp = f.stack.get();
    f.start.uc_stack.ss_size = kStackBytes;
    f.start.uc_link = nullptr;
    makecontext(&f.start, fibre_entry, 0);
    f.started = f.announced = f.in_attempt = false;
    f.life = Life::kReady;
    f.pending = Pending{};
    f.clock = f.acquire_later = f.release_before = f.depends = Clock{};
    f.clock[t + 1] = 1;
    f.attempt.clear();
  }
  for (;;) {
    // Local code runs at once, up to the next shared operation.
    for (uint32_t t = 0; t < threads_ && end_ == End::kRunning; ++t) {
      if (!fibres_[t].announced) run_fibre(t);
    }
    if (end_ != End::kRunning) break;
    uint32_t t = 0;
    if (!pick(&t)) break;
    fibres_[t].announced = false;
    if (++steps_ > kStepsMax) {
      end_ = End::kFailed;
      failure_ = "too many steps: a loop without await?";
      break;
    }
    run_fibre(t);
    if (end_ != End::kRunning) break;
  }
  // Operations that were never reached race as well.
  for (uint32_t t = 0; t < threads_; ++t) {
    const Fibre& f = fibres_[t];
    if (f.life != Life::kReady || f.pending.address == nullptr) continue;
    if (auto it = index_.find(f.pending.address); it != index_.end())
      note_race(locations_[it->second], t, f.pending.writes);
  }
  report_.longest = std::max(report_.longest, steps_);
  if (end_ == End::kFinished) scenario_->finish();
  scenario_.reset();
}

// Moves on to the next path, depth first; false when all have been searched.
bool Explorer::next_path() {
  while (!path_.empty()) {
    Node& node = path_.back();
    if (node.value_choice) {
      if (node.chosen + 1 < node.alternatives) {
        ++node.chosen;
        return true;
      }
    } else {
      node.done |= 1U << node.chosen;
      const uint32_t left = node.backtrack & ~node.done & ~node.sleep;
      if (left != 0) {
        node.chosen = static_cast<uint32_t>(__builtin_ctz(left));
        return true;
      }
    }
    path_.pop_back();
  }
  return false;
}

Report Explorer::explore() {
  const auto start = std::chrono::steady_clock::now();
  report_.ok = true;
  for (;;) {
    run_once();
    ++(end_ == End::kPruned ? report_.pruned : report_.executions);
    if (end_ == End::kFailed) {
      report_.ok = false;
      const std::string failure = failure_;
      tracing_ = true;
      path_.resize(std::min(path_.size(), depth_));
      run_once();  // the same path again, with its trace
      report_.failure = failure + "\n" + trace_;
      return report_;
    }
    if (!next_path()) {
      report_.complete = true;
      return report_;
    }
    if (report_.executions + report_.pruned >= options_.max_executions) return report_;
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (spent.count() > options_.max_seconds) return report_;
  }
}

}  // namespace

Report explore(const Options& options, const std::function<std::unique_ptr<Scenario>()>& make) {
  Explorer explorer(options, make);
  g_explorer = &explorer;
  Report report = explorer.explore();
  g_explorer = nullptr;
  return report;
}

bool running() { return g_explorer != nullptr && g_explorer->on_fibre(); }
uint32_t self() { return g_explorer->current(); }
void fail(const std::string& what) { g_explorer->fail(what); }
void await(const std::function<bool()>& attempt) { g_explorer->await(attempt); }
void data_read(const void* address) {
  if (running()) g_explorer->data(address, false);
}
void data_write(const void* address) {
  if (running()) g_explorer->data(address, true);
}

// Outside of the threads (set-up, final checks) the value in place is the truth.
uint64_t load(const void* where, uint64_t initial, Order order, const Site& site) {
  return running() ? g_explorer->load(where, initial, order, site) : initial;
}
void store(void* where, uint64_t initial, uint64_t value, Order order, const Site& site) {
  if (running()) g_explorer->store(where, initial, value, order, site);
}
uint64_t update_begin(void* where, uint64_t initial, Order order, const Site& site) {
  return running() ? g_explorer->update_begin(where, initial, order, site) : initial;
}
void update_end(void* where, uint64_t value, Order order, const Site& site) {
  if (running()) g_explorer->update_end(where, value, order, site);
}
bool compare(void* where, uint64_t initial, uint64_t* expected, Order success, Order failure, const Site& site) {
  if (running()) return g_explorer->compare(where, initial, expected, success, failure, site);
  const bool found = *expected == initial;
  *expected = initial;
  return found;
}
void fence(const Site& site) {
  if (running()) g_explorer->fence(site);
}

}  // namespace zh::mc
