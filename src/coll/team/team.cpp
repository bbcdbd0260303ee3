// Team: setting up, waiting, and which algorithm serves a call.
#include "coll/team/team.h"

#include <algorithm>
#include <utility>

#include "coll/team/team_state.h"
#include "os/clock.h"

namespace zh::coll {

namespace {
constexpr uint32_t kLooksPerClock = 16;
constexpr double kDeathCheckEveryUs = 5000;  // by the clock: where others have the CPU, looks may take long
#ifdef ZH_MODEL_CHECK
constexpr uint32_t kLooksPerFallback = 1;
#else
constexpr uint32_t kLooksPerFallback = 4;
#endif
constexpr int32_t kControlBlockTag = 0;
constexpr int32_t kListTag = 1;
static_assert(kListTag < kMessageTag && kMessageTag < kFirstFreeTag);
}  // namespace

Team::State::State(Services& services_in, ControlBlockPool& pool_in, uint64_t context_in,
                   std::vector<uint32_t> members_in, uint32_t self_in)
    : services(services_in),
      pool(pool_in),
      context(context_in),
      members(std::move(members_in)),
      size(static_cast<uint32_t>(members.size())),
      self(self_in),
      polls(services_in.polls()),
      copiers(services_in.copiers()),
      sleepers(services_in.sleepers()),
      facts{size, false, false},
      fallbacks_seen(members.size(), 0),
      slices(members.size() + 1, 0),
      answers(members.size(), nullptr),
      pieces_under_way(members.size(), nullptr) {}

Team::State::~State() {
  if (usable) pool.controls().give(context, seq, offsets[self], offsets);
  // Who offers memory waits until nobody looks at it; after a death somebody may.
  if (edges != kNoOffset && !broken) pool.give_edges(edges);
}

// A message moves only while the engine is turned, so there is no looking without it.
Code Team::State::transfer(uint32_t member, p2p::Request* request, uint64_t room) {
  if (request == nullptr) return Code::kNoMemory;
  auto done = [&] { return services.done(request); };
  const Code code = turn_until(done, member);
  // A request that will never be done stays with the endpoint, which ends it with its peer.
  return code == Code::kOk ? finish(request, room) : code;
}

Code Team::State::finish(p2p::Request* request, uint64_t room) {
  uint64_t bytes = 0;
  const Code code = services.finish(request, &bytes);
  if (code == Code::kTruncated) {
    fail(code);
    return Code::kOk;
  }
  less = less || bytes < room;
  if (code == Code::kPeerDead) broken = true;
  return code;
}

bool Team::State::agree(uint32_t first, uint32_t last, uint64_t bytes) {
  for (uint32_t i = first; i <= last; ++i) {
    const ContributionShm& theirs = slot(i);
    if (theirs.bytes == bytes) [[likely]]
      continue;
    fail(theirs.way != ContributionWay::kNothing && theirs.bytes > bytes ? Code::kTruncated : Code::kInvalid);
  }
  return fault == Code::kOk;
}

Code Team::State::contribute_nothing() {
  ContributionShm* mine = nullptr;
  if (const Code code = own_slot(&mine); code != Code::kOk) return code;
  mine->way = ContributionWay::kNothing;
  mine->bytes = kNoBytes;
  publish();
  return Code::kOk;
}

Code Team::State::decline(bool to_all) {
  if (const Code code = contribute_nothing(); code != Code::kOk) return code;
  if (to_all) {
    if (const Code code = leave_allreduce(); code != Code::kOk) return code;
  }
  end();
  return Code::kNoMemory;
}

// Every member tells member 0 where its control block is, and gets the list of all: no message but these is ever needed
// to find a member. A member without memory says so, and all of them give up alike. Whether it is crowded is member
// 0's word: they choose algorithms by it, and ranks may have been told to wait in different ways.
bool Team::State::set_up() {
  asked = true;
  offsets.assign(size + 1, kNoOffset);
  Offset own = size <= kMembersMax ? pool.controls().take(context) : kNoOffset;
  const auto bytes_of = [](void* p, uint64_t n) { return copy::Buffer{static_cast<std::byte*>(p), n, nullptr}; };
  const uint64_t list_bytes = offsets.size() * sizeof(Offset);
  Code code = Code::kOk;
  if (self == 0) {
    offsets[0] = own;
    for (uint32_t i = 1; i < size && code == Code::kOk; ++i) {
      code =
          transfer(i, services.recv(members[i], context, kControlBlockTag, bytes_of(&offsets[i], sizeof(Offset))), 0);
    }
    facts.crowded = polls == 1;
    offsets[size] = facts.crowded ? 1 : 0;
    if (std::count(offsets.begin(), offsets.end() - 1, kNoOffset) != 0) offsets.assign(size + 1, kNoOffset);
    for (uint32_t i = 1; i < size && code == Code::kOk; ++i) {
      code = transfer(
          i,
          services.send(members[i], context, kListTag, bytes_of(offsets.data(), list_bytes), p2p::SendMode::kStandard),
          0);
    }
  } else {
    code = transfer(
        0, services.send(members[0], context, kControlBlockTag, bytes_of(&own, sizeof own), p2p::SendMode::kStandard),
        0);
    if (code == Code::kOk) {
      code = transfer(0, services.recv(members[0], context, kListTag, bytes_of(offsets.data(), list_bytes)), 0);
    }
  }
  if (code != Code::kOk || offsets[self] == kNoOffset) {
    if (own != kNoOffset) pool.controls().give(context, 0, own, {});
    return false;
  }
  facts.crowded = offsets[size] != 0;
  offsets.resize(size);
  control_of.resize(size);
  slots_of.resize(size);
  rings_of.resize(size);
  for (uint32_t i = 0; i < size; ++i) {
    control_of[i] = at<ControlBlockShm>(services.base(), offsets[i]);
    use(i, control(i).slots, control(i).ring, control(i).result.large);
  }
  if (size >= kGroupedMembers && !facts.crowded) make_groups();
  usable = true;
  return true;
}

// Members that take turns on CPUs are as near as the scheduler has them.
void Team::State::look_at_distances() {
  streamed = facts.crowded ? kNeverStreamed : streamed_from_most(services, members, self);
}

// While it waits a rank also serves those that could not reach its memory, and notices when a member dies.
Code Team::State::turn_until(bool (*ready)(void*), void* ready_context, uint32_t member) {
  struct Wait {
    State* state;
    bool (*ready)(void*);
    void* context;
    os::Interval death_checks;
    uint32_t looks;
    bool dead;
  } wait{this, ready, ready_context, {}, 0, false};
  const auto told = [this, member](p2p::Activity* out) { tell(member, out); };
  wake_sleepers();
  services.wait(
      [](void* p) {
        auto& w = *static_cast<Wait*>(p);
        if (w.ready(w.context)) return true;
        ++w.looks;
        State& s = *w.state;
        if (s.usable && w.looks % kLooksPerFallback == 0) s.answer_fallbacks();
        if (w.looks % kLooksPerClock == 0 && w.death_checks.over(kDeathCheckEveryUs)) {
          for (const uint32_t rank : s.members) w.dead = w.dead || !s.services.alive(rank);
        }
        return w.dead;
      },
      &wait, told);
  if (!wait.dead) return Code::kOk;
  if (ready(ready_context)) return Code::kOk;  // what the dead had finished is there
  broken = true;
  return Code::kPeerDead;
}

void Team::State::wake_members() {
  for (uint32_t i = 0; i < size; ++i) {
    if (i != self) services.wake(members[i]);
  }
}

Code Team::State::wait_for_past(uint32_t past) {
  uint32_t least = seq - 1;
  for (const ControlBlockShm* theirs : control_of) prefetch_for_read(&theirs->done);
  for (uint32_t i = 0; i < size; ++i) {
    if (i == self) continue;
    const ControlBlockShm& theirs = control(i);
    uint32_t done = 0;
    auto has_come = [&] {
      done = theirs.done.load_acquire();  // CN1 <- CN0: its reads of what is written next
      return static_cast<int32_t>(done - past) >= 0;
    };
    const Code code = wait(has_come, i);
    if (code != Code::kOk) return code;
    if (static_cast<int32_t>(done - least) < 0) least = done;
  }
  safe = least;
  return Code::kOk;
}

bool Team::State::has_done(uint32_t member) const {
  const ControlBlockShm& theirs = control(member);
  // CN1 <- CN0: what the member wrote into this rank's memory.
  return static_cast<int32_t>(theirs.done.load_acquire() - seq) >= 0 || !is_ours(theirs);
}

bool Team::State::all_done() const {
  for (uint32_t i = 0; i < size; ++i) {
    if (i != self && !has_done(i)) return false;
  }
  return true;
}

void Team::State::tell(uint32_t member, p2p::Activity* out) const {
  out->waits = p2p::Activity::Waits::kForMembers;
  const auto is_awaited = [&](uint32_t i) {
    if (member < kWhoHasNotCome) return i == member;
    return i != self && !has_done(i) && (member == kWhoHasNotDone || slot(i).seq.load_relaxed() != seq);
  };
  for (uint32_t i = 0; i < size; ++i) {
    if (is_awaited(i)) out->add_peer(static_cast<int32_t>(members[i]));
  }
}

Code Team::State::await_done() {
  const Code code = wait([this] { return all_done(); }, kWhoHasNotDone);
  if (code == Code::kOk) safe = seq;
  for (uint32_t i = 0; i < size; ++i) {
    if (answers[i] != nullptr && code == Code::kOk) transfer(i, std::exchange(answers[i], nullptr), 0);
  }
  return code;
}

Team::Team(Services& services, ControlBlockPool& pool, uint64_t context, std::vector<uint32_t> members, uint32_t self)
    : state_(std::make_unique<State>(services, pool, context, std::move(members), self)) {}
Team::~Team() = default;

bool Team::ready() { return state_->asked ? state_->usable : state_->set_up(); }
uint32_t Team::size() const { return state_->size; }
uint32_t Team::self() const { return state_->self; }

void Team::set_staging_order(StagingOrder order) { state_->staging_order = order; }

uint32_t Team::begun() const { return state_->seq; }
bool Team::grown() const { return state_->facts.grown; }
bool Team::fell_short() const { return state_->less; }

void Team::refuse(bool to_all) {
  if (state_->begin() == Code::kOk) state_->decline(to_all);
}

Code Team::barrier() { return state_->small_barrier(); }

Code Team::bcast(const copy::Buffer& data, uint32_t root) { return state_->outcome(state_->even_bcast(data, root)); }

Code Team::gather(const copy::Buffer& send, const Pieces& recv, uint32_t root, bool uniform) {
  State& s = *state_;
  return s.outcome(uniform ? s.even_gather(send, recv, root) : s.list_gather(send, recv, root));
}

Code Team::scatter(const Pieces& send, const copy::Buffer& recv, uint32_t root, bool uniform) {
  State& s = *state_;
  return s.outcome(uniform ? s.even_scatter(send, recv, root) : s.list_scatter(send, recv, root));
}

Code Team::allgather(const copy::Buffer& send, const Pieces& recv) {
  return state_->outcome(state_->gather_all(send, recv));
}

Code Team::alltoall(const Pieces& send, const Pieces& recv, bool uniform) {
  State& s = *state_;
  return s.outcome(uniform ? s.even_alltoall(send, recv) : s.list_alltoall(send, recv));
}

Code Team::reduce(const void* in, void* out, uint64_t count, const Reduction& how, uint32_t root) {
  State& s = *state_;
  const uint64_t bytes = count * how.element_bytes;
  switch (node_way(Collective::kReduce, bytes, s.facts)) {
    case NodeWay::kSmall:
      return s.outcome(s.small_reduce(in, out, bytes, how, root));
    case NodeWay::kMessage:
      return s.outcome(s.reduce_of_two(in, out, count, how, root));
    case NodeWay::kLarge:
      break;
  }
  return s.outcome(s.single_copy_reduce(in, out, count, how, root, false));
}

Code Team::allreduce(const void* in, void* out, uint64_t count, const Reduction& how) {
  State& s = *state_;
  const uint64_t bytes = count * how.element_bytes;
  const bool small = node_way(Collective::kAllreduce, bytes, s.facts) == NodeWay::kSmall;
  return s.outcome(small ? s.small_allreduce(in, out, bytes, how) : s.single_copy_reduce(in, out, count, how, 0, true));
}

Code Team::reduce_scatter(const void* in, void* out, const uint64_t* counts, const Reduction& how) {
  State& s = *state_;
  uint64_t total = 0;
  for (uint32_t i = 0; i < s.size; ++i) total += counts[i];
  const uint64_t bytes = total * how.element_bytes;
  const bool small = node_way(Collective::kReduceScatter, bytes, s.facts) == NodeWay::kSmall;
  return s.outcome(small ? s.small_reduce_scatter(in, out, counts, bytes, how)
                         : s.single_copy_reduce_scatter(in, out, counts, how));
}

Code Team::scan(const void* in, void* out, uint64_t count, const Reduction& how, bool exclusive) {
  State& s = *state_;
  const uint64_t bytes = count * how.element_bytes;
  switch (node_way(Collective::kScan, bytes, s.facts)) {
    case NodeWay::kSmall:
      return s.outcome(s.small_scan(in, out, bytes, how, exclusive));
    case NodeWay::kMessage:
      return s.outcome(s.scan_of_two(in, out, count, how, exclusive));
    case NodeWay::kLarge:
      break;
  }
  return s.outcome(s.single_copy_scan(in, out, count, how, exclusive));
}

}  // namespace zh::coll
