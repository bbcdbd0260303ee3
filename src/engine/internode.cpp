// See internode.h.
#include "engine/internode.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/crash_point.h"

namespace zh::engine {
namespace {

/// Whether a message is of that call: its context and first tag.
bool is_of(const std::pair<uint64_t, int32_t>& call, uint64_t context, int32_t tag) {
  return context == call.first && tag >= call.second && tag - call.second < static_cast<int32_t>(coll::kTags);
}

// A handle of SpanTransport is a pointer to a p2p::Request, or to a Pending with this bit set: both are aligned.
constexpr uintptr_t kInternodeBit = 1;

}  // namespace

Internode::Internode(std::unique_ptr<Carrier> carrier, bool threaded)
    : carrier_(std::move(carrier)), threaded_(threaded) {
  for (size_t i = 0; i < kFrames; ++i) post(i);
}

Internode::~Internode() {
  for (size_t i = frame_is_full_ ? 1 : 0; i < kFrames; ++i) carrier_->cancel(&receives_[(next_frame_ + i) % kFrames]);
  while (!sent_.empty()) let_go();
  for (Sent& payload : unwanted_) carrier_->cancel(&payload.request);
}

void Internode::post(size_t frame) {
  receives_[frame] = carrier_->receive(Carrier::kAnyRank, kHeaderTag, frames_[frame].bytes, kFrameBytes);
}

// A tag comes again after as many long messages to that rank as there are tags: hosts have hundreds of millions, MPI
// asks for 32767 (MPI standard 9.1.2).
int32_t Internode::next_data_tag(int32_t rank) {
  int32_t& last = data_tags_[rank];
  last = last < carrier_->tag_ub() ? last + 1 : kHeaderTag + 1;
  return last;
}

Code Internode::send(int32_t rank, uint64_t context, int32_t tag, const void* data, uint64_t bytes, void** handle) try {
  const OptionalLock lock(threaded_ ? &mutex_ : nullptr);
  *handle = nullptr;
  const bool follows = bytes > kInlineBytes;
  std::unique_ptr<Pending> pending = follows ? std::make_unique<Pending>() : nullptr;
  const Header header{context,       bytes, carrier_->self(), tag, follows ? next_data_tag(rank) : kHeaderTag,
                      Kind::kMessage};
  const uint64_t frame_bytes = sizeof header + (follows ? 0 : bytes);
  Sent& sent = sent_.emplace_back(Sent{0, std::make_unique_for_overwrite<std::byte[]>(frame_bytes)});
  std::memcpy(sent.frame.get(), &header, sizeof header);
  if (!follows && bytes > 0) std::memcpy(sent.frame.get() + sizeof header, data, bytes);
  sent.request = carrier_->send(rank, kHeaderTag, sent.frame.get(), frame_bytes);
  ZH_CRASH_POINT("step: header sent");
  ++stats_.messages;
  stats_.bytes += bytes;
  if (follows) {
    pending->request = carrier_->send(rank, header.data_tag, data, bytes);
    pending->carried = true;
    *handle = pending.release();
  }
  return Code::kOk;
} catch (const std::bad_alloc&) {
  return Code::kNoMemory;
}

Code Internode::receive(int32_t rank, uint64_t context, int32_t tag, void* data, uint64_t bytes, void** handle) try {
  const OptionalLock lock(threaded_ ? &mutex_ : nullptr);
  const Key key{rank, context, tag};
  if (!let_go_.empty()) {
    std::erase_if(let_go_, [&](const auto& call) { return is_of(call, context, tag); });
  }
  auto pending = std::make_unique<Pending>();
  pending->data = static_cast<std::byte*>(data);
  pending->bytes = bytes;
  *handle = nullptr;
  if (const auto first = arrived_.lower_bound(key); first != arrived_.end() && first->first == key) {
    deliver(first->second.header, first->second.payload.get(), pending.get());
    arrived_.erase(first);
    if (pending->done) return pending->code;
  } else {
    pending->place = posted_.emplace(key, pending.get());
  }
  *handle = pending.release();
  return Code::kOk;
} catch (const std::bad_alloc&) {
  return Code::kNoMemory;
}

bool Internode::test(void* handle, Code* code) {
  const OptionalLock lock(threaded_ ? &mutex_ : nullptr);
  auto* pending = static_cast<Pending*>(handle);
  if (pending->carried && carrier_->test(&pending->request)) pending->done = true;
  if (!pending->done) return false;
  *code = pending->code;
  delete pending;
  return true;
}

void Internode::abandon(void* handle) {
  const OptionalLock lock(threaded_ ? &mutex_ : nullptr);
  auto* pending = static_cast<Pending*>(handle);
  if (pending->carried) {
    carrier_->cancel(&pending->request);
  } else if (!pending->done) {
    posted_.erase(pending->place);
  }
  delete pending;
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
  const Carrier::Request request = carrier_->receive(header.source, header.data_tag, room.get(), header.bytes);
  unwanted_.push_back({request, std::move(room)});
}

void Internode::tell_given_up(int32_t rank, uint64_t context, uint64_t number) try {
  const OptionalLock lock(threaded_ ? &mutex_ : nullptr);
  const Header header{context, number, carrier_->self(), 0, kHeaderTag, Kind::kGivenUp};
  Sent& sent = sent_.emplace_back(Sent{0, std::make_unique_for_overwrite<std::byte[]>(sizeof header)});
  std::memcpy(sent.frame.get(), &header, sizeof header);
  sent.request = carrier_->send(rank, kHeaderTag, sent.frame.get(), sizeof header);
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
  while (frame_is_full_ || carrier_->test(&receives_[next_frame_])) {
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
  if (header.kind == Kind::kGivenUp) {
    given_up_.emplace(header.context, header.bytes);
    return;
  }
  const Key key{header.source, header.context, header.tag};
  if (const auto first = posted_.lower_bound(key); first != posted_.end() && first->first == key) {
    deliver(header, payload, first->second);
    posted_.erase(first);
    return;
  }
  if (!let_go_.empty() && is_let_go(header.context, header.tag)) return let_go_of_message(header);
  Arrived arrived{header, nullptr};
  if (header.bytes > 0 && header.bytes <= kInlineBytes) {
    arrived.payload = std::make_unique_for_overwrite<std::byte[]>(header.bytes);
    std::memcpy(arrived.payload.get(), payload, header.bytes);
  }
  arrived_.emplace(key, std::move(arrived));
}

void Internode::deliver(const Header& header, const std::byte* payload, Pending* to) {
  const bool too_long = header.bytes > to->bytes;
  if (too_long) to->code = Code::kTruncated;
  if (header.bytes < to->bytes) to->code = header.bytes == 0 ? Code::kIo : Code::kInvalid;
  if (header.bytes <= kInlineBytes) {
    if (header.bytes > 0 && !too_long) std::memcpy(to->data, payload, header.bytes);
    to->done = true;
    return;
  }
  // The sender waits for somebody to take it.
  if (too_long) to->spill = std::make_unique_for_overwrite<std::byte[]>(header.bytes);
  to->request = carrier_->receive(header.source, header.data_tag, too_long ? to->spill.get() : to->data, header.bytes);
  to->carried = true;
}

// In the order of the sends: a peer takes what describes messages in that order.
void Internode::let_go() {
  while (!sent_.empty() && carrier_->test(&sent_.front().request)) sent_.pop_front();
  if (letting_go_.load_relaxed() == 0) return;
  std::erase_if(unwanted_, [this](Sent& payload) { return carrier_->test(&payload.request); });
  if (unwanted_.empty() && let_go_.empty()) letting_go_.store_relaxed(0);
}

Code SpanTransport::send(uint32_t rank, int32_t tag, const void* data, uint64_t bytes, void** handle) {
  if (members_[rank] >= 0) return inside_.send(rank, tag, data, bytes, handle);
  const Code code = internode_.send(world_[rank], context_, tag, data, bytes, handle);
  if (*handle != nullptr) *handle = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(*handle) | kInternodeBit);
  return code;
}

Code SpanTransport::receive(uint32_t rank, int32_t tag, void* data, uint64_t bytes, void** handle) {
  if (members_[rank] >= 0) return inside_.receive(rank, tag, data, bytes, handle);
  const Code code = internode_.receive(world_[rank], context_, tag, data, bytes, handle);
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
