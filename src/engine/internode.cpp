#include "engine/internode.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/crash_point.h"

namespace zh::engine {
namespace {

/// Whether a message is of that call: its context and first tag.
bool is_of(const std::pair<uint64_t, int32_t>& call, uint64_t context, int32_t tag) {
  return context == call.first && is_of_call(call.second, tag);
}

// A handle of SpanTransport is a pointer to a p2p::Request, or to a Pending with this bit set: both are aligned.
constexpr uintptr_t kInternodeBit = 1;

}  // namespace

Internode::Internode(std::unique_ptr<Carrier> carrier, bool threaded)
    : carrier_(std::move(carrier)), direct_tags_(carrier_->tag_ub()), threaded_(threaded) {
  for (size_t i = 0; i < kFrames; ++i) post(i);
}

Internode::~Internode() {
  for (size_t i = frame_is_full_ ? 1 : 0; i < kFrames; ++i)
    carrier_->cancel(&receives_[(next_frame_ + i) % kFrames], nullptr);
  while (!sent_.empty()) let_go();
  for (Sent& payload : unwanted_) carrier_->cancel(&payload.request, nullptr);
}

void Internode::post(size_t frame) {
  receives_[frame] = carrier_->receive(Carrier::kAnyRank, kHeaderTag, frames_[frame].bytes, kFrameBytes);
}

// A tag comes again after as many announced messages to that rank as they have tags, 16383 at least.
int32_t Internode::next_data_tag(int32_t rank) {
  int32_t& last = data_tags_[rank];
  last = last < direct_tags_.announced_ub() ? last + 1 : kHeaderTag + 1;
  return last;
}

void Internode::send_frame(int32_t rank, const Header& header, const void* payload, uint64_t bytes) {
  Sent& sent = sent_.emplace_back(Sent{0, nullptr});
  try {
    sent.frame = std::make_unique_for_overwrite<std::byte[]>(sizeof header + bytes);
  } catch (const std::bad_alloc&) {
    sent_.pop_back();
    throw;
  }
  std::memcpy(sent.frame.get(), &header, sizeof header);
  if (bytes > 0) std::memcpy(sent.frame.get() + sizeof header, payload, bytes);
  sent.request = carrier_->send(rank, kHeaderTag, sent.frame.get(), sizeof header + bytes);
}

Code Internode::send(int32_t rank, uint64_t context, int32_t tag, const void* data, uint64_t bytes, bool in_order,
                     void** handle) try {
  const OptionalLock lock(threaded_ ? &mutex_ : nullptr);
  *handle = nullptr;
  const bool follows = bytes > kInlineBytes;
  DirectTags::Range* range = in_order && follows ? range_to(rank, context) : nullptr;
  if (range != nullptr && !range->used(tag)) {
    send_directly(range, {rank, context, tag}, data, bytes, handle);
  } else {
    std::unique_ptr<Pending> pending = follows ? std::make_unique<Pending>() : nullptr;
    range = in_order ? direct_tags_.to(rank, context) : nullptr;
    if (range != nullptr) range->make_room(tag);
    const bool behind = range != nullptr && range->passed(tag);
    const int32_t data_tag = follows ? next_data_tag(rank) : kHeaderTag;
    const Header header{context, bytes, carrier_->self(), tag, data_tag, Kind::kMessage, behind ? 1U : 0U};
    send_frame(rank, header, data, follows ? 0 : bytes);
    if (range != nullptr) range->pass_framed(tag);
    ZH_CRASH_POINT("step: header sent");
    if (follows) {
      pending->sends = true;
      pending->request = carrier_->send(rank, header.data_tag, data, bytes);
      pending->carried = true;
      *handle = pending.release();
    }
  }
  ++stats_.messages;
  stats_.bytes += bytes;
  return Code::kOk;
} catch (const std::bad_alloc&) {
  return Code::kNoMemory;
}

Code Internode::receive(int32_t rank, uint64_t context, int32_t tag, void* data, uint64_t bytes, bool in_order,
                        void** handle) try {
  const OptionalLock lock(threaded_ ? &mutex_ : nullptr);
  const Key key{rank, context, tag};
  if (!let_go_.empty()) {
    std::erase_if(let_go_, [&](const auto& call) { return is_of(call, context, tag); });
  }
  auto pending = std::make_unique<Pending>();
  pending->key = key;
  pending->data = static_cast<std::byte*>(data);
  pending->bytes = bytes;
  pending->in_order = in_order && bytes > kInlineBytes;
  *handle = nullptr;
  if (const auto next = next_arrived(key); next != arrived_.end()) {
    deliver(next->second.header, next->second.payload.get(), pending.get());
    arrived_.erase(next);
    if (pending->done) return pending->code;
  } else {
    make_room(key);
    pending->place = posted_.emplace(key, pending.get());
    pending->posted = true;
    const DirectTags::Range* range = pending->in_order ? direct_tags_.from(rank, context) : nullptr;
    if (range != nullptr && range->open()) receive_directly(*range, pending.get());
  }
  *handle = pending.release();
  return Code::kOk;
} catch (const std::bad_alloc&) {
  return Code::kNoMemory;
}

bool Internode::test(void* handle, Code* code) {
  const OptionalLock lock(threaded_ ? &mutex_ : nullptr);
  auto* pending = static_cast<Pending*>(handle);
  Carrier::Arrival arrival;
  if (pending->carried && carrier_->test(&pending->request, &arrival)) {
    pending->carried = false;
    if (pending->direct && !pending->sends) end_direct_receive(pending, arrival);
    pending->done = true;
  }
  if (!pending->done) return false;
  if (pending->direct && pending->sends) std::erase(direct_sends_, pending);
  *code = pending->code;
  delete pending;
  return true;
}

void Internode::abandon(void* handle) {
  const OptionalLock lock(threaded_ ? &mutex_ : nullptr);
  auto* pending = static_cast<Pending*>(handle);
  if (pending->direct && pending->sends) {
    std::erase(direct_sends_, pending);
    announce(pending);
    stop_direct(std::get<0>(pending->key), std::get<1>(pending->key));
  }
  Carrier::Arrival arrival;
  const bool had_come = pending->carried && !carrier_->cancel(&pending->request, &arrival);
  if (had_come && pending->direct && !pending->sends) pass(pending->key);
  if (pending->posted) unpost(pending);
  delete pending;
}

void Internode::unpost(Pending* pending) {
  posted_.erase(pending->place);
  pending->posted = false;
}

std::multimap<Internode::Key, Internode::Arrived>::iterator Internode::next_arrived(const Key& key) {
  const auto [first, last] = arrived_.equal_range(key);
  const auto next = std::find_if(first, last, [&](const auto& entry) { return is_next(entry.second.header, key); });
  return next != last ? next : arrived_.end();
}

bool Internode::is_let_go(uint64_t context, int32_t tag) const {
  return std::ranges::any_of(let_go_, [&](const auto& call) { return is_of(call, context, tag); });
}

// Without memory its senders wait.
void Internode::let_go_of(uint64_t context, int32_t first_tag) try {
  const OptionalLock lock(threaded_ ? &mutex_ : nullptr);
  const std::pair<uint64_t, int32_t> call{context, first_tag};
  let_go_.push_back(call);
  letting_go_.store_relaxed(1);
  for (auto i = arrived_.begin(); i != arrived_.end();) {
    if (!is_of(call, i->second.header.context, i->second.header.tag)) {
      ++i;
      continue;
    }
    let_go_of_message(i->second.header);
    i = arrived_.erase(i);
  }
} catch (const std::bad_alloc&) {
}

void Internode::let_go_of_message(const Header& header) {
  if (header.bytes <= kInlineBytes) return;
  auto room = std::make_unique_for_overwrite<std::byte[]>(header.bytes);
  unwanted_.reserve(unwanted_.size() + 1);
  const Key key{header.source, header.context, header.tag};
  if (header.kind == Kind::kDirect) make_room(key);
  const Carrier::Request request = carrier_->receive(header.source, header.data_tag, room.get(), header.bytes);
  unwanted_.push_back({request, std::move(room)});
  if (header.kind == Kind::kDirect) pass(key);
}

void Internode::tell_given_up(int32_t rank, uint64_t context, uint64_t number) try {
  const OptionalLock lock(threaded_ ? &mutex_ : nullptr);
  const Header header{context, number, carrier_->self(), 0, kHeaderTag, Kind::kGivenUp, 0};
  send_frame(rank, header, nullptr, 0);
  if (context != kDeaths) stop_direct(rank, context);
} catch (const std::bad_alloc&) {
}

bool Internode::was_given_up(uint64_t context, uint64_t number) {
  const OptionalLock lock(threaded_ ? &mutex_ : nullptr);
  return given_up_.contains({context, number});
}

bool Internode::any_dead(std::span<const int32_t> world_ranks) {
  const OptionalLock lock(threaded_ ? &mutex_ : nullptr);
  return std::any_of(given_up_.lower_bound({kDeaths, 0}), given_up_.end(), [&](const auto& death) {
    return std::ranges::find(world_ranks, static_cast<int32_t>(death.second)) != world_ranks.end();
  });
}

void Internode::progress() {
  if (threaded_ && !mutex_.try_lock()) return;  // whoever holds it does the same
  take_arrived();
  let_go();
  if (threaded_) mutex_.unlock();
}

// Without memory for a message it stays in its frame until the next turn.
void Internode::take_arrived() try {
  while (frame_is_full_ || carrier_->test(&receives_[next_frame_], nullptr)) {
    frame_is_full_ = true;
    const std::byte* frame = frames_[next_frame_].bytes;
    Header header;
    std::memcpy(&header, frame, sizeof header);
    take(header, frame + sizeof header);
    frame_is_full_ = false;
    post(next_frame_);
    next_frame_ = (next_frame_ + 1) % kFrames;
  }
} catch (const std::bad_alloc&) {
}

/// Gives a message to whoever waits for it, or keeps it.
void Internode::take(const Header& header, const std::byte* payload) {
  if (header.kind == Kind::kRange) return take_range(header);
  if (header.kind == Kind::kGivenUp) {
    given_up_.emplace(header.context, header.bytes);
    if (header.context != kDeaths) stop_direct(header.source, header.context);
    return;
  }
  const Key key{header.source, header.context, header.tag};
  // One that is announced after all may have come by itself.
  const DirectTags::Range* range = header.kind == Kind::kDirect ? range_of(key) : nullptr;
  if (range != nullptr && range->is_past(header.tag)) return;
  const auto first = posted_.lower_bound(key);
  const bool is_waited_for = first != posted_.end() && first->first == key;
  if (is_waited_for && is_next(header, key)) {
    hand_over(header, payload, first->second);
    return settle(key);
  }
  if (!is_waited_for && is_let_go(header.context, header.tag)) return let_go_of_message(header);
  Arrived arrived{header, nullptr};
  if (header.bytes > 0 && header.bytes <= kInlineBytes) {
    arrived.payload = std::make_unique_for_overwrite<std::byte[]>(header.bytes);
    std::memcpy(arrived.payload.get(), payload, header.bytes);
  }
  arrived_.emplace(key, std::move(arrived));
}

/// To the first receive with its key.
void Internode::hand_over(const Header& header, const std::byte* payload, Pending* to) {
  if (to->carried) {
    if (header.kind == Kind::kDirect) return;  // it is on its way there
    take_back_receive(to);
  }
  deliver(header, payload, to);
  unpost(to);
}

/// Gives those who wait with that key what has become next for them: only where several wait at a time, as no schedule
/// does.
void Internode::settle(const Key& key) try {
  for (;;) {
    const auto first = posted_.lower_bound(key);
    if (first == posted_.end() || first->first != key) return;
    const auto next = next_arrived(key);
    if (next == arrived_.end()) return;
    hand_over(next->second.header, next->second.payload.get(), first->second);
    arrived_.erase(next);
  }
} catch (const std::bad_alloc&) {
}

void Internode::deliver(const Header& header, const std::byte* payload, Pending* to) {
  const bool too_long = header.bytes > to->bytes;
  const bool is_here = header.bytes <= kInlineBytes;
  if (header.kind == Kind::kDirect) make_room(to->key);
  // The sender waits for somebody to take it.
  if (!is_here && too_long) to->spill = std::make_unique_for_overwrite<std::byte[]>(header.bytes);
  if (too_long) to->code = Code::kTruncated;
  if (header.bytes < to->bytes) to->code = header.bytes == 0 ? Code::kIo : Code::kInvalid;
  if (is_here) {
    if (header.bytes > 0 && !too_long) std::memcpy(to->data, payload, header.bytes);
    to->done = true;
    return;
  }
  std::byte* const room = too_long ? to->spill.get() : to->data;
  to->request = carrier_->receive(header.source, header.data_tag, room, header.bytes);
  to->carried = true;
  to->direct = header.kind == Kind::kDirect;
}

// In the order of the sends: a peer takes what describes messages in that order.
void Internode::let_go() {
  while (!sent_.empty() && carrier_->test(&sent_.front().request, nullptr)) sent_.pop_front();
  if (letting_go_.load_relaxed() == 0) return;
  std::erase_if(unwanted_, [this](Sent& payload) { return carrier_->test(&payload.request, nullptr); });
  if (unwanted_.empty() && let_go_.empty()) letting_go_.store_relaxed(0);
}

bool SpanTransport::blocks(int32_t tag) const { return blocking_ >= 0 && is_of_call(blocking_, tag); }

Code SpanTransport::send(uint32_t rank, int32_t tag, const void* data, uint64_t bytes, void** handle) {
  if (members_[rank] >= 0) return inside_.send(rank, tag, data, bytes, handle);
  const Code code = internode_.send(world_[rank], context_, tag, data, bytes, blocks(tag), handle);
  if (*handle != nullptr) *handle = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(*handle) | kInternodeBit);
  return code;
}

