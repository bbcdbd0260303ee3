// See small_started.h.
#include "engine/small_started.h"

#include <utility>

namespace zh::engine {

SmallStarted::SmallStarted(Rank& rank, uint64_t context, const RankList& members, uint32_t self)
    : exchange_(rank, context, members, self), team_(rank.make_started_team(context, members.indices(), self)) {}

SmallStarted::~SmallStarted() = default;

void SmallStarted::begin(const coll::Problem& problem, uint64_t number, const coll::Call& buffers,
                         coll::StartedCall* call) {
  if (state_ == State::kNew) begin_set_up();
  *call = {};
  static_cast<coll::Exchange&>(*call) = exchange_of(problem, number, buffers);
  call->exact = buffers.exact;
  if (state_ != State::kUnserved) team_->begin(call);
}

SmallStarted::Progress SmallStarted::advance(coll::StartedCall* call) {
  if (state_ == State::kSettingUp) [[unlikely]]
    set_up();
  switch (state_) {
    case State::kServes:
      return team_->advance(call) ? Progress::kEnded : Progress::kWaits;
    case State::kUnserved:
      return Progress::kUnserved;
    case State::kFailed:
      if (!call->ended) team_->fail(call, fault_);
      return Progress::kEnded;
    default:
      return Progress::kWaits;
  }
}

void SmallStarted::begin_set_up() {
  const Status status = exchange_.begin({team_->take_block(), 0});
  state_ = status.ok() ? State::kSettingUp : State::kFailed;
  fault_ = status.code();
}

void SmallStarted::set_up() {
  if (!exchange_.advance(team_->look_for_deaths(), &fault_)) return;
  std::vector<Offset> blocks = exchange_.blocks();
  if (fault_ != Code::kOk) {
    state_ = State::kFailed;
  } else if (blocks.empty()) {
    state_ = State::kUnserved;
    team_->give_up();
  } else {
    state_ = State::kServes;
    team_->open(std::move(blocks));
  }
}

}  // namespace zh::engine
