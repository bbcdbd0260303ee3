// How a rank waits: it looks, then offers its CPU to others, then sleeps.
#include <algorithm>

#include "engine/rank.h"
#include "engine/state.h"
#include "os/affinity.h"
#include "os/clock.h"
#include "os/futex.h"
#include "os/process.h"
#include "os/yield.h"

namespace zh::engine {

namespace {
constexpr uint32_t kIdleBeforeYield = 1000;     // idle turns before the CPU is offered to others
constexpr uint32_t kIdleOfLateWaker = 100'000;  // ... where it comes back only when they have had their time
constexpr uint32_t kIdlePerNotice = 16;         // ... before the others' CPUs are looked at
constexpr uint32_t kIdlePassive =
    200;  // ... before sleeping soon: as the user wants, beside others, or for the network
constexpr uint64_t kSleepAfterNs = 20'000'000;  // an idle wait this long sleeps even when spinning is allowed
// A sleep ends by itself, for the host's messages call nobody and a wake-up can be lost to the race of flag and ring.
// The longer the wait has lasted the rarer it looks, for no wait gets longer by more than a 64th, or the least: Linux
// 6.18 leaves the machine's other processes without a CPU for seconds where some threads of a session yield and one
// wakes often.
constexpr uint64_t kSleepNs = 1'000'000;
constexpr uint64_t kSleepHostNs = 100'000;  // the least where the host's messages are to be looked for
constexpr uint64_t kSleepMostNs = 8'000'000;
constexpr uint64_t kSleepPart = 64;
constexpr uint32_t kStampEvery = 4;
constexpr uint32_t kLinesPerTurn = 32;  // that an idle turn asks for ahead
constexpr uint32_t kPeersPerNotice = 4;
constexpr uint64_t kHostMovesNs = 5000;   // a turn of the host that takes longer than this, and than four idle ones
constexpr uint64_t kStayNs = 10'000'000;  // in a peer's company after a move
constexpr uint64_t kStayLongNs = 1'600'000'000;  // ... where there is no other CPU, or others have it, which is when
constexpr uint64_t kLateMoveNs = 500'000;        // ... a move takes so long
constexpr double kTimedFromUs = 2;               // what is shorter is the way of a message that has been sent
constexpr uint64_t kTellAfterNs = 100'000;       // a wait that lasts so long tells what it is for
constexpr uint64_t kTellEveryNs = 10'000'000;
constexpr double kReapEveryUs = 5000;  // by the clock: where others have the CPU, turns may take long
}  // namespace

// Ranks that are not bound may get one CPU though there are enough, where other programs have the rest. Whoever looks
// for a peer's message then keeps the peer from sending it: 250 us a message were seen.
bool Rank::State::notice_company(int32_t peer) {
  if (oversubscribed || config.wait == WaitPolicy::kSpin) return false;
  const node::Node& node = endpoint->node();
  const uint32_t mine = os::current_cpu() + 1;
  endpoint->part().state.cpu.store_relaxed(mine);
  const auto is_here = [&](uint32_t rank) {
    return rank != node.self() && endpoint->part(rank).state.cpu.load_relaxed() == mine;
  };
  bool found = false;
  if (peer != p2p::kAnyPeer) {
    found = is_here(static_cast<uint32_t>(peer));
  } else {
    uint32_t rank = next_noticed.load_relaxed();
    for (uint32_t i = 0; i < kPeersPerNotice && !found; ++i) {
      found = is_here(rank);
      if (!found) rank = (rank + 1) % node.size();
    }
    next_noticed.store_relaxed(rank);
  }
  if (found && company.load_relaxed() == 0) {
    Guard guard(*this);
    ++endpoint->counters().company;
  }
  company.store_relaxed(found ? 1 : 0);
  return found;
}

// Of two ranks that yield to each other, or wake each other, on one CPU Linux moves neither for as long as a short
// program runs, though another CPU idles.
bool Rank::State::leave_company() {
  const uint64_t begin = os::now_ns();
  if (begin < stays_until_ns.load_relaxed()) return false;
  const node::Node& node = endpoint->node();
  const os::CpuSet allowed = os::allowed_cpus();
  os::CpuSet taken;
  for (uint32_t rank = 0; rank < node.size(); ++rank) {
    const uint32_t cpu = endpoint->part(rank).state.cpu.load_relaxed();
    if (cpu != 0) taken.add(cpu - 1);
  }
  const uint32_t mine = os::current_cpu();
  uint32_t cpu = mine;
  do {
    cpu = (cpu + 1) % os::CpuSet::kMaxCpus;
  } while (cpu != mine && (!allowed.has(cpu) || taken.has(cpu)));
  bool moved = cpu != mine;
  if (moved) {
    endpoint->part().state.cpu.store_relaxed(cpu + 1);  // before, lest the peer that has this CPU now leaves it as well
    moved = os::move_to(cpu) == 0;
  }
  const uint64_t end = os::now_ns();
  stays_until_ns.store_relaxed(end + (moved && end - begin < kLateMoveNs ? kStayNs : kStayLongNs));
  if (moved) company.store_relaxed(0);
  return moved;
}

void Rank::State::note_looks(uint64_t from_ns, uint64_t to_ns) {
  if (config.wait == WaitPolicy::kSpin || !busy.note(from_ns, to_ns, &os::thread_preemptions)) return;
  wakes_late.store_relaxed(os::wakes_late() ? 1 : 0);
  Guard guard(*this);
  ++endpoint->counters().busy;
}

uint32_t Rank::State::idle_before_yield() const {
  return wakes_late.load_relaxed() != 0 && busy.busy(&os::now_ns) ? kIdleOfLateWaker : kIdleBeforeYield;
}

bool Rank::State::host_moves() {
  const auto turn = [this] {
    const uint64_t begin = os::now_ns();
    host_progress();
    return os::now_ns() - begin;
  };
  uint64_t ns = turn();
  if (ns > kHostMovesNs) ns = turn();  // the first one found cold caches
  const uint64_t least = host_turn_ns.load_relaxed();
  if (least == 0 || ns < least) host_turn_ns.store_relaxed(ns);
  return least != 0 && ns > kHostMovesNs && ns > 4 * least;
}

void Rank::State::reap_in_time() {
  if (reaps.over(kReapEveryUs)) endpoint->reap();
}

Rank::WaitScope::WaitScope(Rank& rank, p2p::Tell tell, const Request* receive)
    : rank_(rank), tell_(tell), receive_(rank.mutex_ == nullptr ? receive : nullptr) {
  if (receive_ != nullptr) ahead_ = rank.endpoint_->receives().write_ahead(*receive_);
  p2p::RankStateShm& shm = rank.state_->endpoint->part().state;
  began_ticks_ = latest_ticks_ = os::ticks();
  shm.stamp.store_relaxed(began_ticks_);
  if (rank.state_->threads) {
    shm.inside.fetch_add_relaxed(1);
  } else {
    shm.inside.store_relaxed(shm.inside.load_relaxed() + 1);
  }
}

Rank::WaitScope::~WaitScope() {
  if (receive_ != nullptr) rank_.endpoint_->receives().note_filled(*receive_);
  if (sleep_word_ != 0) end_sleep();
  if (rank_.state_->timed) count_time();
  if (helped_) {
    Guard guard(*rank_.state_);
    if (told_ns_ != 0) rank_.state_->endpoint->part().activity.tell({});
    rank_.leave(guard);
  }
  rank_.state_->endpoint->expect(false);
  p2p::RankStateShm& shm = rank_.state_->endpoint->part().state;
  if (rank_.state_->threads) {
    shm.inside.fetch_add_relaxed(~0U);
  } else {
    shm.inside.store_relaxed(shm.inside.load_relaxed() - 1);
  }
}

Rank::NetworkScope::NetworkScope(Rank& rank) : rank_(rank) { rank.state_->for_network.fetch_add_relaxed(1); }
Rank::NetworkScope::~NetworkScope() { rank_.state_->for_network.fetch_add_relaxed(~0U); }

bool Rank::WaitScope::turn_only() {
  State& s = *rank_.state_;
  if (++turns_ % kStampEvery == 0) s.endpoint->part().state.stamp.store_relaxed(os::ticks());
  Guard guard(s);
  const bool moved = s.endpoint->turn();
  s.endpoint->expect(!moved);
  if (s.timed) {
    const uint64_t now = os::ticks();
    if (moved) moved_ticks_ += now - latest_ticks_;
    latest_ticks_ = now;
  }
  return moved;
}

void Rank::WaitScope::notice_others() {
  State& s = *rank_.state_;
  if (idle_ % kIdlePerNotice == 0 || s.company.load_relaxed() != 0) s.notice_company(p2p::kAnyPeer);
  if (idle_ % kIdlePerNotice != 0) return;
  const uint64_t now = os::now_ns();
  if (looked_ns_ != 0) s.note_looks(looked_ns_, now);
  looked_ns_ = now;
}

void Rank::WaitScope::pause() {
  State& s = *rank_.state_;
  const bool moved = turn_only();
  if (sleep_word_ != 0) {
    if (moved) {
      end_sleep();
    } else {
      sleep();
      host_moves_ = s.host_progress && s.host_moves();
    }
  }
  if (moved) {
    idle_ = 0;
    if (told_still_) {
      const uint64_t now = os::now_ns();
      tell_now(now, now);
      told_still_ = false;
    }
    idle_since_ns_ = looked_ns_ = 0;
    return;
  }
  ++idle_;
  ahead_.step(kLinesPerTurn);
  notice_others();
  if (s.host_progress && idle_ % kHostEvery == 0) s.host_progress();
  const uint32_t help_every = s.oversubscribed ? 4 : 64;
  if (idle_ % help_every == 0) {
    const uint64_t now = os::now_ns();
    if (idle_since_ns_ == 0) idle_since_ns_ = now;
    tell_in_time(now);
    Guard guard(s);
    const bool in_vain = now - idle_since_ns_ > s.in_vain_ns();
    helped_ = true;
    s.endpoint->help_peers(in_vain);
    s.reap_in_time();
    looked_ns_ = os::now_ns();  // what this rank did meanwhile, and the host, took nobody its processor
  }
  const WaitPolicy policy = s.config.wait;
  if (policy == WaitPolicy::kSpin) {
    cpu_relax();
    return;
  }
  if (idle_ > kIdlePassive && (policy == WaitPolicy::kPassive || s.others_want_cpu() ||
                               (s.oversubscribed && s.for_network.load_relaxed() != 0))) {
    sleep_word_ = s.endpoint->announce_sleep();
    return;
  }
  const bool company = s.company.load_relaxed() != 0;
  if (!s.oversubscribed && !company && idle_ < s.idle_before_yield()) {
    cpu_relax();
    return;
  }
  if (company && s.leave_company()) {
    looked_ns_ = 0;
  } else {
    yield();
  }
}

void Rank::WaitScope::count_time() {
  const uint64_t ticks = os::ticks() - began_ticks_ - moved_ticks_;
  State& s = *rank_.state_;
  if (ticks < os::ticks_in_us(kTimedFromUs)) return;
  p2p::Activity activity;
  activity.waits = p2p::Activity::Waits::kUntold;
  tell_(&activity);
  Guard guard(s);
  rank_.account().waits[static_cast<size_t>(activity.waits)].add(ticks);
}

void Rank::WaitScope::tell_in_time(uint64_t now_ns) {
  if (began_ns_ == 0) began_ns_ = idle_since_ns_;
  if (now_ns - idle_since_ns_ < kTellAfterNs || (told_still_ && now_ns - told_ns_ < kTellEveryNs)) return;
  tell_now(now_ns, idle_since_ns_);
  told_still_ = true;
}

void Rank::WaitScope::tell_now(uint64_t now_ns, uint64_t still_ns) {
  told_ns_ = now_ns;
  p2p::Activity activity;
  activity.waits = p2p::Activity::Waits::kUntold;
  activity.call = rank_.called_.load_relaxed();
  activity.requests = 1;
  tell_(&activity);
  activity.began_ns = began_ns_;
  activity.still_ns = still_ns;
  State& s = *rank_.state_;
  Guard guard(s);
  activity.set_comm(s.name_of(activity.context));
  s.endpoint->part().activity.tell(activity);
}

void Rank::WaitScope::yield() {
  State& s = *rank_.state_;
  const uint64_t before = os::now_ns();
  if (idle_since_ns_ == 0) idle_since_ns_ = before;
  os::yield_cpu();
  const uint64_t after = os::now_ns();
  s.note_looks(before, after);
  looked_ns_ = after;
  s.endpoint->part().state.stamp.store_relaxed(os::ticks());
  {
    Guard guard(s);
    s.endpoint->expect(false);
    s.reap_in_time();
  }
  if (idle_ % kHostEvery == 0 && after - idle_since_ns_ > kSleepAfterNs) {
    sleep_word_ = s.endpoint->announce_sleep();
  }
}

// The caller has looked for what it waits for since the sleep was announced, and the rings have been turned.
void Rank::WaitScope::sleep() {
  State& s = *rank_.state_;
  const uint64_t now = os::now_ns();
  tell_in_time(now);
  const uint64_t idle_ns = now - idle_since_ns_;
  // The host's large messages take many turns, each of which would else be a long sleep after the one before.
  const uint64_t part_ns = host_moves_ ? 0 : idle_ns / kSleepPart;
  const uint64_t most_ns = std::clamp(part_ns, s.host_progress ? kSleepHostNs : kSleepNs, kSleepMostNs);
  const bool woken = os::futex_wait(s.endpoint->part().state.sleeping, sleep_word_, most_ns) != os::Wake::kTimedOut;
  end_sleep();
  looked_ns_ = 0;
  Guard guard(s);
  s.endpoint->expect(false);
  ++s.endpoint->counters().slept;
  if (woken) ++s.endpoint->counters().woken;
  s.reap_in_time();
}

void Rank::WaitScope::end_sleep() {
  rank_.state_->endpoint->end_sleep(sleep_word_, !rank_.state_->threads);
  sleep_word_ = 0;
}

}  // namespace zh::engine
