// See large_started.h.
#include "engine/large_started.h"

#include <utility>
#include <vector>

namespace zh::engine {

// Measured at 2 ranks that share no cache. Gather and scatter are faster as messages of any length.
bool LargeStarted::fits(const coll::Problem& p) {
  constexpr uint64_t kLargestBcast = 256 << 10;
  constexpr uint64_t kLargestPiece = 64 << 10;
  if (!p.uniform || p.ranks() < 2 || p.ranks() > kMostRanks || p.bytes() < kLeastBytes) return false;
  switch (p.collective) {
    case coll::Collective::kReduce:
    case coll::Collective::kAllreduce:
    case coll::Collective::kReduceScatter:
      return p.element_bytes <= coll::StagedTeam::kLeastRoom;
    case coll::Collective::kBcast:
      return p.bytes() <= kLargestBcast;
    case coll::Collective::kAllgather:
    case coll::Collective::kAlltoall:
      return p.bytes() <= kLargestPiece;
    default:
      return false;
  }
}

LargeStarted::LargeStarted(Rank& rank, uint64_t context, const RankList& members, uint32_t self, Where where)
    : where_(where),
      exchange_(rank, context, members, self),
      team_(rank.make_staged_team(context, members.indices(), self)) {}

LargeStarted::~LargeStarted() = default;

void LargeStarted::begin(const coll::Problem& problem, uint64_t number, const coll::Call& buffers,
                         coll::StagedCall* call) {
  if (state_ == State::kNew) begin_set_up();
  *call = {};
  static_cast<coll::Exchange&>(*call) = exchange_of(problem, number, buffers);
  call->digest = uint64_t{coll::digest(problem)} << 32 | problem.element_bytes;
  call->able = !buffers.empty_handed;
  if (state_ != State::kUnserved) team_->begin(call);
}

LargeStarted::Progress LargeStarted::advance(coll::StagedCall* call) {
  if (state_ == State::kSettingUp) [[unlikely]]
    set_up();
  switch (state_) {
    case State::kServes:
      if (!team_->advance(call)) return Progress::kWaits;
      return call->unserved ? Progress::kUnserved : Progress::kEnded;
    case State::kUnserved:
      return Progress::kUnserved;
    case State::kFailed:
      if (!call->ended) team_->fail(call, fault_);
      return Progress::kEnded;
    default:
      return Progress::kWaits;
  }
}

void LargeStarted::begin_set_up() {
  const bool wants = where_ == Where::kAnywhere || team_->is_apart();
  const Status status = exchange_.begin({team_->take_block(), wants ? uint64_t{1} : 0});
  state_ = status.ok() ? State::kSettingUp : State::kFailed;
  fault_ = status.code();
}

// Where members share a cache a message is copied once, out of it.
void LargeStarted::set_up() {
  if (!exchange_.advance(team_->look_for_deaths(), &fault_)) return;
  std::vector<Offset> blocks = exchange_.blocks();
  uint64_t want = 0;
  for (const BlockExchange::Told& member : exchange_.told()) want += member.mark;
  if (fault_ != Code::kOk) {
    state_ = State::kFailed;
  } else if (blocks.empty() || 2 * want <= blocks.size()) {
    state_ = State::kUnserved;
    team_->give_up();
  } else {
    state_ = State::kServes;
    team_->open(std::move(blocks));
  }
}

}  // namespace zh::engine
