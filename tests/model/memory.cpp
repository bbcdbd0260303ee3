// The weak memory of the model checker: what each operation may return and what it makes visible. Called by the
// instrumented zh::Atomic through checker.h; it knows nothing of schedules but where it must stop for one.
#include <cstdio>
#include <cstring>

#include "explorer.h"

namespace zh::mc {

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
  ++f.writes;
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

// Whether the mutation is of this operation. Names are made once: they cost more than the operation.
bool Explorer::mutated(Mutation::Kind mutation, const Site& site, const char* kind) {
  auto [it, added] = mutated_.try_emplace({site.file, site.line, kind}, false);
  if (added) {
    const std::string name = site_name(site, kind);
    report_.sites.insert(name);
    it->second = options_.mutation.kind == mutation && options_.mutation.site == name;
  }
  return it->second;
}

Order Explorer::weakened(Order order, const Site& site, const char* kind) {
  if (order == Order::kRelaxed) return order;
  return mutated(Mutation::Kind::kRelaxed, site, kind) ? Order::kRelaxed : order;
}

bool Explorer::torn(const Site& site) { return mutated(Mutation::Kind::kTorn, site, "rmw"); }

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

}  // namespace zh::mc
