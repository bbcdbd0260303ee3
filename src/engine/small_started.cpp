// See small_started.h.
#include "engine/small_started.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "coll/algorithms/algorithms.h"

namespace zh::engine {

namespace {

using coll::Collective;

/// Whose contributions rank `self` takes.
std::pair<uint32_t, uint32_t> givers_of(const coll::Problem& p) {
  const std::pair<uint32_t, uint32_t> nobody{0, 0};
  switch (p.collective) {
    case Collective::kBcast:
      return p.self == p.root ? nobody : std::pair{p.root, p.root + 1};
    case Collective::kScatter:
      return p.in_place ? nobody : std::pair{p.root, p.root + 1};
    case Collective::kReduce:
    case Collective::kGather:
      return p.self == p.root ? std::pair{0U, p.ranks()} : nobody;
    case Collective::kScan:
      return {0, p.self + 1};
    case Collective::kExscan:
      return {0, p.self};
    default:
      return {0, p.ranks()};
  }
}

/// Where the contribution of rank `self` lies.
const void* given(const coll::Problem& p, const coll::Call& buffers) {
  if (!p.in_place || p.collective == Collective::kScatter) return buffers.input;
  // In place the own piece is among the others'.
  const bool gathers = p.collective == Collective::kGather || p.collective == Collective::kAllgather;
  return static_cast<const std::byte*>(buffers.output) + (gathers ? p.self * p.bytes() : 0);
}

coll::StartedCall describe(const coll::Problem& p, uint64_t number, const coll::Call& buffers) {
  coll::StartedCall call;
  call.number = number;
  call.gives = (p.collective != Collective::kBcast && p.collective != Collective::kScatter) || p.self == p.root;
  if (call.gives) call.give = given(p, buffers);
  std::tie(call.first, call.end) = givers_of(p);
  call.pieces = SmallStarted::pieces_of(p);
  call.piece = call.pieces == 1 ? 0 : p.self;
  call.bytes = p.bytes();
  call.out = buffers.output;
  if (coll::reduces(p.collective)) call.how = buffers.how;
  call.exact = buffers.exact;
  return call;
}

std::vector<uint32_t> indices(const RankList& members) { return {members.ranks.begin(), members.ranks.end()}; }

}  // namespace

SmallStarted::SmallStarted(Rank& rank, uint64_t context, const RankList& members, uint32_t self)
    : transport_(rank, context, members, self),
      team_(rank.make_started_team(context, indices(members), self)),
      self_(self),
      size_(static_cast<uint32_t>(members.ranks.size())) {}

SmallStarted::~SmallStarted() = default;

void SmallStarted::begin(const coll::Problem& problem, uint64_t number, const coll::Call& buffers,
                         coll::StartedCall* call) {
  if (state_ == State::kNew) begin_set_up();
  *call = describe(problem, number, buffers);
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

// An allgather of where the blocks are, as a schedule: it goes on whenever a call does.
void SmallStarted::begin_set_up() {
  coll::Problem problem;
  problem.collective = Collective::kAllgather;
  problem.self = self_;
  problem.count = sizeof(Offset);
  problem.layout = coll::Layout::one_node(size_);
  coll::Schedule schedule;
  Status status = coll::build(problem, coll::choose(problem), &schedule);
  if (status.ok()) {
    status = coll::Run::create(std::make_shared<const coll::Plan>(std::move(schedule)), transport_, &set_up_);
  }
  if (!status.ok()) {
    state_ = State::kFailed;
    fault_ = status.code();
    return;
  }
  own_ = team_->take_block();
  blocks_.assign(size_, kNoOffset);
  coll::Call buffers;
  buffers.input = &own_;
  buffers.output = blocks_.data();
  set_up_->start(buffers);
  state_ = State::kSettingUp;
}

void SmallStarted::set_up() {
  if (!set_up_->advance()) {
    if (!team_->look_for_deaths()) return;
    set_up_->fail(Code::kPeerDead);
  }
  fault_ = set_up_->code();
  set_up_.reset();
  if (fault_ != Code::kOk) {
    state_ = State::kFailed;
  } else if (std::count(blocks_.begin(), blocks_.end(), kNoOffset) != 0) {
    state_ = State::kUnserved;
    team_->give_up();
  } else {
    state_ = State::kServes;
    team_->open(std::move(blocks_));
  }
}

}  // namespace zh::engine
