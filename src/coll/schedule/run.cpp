// See run.h.
#include "coll/schedule/run.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/shm_types.h"

namespace zh::coll {

Plan::Plan(Schedule schedule) : schedule_(std::move(schedule)) {
  const std::vector<Step>& steps = schedule_.steps;
  first_.assign(steps.size() + 1, 0);
  for (const Step& step : steps) {
    n_waits_.push_back(step.n_waits);
    for (const uint32_t wait : schedule_.waits_of(step)) ++first_[wait + 1];
    if (step.message()) ++n_messages_;
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

void Run::Free::operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{kLineBytes}); }

Status Run::create(std::shared_ptr<const Plan> plan, Transport& transport, std::unique_ptr<Run>* out) {
  try {
    out->reset(new Run(std::move(plan), transport));
  } catch (const std::bad_alloc&) {
    return {Code::kNoMemory, "memory for a collective under way"};
  }
  return kOk;
}

Run::Run(std::shared_ptr<const Plan> plan, Transport& transport)
    : plan_(std::move(plan)), transport_(transport), waits_(plan_->n_waits_), ready_(plan_->n_waits_.size()) {
  under_way_.reserve(plan_->n_messages_);
  const uint64_t bytes = plan_->schedule_.scratch_bytes;
  if (bytes > 0) scratch_.reset(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kLineBytes})));
}

Run::~Run() {
  for (const UnderWay& message : under_way_) transport_.abandon(message.handle);
}

void Run::start(const Call& call) {
  call_ = call;
  code_ = Code::kOk;
  std::copy(plan_->n_waits_.begin(), plan_->n_waits_.end(), waits_.begin());
  std::copy(plan_->at_once_.begin(), plan_->at_once_.end(), ready_.begin());
  next_ = 0;
  shared_ = kNoStep;
  n_ready_ = static_cast<uint32_t>(plan_->at_once_.size());
  left_ = static_cast<uint32_t>(waits_.size());
}

bool Run::advance() {
  while (left_ > 0) {
    while (next_ < n_ready_) perform(ready_[next_++]);
    poll();
    if (next_ == n_ready_) break;
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
  return scratch_.get();
}

// After a fault the node's ranks get nothing, as other nodes do (perform()), and learn of it by that.
void Run::share() {
  const uint32_t index = std::exchange(shared_, kNoStep);
  const Step& step = plan_->schedule_.steps[index];
  const std::byte* from = memory(step.from) + step.from_at;
  std::byte* to = memory(step.to) + step.to_at;
  const bool spoilt = call_.exact && code_ != Code::kOk;
  Code code = Code::kOk;
  if (step.bytes == 0) {
    code = call_.node->meet();
  } else if (step.kind == StepKind::kGive) {
    code = call_.node->give(from, spoilt ? 0 : step.bytes, step.tag);
  } else if (step.kind == StepKind::kTake) {
    code = call_.node->take(to, step.bytes, step.tag);
  } else {
    code = call_.node->reduce(from, to, step.bytes / call_.how.element_bytes, call_.how, step.tag);
  }
  end_message(index, code);
}

void Run::perform(uint32_t index) {
  const Step& step = plan_->schedule_.steps[index];
  if (step.shared()) {
    shared_ = index;
    return;
  }
  const std::byte* from = memory(step.from) + step.from_at;
  std::byte* to = memory(step.to) + step.to_at;
  const int32_t tag = call_.first_tag + static_cast<int32_t>(step.tag);
  void* handle = nullptr;
  Code code = Code::kOk;
  switch (step.kind) {
    case StepKind::kCopy:
      if (step.bytes > 0 && from != to) std::memcpy(to, from, step.bytes);
      break;
    case StepKind::kReduce:
      if (code_ == Code::kOk) call_.how.combine(from, to, step.bytes / call_.how.element_bytes);
      break;
    case StepKind::kSend:
      code = transport_.send(step.peer, tag, from, call_.exact && code_ != Code::kOk ? 0 : step.bytes, &handle);
      break;
    case StepKind::kReceive:
      code = transport_.receive(step.peer, tag, to, step.bytes, &handle);
      break;
    default:  // shared
      break;
  }
  if (handle != nullptr) {
    under_way_.push_back({handle, index});
  } else {
    end_message(index, code);
  }
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

void Run::end_message(uint32_t step, Code code) {
  const bool of_length = code == Code::kTruncated || code == Code::kInvalid;
  if (code != Code::kOk && !of_length) return fail(code);
  if (code_ == Code::kOk && (code == Code::kTruncated || call_.exact)) code_ = code;
  complete(step);
}

void Run::fail(Code code) {
  for (const UnderWay& message : under_way_) transport_.abandon(message.handle);
  under_way_.clear();
  code_ = code;
  left_ = 0;
  next_ = n_ready_ = 0;
  shared_ = kNoStep;
}

}  // namespace zh::coll
