// What the collectives need of a rank (coll/team/services.h), and the making of teams.
#include <algorithm>
#include <new>
#include <utility>

#include "coll/team/nonblocking_slots.h"
#include "coll/team/nonblocking_staged.h"
#include "coll/team/services.h"
#include "coll/team/team.h"
#include "engine/activity.h"
#include "engine/state.h"

namespace zh::engine {

namespace {
/// Looks at a flag before everything else gets a turn: about the time in which a member that runs would set it.
constexpr uint32_t kLooks = 2000;
}  // namespace

/// A rank as its teams see it.
class Rank::TeamServices final : public coll::Services {
 public:
  explicit TeamServices(Rank& rank) : rank_(rank), s_(*rank.state_) {}
  [[nodiscard]] std::byte* base() const override { return rank_.node_.base(); }

  // Messages must not run out of memory because of many communicators, nor these because rings have grown first: an
  // eighth of the budget is the teams' whatever rings have taken of their half. What teams can do without counts for
  // half of that eighth at most, wherever it was taken.
  [[nodiscard]] Offset allocate(uint64_t bytes) override {
    Guard guard(s_);
    const uint64_t own = s_.endpoint->arena().budget_bytes() / 8;
    return allocate(bytes, needed_ + std::min(spare_, own / 2) + bytes <= own, &needed_);
  }
  [[nodiscard]] Offset allocate_spare(uint64_t bytes) override {
    Guard guard(s_);
    const uint64_t own = s_.endpoint->arena().budget_bytes() / 8;
    return allocate(bytes, spare_ + bytes <= own / 2 && needed_ + spare_ + bytes <= own, &spare_);
  }
  [[nodiscard]] copy::MemoryAccess& memory() override { return s_.endpoint->memory(); }

  // The number of the sender in a team's context is its node-local index: a team's messages never use wildcards.
  [[nodiscard]] p2p::Request* send(uint32_t dest, uint64_t context, int32_t tag, const copy::Buffer& data,
                                   p2p::SendMode mode) override {
    const SendArgs args{dest, static_cast<int32_t>(rank_.node_.self()), tag, context, data, mode};
    Guard guard(s_);
    rank_.account().counters.of_collectives.add(data.bytes);
    return s_.endpoint->sends().isend(args);
  }
  [[nodiscard]] p2p::Request* recv(uint32_t source, uint64_t context, int32_t tag, const copy::Buffer& data) override {
    const auto from = static_cast<int32_t>(source);
    Guard guard(s_);
    return s_.endpoint->receives().irecv({from, from, tag, context, data});
  }
  [[nodiscard]] bool done(const p2p::Request* request) const override { return rank_.done(request); }
  Code finish(p2p::Request* request, uint64_t* bytes) override {
    const Code code = rank_.result(request).code;
    *bytes = rank_.result(request).bytes;
    rank_.release(request);
    return code;
  }
  void abandon(p2p::Request* request) override {
    while (!rank_.done(request) && !rank_.cancel(request)) rank_.progress();
    rank_.release(request);
  }

  void wait(bool (*ready)(void*), void* context, p2p::Tell tell) override {
    const auto told = [&](p2p::Activity* out) {
      tell(out);
      out->context = rank_.called_on_.load_relaxed();
      to_world_ranks(rank_.node_, out);
    };
    rank_.wait_until([&] { return ready(context); }, told);
  }
  [[nodiscard]] uint32_t polls() const override { return rank_.looks(); }
  [[nodiscard]] bool keeps_cpu_from_peer() override { return rank_.keeps_cpu_from_peer(); }
  [[nodiscard]] const Atomic<uint32_t>* sleepers() const override { return &s_.endpoint->sleepers(); }
  void wake(uint32_t rank) override { s_.endpoint->wake(rank); }
  void count_staged(uint64_t bytes) override {
    Guard guard(s_);
    s_.staged.add(bytes);
  }
  [[nodiscard]] uint64_t streamed_from(uint32_t rank) const override {
    Guard guard(s_);
    return s_.endpoint->choice(rank).nontemporal_min;
  }
  [[nodiscard]] node::Level level(uint32_t a, uint32_t b) const override { return rank_.node_.level(a, b); }
  [[nodiscard]] uint32_t copiers() const override { return s_.config.copiers; }
  [[nodiscard]] bool alive(uint32_t rank) override { return !rank_.node_.ended(rank); }

 private:
  /// Under the lock.
  [[nodiscard]] Offset allocate(uint64_t bytes, bool in_own_part, uint64_t* count) {
    p2p::Endpoint& e = *s_.endpoint;
    const bool in_common_half = e.arena().used_bytes() + bytes <= e.arena().budget_bytes() / 2;
    const Offset offset = in_common_half || in_own_part ? e.make_scratch(bytes) : kNoOffset;
    if (offset != kNoOffset) *count += bytes;
    return offset;
  }

  Rank& rank_;
  State& s_;
  uint64_t needed_ = 0;  ///< bytes that allocate() has given; teams keep them
  uint64_t spare_ = 0;   ///< ... and allocate_spare()
};

uint32_t Rank::looks() const { return state_->patient && !state_->others_want_cpu() ? kLooks : 1; }
bool Rank::keeps_cpu_from_peer() { return state_->notice_company(p2p::kAnyPeer); }

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
  coll::Services& services = *state_->team_services;
  coll::ControlBlockPool& blocks = *state_->control_blocks;
  if (small) return std::make_unique<coll::NonblockingSlots>(services, blocks, context, std::move(members), self);
  return std::make_unique<coll::NonblockingStaged>(services, blocks, context, std::move(members), self);
}

}  // namespace zh::engine
