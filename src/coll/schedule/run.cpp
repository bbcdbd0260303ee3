// See run.h.
#include "coll/schedule/run.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/crash_point.h"

namespace zh::coll {

namespace {

/// Of steps that others of the node depend on.
bool gives(StepKind kind) {
  switch (kind) {
    case StepKind::kBcastRoot:
    case StepKind::kReduceLeaf:
    case StepKind::kGatherLeaf:
    case StepKind::kScatterRoot:
    case StepKind::kAllgather:
    case StepKind::kReduceScatter:
    case StepKind::kScan:
    case StepKind::kExscan:
      return true;
    default:
      return false;
  }
}

bool is_of_length(Code code) { return code == Code::kTruncated || code == Code::kInvalid; }

/// What a spoilt message has: nothing, or one byte of this where none are meant.
constexpr std::byte kSpoilt{};
uint64_t spoilt_bytes(uint64_t bytes) { return bytes == 0 ? 1 : 0; }

#ifdef ZH_CRASH_POINTS
const char* before(const Step& step) {
  static constexpr const char* kStepNames[][2] = {
      {"step: copy", ""},
      {"step: reduce_local", ""},
      {"step: send", ""},
      {"step: receive", ""},
      {"step: bcast_root", "step of leaders: bcast_root"},
      {"step: bcast", "step of leaders: bcast"},
      {"step: reduce", "step of leaders: reduce"},
      {"step: reduce_root", "step of leaders: reduce_root"},
      {"step: gather", "step of leaders: gather"},
      {"step: gather_root", "step of leaders: gather_root"},
      {"step: scatter_root", "step of leaders: scatter_root"},
      {"step: scatter", "step of leaders: scatter"},
      {"", "step of leaders: barrier"},
      {"", "step of leaders: allreduce"},
      {"step: allgather", "step of leaders: allgather"},
      {"", "step of leaders: alltoall"},
      {"step: reduce_scatter", "step of leaders: reduce_scatter"},
      {"step: scan", ""},
      {"step: exscan", "step of leaders: exscan"},
  };
  return kStepNames[static_cast<size_t>(step.kind)][step.of_leaders ? 1 : 0];
}
#endif

}  // namespace

Plan::Plan(Schedule schedule) : schedule_(std::move(schedule)) {
  const std::vector<Step>& steps = schedule_.steps;
  first_.assign(steps.size() + 1, 0);
  for (const Step& step : steps) {
    n_waits_.push_back(step.n_waits);
    for (const uint32_t wait : schedule_.waits_of(step)) ++first_[wait + 1];
    if (step.message()) ++n_messages_;
    shares_ = shares_ || step.shared();
  }
  for (size_t i = 0; i < steps.size(); ++i) first_[i + 1] += first_[i];
  followers_.resize(first_.back());
  std::vector<uint32_t> fill(first_.begin(), first_.end() - 1);
  for (uint32_t i = 0; i < steps.size(); ++i) {
    for (const uint32_t wait : schedule_.waits_of(steps[i])) followers_[fill[wait]++] = i;
    if (steps[i].n_waits == 0) at_once_.push_back(i);
  }
  // Receives first, so that messages find their place; then what others wait for.
  const auto urgency = [&](uint32_t i) {
    return steps[i].kind == StepKind::kReceive ? 0 : steps[i].kind == StepKind::kSend ? 1 : 2;
  };
  std::stable_sort(at_once_.begin(), at_once_.end(), [&](uint32_t a, uint32_t b) { return urgency(a) < urgency(b); });
}

Status Run::create(std::shared_ptr<const Plan> plan, Transport& transport, std::unique_ptr<Run>* out,
                   ScratchPool* pool) {
  try {
    out->reset(new Run(std::move(plan), transport, pool));
  } catch (const std::bad_alloc&) {
    return {Code::kNoMemory, "memory for a collective under way"};
  }
  (*out)->take_scratch();
  return kOk;
}

Run::Run(std::shared_ptr<const Plan> plan, Transport& transport, ScratchPool* pool)
    : plan_(std::move(plan)),
      transport_(transport),
      pool_(pool),
      waits_(plan_->n_waits_),
      ready_(plan_->n_waits_.size()) {
  under_way_.reserve(plan_->n_messages_);
}

Run::~Run() {
  for (const UnderWay& message : under_way_) transport_.abandon(message.handle);
  release_scratch();
}

void Run::take_scratch() {
  const uint64_t bytes = plan_->schedule_.scratch_bytes;
  if (bytes == 0 || scratch_ != nullptr) return;
  scratch_ = pool_ != nullptr ? pool_->take(bytes, &scratch_size_) : ScratchPool::allocate(bytes);
}

void Run::release_scratch() {
  std::byte* const scratch = std::exchange(scratch_, nullptr);
  pool_ != nullptr ? pool_->give(scratch, scratch_size_) : ScratchPool::free(scratch);
}

void Run::start(const Call& call) {
  call_ = call;
  empty_handed_ = call.empty_handed || (scratch_ == nullptr && plan_->schedule_.scratch_bytes > 0);
  gave_up_ = false;
  code_ = empty_handed_ ? Code::kNoMemory : Code::kOk;
  std::copy(plan_->n_waits_.begin(), plan_->n_waits_.end(), waits_.begin());
  std::copy(plan_->at_once_.begin(), plan_->at_once_.end(), ready_.begin());
  next_ = 0;
  shared_ = kNoStep;
  n_ready_ = static_cast<uint32_t>(plan_->at_once_.size());
  left_ = static_cast<uint32_t>(waits_.size());
}

void Run::visit_peers(FunctionRef<void(uint32_t)> visit) const {
  for (const UnderWay& message : under_way_) visit(plan_->schedule_.steps[message.step].peer);
}

bool Run::advance() {
  bool starved = false;
  while (left_ > 0) {
    while (next_ < n_ready_ && !starved) starved = !perform(ready_[next_++]);
    poll();
    if (next_ == n_ready_ || starved) break;
  }
  return left_ == 0;
}

std::byte* Run::memory(Place place) const {
  switch (place) {
    case Place::kInput:  // written by no step
      return static_cast<std::byte*>(const_cast<void*>(call_.input));
    case Place::kOutput:
      return static_cast<std::byte*>(call_.output);
    case Place::kScratch:
      break;
  }
  return scratch_;
}

// After a fault among leaders the others of the node wait for the rest of its steps.
void Run::share() {
  const uint32_t index = std::exchange(shared_, kNoStep);
  const Step& step = plan_->schedule_.steps[index];
  ZH_CRASH_POINT(before(step));
  if (!step.of_leaders) return end_message(index, share_with_node(step));
  const Code code = share_with_leaders(step);
  if (code_ == Code::kOk) code_ = code;
  complete(index);
}

// After a fault the node's ranks get nothing, and learn of it by that.
Code Run::share_with_node(const Step& step) {
  NodeSteps& node = *call_.node;
  if (call_.refused || empty_handed_ || gave_up_ || (gives(step.kind) && code_ != Code::kOk)) {
    node.refuse();
    return Code::kOk;
  }
  const std::byte* from = memory(step.from) + step.from_at;
  std::byte* to = memory(step.to) + step.to_at;
  switch (step.kind) {
    case StepKind::kBcastRoot:
      return node.bcast_root(from, step.bytes, step.tag);
    case StepKind::kBcastLeaf:
      return node.bcast_leaf(to, step.bytes, step.tag);
    case StepKind::kGatherLeaf:
      return node.gather_leaf(from, step.bytes, step.even, step.tag);
    case StepKind::kGatherRoot:
      return node.gather_root(from, to, plan_->schedule_.parts_of(step), step.even);
    case StepKind::kScatterRoot:
      return node.scatter_root(from, plan_->schedule_.parts_of(step), step.even);
    case StepKind::kScatterLeaf:
      return node.scatter_leaf(to, step.bytes, step.even, step.tag);
    case StepKind::kReduceScatter:
      return node.reduce_scatter(from, to, plan_->schedule_.parts_of(step), call_.how);
    case StepKind::kAllgather:
      return node.allgather(to, plan_->schedule_.parts_of(step));
    case StepKind::kScan:
    case StepKind::kExscan:
      return node.scan(from, to, count_of(step), call_.how, step.kind == StepKind::kExscan);
    default:
      return node.reduce(from, to, count_of(step), call_.how, step.tag);
  }
}

Code Run::share_with_leaders(const Step& step) {
  if (leads_no_more()) return Code::kOk;
  std::byte* from = memory(step.from) + step.from_at;
  std::byte* to = memory(step.to) + step.to_at;
  const std::span<const uint64_t> parts = plan_->schedule_.parts_of(step);
  LeaderSteps& leaders = call_.leaders->chosen();
  switch (step.kind) {
    case StepKind::kBarrier:
      return leaders.barrier();
    case StepKind::kBcastRoot:
      return leaders.bcast(from, step.bytes, step.tag);
    case StepKind::kBcastLeaf:
      return leaders.bcast(to, step.bytes, step.tag);
    case StepKind::kAllreduce:
      return leaders.allreduce(from, to, count_of(step), call_.how);
    case StepKind::kAllgather:
      return leaders.allgather(to, parts);
    case StepKind::kGatherLeaf:
      return leaders.gather(from, step.bytes, nullptr, {}, step.even, step.tag);
    case StepKind::kGatherRoot:
      return leaders.gather(from, step.bytes, to, parts, step.even, step.tag);
    case StepKind::kScatterRoot:
      return leaders.scatter(from, parts, nullptr, step.bytes, step.even, step.tag);
    case StepKind::kScatterLeaf:
      return leaders.scatter(nullptr, {}, to, step.bytes, step.even, step.tag);
    case StepKind::kAlltoall:
      return leaders.alltoall(from, to, parts);
    case StepKind::kReduceScatter:
      return leaders.reduce_scatter(from, to, parts, call_.how);
    case StepKind::kExscan:
      return leaders.exscan(from, to, count_of(step), call_.how);
    default:
      return leaders.reduce(from, to, count_of(step), call_.how, step.tag);
  }
}

uint64_t Run::count_of(const Step& step) const { return step.bytes == 0 ? 0 : step.bytes / call_.how.element_bytes; }

bool Run::spoilt() const { return code_ != Code::kOk && (call_.exact || !is_of_length(code_)); }

bool Run::perform(uint32_t index) {
  const Step& step = plan_->schedule_.steps[index];
  if (step.shared()) {
    shared_ = index;
    return true;
  }
  ZH_CRASH_POINT(before(step));
  const bool in_vain = gave_up_ || (call_.refused && step.kind == StepKind::kReceive);
  if (step.message() && !in_vain) return start_message(index);
  if (!step.message() && !empty_handed_ && !gave_up_) {
    const std::byte* from = memory(step.from) + step.from_at;
    std::byte* to = memory(step.to) + step.to_at;
    if (step.kind == StepKind::kCopy) {
      if (step.bytes > 0 && from != to) std::memcpy(to, from, step.bytes);
    } else if (code_ == Code::kOk) {
      call_.how.combine(from, to, step.bytes / call_.how.element_bytes);
    }
  }
  complete(index);
  return true;
}

// Without memory for a message, a send goes without bytes at the next turn, which takes next to none.
bool Run::start_message(uint32_t index) {
  const Step& step = plan_->schedule_.steps[index];
  void* handle = nullptr;
  Code code = Code::kOk;
  if (step.kind == StepKind::kReceive) {
    std::byte* to = empty_handed_ ? nullptr : memory(step.to) + step.to_at;
    code = transport_.receive(step.peer, tag_of(step), to, empty_handed_ ? 0 : step.bytes, &handle);
  } else if (spoilt()) {
    code = transport_.send(step.peer, tag_of(step), &kSpoilt, spoilt_bytes(step.bytes), &handle);
  } else {
    code = transport_.send(step.peer, tag_of(step), memory(step.from) + step.from_at, step.bytes, &handle);
  }
  if (handle != nullptr) {
    under_way_.push_back({handle, index});
  } else if (code == Code::kNoMemory) {
    if (code_ == Code::kOk) code_ = code;
    --next_;
    return false;
  } else {
    end_message(index, code);
  }
  return true;
}

void Run::complete(uint32_t index) {
  --left_;
  for (uint32_t k = plan_->first_[index]; k < plan_->first_[index + 1]; ++k) {
    const uint32_t follower = plan_->followers_[k];
    if (--waits_[follower] == 0) ready_[n_ready_++] = follower;
  }
}

void Run::poll() {
  for (size_t i = 0; i < under_way_.size();) {
    const UnderWay message = under_way_[i];
    Code code = Code::kOk;
    if (!transport_.test(message.handle, &code)) {
      ++i;
      continue;
    }
    under_way_[i] = under_way_.back();
    under_way_.pop_back();
    end_message(message.step, code);
  }
}

void Run::end_message(uint32_t index, Code code) {
  const Step& step = plan_->schedule_.steps[index];
  ZH_CRASH_POINT("step: ended");
  if (step.kind == StepKind::kReceive && step.bytes == 0 && code == Code::kTruncated) code = Code::kIo;
  if (step.whole && code == Code::kInvalid) code = Code::kIo;
  const bool goes_on = code == Code::kOk || is_of_length(code) || code == Code::kIo || code == Code::kNoMemory;
  if (!goes_on) fail(code);
  const bool is_fault = code != Code::kOk && (code != Code::kInvalid || call_.exact);
  if (code_ == Code::kOk && is_fault) code_ = code;
  complete(index);
}

void Run::fail(Code code) {
  if (left_ == 0 || gave_up_) return;
  gave_up_ = true;
  code_ = code;
  for (const UnderWay& message : under_way_) {
    transport_.abandon(message.handle);
    complete(message.step);
  }
  under_way_.clear();
}

}  // namespace zh::coll
