// Direct messages of Internode: long ones without an announcement. Both ends of a schedule know when a long message is
// due, and in calls that block messages under one tag of the host's start in the same order at both ends. So the
// receiver posts the host's receive as its step starts, and the sender sends nothing else.
//
// What keeps this exact where ends disagree:
// - Whatever is no direct message comes in a frame, also for a receive that waits for a direct one. A frame says
//   whether a direct message with its key is before it.
// - Who stands still for long announces its direct messages after all, and takes direct ones where it expects none.
// - After a call that was given up no more direct messages are sent in that context between the two.
#include <algorithm>
#include <new>

#include "base/crash_point.h"
#include "engine/internode.h"

namespace zh::engine {

/// The range of direct messages to a rank, which hears of it before the first one. Null: they are announced.
DirectTags::Range* Internode::range_to(int32_t rank, uint64_t context) {
  DirectTags::Range* range = direct_tags_.to(rank, context);
  if (range == nullptr) {
    const int32_t first = direct_tags_.next(rank);
    range = direct_tags_.open(rank, context, first);
    if (first != 0) tell_range(rank, context, range);
  }
  return range->open() ? range : nullptr;
}

// Who has not been told of it would wait for announcements.
void Internode::tell_range(int32_t rank, uint64_t context, DirectTags::Range* range) try {
  const int32_t first = range->open() ? range->first() : 0;
  send_frame(rank, {context, 0, carrier_->self(), 0, first, Kind::kRange, 0}, nullptr, 0);
} catch (const std::bad_alloc&) {
  range->close();
}

void Internode::take_range(const Header& header) {
  if (header.data_tag == 0) {
    if (DirectTags::Range* range = direct_tags_.from(header.source, header.context); range != nullptr) range->close();
    return;
  }
  const DirectTags::Range& range = *direct_tags_.learn(header.source, header.context, header.data_tag);
  for (auto& [key, pending] : posted_) {
    const bool is_from_there = std::get<0>(key) == header.source && std::get<1>(key) == header.context;
    if (is_from_there && pending->in_order && !pending->carried) receive_directly(range, pending);
  }
}

// No more direct messages are started there; what is under way may be for a call that nobody is in.
void Internode::stop_direct(int32_t rank, uint64_t context) {
  DirectTags::Range* range = direct_tags_.to(rank, context);
  if (range == nullptr) range = direct_tags_.open(rank, context, 0);
  if (!range->open()) return;
  range->close();
  tell_range(rank, context, range);
  for (Pending* send : direct_sends_) {
    if (std::get<0>(send->key) == rank && std::get<1>(send->key) == context) announce(send);
  }
}

/// Whether no direct message with that key has to come before.
bool Internode::is_next(const Header& header, const Key& key) {
  if (header.behind == 0) return true;
  const DirectTags::Range* range = range_of(key);
  return range == nullptr || range->passed(header.tag);
}

void Internode::make_room(const Key& key) {
  if (DirectTags::Range* range = range_of(key); range != nullptr) range->make_room(std::get<2>(key));
}

void Internode::pass(const Key& key) {
  if (DirectTags::Range* range = range_of(key); range != nullptr) range->pass_direct(std::get<2>(key));
}

void Internode::send_directly(DirectTags::Range* range, const Key& key, const void* data, uint64_t bytes,
                              void** handle) {
  const int32_t tag = std::get<2>(key);
  auto pending = std::make_unique<Pending>();
  direct_sends_.reserve(direct_sends_.size() + 1);
  pending->key = key;
  pending->sends = pending->carried = pending->direct = true;
  pending->bytes = bytes;
  pending->data_tag = range->data_tag(tag);
  range->make_room(tag);
  range->pass_direct(tag);
  pending->request = carrier_->send(std::get<0>(key), pending->data_tag, data, bytes);
  ZH_CRASH_POINT("step: direct message sent");
  direct_sends_.push_back(pending.get());
  *handle = pending.release();
}

void Internode::receive_directly(const DirectTags::Range& range, Pending* pending) {
  make_room(pending->key);
  const auto& [source, context, tag] = pending->key;
  pending->request = carrier_->receive(source, range.data_tag(tag), pending->data, pending->bytes);
  pending->carried = pending->direct = true;
}

// One that was announced after all is not posted any more, and knew its length.
void Internode::end_direct_receive(Pending* pending, const Carrier::Arrival& arrival) {
  const Key key = pending->key;
  pass(key);
  if (!pending->posted) return;
  unpost(pending);
  if (arrival.truncated) {
    pending->code = Code::kTruncated;
  } else if (arrival.bytes < pending->bytes) {
    pending->code = Code::kInvalid;
  }
  settle(key);
}

/// Its message comes in a frame. Only one of a call that began as many later as a range has calls can have come there.
void Internode::take_back_receive(Pending* pending) {
  Carrier::Arrival arrival;
  (void)carrier_->cancel(&pending->request, &arrival);
  pending->carried = pending->direct = false;
}

/// Announces a direct message after all, once.
void Internode::announce(Pending* send) try {
  if (send->told) return;
  const auto& [rank, context, tag] = send->key;
  send_frame(rank, {context, send->bytes, carrier_->self(), tag, send->data_tag, Kind::kDirect, 0}, nullptr, 0);
  send->told = true;
} catch (const std::bad_alloc&) {
}

// Without memory, the next time.
void Internode::stands_still(uint64_t context, int32_t first_tag) try {
  const OptionalLock lock(threaded_ ? &mutex_ : nullptr);
  const auto is_of_it = [&](const Key& key) {
    return std::get<1>(key) == context && is_of_call(first_tag, std::get<2>(key));
  };
  for (Pending* send : direct_sends_) {
    if (is_of_it(send->key)) announce(send);
  }
  for (auto& [key, pending] : posted_) {
    const DirectTags::Range* range = direct_tags_.from(std::get<0>(key), context);
    if (range != nullptr && !pending->carried && is_of_it(key)) receive_directly(*range, pending);
  }
} catch (const std::bad_alloc&) {
}

}  // namespace zh::engine