Code SpanTransport::receive(uint32_t rank, int32_t tag, void* data, uint64_t bytes, void** handle) {
  if (members_[rank] >= 0) return inside_.receive(rank, tag, data, bytes, handle);
  const Code code = internode_.receive(world_[rank], context_, tag, data, bytes, blocks(tag), handle);
  if (*handle != nullptr) *handle = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(*handle) | kInternodeBit);
  return code;
}

bool SpanTransport::test(void* handle, Code* code) {
  const auto bits = reinterpret_cast<uintptr_t>(handle);
  if ((bits & kInternodeBit) == 0) return inside_.test(handle, code);
  return internode_.test(reinterpret_cast<void*>(bits & ~kInternodeBit), code);
}

void SpanTransport::abandon(void* handle) {
  const auto bits = reinterpret_cast<uintptr_t>(handle);
  if ((bits & kInternodeBit) == 0) return inside_.abandon(handle);
  internode_.abandon(reinterpret_cast<void*>(bits & ~kInternodeBit));
}

// Who waits for a dead rank may be in an earlier call than those that see the death.
void SpanTransport::give_up(uint64_t number, int32_t first_tag) {
  internode_.let_go_of(context_, first_tag);
  const auto tell = [&](uint64_t context, uint64_t what) {
    for (size_t rank = 0; rank < members_.ranks.size(); ++rank) {
      if (members_[rank] < 0) internode_.tell_given_up(world_[rank], context, what);
    }
  };
  tell(context_, number);
  for (uint32_t rank = 0; rank < members_.ranks.size(); ++rank) {
    if (inside_.is_dead(rank)) tell(Internode::kDeaths, static_cast<uint64_t>(world_[rank]));
  }
}

}  // namespace zh::engine
