// See builder.h.
#include "coll/schedule/builder.h"

#include <algorithm>

#include "base/shm_types.h"

namespace zh::coll {
namespace {

/// Of ranges that it reads, writes or both.
Step step_of(StepKind kind, Range from, Range to) {
  Step step{.kind = kind, .from = from.place, .to = to.place, .from_at = from.at, .to_at = to.at};
  step.bytes = step.reads() ? from.bytes : to.bytes;
  return step;
}

}  // namespace

Builder::Builder(uint32_t ranks) : sent_(ranks, 0), received_(ranks, 0), output_(Users{}), scratch_users_(Users{}) {}

void Builder::touch(Place place, uint64_t at, uint64_t bytes, bool writes) {
  if (place == Place::kInput) return;  // never written
  IntervalMap<Users>& users = place == Place::kOutput ? output_ : scratch_users_;
  const auto self = static_cast<uint32_t>(schedule_.steps.size());
  users.visit(at, bytes, [&](uint64_t, uint64_t, Users& last) {
    // The readers wait for the writer, so whoever waits for them need not.
    if (last.writer != kNoStep && (!writes || last.readers.empty())) found_.push_back(last.writer);
    if (!writes) {
      last.readers.push_back(self);
      return;
    }
    found_.insert(found_.end(), last.readers.begin(), last.readers.end());
    last.readers.clear();
    last.writer = self;
  });
}

uint32_t Builder::add(Step step, After after, uint32_t also_after) {
  const auto self = static_cast<uint32_t>(schedule_.steps.size());
  found_.clear();
  if (also_after != kNoStep) found_.push_back(also_after);
  for (const uint32_t step_before : after) {
    if (step_before != kNoStep) found_.push_back(step_before);
  }
  if (step.reads()) touch(step.from, step.from_at, schedule_.read(step), false);
  if (step.writes()) touch(step.to, step.to_at, schedule_.written(step), true);
  std::sort(found_.begin(), found_.end());
  found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
  if (!found_.empty() && found_.back() == self) found_.pop_back();  // copies within one buffer
  step.first_wait = static_cast<uint32_t>(schedule_.waits.size());
  step.n_waits = static_cast<uint32_t>(found_.size());
  schedule_.waits.insert(schedule_.waits.end(), found_.begin(), found_.end());
  schedule_.steps.push_back(step);
  return self;
}

uint32_t Builder::local(StepKind kind, Range from, Range to) {
  return from.bytes == 0 ? kNoStep : add(step_of(kind, from, to), {}, kNoStep);
}

uint32_t Builder::copy(Range from, Range to) {
  return from.place == to.place && from.at == to.at ? kNoStep : local(StepKind::kCopy, from, to);
}

uint32_t Builder::message(StepKind kind, uint32_t rank, Range range, After after, bool whole) {
  uint32_t& count = (kind == StepKind::kSend ? sent_ : received_)[rank];
  Step step{.kind = kind, .whole = whole, .peer = rank, .tag = count % kTags, .bytes = range.bytes};
  (kind == StepKind::kSend ? step.from : step.to) = range.place;
  (kind == StepKind::kSend ? step.from_at : step.to_at) = range.at;
  return add(step, after, count++ < kTags ? kNoStep : same_tag(step));
}

uint32_t Builder::same_tag(const Step& step) const {
  for (size_t at = schedule_.steps.size(); at-- > 0;) {
    const Step& other = schedule_.steps[at];
    if (other.kind == step.kind && other.peer == step.peer && other.tag == step.tag) return static_cast<uint32_t>(at);
  }
  return kNoStep;
}

uint32_t Builder::shared(StepKind kind, const SharedBy& by, Range from, Range to, After after, Parts parts, bool even) {
  Step step = step_of(kind, from, to);
  step.peer = by.peer;
  step.tag = by.place;
  step.of_leaders = by.leaders;
  step.even = even;
  step.first_part = static_cast<uint32_t>(schedule_.parts.size());
  step.n_parts = static_cast<uint32_t>(parts.size());
  schedule_.parts.insert(schedule_.parts.end(), parts.begin(), parts.end());
  return last_shared_ = add(step, after, last_shared_);
}

uint32_t Builder::allgather(const SharedBy& by, uint32_t own, Range all, Parts parts) {
  uint64_t before = 0;
  for (uint32_t i = 0; i < own; ++i) before += parts[i];
  return shared(StepKind::kAllgather, by, all.part(before, parts[own]), all, {}, parts);
}

Range Builder::scratch(uint64_t bytes) {
  const Range range{Place::kScratch, scratch_, bytes};
  scratch_ += round_up(bytes, kLineBytes);  // also enough for any element
  schedule_.scratch_bytes = std::max(schedule_.scratch_bytes, scratch_);
  return range;
}

}  // namespace zh::coll
