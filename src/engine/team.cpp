// What the collectives need of a rank (coll/team/services.h), and the making of teams.
#include <algorithm>
#include <new>
#include <utility>

#include "coll/team/nonblocking_slots.h"
#include "coll/team/nonblocking_staged.h"
#include "coll/team/services.h"
#include "coll/team/team.h"
#include "engine/team_services.h"

namespace zh::engine {

namespace {
/// Looks at a flag before everything else gets a turn: about the time in which a member that runs would set it.
constexpr uint32_t kLooks = 2000;
}  // namespace

std::byte* Rank::TeamServices::base() const { return rank_.node_.base(); }

// Messages must not run out of memory because of many communicators, nor these because rings have grown first: an
// eighth of the budget is the teams' whatever rings have taken of their half. What teams can do without counts for half
// of that eighth at most, wherever it was taken.
Offset Rank::TeamServices::allocate(uint64_t bytes) {
  Guard guard(*rank_.state_);
  const uint64_t own = rank_.state_->endpoint->arena().budget_bytes() / 8;
  return allocate(bytes, needed_ + std::min(spare_, own / 2) + bytes <= own, &needed_);
}

Offset Rank::TeamServices::allocate_spare(uint64_t bytes) {
  Guard guard(*rank_.state_);
  const uint64_t own = rank_.state_->endpoint->arena().budget_bytes() / 8;
  return allocate(bytes, spare_ + bytes <= own / 2 && needed_ + spare_ + bytes <= own, &spare_);
}

// Under the lock.
Offset Rank::TeamServices::allocate(uint64_t bytes, bool in_own_part, uint64_t* count) {
  p2p::Endpoint& e = *rank_.state_->endpoint;
  const bool in_common_half = e.arena().used_bytes() + bytes <= e.arena().budget_bytes() / 2;
  const Offset offset = in_common_half || in_own_part ? e.make_scratch(bytes) : kNoOffset;
  if (offset != kNoOffset) *count += bytes;
  return offset;
}

copy::MemoryAccess& Rank::TeamServices::memory() { return rank_.state_->endpoint->memory(); }

// The number of the sender in a team's context is its node-local index: a team's messages never use wildcards.
p2p::Request* Rank::TeamServices::send(uint32_t dest, uint64_t context, int32_t tag, const copy::Buffer& data,
                                       p2p::SendMode mode) {
  SendArgs args;
  args.dest = dest;
  args.source = static_cast<int32_t>(rank_.node_.self());
  args.tag = tag;
  args.context = context;
  args.data = data;
  args.mode = mode;
  Guard guard(*rank_.state_);
  rank_.account().counters.of_collectives.add(args.data.bytes);
  return rank_.state_->endpoint->sends().isend(args);
}

p2p::Request* Rank::TeamServices::recv(uint32_t source, uint64_t context, int32_t tag, const copy::Buffer& data) {
  RecvArgs args;
  args.peer = static_cast<int32_t>(source);
  args.source = static_cast<int32_t>(source);
  args.tag = tag;
  args.context = context;
  args.buffer = data;
  Guard guard(*rank_.state_);
  return rank_.state_->endpoint->receives().irecv(args);
}

bool Rank::TeamServices::done(const p2p::Request* request) const { return rank_.done(request); }

Code Rank::TeamServices::finish(p2p::Request* request, uint64_t* bytes) {
  const Code code = rank_.result(request).code;
  *bytes = rank_.result(request).bytes;
  rank_.release(request);
  return code;
}

void Rank::TeamServices::abandon(p2p::Request* request) {
  while (!rank_.done(request) && !rank_.cancel(request)) rank_.progress();
  rank_.release(request);
}

void Rank::TeamServices::wait(bool (*ready)(void*), void* context) {
  WaitScope scope(rank_);
  while (!ready(context)) scope.pause();
}

uint32_t Rank::looks() const { return state_->patient && !state_->others_want_cpu() ? kLooks : 1; }
bool Rank::keeps_cpu_from_peer() { return state_->notice_company(p2p::kAnyPeer); }

uint32_t Rank::TeamServices::polls() const { return rank_.looks(); }
bool Rank::TeamServices::keeps_cpu_from_peer() { return rank_.keeps_cpu_from_peer(); }

const Atomic<uint32_t>* Rank::TeamServices::sleepers() const { return &rank_.state_->endpoint->sleepers(); }
void Rank::TeamServices::wake(uint32_t rank) { rank_.state_->endpoint->wake(rank); }

void Rank::TeamServices::count_staged(uint64_t bytes) {
  Guard guard(*rank_.state_);
  rank_.state_->staged.add(bytes);
}

uint64_t Rank::TeamServices::streamed_from(uint32_t rank) const {
  Guard guard(*rank_.state_);
  return rank_.state_->endpoint->choice(rank).nontemporal_min;
}

uint32_t Rank::TeamServices::copiers() const { return rank_.state_->config.copiers; }
bool Rank::TeamServices::alive(uint32_t rank) { return !rank_.node_.ended(rank); }

void Rank::prepare_teams() {
  State& s = *state_;
  Guard guard(s);
  if (!s.team_services) s.team_services = std::make_unique<TeamServices>(*this);
  if (!s.control_blocks) s.control_blocks = std::make_unique<coll::ControlBlockPool>(*s.team_services);
}

const std::shared_ptr<ActiveCollectives>& Rank::active_collectives() const { return state_->active_collectives; }

std::unique_ptr<coll::Team> Rank::make_team(uint64_t context, std::vector<uint32_t> members, uint32_t self) {
  prepare_teams();
  return std::make_unique<coll::Team>(*state_->team_services, *state_->control_blocks, context, std::move(members),
                                      self);
}

std::unique_ptr<coll::NonblockingTeam> Rank::make_nonblocking_team(bool small, uint64_t context,
                                                                   std::vector<uint32_t> members, uint32_t self) {
  prepare_teams();
  State& s = *state_;
  if (small) {
    return std::make_unique<coll::NonblockingSlots>(*s.team_services, *s.control_blocks, context, std::move(members),
                                                    self);
  }
  return std::make_unique<coll::NonblockingStaged>(*s.team_services, *s.control_blocks, context, std::move(members),
                                                   self);
}

}  // namespace zh::engine
