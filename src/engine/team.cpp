// What the collectives need of a rank (coll/team/services.h), and the making of teams.
#include <new>
#include <utility>

#include "coll/team/services.h"
#include "coll/team/staged_team.h"
#include "coll/team/started_team.h"
#include "coll/team/team.h"
#include "engine/team_services.h"

namespace zh::engine {

namespace {
/// Looks at a flag before everything else gets a turn: about the time in which a member that runs would set it.
constexpr uint32_t kLooks = 2000;
}  // namespace

std::byte* Rank::TeamServices::base() const { return rank_.node_.base(); }

// Messages must not run out of memory because of many communicators, nor these because rings have grown first: an
// eighth of the budget is the teams' whatever rings have taken of their half.
Offset Rank::TeamServices::allocate(uint64_t bytes) {
  Guard guard(*rank_.state_);
  p2p::Endpoint& e = *rank_.state_->endpoint;
  const uint64_t budget = e.arena().budget_bytes();
  const bool in_common_half = e.arena().used_bytes() + bytes <= budget / 2;
  if (!in_common_half && allocated_ + bytes > budget / 8) return kNoOffset;
  const Offset offset = e.make_scratch(bytes);
  if (offset != kNoOffset) allocated_ += bytes;
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

uint32_t Rank::looks() const { return state_->patient ? kLooks : 1; }
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

std::unique_ptr<coll::Team> Rank::make_team(uint64_t context, std::vector<uint32_t> members, uint32_t self) {
  prepare_teams();
  return std::make_unique<coll::Team>(*state_->team_services, *state_->control_blocks, context, std::move(members),
                                      self);
}

std::unique_ptr<coll::StartedTeam> Rank::make_started_team(uint64_t context, std::vector<uint32_t> members,
                                                           uint32_t self) {
  prepare_teams();
  return std::make_unique<coll::StartedTeam>(*state_->team_services, *state_->control_blocks, context,
                                             std::move(members), self);
}

std::unique_ptr<coll::StagedTeam> Rank::make_staged_team(uint64_t context, std::vector<uint32_t> members,
                                                         uint32_t self) {
  prepare_teams();
  return std::make_unique<coll::StagedTeam>(*state_->team_services, *state_->control_blocks, context,
                                            std::move(members), self);
}

}  // namespace zh::engine
