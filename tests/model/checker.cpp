// Fibres and the search over choices, and the door of checker.h to both. The memory is in memory.cpp.
#include "checker.h"

#include <cstdlib>
#include <ctime>

#include "explorer.h"

namespace zh::mc {

namespace {

Explorer* g_explorer = nullptr;
StoreHook g_store_hook = nullptr;
bool g_watching = false;

void fibre_entry() { g_explorer->fibre_main(); }

}  // namespace

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

// --- Search

// Two operations of different threads on one location that nothing orders: the other order must be tried as well.
void Explorer::note_race(const Location& l, uint32_t t, bool writes) {
  if (!options_.exhaustive) return;
  for (const AccessMade& a : l.accesses) {
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
    f.writes = 0;
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
  const std::clock_t start = std::clock();
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
    if (static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC > options_.max_seconds) return report_;
  }
}

Report explore(const Options& options, const std::function<std::unique_ptr<Scenario>()>& make) {
  Explorer explorer(options, make);
  g_explorer = &explorer;
  Report report = explorer.explore();
  g_explorer = nullptr;
  return report;
}

bool running() { return g_explorer != nullptr && g_explorer->on_fibre(); }
uint32_t self() { return g_explorer->current(); }
uint64_t writes() { return g_explorer->writes(); }
void fail(const std::string& what) { g_explorer->fail(what); }
void await(const std::function<bool()>& attempt) { g_explorer->await(attempt); }
void data_read(const void* address) {
  if (running()) g_explorer->data(address, false);
}
void data_write(const void* address) {
  if (running()) g_explorer->data(address, true);
}

Watching::Watching() { g_watching = true; }
Watching::~Watching() { g_watching = false; }

// Outside of the threads (set-up, final checks) the value in place is the truth.
uint64_t load(const void* where, uint64_t initial, Order order, const Site& site) {
  return running() && !g_watching ? g_explorer->load(where, initial, order, site) : initial;
}
void set_store_hook(StoreHook hook) { g_store_hook = hook; }
void store(void* where, uint64_t initial, uint64_t value, Order order, const Site& site) {
  if (running() && g_store_hook != nullptr) g_store_hook(where, value);
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
void prefetch(const void*) {}
void relax() {}
void fence(const Site& site) {
  if (running()) g_explorer->fence(site);
}

}  // namespace zh::mc
