#include "engine/nonblocking_on_node.h"

#include <tuple>
#include <utility>
#include <vector>

#include "coll/algorithms/choose.h"

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

}  // namespace

NonblockingOnNode::NonblockingOnNode(Rank& rank, Kind kind, uint64_t context, const RankList& members, uint32_t self)
    : kind_(kind),
      transport_(rank, context, members, self),
      self_(self),
      told_(members.ranks.size()),
      team_(rank.make_nonblocking_team(kind == Kind::kSlots, context, members.indices(), self)) {}

void NonblockingOnNode::begin(const coll::Problem& p, uint64_t number, uint32_t digest, const coll::Call& buffers,
                              coll::NonblockingCall* call) {
  if (state_ == State::kNew) begin_set_up();
  call->gives = (p.collective != Collective::kBcast && p.collective != Collective::kScatter) || p.self == p.root;
  call->exact = buffers.exact;
  call->able = !buffers.empty_handed;
  std::tie(call->first, call->end) = givers_of(p);
  call->pieces = coll::pieces_of(p);
  call->piece = call->pieces == 1 ? 0 : p.self;
  call->bytes = p.bytes();
  call->digest = uint64_t{digest} << 32 | p.element_bytes;
  call->how = coll::reduces(p.collective) ? buffers.how : coll::Reduction{};
  begin_again(p, number, buffers, call);
}

void NonblockingOnNode::begin_again(const coll::Problem& p, uint64_t number, const coll::Call& buffers,
                                    coll::NonblockingCall* call) {
  call->number = number;
  call->give = call->gives ? given(p, buffers) : nullptr;
  call->out = buffers.output;
  if (state_ != State::kUnserved) team_->begin(call);
}

NonblockingOnNode::Progress NonblockingOnNode::advance_unserved(coll::NonblockingCall* call) {
  if (state_ == State::kSettingUp) set_up();
  if (state_ == State::kServes) return advance(call);
  switch (state_) {
    case State::kUnserved:
      return Progress::kUnserved;
    case State::kFailed:
      if (!call->ended) team_->fail(call, fault_);
      return Progress::kEnded;
    default:
      return Progress::kWaits;
  }
}

bool NonblockingOnNode::set_up_alone() {
  if (state_ == State::kNew) begin_set_up();
  if (state_ == State::kSettingUp) set_up();
  return state_ != State::kSettingUp;
}

void NonblockingOnNode::begin_set_up() {
  const bool wants = kind_ != Kind::kStaged || team_->is_apart();
  own_ = {team_->take_block(), wants ? uint64_t{1} : 0};
  const Status status = begin_exchange();
  state_ = status.ok() ? State::kSettingUp : State::kFailed;
  fault_ = status.code();
}

// Does not wait. An error: nothing was begun.
Status NonblockingOnNode::begin_exchange() {
  coll::Problem problem;
  problem.collective = Collective::kAllgather;
  problem.self = self_;
  problem.count = sizeof(Told);
  problem.layout = coll::Layout::one_node(static_cast<uint32_t>(told_.size()));
  coll::Schedule schedule;
  if (Status s = coll::build(problem, coll::default_algorithm(problem), &schedule); !s.ok()) return s;
  const auto plan = std::make_shared<const coll::Plan>(std::move(schedule));
  if (Status s = coll::Run::create(plan, transport_, &run_); !s.ok()) return s;
  coll::Call buffers;
  buffers.input = &own_;
  buffers.output = told_.data();
  run_->start(buffers);
  return kOk;
}

// Where members share a cache a large message is copied once, out of it.
void NonblockingOnNode::set_up() {
  const bool dead = team_->look_for_deaths();
  if (!run_->advance()) {
    if (!dead) return;
    run_->fail(Code::kPeerDead);
  }
  fault_ = run_->code();
  run_.reset();
  std::vector<Offset> blocks;
  uint64_t want = 0;
  for (const Told& member : told_) {
    if (member.block != kNoOffset) blocks.push_back(member.block);
    want += member.wants;
  }
  if (fault_ != Code::kOk) {
    state_ = State::kFailed;
  } else if (blocks.size() != told_.size() || 2 * want <= blocks.size()) {
    state_ = State::kUnserved;
    team_->give_up();
  } else {
    state_ = State::kServes;
    team_->open(blocks);
  }
}

}  // namespace zh::engine
