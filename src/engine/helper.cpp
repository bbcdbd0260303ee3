// A rank that its peers cannot reach: it computes, or sits in a call of the host, which takes no messages. Its peers
// turn its queues; what they cannot do for it - no single copy allowed here, a layout too long to publish, entries in
// private memory, started collectives - its helper thread does. The thread is made when such work is left behind,
// sleeps until a peer calls it or a period is over, takes no signals and calls no MPI. In normal operation there is
// none.
#include <pthread.h>

#include "engine/state.h"
#include "os/clock.h"
#include "os/futex.h"
#include "os/thread.h"

namespace zh::engine {

namespace {
constexpr uint64_t kPeriodNs = 500'000;   // a computing rank must have been away this long before the helper steps in
constexpr uint64_t kRestNs = 8'000'000;   // ... while its owner is seen in calls that wait, see leave
constexpr uint64_t kIdleNs = 50'000'000;  // a wake-up that was lost costs at most this
constexpr uint32_t kTurnsAStep = 4096;    // before it looks whether it is still wanted
constexpr size_t kStackBytes = size_t{1} << 20;

constexpr uint32_t word(p2p::Helper state) { return static_cast<uint32_t>(state); }
}  // namespace

/// Called with the guard held, when a call is about to return to the program.
/// The helper rests while its owner makes progress itself: Linux 6.18 leaves the machine's other processes without a
/// CPU for seconds where some threads of a session yield, as waiting ranks do, and one wakes every half millisecond.
/// An owner that leaves rouses it, at most once in a rest.
void Rank::leave(OptionalLock& lock) {
  State& s = *state_;
  if (!s.endpoint->needs_turning()) return;
  s.left_ticks.store_relaxed(os::ticks());
  const bool rests = s.helper_rests.load_relaxed() != 0 && s.rouses.over(kRestNs / 1000.0);
  if (rests || s.helper_wanted.load_relaxed() == 0) want_helper(lock);
}

void Rank::want_helper(OptionalLock& lock) {
  State& s = *state_;
  start_helper(lock);
  if (!s.has_helper) return;
  s.helper_wanted.store_relaxed(1);
  os::futex_wake(s.endpoint->part().state.helper, 1);
}

void Rank::start_helper(OptionalLock& lock) {
  State& s = *state_;
  if (s.has_helper || s.helper_failed) return;
  // From here on there are two threads in the engine.
  enable_threads();
  lock.take(s.mutex);
  const auto body = [](void* rank) -> void* {
    static_cast<Rank*>(rank)->help();
    return nullptr;
  };
  s.has_helper = os::start_thread(&s.helper, kStackBytes, body, this);
  s.helper_failed = !s.has_helper;
}

void Rank::enter_host(uint16_t function) {
  State& s = *state_;
  const bool pending = s.active_collectives->any_alone();
  Guard guard(s);
  if (s.in_host++ != 0) return;
  s.endpoint->part().activity.enter_host(function, os::ticks());
  const bool wanted = pending || s.endpoint->needs_turning();
  if (wanted || s.endpoint->may_be_called()) start_helper(guard);
  s.endpoint->part().state.helper.store_relaxed(word(s.has_helper ? p2p::Helper::kWaits : p2p::Helper::kAloneInHost));
  fence_seq_cst();  // HW1 -> HW0: where the rank is before the wish
  if (wanted) want_helper(guard);
}

void Rank::leave_host() {
  State& s = *state_;
  Guard guard(s);
  if (--s.in_host != 0) return;
  p2p::ActivityShm& activity = s.endpoint->part().activity;
  if (s.timed) {
    const auto in_host = static_cast<size_t>(p2p::Activity::Waits::kInHost);
    account().waits[in_host].add(os::ticks() - activity.host_ticks.load_relaxed());
  }
  activity.leave_host();
  s.endpoint->part().state.helper.store_relaxed(word(p2p::Helper::kNotInHost));
}

void Rank::serve_for_owner() {
  State& s = *state_;
  for (uint32_t i = 0; i < kTurnsAStep; ++i) {
    const std::lock_guard guard(s.mutex);
    if (!s.endpoint->turn()) break;
  }
  {
    const std::lock_guard guard(s.mutex);
    s.endpoint->help_peers(false);
  }
  const bool in_host = s.endpoint->part().state.helper.load_relaxed() != word(p2p::Helper::kNotInHost);
  if (in_host) s.active_collectives->advance(true);
}

void Rank::help() {
  State& s = *state_;
  const auto period_ticks = os::ticks_in_us(static_cast<double>(kPeriodNs) / 1000);
  p2p::RankStateShm& shm = s.endpoint->part().state;
  for (;;) {
    uint32_t seen = shm.helper.load_acquire();  // ST1 -> ST0: the order to stop before the word
    if (s.helper_stop.load_relaxed() != 0) return;
    if (seen == word(p2p::Helper::kCalled)) {
      // Back first: whoever calls from now on finds it waiting again.
      if (shm.helper.cas_relaxed(seen, word(p2p::Helper::kWaits))) serve_for_owner();
      continue;
    }
    const bool wanted = s.helper_wanted.load_relaxed() != 0;
    const bool rests = wanted && s.helper_rests.load_relaxed() != 0;
    const os::Wake why = os::futex_wait(shm.helper, seen, !wanted ? kIdleNs : rests ? kRestNs : kPeriodNs);
    if (why != os::Wake::kTimedOut) s.helper_rests.store_relaxed(0);
    if (!wanted || why == os::Wake::kChanged || s.helper_stop.load_relaxed() != 0) continue;
    if (rests && why == os::Wake::kWoken) continue;  // its owner has only just left
    const bool waits = shm.inside.load_relaxed() != 0;
    s.helper_rests.store_relaxed(waits ? 1 : 0);
    const bool computes = seen == word(p2p::Helper::kNotInHost);
    if (waits || (computes && os::ticks() - s.left_ticks.load_relaxed() < period_ticks)) continue;
    // Off first: work that the owner leaves behind meanwhile switches it on again.
    s.helper_wanted.store_relaxed(0);
    fence_seq_cst();  // HW0 -> HW1: off before the look at where the rank is
    const bool in_host = shm.helper.load_relaxed() != word(p2p::Helper::kNotInHost);
    serve_for_owner();
    const bool pending = in_host && s.active_collectives->any_alone();
    const std::lock_guard guard(s.mutex);
    if (pending || s.endpoint->needs_turning()) s.helper_wanted.store_relaxed(1);
  }
}

void Rank::stop_helper() {
  State& s = *state_;
  if (!s.has_helper) return;
  p2p::RankStateShm& shm = s.endpoint->part().state;
  s.helper_stop.store_relaxed(1);
  shm.helper.store_release(word(p2p::Helper::kCalled));  // ST0 -> ST1: the order to stop before the word
  os::futex_wake(shm.helper, 1);
  pthread_join(s.helper, nullptr);
  shm.helper.store_relaxed(word(p2p::Helper::kNotInHost));
}

}  // namespace zh::engine
