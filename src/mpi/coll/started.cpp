// See started.h.
#include "mpi/coll/started.h"

#include <algorithm>
#include <new>

#include "coll/algorithms/algorithms.h"
#include "coll/algorithms/choose.h"
#include "coll/schedule/scratch_pool.h"
#include "coll/team/small_team.h"
#include "engine/internode.h"
#include "os/clock.h"

namespace zh::mpi {
namespace {

/// How long a call stands still before this rank asks whether the others live and are in the same one, and asks again.
constexpr uint64_t kAskAfterNs = 100'000'000;
constexpr uint32_t kIdleTurns = 64;  // of which one looks at the clock

/// Tags stay positive; what has the same tag again began a million collectives earlier.
constexpr uint64_t kTagMask = 0x3fffffff;
int32_t first_tag(uint64_t number) { return static_cast<int32_t>((number * coll::kTags) & kTagMask); }

std::mutex active_mutex;  // always taken: the engine's helper thread may come at any time
std::vector<Started*> active;
uint32_t with_others = 0;  // under way beside these
Atomic<uint32_t> n_active{0};

/// Memory of a Started that has gone, or null.
Atomic<void*> spare_started{nullptr};

void count_active() { n_active.store_relaxed(static_cast<uint32_t>(active.size()) + with_others); }

/// Of all communicators. Never destroyed: a program may free requests in its exit handlers.
coll::ScratchPool& scratch_pool = *new coll::ScratchPool;

/// Another pointer to what the communicator keeps, which lives longer and so is not counted.
template <typename T>
std::shared_ptr<T> uncounted(const std::shared_ptr<T>& kept) {
  return {std::shared_ptr<void>(), kept.get()};
}

}  // namespace

Runs::Runs(const CommInfo& info)
    : comm(info.handle),
      context_(info.context),
      self_(static_cast<uint32_t>(info.rank)),
      members_{info.members->local(), info.members},
      world_{info.members->world(), info.members},
      layout_(info.members->layout()),
      transport_(make_transport(nonblocking_context(context_))) {}

std::shared_ptr<coll::Transport> Runs::make_transport(uint64_t context) const {
  if (layout_->nodes() == 1) return std::make_shared<engine::RunTransport>(*shim.rank, context, members_, self_);
  engine::Internode& internode = *shim.rank->internode();
  return std::make_shared<engine::SpanTransport>(*shim.rank, internode, context, members_, world_, self_);
}

std::unique_ptr<engine::NonblockingOnNode> Runs::make_on_node(bool small, uint64_t context) const {
  using Kind = engine::NonblockingOnNode::Kind;
  return std::make_unique<engine::NonblockingOnNode>(*shim.rank, small ? Kind::kSmall : Kind::kPipelined,
                                                     small ? small_context(context) : large_context(context), members_,
                                                     self_);
}

engine::NonblockingOnNode* Runs::on_node(bool small) {
  std::unique_ptr<engine::NonblockingOnNode>& kept = small ? small_ : large_;
  if (kept == nullptr) kept = make_on_node(small, nonblocking_context(context_));
  return kept.get();
}

Status Runs::plan(coll::Problem* problem, Chosen* out, bool may_leave) try {
  coll::Problem& p = *problem;
  const bool of_neighbors = p.collective == coll::Collective::kNeighbor;
  const bool lasting = p.uniform || of_neighbors;
  const Key key{p.collective, p.root, p.count, p.element_bytes, p.commutative, p.in_place, p.team};
  const std::lock_guard lock(known_mutex_);
  const auto known = std::find_if(known_.begin(), known_.end(), [&](const Known& k) {
    return k.key == key && (!of_neighbors || (k.send == p.send && k.recv == p.recv));
  });
  if (lasting && known != known_.end()) {
    known_.splice(known_.begin(), known_, known);
    *out = {known->plan, known->algorithm, std::move(known->idle)};
    return kOk;
  }
  if (of_neighbors) {
    p.sources = neighborhood().sources.ranks;
    p.destinations = neighborhood().destinations.ranks;
  }
  coll::Schedule schedule;
  const coll::AlgorithmChoice choice = shim.algorithms.choose(p);
  const coll::Algorithm* how = choice.algorithm;
  const bool leaves = how == nullptr;
  if (leaves && may_leave) return kOk;
  if (leaves) how = coll::algorithm(p.collective, coll::choose(p));
  p.chunk_bytes = choice.chunk_bytes;
  if (Status s = coll::build(p, how->name, &schedule); !s.ok()) return s;
  out->plan = std::make_shared<const coll::Plan>(std::move(schedule));
  out->algorithm = static_cast<size_t>(how - coll::algorithms(p.collective).data());
  if (!lasting || leaves) return kOk;
  known_.push_front({key, {}, {}, out->plan, out->algorithm, nullptr});
  if (of_neighbors) {
    known_.front().send = p.send;
    known_.front().recv = p.recv;
  }
  if (known_.size() > kKnown) known_.pop_back();
  return kOk;
} catch (const std::bad_alloc&) {
  return {Code::kNoMemory, "memory for a collective's plan"};
}

void Runs::keep_run(std::unique_ptr<coll::Run> run) {
  run->release_scratch();
  const std::lock_guard lock(known_mutex_);
  const auto known =
      std::find_if(known_.begin(), known_.end(), [&](const Known& k) { return k.plan.get() == &run->plan(); });
  if (known != known_.end()) known->idle = std::move(run);
}

coll::HostLeads Runs::host_leads(const coll::Problem& p) {
  const size_t key = static_cast<size_t>(p.collective) * 4 + (p.commutative ? 2 : 0) + (p.uniform ? 1 : 0);
  if (!host_leads_[key].has_value()) host_leads_[key] = shim.algorithms.host_leads(p);
  return *host_leads_[key];
}

Leaders* Runs::leaders() {
  if (layout_->members(layout_->node_of(self_))[0] != self_) return nullptr;
  if (leaders_ == nullptr) leaders_ = std::make_unique<Leaders>(context_, *layout_, world_.ranks, self_);
  return leaders_.get();
}

Neighborhood& Runs::neighborhood() {
  if (!neighborhood_.has_value()) neighborhood_ = ask_neighborhood(comm);
  return *neighborhood_;
}

Runs* runs_of(CommInfo* comm) {
  if (comm == nullptr || shim.rank == nullptr || !shim.collectives) return nullptr;
  if (comm->runs == nullptr) comm->runs = std::make_shared<Runs>(*comm);
  return comm->runs.get();
}

Started::Started(std::shared_ptr<Runs> runs, bool persistent, CommInfo* blocks)
    : runs_(std::move(runs)), blocks_(blocks), number_(persistent ? 0 : runs_->calls++), persistent_(persistent) {
  if (persistent) init_ = runs_->inits++;
  if (persistent) own_transport_ = runs_->transport_of(init_);
  transport_ = persistent ? own_transport_.get() : runs_->transport();
  problem.layout = uncounted(runs_->layout_);
  problem.self = runs_->self_;
  problem.blocks = blocks != nullptr;
}

void Started::agree(bool refuses) {
  if (blocks_ == nullptr || problem.collective == coll::Collective::kNeighbor) return;
  const coll::HostLeads leads = runs_->host_leads(problem);
  of_any_length_ = leads == coll::HostLeads::kAlways;
  if (leads == coll::HostLeads::kNever && !coll::may_share(problem)) return;
  coll::Team* const team = node_team_of(blocks_);
  if (team == nullptr) return;
  node_.emplace(*team);
  if (of_any_length_) {
    problem.team = true;
    return;
  }
  const auto by_leaders = [&] {
    const coll::Algorithm* how =
        leads == coll::HostLeads::kSometimes ? shim.algorithms.choose(problem).algorithm : nullptr;
    return how != nullptr && how->name == coll::kHostLeaders;
  };
  // Whoever agrees takes the steps, so it has all that they need before.
  problem.team = !refuses && (coll::worth_sharing(problem) || by_leaders());
  problem.team = can_agree(problem.team);
}

// Its run is made before, as the problem is now. An algorithm may have no steps to share.
bool Started::can_agree(bool wants) {
  bool agreed = false;
  if (wants && make_run(true).ok() && shares_) {
    agreed = node_->agree(coll::digest(problem));
  } else {
    node_->pass();
  }
  if (!agreed && run_ != nullptr) runs_->keep_run(std::move(run_));
  return agreed;
}

/// By the problem as it is now; left_to_host_ or run_ says what has come of it.
Status Started::make_run(bool may_leave) {
  if (problem.uniform) problem.chunk_bytes = shim.chunk_bytes;
  Runs::Chosen chosen;
  if (Status s = runs_->plan(&problem, &chosen, may_leave); !s.ok()) return s;
  left_to_host_ = chosen.plan == nullptr;
  algorithm_ = chosen.algorithm;
  if (left_to_host_) return kOk;
  shares_ = chosen.plan->shares();
  if (persistent_ || chosen.idle == nullptr)
    return coll::Run::create(std::move(chosen.plan), *transport_, &run_, &scratch_pool);
  run_ = std::move(chosen.idle);
  run_->take_scratch();
  return kOk;
}

void* Started::operator new(size_t bytes) {
  void* const spare = spare_started.exchange_acq_rel(nullptr);  // SM1 <- SM0: the last use of that memory
  return spare != nullptr ? spare : ::operator new(bytes);
}

void Started::operator delete(void* memory) {
  ::operator delete(spare_started.exchange_acq_rel(memory));  // SM0 -> SM1: the last use of that memory
}

Started::~Started() {
  const bool may_keep = run_ != nullptr && !persistent_ && done_.load_relaxed() != 0;
  if (may_keep && run_->code() == Code::kOk) runs_->keep_run(std::move(run_));
  run_.reset();
  if (!holds_operation_) return;
  drop(reducing.op);
  drop_handle(reducing.type);
}

// What members know alike decides who serves the call. A member that lacks memory has all of them take messages, also
// for calls that have begun; so these are never the host's.
bool Started::choose_team(int* error) {
  if (blocks_ != nullptr || reducing.how.user != nullptr || shim.algorithms.named_for(problem.collective).has_value())
    return false;
  const bool small = coll::small_fits(problem);
  if (small && (input.lacks_memory() || output.lacks_memory())) {
    *error = raise(error_site(), MPI_ERR_NO_MEM);
    return true;
  }
  if (!small) {
    if (!coll::pipelined_fits(problem)) return false;
    const coll::AlgorithmChoice choice = shim.algorithms.choose(problem);
    if (choice.by != coll::ChosenBy::kDefault || choice.algorithm == nullptr) return false;
  }
  if (persistent_) own_team_ = runs_->on_node_of(small, init_);
  engine::NonblockingOnNode* const team = persistent_ ? own_team_.get() : runs_->on_node(small);
  const std::lock_guard lock(active_mutex);
  if (small || !team->is_out()) team_ = team;
  return team_ != nullptr;
}

int Started::ready() {
  int error = kGoOn;
  if (choose_team(&error)) return error;
  const Status status = run_ != nullptr ? kOk : make_run(true);
  if (!status.ok()) return raise(error_site(), class_of(status.code()));
  if (left_to_host_) return leave_to_host("collectives: the host's by name, table or default");
  if (Leaders* leaders = shares_ ? runs_->leaders() : nullptr; leaders != nullptr) leaders_.emplace(*leaders, reducing);
  if (reducing.how.user != nullptr) {
    hold(reducing.op);
    hold_handle(reducing.type);
    holds_operation_ = true;
  }
  return kGoOn;
}

// Takes the mutex, as members that read it expect one writer.
void Started::refuse(int error) {
  if (is_without_effect(error)) {
    --(persistent_ ? runs_->inits : runs_->calls);
    return;
  }
  {
    const std::lock_guard lock(active_mutex);
    transport_->announce(number_, coll::kRefused);
  }
  transport_->give_up(number_, first_tag(number_));
  problem.commutative = reducing.how.commutative;
  if (!node_.has_value()) agree(true);
  if (of_any_length_ && node_.has_value()) take_no_part();
}

// The members on this node have begun the call's steps, or will.
void Started::take_no_part() {
  problem.count = 0;
  problem.uniform = true;
  problem.in_place = false;
  problem.send.clear();
  problem.recv.clear();
  coll::Schedule schedule;
  if (!coll::build(problem, coll::kHostLeaders, &schedule).ok()) return;
  std::unique_ptr<coll::Run> run;
  const auto plan = std::make_shared<const coll::Plan>(std::move(schedule));
  if (!coll::Run::create(plan, *transport_, &run, &scratch_pool).ok()) return;
  coll::Call call;
  call.node = &*node_;
  call.first_tag = first_tag(number_);
  call.refused = true;
  run->start(call);
  while (!run->advance() && run->shared_is_next()) run->share();
}

int Started::start() {
  error_ = MPI_SUCCESS;
  started_ = number_;
  if (persistent_) ++number_;
  digest_ = coll::digest(problem);
  if (!does_anything()) {
    const std::lock_guard lock(active_mutex);
    transport_->announce(started_, digest_);
    return MPI_SUCCESS;
  }
  if (const int error = input.pack(); error != MPI_SUCCESS) return error;
  if (problem.in_place) {
    if (const int error = output.pack(); error != MPI_SUCCESS) return error;
  }
  const std::lock_guard lock(active_mutex);
  done_.store_relaxed(0);
  awaited_.store_relaxed(nullptr);
  ask_at_ns_ = 0;
  transport_->announce(started_, digest_);
  comes_by_itself_ = by_team();
  if (by_team()) {
    team_->begin(problem, started_, buffers(), &team_call_);
  } else {
    start_run();
  }
  if (shares_) {  // its steps wait for others, so finish() takes them, without the mutex
    ++with_others;
  } else {
    if (advance(false)) return MPI_SUCCESS;
    active.push_back(this);
  }
  count_active();
  return MPI_SUCCESS;
}

coll::Call Started::buffers() {
  coll::Call call;
  call.input = input.base();
  call.output = output.base();
  call.how = reducing.how;
  call.first_tag = first_tag(started_);
  // Less may come in a broadcast where the host lets it; in a reduction what lacks would be made up.
  call.exact = coll::reduces(problem.collective) ||
               (kRefusesShortBcast && problem.uniform && problem.collective == coll::Collective::kBcast);
  call.node = problem.team ? &*node_ : nullptr;
  call.leaders = leaders_.has_value() ? &*leaders_ : nullptr;
  call.empty_handed = input.lacks_memory() || output.lacks_memory();
  return call;
}

void Started::start_run() {
  shim.rank->count_schedule(problem.collective, algorithm_);
  if (blocks_ != nullptr && !persistent_) transport_->begin_blocking(first_tag(started_));
  run_->start(buffers());
}

void Started::finish() {
  if (shares_) return run_with_others();
  turn_until([this] { return look(); });
}

void Started::run_with_others() {
  engine::Internode* internode = shim.rank->internode();
  bool ended = false;
  while (!ended) {
    turn_until([&] {
      internode->progress();
      ended = advance(false);
      return ended || run_->shared_is_next();
    });
    if (ended) break;
    const engine::Rank::NetworkScope patience(*shim.rank);
    run_->share();
  }
  const std::lock_guard lock(active_mutex);
  --with_others;
  count_active();
}

Code Started::trouble() {
  if (run_ != nullptr && run_->gave_up()) return Code::kOk;
  if (++idle_ % kIdleTurns != 0) return Code::kOk;
  const uint64_t now = os::now_ns();
  const bool first = ask_at_ns_ == 0;
  if (now < ask_at_ns_) return Code::kOk;
  ask_at_ns_ = now + kAskAfterNs;
  if (first) return Code::kOk;
  transport_->stands_still(first_tag(started_));
  if (transport_->bereft()) return Code::kPeerDead;
  return transport_->contradicted(started_, digest_) ? Code::kInvalid : Code::kOk;
}

bool Started::step() {
  if (by_team()) {
    using Progress = engine::NonblockingOnNode::Progress;
    switch (team_->advance(&team_call_)) {
      case Progress::kWaits:
        awaited_.store_relaxed(team_->awaited(&team_call_));
        return false;
      case Progress::kEnded:
        code_ = team_call_.code;
        return true;
      case Progress::kUnserved:
        break;
    }
    if (const Status status = make_run(false); !status.ok()) {
      transport_->announce(started_, coll::kRefused);  // the others wait for this rank's messages
      code_ = status.code();
      return true;
    }
    team_ = nullptr;
    awaited_.store_relaxed(nullptr);
    start_run();
  }
  if (!run_->advance()) return false;
  code_ = run_->code();
  return true;
}

void Started::fail(Code code) {
  if (by_team()) {
    team_->fail(&team_call_, code);
  } else {
    run_->fail(code);
  }
  code_ = code;
}

bool Started::advance(bool alone) {
  if (!step()) {
    const Code code = trouble();
    if (code == Code::kOk) return false;
    fail(code);
    if (!by_team() && !step()) return false;
  }
  if (run_ != nullptr && run_->gave_up()) transport_->give_up(started_, first_tag(started_));
  // The other members are served; the rest waits for the rank itself.
  if (alone && output.unpacked_by_host()) return false;
  error_ = code_ == Code::kOk ? output.unpack() : class_of(code_);
  done_.store_release(1);  // RN0 -> RN1: the result and the outcome before done
  return true;
}

bool Started::look() {
  // RN1 <- RN0: the result and the outcome
  if (done_.load_acquire() != 0) return true;
  advance_started();
  // RN1 <- RN0: the result and the outcome
  return done_.load_acquire() != 0;
}

void Started::look_for_long() {
  if (!comes_by_itself_ || shim.rank == nullptr) return;
  shim.rank->look_for([this] { return !still_waits() && look(); });
}

bool Started::still_waits() const {
  const Atomic<uint64_t>* const awaited = awaited_.load_relaxed();
  return awaited != nullptr && n_active.load_relaxed() == 1 && !coll::SmallTeam::has_come(*awaited, team_call_);
}

// One thread at a time is enough; the others go on looking at their own.
void advance_started(bool alone) {
  if (shim.rank == nullptr) return;
  engine::Internode* internode = shim.rank->internode();
  const bool lets_go = internode != nullptr && internode->lets_go();
  if ((n_active.load_relaxed() == 0 && !lets_go) || !active_mutex.try_lock()) return;
  if (internode != nullptr && !alone) internode->progress();
  const auto ended = [alone](Started* s) { return (!alone || s->alone()) && s->advance(alone); };
  active.erase(std::remove_if(active.begin(), active.end(), ended), active.end());
  count_active();
  active_mutex.unlock();
}

// Operations of the program and what travels between nodes need MPI. (Both are here only in blocking calls, whose rank
// is there.)
bool Started::alone() const { return reducing.how.user == nullptr && runs_->layout_->nodes() == 1; }

bool started_advance_alone() {
  if (n_active.load_relaxed() == 0) return false;
  const std::lock_guard lock(active_mutex);
  return std::any_of(active.begin(), active.end(), [](const Started* s) { return s->alone(); });
}

void finish_started(const Runs* runs) {
  if (runs == nullptr) return;
  turn_until([runs] {
    advance_started();
    const std::lock_guard lock(active_mutex);
    return std::none_of(active.begin(), active.end(), [runs](const Started* s) { return s->runs() == runs; });
  });
}

}  // namespace zh::mpi
