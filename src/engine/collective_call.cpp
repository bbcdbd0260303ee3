// See collective_call.h, and active_collectives.h.
#include "engine/collective_call.h"

#include <algorithm>
#include <utility>

#include "coll/team/nonblocking_slots.h"
#include "engine/internode.h"
#include "os/clock.h"

namespace zh::engine {
namespace {

/// How long a call stands still before this rank asks whether the others live and are in the same one, and asks again.
constexpr uint64_t kAskAfterNs = 100'000'000;
constexpr uint32_t kIdleTurns = 64;  // of which one looks at the clock

/// Another pointer to what the communicator keeps, which lives longer and so is not counted.
template <typename T>
std::shared_ptr<T> uncounted(const std::shared_ptr<T>& kept) {
  return {std::shared_ptr<void>(), kept.get()};
}

}  // namespace

CollectiveCall::CollectiveCall(std::shared_ptr<Collectives> of, Kind kind)
    : of_(std::move(of)),
      rank_(of_->rank_),
      calls_(*of_->calls_),
      number_(kind == Kind::kPersistent ? 0 : of_->n_calls_++),
      kind_(kind) {
  if (is_persistent()) {
    init_ = of_->n_inits_++;
    own_transport_ = of_->transport_of(init_);
  }
  transport_ = is_persistent() ? own_transport_.get() : of_->transport_.get();
  problem.layout = uncounted(of_->comm_.layout);
  problem.self = of_->comm_.self;
  problem.blocks = blocks();
}

CollectiveCall::~CollectiveCall() { stop(); }

void CollectiveCall::give_up_run() {
  const bool may_keep = !is_persistent() && done_.load_relaxed() != 0;
  if (may_keep && run_->code() == Code::kOk) of_->keep_run(std::move(run_));
  run_.reset();
}

void CollectiveCall::agree(bool refuses) {
  if (!blocks() || problem.collective == coll::Collective::kNeighbor) return;
  const coll::HostLeads leads = of_->host_leads(problem);
  const coll::StepSharing sharing = coll::sharing(problem, leads);
  of_any_length_ = sharing == coll::StepSharing::kAlways;
  if (sharing == coll::StepSharing::kNever) return;
  coll::Team* const team = blocking_team();
  if (team == nullptr) return;
  node_steps_.emplace(*team);
  problem.team = of_any_length_;
  if (of_any_length_) return;
  // Whoever agrees takes the steps, so it has all that they need before.
  problem.team = !refuses && coll::wants_to_share(problem, leads, of_->precedence_);
  problem.team = can_agree(problem.team);
}

// Its run is made before, as the problem is now. An algorithm may have no steps to share.
bool CollectiveCall::can_agree(bool wants) {
  bool agreed = false;
  if (wants && make_run(true).ok() && shares_) {
    agreed = node_steps_->agree(coll::digest(problem));
  } else {
    node_steps_->pass();
  }
  if (!agreed && run_ != nullptr) of_->keep_run(std::move(run_));
  return agreed;
}

Status CollectiveCall::make_run(bool may_leave) {
  if (problem.uniform) problem.chunk_bytes = of_->precedence_.chunk_bytes;
  Collectives::Chosen chosen;
  if (Status s = of_->plan(&problem, &chosen, may_leave); !s.ok()) return s;
  left_to_host_ = chosen.plan == nullptr;
  algorithm_ = chosen.algorithm;
  if (left_to_host_) return kOk;
  shares_ = chosen.plan->shares();
  if (is_persistent() || chosen.idle == nullptr)
    return coll::Run::create(std::move(chosen.plan), *transport_, &run_, &calls_.scratch_pool_);
  run_ = std::move(chosen.idle);
  run_->take_scratch();
  return kOk;
}

// What members know alike decides who serves the call. A member that lacks memory has all of them take messages, also
// for calls that have begun; so these are never the host's.
bool CollectiveCall::choose_memory() {
  const coll::Facts facts{false, buffers.how.user == nullptr, {}};
  const bool small = coll::goes_by_slots(problem, facts, of_->precedence_);
  if (!small) {
    const bool on_node = of_->comm_.layout->nodes() == 1;
    if (on_node && facts.kernel && !coll::fits_staging(problem)) return false;  // plan() chooses
    const coll::CollectiveWay way = coll::choose(problem, facts, of_->precedence_).way;
    left_to_host_ = way == coll::CollectiveWay::kHost;
    if (way != coll::CollectiveWay::kStaged) return false;
  }
  if (is_persistent()) own_memory_team_ = of_->on_node_of(small, init_);
  NonblockingOnNode* const team = is_persistent() ? own_memory_team_.get() : of_->on_node(small);
  if (!small) {
    const std::lock_guard lock(calls_.mutex_);
    if (team->is_out()) return false;
  }
  memory_team_ = team;
  small_ = small;
  return true;
}

Status CollectiveCall::ready() {
  if (!blocks()) {
    if (choose_memory()) {
      if (!buffers.empty_handed || !coll::fits_slots(problem)) return kOk;
      return {Code::kNoMemory, "memory for a copy of a collective's buffer"};
    }
    if (left_to_host_) return kOk;
  }
  return run_ != nullptr ? kOk : make_run(true);
}

// The others may be in such a call of theirs, the first one, for which they wait to hear where all blocks are.
void CollectiveCall::withdraw() {
  --(is_persistent() ? of_->n_inits_ : of_->n_calls_);
  const coll::Layout& layout = *of_->comm_.layout;
  if (kind_ != Kind::kNonblocking || layout.nodes() > 1 || layout.ranks() > coll::kMostNonblockingRanks) return;
  calls_.set_up(of_->on_node(true));
  calls_.set_up(of_->on_node(false));
}

// Takes the mutex, as members that read it expect one writer.
void CollectiveCall::refuse() {
  {
    const std::lock_guard lock(calls_.mutex_);
    transport_->announce(number_, coll::kRefused);
  }
  transport_->give_up(number_, coll::first_tag(number_));
  if (!node_steps_.has_value()) agree(true);
  if (of_any_length_ && node_steps_.has_value()) take_no_part();
}

// The members on this node have begun the call's steps, or will.
void CollectiveCall::take_no_part() {
  problem.count = 0;
  problem.uniform = true;
  problem.in_place = false;
  problem.send.clear();
  problem.recv.clear();
  coll::Schedule schedule;
  if (!coll::build(problem, coll::kHostLeaders, &schedule).ok()) return;
  std::unique_ptr<coll::Run> run;
  const auto plan = std::make_shared<const coll::Plan>(std::move(schedule));
  if (!coll::Run::create(plan, *transport_, &run, &calls_.scratch_pool_).ok()) return;
  coll::Call call;
  call.node = &*node_steps_;
  call.first_tag = coll::first_tag(number_);
  call.refused = true;
  run->start(call);
  while (!run->advance() && run->shared_is_next()) run->share();
}

void CollectiveCall::start() {
  started_ = number_;
  if (is_persistent()) ++number_;
  digest_ = coll::digest(problem);
  const std::lock_guard lock(calls_.mutex_);
  transport_->announce(started_, digest_);
  if (!does_anything()) return;
  await_end();
  if (through_memory()) {
    memory_team_->begin(problem, started_, digest_, buffers, &memory_call_);
  } else {
    start_run();
  }
  if (shares_) {  // its steps wait for others, so finish() takes them, without the mutex
    ++calls_.with_others_;
  } else {
    if (advance(false)) return;
    calls_.active_.push_back(this);
  }
  calls_.count_active();
}

void CollectiveCall::start_again() {
  number_ = started_ = of_->n_calls_++;
  const std::lock_guard lock(calls_.mutex_);
  transport_->announce(started_, digest_);
  await_end();
  memory_team_->begin_again(problem, started_, buffers, &memory_call_);
  if (advance(false)) return;
  calls_.active_.push_back(this);
  calls_.count_active();
}

void CollectiveCall::start_run() {
  rank_.count_schedule(problem.collective, algorithm_);
  buffers.first_tag = coll::first_tag(started_);
  buffers.node = problem.team ? &*node_steps_ : nullptr;
  if (blocks()) transport_->begin_blocking(buffers.first_tag);
  run_->start(buffers);
}

void CollectiveCall::finish() {
  const auto told = [this](p2p::Activity* out) { tell(out); };
  if (shares_) return run_with_others(told);
  rank_.wait_until([this] { return look(); }, told);
}

void CollectiveCall::tell(p2p::Activity* out) const {
  out->waits = p2p::Activity::Waits::kForMembers;
  out->context = of_->comm_.context;
  const std::unique_lock lock(calls_.mutex_, std::try_to_lock);
  if (!lock) return;
  const auto add = [&](int32_t local) {
    if (local >= 0) out->add_peer(rank_.node().world_rank(static_cast<uint32_t>(local)));
  };
  if (run_ != nullptr) {
    run_->visit_peers([&](uint32_t rank) { add(of_->comm_.members[rank]); });
  } else if (awaited_.load_relaxed() != nullptr) {
    add(memory_team_->awaited_rank(&memory_call_));
  }
}

void CollectiveCall::run_with_others(p2p::Tell told) {
  Internode* internode = rank_.internode();
  bool ended = false;
  while (!ended) {
    rank_.wait_until(
        [&] {
          internode->progress();
          ended = advance(false);
          return ended || run_->shared_is_next();
        },
        told);
    if (ended) break;
    const Rank::NetworkScope patience(rank_);
    run_->share();
  }
  const std::lock_guard lock(calls_.mutex_);
  --calls_.with_others_;
  calls_.count_active();
}

Code CollectiveCall::trouble() {
  if (run_ != nullptr && run_->gave_up()) return Code::kOk;
  if (++idle_ % kIdleTurns != 0) return Code::kOk;
  const uint64_t now = os::now_ns();
  const bool first = ask_at_ns_ == 0;
  if (now < ask_at_ns_) return Code::kOk;
  ask_at_ns_ = now + kAskAfterNs;
  if (first) return Code::kOk;
  transport_->stands_still(coll::first_tag(started_));
  if (transport_->bereft()) return Code::kPeerDead;
  return transport_->contradicted(started_, digest_) ? Code::kInvalid : Code::kOk;
}

inline bool CollectiveCall::step() {
  if (through_memory()) {
    using Progress = NonblockingOnNode::Progress;
    switch (memory_team_->advance(&memory_call_)) {
      case Progress::kWaits:
        awaited_.store_relaxed(memory_team_->awaited(&memory_call_));
        return false;
      case Progress::kEnded:
        code_ = memory_call_.code;
        return true;
      case Progress::kUnserved:
        break;
    }
    if (const Status status = make_run(false); !status.ok()) {
      transport_->announce(started_, coll::kRefused);  // the others wait for this rank's messages
      code_ = status.code();
      return true;
    }
    memory_team_ = nullptr;
    awaited_.store_relaxed(nullptr);
    start_run();
  }
  if (!run_->advance()) return false;
  code_ = run_->code();
  return true;
}

void CollectiveCall::fail(Code code) {
  if (through_memory()) {
    memory_team_->fail(&memory_call_, code);
  } else {
    run_->fail(code);
  }
  code_ = code;
}

bool CollectiveCall::advance(bool alone) {
  if (!step()) {
    const Code code = trouble();
    if (code == Code::kOk) return false;
    fail(code);
    if (!through_memory() && !step()) return false;
  }
  if (run_ != nullptr && run_->gave_up()) transport_->give_up(started_, coll::first_tag(started_));
  // The other members are served; the rest waits for the rank itself.
  if (alone && ends_by_host()) return false;
  end(code_);
  done_.store_release(1);  // RN0 -> RN1: the result and the outcome before done
  return true;
}

bool CollectiveCall::look() {
  // RN1 <- RN0: the result and the outcome
  if (done_.load_acquire() != 0) return true;
  calls_.advance();
  // RN1 <- RN0: the result and the outcome
  return done_.load_acquire() != 0;
}

void CollectiveCall::look_for_long() {
  if (!comes_by_itself_ || calls_.rank_ == nullptr) return;
  rank_.look_for([this] { return !still_waits() && look(); });
}

bool CollectiveCall::still_waits() const {
  const Atomic<uint64_t>* const awaited = awaited_.load_relaxed();
  return awaited != nullptr && calls_.n_active_.load_relaxed() == 1 &&
         !coll::NonblockingSlots::has_come(*awaited, memory_call_);
}

// One thread at a time is enough; the others go on looking at their own.
void ActiveCollectives::advance(bool alone) {
  if (rank_ == nullptr) return;
  Internode* internode = rank_->internode();
  const bool lets_go = internode != nullptr && internode->lets_go();
  if ((n_active_.load_relaxed() == 0 && !lets_go) || !mutex_.try_lock()) return;
  if (internode != nullptr && !alone) internode->progress();
  const auto ended = [alone](CollectiveCall* c) { return (!alone || c->goes_alone()) && c->advance(alone); };
  active_.erase(std::remove_if(active_.begin(), active_.end(), ended), active_.end());
  std::erase_if(set_ups_, [](NonblockingOnNode* of_none) { return of_none->set_up_alone(); });
  count_active();
  mutex_.unlock();
}

void ActiveCollectives::set_up(NonblockingOnNode* of_none) {
  const std::lock_guard lock(mutex_);
  if (!of_none->set_up_alone()) set_ups_.push_back(of_none);
  count_active();
}

void ActiveCollectives::forget(const NonblockingOnNode* gone) {
  const std::lock_guard lock(mutex_);
  std::erase(set_ups_, gone);
  count_active();
}

bool ActiveCollectives::any_alone() {
  if (n_active_.load_relaxed() == 0) return false;
  const std::lock_guard lock(mutex_);
  return !set_ups_.empty() ||
         std::any_of(active_.begin(), active_.end(), [](const CollectiveCall* c) { return c->goes_alone(); });
}

void ActiveCollectives::finish(const Collectives& of) {
  rank_->wait_until([&] {
    advance();
    const std::lock_guard lock(mutex_);
    return std::none_of(active_.begin(), active_.end(), [&](const CollectiveCall* c) { return c->of_.get() == &of; });
  });
}

}  // namespace zh::engine
