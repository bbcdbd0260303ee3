// The helper thread: when a rank leaves MPI with transfers that its peers cannot finish without it - no
// single copy allowed here, a layout too long to publish, a full ring - it may next block in the host, and peers would
// wait for it in vain. The helper then turns the engine in its stead. It calls no MPI. In normal operation it never
// starts.
#include <pthread.h>

#include <thread>

#include "engine/state.h"
#include "os/clock.h"
#include "os/futex.h"

namespace zh::engine {

namespace {
constexpr uint64_t kPeriodNs = 500'000;  // the rank must have been away this long before the helper steps in
constexpr uint32_t kTurnsAStep = 4096;
}  // namespace

/// Called with the guard held, when a call is about to return to the program.
void Rank::leave() {
  State& s = *state_;
  if (!s.endpoint->needs_turning()) return;
  s.left_ticks.store_relaxed(os::ticks());
  if (s.helper_wanted.load_relaxed() != 0) return;
  if (!s.helper.joinable()) {
    // From here on there are two threads in the engine. The guard that is held now was made without the mutex, which is
    // right: the helper only starts working after a whole period.
    s.threads = true;
    s.helper_wanted.store_relaxed(1);
    s.helper = std::thread([this] { help(); });
    return;
  }
  s.helper_wanted.store_relaxed(1);
  os::futex_wake(s.helper_wanted, 1);
}

void Rank::help() {
  State& s = *state_;
  const auto period_ticks = static_cast<uint64_t>(os::ticks_per_us() * (static_cast<double>(kPeriodNs) / 1000.0));
  while (s.helper_stop.load_relaxed() == 0) {
    if (s.helper_wanted.load_relaxed() == 0) {
      os::futex_wait(s.helper_wanted, 0, 100 * kPeriodNs);
      continue;
    }
    os::futex_wait(s.helper_stop, 0, kPeriodNs);
    const uint64_t now = os::ticks();
    p2p::RankStateShm& shm = s.endpoint->part().state;
    const bool busy_itself = shm.inside.load_relaxed() != 0 || now - s.left_ticks.load_relaxed() < period_ticks;
    if (busy_itself) continue;
    const std::lock_guard guard(s.mutex);
    for (uint32_t i = 0; i < kTurnsAStep && s.endpoint->turn(); ++i) {
    }
    s.endpoint->help_peers();
    if (!s.endpoint->needs_turning()) s.helper_wanted.store_relaxed(0);
  }
}

void Rank::stop_helper() {
  State& s = *state_;
  if (!s.helper.joinable()) return;
  s.helper_stop.store_relaxed(1);
  os::futex_wake(s.helper_stop, 1);
  s.helper_wanted.store_relaxed(1);
  os::futex_wake(s.helper_wanted, 1);
  s.helper.join();
}

}  // namespace zh::engine
