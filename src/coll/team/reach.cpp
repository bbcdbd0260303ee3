// Members' memory as the algorithms see it: offered by its owner, read, written and combined by the others, mapped or
// through the kernel; and what no way leads to, as messages that the owner is asked for.
#include <algorithm>

#include "coll/team/team_state.h"

namespace zh::coll {

namespace {
// Two members may request a fallback of each other at once: what one sends because it was asked is not what it asks to
// send.
constexpr int32_t kReadTag = kFirstFreeTag;
constexpr int32_t kWriteTag = kFirstFreeTag + 1;
/// Own pieces from this size on go past the caches, where other members' pieces are copied at the same time.
constexpr uint64_t kStreamedBytes = 2 << 20;

/// Bytes [from, from + n) of a buffer: what lies before its mapped part, in it, and behind it, from `behind` on.
struct Parts {
  Parts(const copy::RemoteBufferShm& buffer, uint64_t from, uint64_t n) {
    const uint64_t first = std::clamp(buffer.from(), from, from + n);
    behind = std::clamp(buffer.end(), first, from + n);
    head = first - from;
    tail = from + n - behind;
  }
  uint64_t head;
  uint64_t tail;
  uint64_t behind;
};

void copy_edge(std::byte* to, const std::byte* from, uint64_t n) {
  copy::copy_bytes(to, from, n, copy::Store::kTemporal);
}
}  // namespace

void copy_own(const copy::Buffer& to, const copy::Buffer& from) {
  const uint64_t n = std::min(to.bytes, from.bytes);
  if (n == 0 || (to.base == from.base && to.layout == from.layout)) return;
  if (to.layout == nullptr && from.layout == nullptr) {
    const copy::Store store = n < kStreamedBytes ? copy::Store::kTemporal : copy::Store::kNonTemporal;
    copy::copy_bytes(to.base, from.base, n, store);
  } else {
    copy::copy_range(to, from, 0, n, copy::Store::kTemporal);
  }
}

Code Team::State::offer(const void* source, uint64_t source_bytes, void* target, uint64_t target_bytes) {
  return offer(source, source_bytes, target, target_bytes, source_bytes, source_bytes);
}

Code Team::State::offer(const void* source, uint64_t source_bytes, void* target, uint64_t target_bytes, uint64_t stride,
                        uint64_t piece) {
  ContributionShm* mine = nullptr;
  const bool gaps = stride != piece;
  if (const Code code = own_slot(&mine); code != Code::kOk) return code;
  offered_source = static_cast<const std::byte*>(source);
  offered_target = static_cast<std::byte*>(target);
  mine->way = ContributionWay::kMemory;
  mine->bytes = piece;
  mine->stride = stride;
  mine->apart = streamed != kNeverStreamed ? 1 : 0;
  mine->stage.store_relaxed(stage_of(0));
  const uint64_t data = piece * size;
  const auto use = target == source ? copy::Direction::kWrite : copy::Direction::kRead;
  if (source != nullptr) services.memory().describe(source, source_bytes, data, use, !gaps, &mine->source);
  if (target != nullptr && target == source) {
    mine->target = mine->source;
  } else if (target != nullptr) {
    services.memory().describe(target, target_bytes, data, copy::Direction::kWrite, !gaps, &mine->target);
  }
  offer_edges(mine);
  publish();
  return Code::kOk;
}

void Team::State::offer_edges(ContributionShm* mine) {
  const auto has_edges = [](const copy::RemoteBufferShm& b) {
    return b.mapped() && (b.from() != 0 || b.end() != b.bytes);
  };
  mine->edges = kNoOffset;
  const bool of_source = offered_source != nullptr && has_edges(mine->source);
  if (!of_source && (offered_target == nullptr || !has_edges(mine->target))) return;
  if (edges == kNoOffset) edges = pool.take_edges();
  mine->edges = edges;
  if (of_source) renew_edges(0, mine->source.bytes);
}

EdgesShm* Team::State::edges_of(uint32_t member) const {
  const Offset area = slot(member).edges;
  return area == kNoOffset ? nullptr : at<EdgesShm>(services.base(), area);
}

void Team::State::renew_edges(uint64_t from, uint64_t n) {
  EdgesShm* const kept = edges_of(self);
  if (kept == nullptr) return;
  const copy::RemoteBufferShm& source = slot(self).source;
  const Parts p(source, from, n);
  if (p.head != 0) copy_edge(kept->source.head + from, offered_source + from, p.head);
  if (p.tail != 0) copy_edge(kept->source.tail + (p.behind - source.end()), offered_source + p.behind, p.tail);
  ZH_CRASH_POINT("team: edges kept");
}

void Team::State::take_edges(uint64_t from, uint64_t n) {
  const EdgesShm* const kept = edges_of(self);
  if (kept == nullptr) return;
  const copy::RemoteBufferShm& target = slot(self).target;
  const Parts p(target, from, n);
  ZH_CRASH_POINT("team: edges taken");
  if (p.head != 0) copy_edge(offered_target + from, kept->target.head + from, p.head);
  if (p.tail != 0) copy_edge(offered_target + p.behind, kept->target.tail + (p.behind - target.end()), p.tail);
}

Code Team::State::read(uint32_t member, uint64_t from, uint64_t n, void* out) {
  const copy::RemoteBufferShm& source = slot(member).source;
  auto* to = static_cast<std::byte*>(out);
  if (const EdgesShm* const kept = edges_of(member); kept != nullptr) {
    const Parts p(source, from, n);
    if (p.head != 0) copy_edge(to, kept->source.head + from, p.head);
    if (p.tail != 0) copy_edge(to + (n - p.tail), kept->source.tail + (p.behind - source.end()), p.tail);
    ZH_CRASH_POINT("team: edges read");
    from += p.head;
    n -= p.head + p.tail;
    to += p.head;
  }
  const uint64_t done = n == 0 ? 0 : services.memory().read(members[member], source, from, n, to);
  return done == n ? Code::kOk : request_fallback(member, from + done, n - done, to + done, false);
}

Code Team::State::write(uint32_t member, uint64_t from, uint64_t n, const void* in) {
  const copy::RemoteBufferShm& target = slot(member).target;
  const auto* out_of = static_cast<const std::byte*>(in);
  if (EdgesShm* const kept = edges_of(member); kept != nullptr) {
    const Parts p(target, from, n);
    if (p.head != 0) copy_edge(kept->target.head + from, out_of, p.head);
    if (p.tail != 0) copy_edge(kept->target.tail + (p.behind - target.end()), out_of + (n - p.tail), p.tail);
    ZH_CRASH_POINT("team: edges written");
    from += p.head;
    n -= p.head + p.tail;
    out_of += p.head;
  }
  const uint64_t done = n == 0 ? 0 : services.memory().write(members[member], target, from, n, out_of);
  if (done == n) return Code::kOk;
  // A message is only read from.
  return request_fallback(member, from + done, n - done, const_cast<std::byte*>(out_of) + done, true);
}

Code Team::State::read_into(uint32_t member, uint64_t from, uint64_t n, const copy::Buffer& out) {
  if (out.layout == nullptr) return read(member, from, n, out.base);
  std::byte* const room = incoming.get(kChunkBytes);
  if (room == nullptr) {  // nobody else needs what this rank takes
    fail(Code::kNoMemory);
    return Code::kOk;
  }
  for (uint64_t at_byte = 0; at_byte < n; at_byte += kChunkBytes) {
    const uint64_t now = std::min(kChunkBytes, n - at_byte);
    if (const Code code = read(member, from + at_byte, now, room); code != Code::kOk) return code;
    copy::unpack(out, at_byte, now, room, copy::Store::kTemporal);
  }
  return Code::kOk;
}

// A predefined operation takes the mapped part where it lies, in whole elements, and the rest from a copy.
Code Team::State::combine(Theirs theirs, uint32_t member, uint64_t from, uint64_t n, const std::byte* mine,
                          std::byte* out, const Reduction& how) {
  const uint64_t e = how.element_bytes;
  const Parts p(slot(member).source, from, n);
  const uint64_t head = std::min((p.head + e - 1) / e * e, n);
  const uint64_t tail = std::min((p.tail + e - 1) / e * e, n - head);
  if (how.kernel == nullptr || (head == 0 && tail == 0)) return combine_run(theirs, member, from, n, mine, out, how);
  const uint64_t ends[] = {head, n - tail, n};
  uint64_t at_byte = 0;
  for (const uint64_t end_of_run : ends) {
    if (end_of_run == at_byte) continue;
    const Code code =
        combine_run(theirs, member, from + at_byte, end_of_run - at_byte, mine + at_byte, out + at_byte, how);
    if (code != Code::kOk) return code;
    at_byte = end_of_run;
  }
  return Code::kOk;
}

// The program's own function is never run on another rank's memory, nor while that is held: it may do anything.
Code Team::State::combine_run(Theirs theirs, uint32_t member, uint64_t from, uint64_t n, const std::byte* mine,
                              std::byte* out, const Reduction& how) {
  struct KernelCall {
    const Reduction& how;
    Theirs theirs;
    const std::byte* mine;
    std::byte* out;
    uint64_t count;
  } call{how, theirs, mine, out, n / how.element_bytes};
  const copy::Visit run_kernel = [](void* p, const std::byte* memory) {
    const auto& c = *static_cast<const KernelCall*>(p);
    const bool left = c.theirs == Theirs::kLeft;
    c.how.kernel(left ? memory : c.mine, left ? c.mine : memory, c.out, c.count);
  };
  const ContributionShm& slot_of = slot(member);
  if (how.kernel != nullptr && services.memory().visit(members[member], slot_of.source, from, n, run_kernel, &call)) {
    return Code::kOk;
  }
  std::byte* const copied = incoming.get(n);
  if (copied == nullptr) return Code::kNoMemory;
  if (const Code code = read(member, from, n, copied); code != Code::kOk) return code;
  if (how.kernel != nullptr) {
    run_kernel(&call, copied);
  } else {
    if (out != mine) std::memcpy(out, mine, n);
    how.user(how.context, copied, out, call.count);
  }
  return Code::kOk;
}

const std::byte* Team::State::contiguous(const copy::Buffer& data) {
  if (data.layout == nullptr) return data.base;
  std::byte* const room = packed.get(data.bytes);
  if (room != nullptr) gather_bytes(room, data, data.bytes);
  return room;
}

const std::byte* Team::State::contiguous(const Pieces& pieces, uint64_t* stride) {
  const uint64_t n = pieces.first.bytes;
  if (pieces.first.layout == nullptr && pieces.stride >= static_cast<int64_t>(n)) {
    *stride = static_cast<uint64_t>(pieces.stride);
    return pieces.first.base;
  }
  *stride = n;
  std::byte* const room = packed.get(n * size);
  for (uint32_t i = 0; i < size && room != nullptr; ++i) {
    if (i != self) gather_bytes(room + i * n, pieces[i], n);
  }
  return room;
}

// The owner cannot have left the collective: it waits there until this member has done it. What goes to the owner is
// sent synchronously, so that it has seen this fallback request when the next one takes its place.
Code Team::State::request_fallback(uint32_t member, uint64_t from, uint64_t n, std::byte* local, bool to_owner) {
  FallbackShm& fallback = control(self).fallback;
  fallback.from = from;
  fallback.bytes = n;
  fallback.to_owner = to_owner ? 1 : 0;
  const uint64_t count = (fallback.word.load_relaxed() >> 32) + 1;
  fallback.word.store_release(count << 32 | member);  // Q0 -> Q1: what is asked for
  ZH_CHECK_INVARIANT(fallback.broken_invariant(size));
  ZH_CRASH_POINT("team: fallback requested");
  const copy::Buffer data{local, n, nullptr};
  return transfer(member,
                  to_owner ? services.send(members[member], context, kWriteTag, data, p2p::SendMode::kSynchronous)
                           : services.recv(members[member], context, kReadTag, data),
                  0);
}

void Team::State::answer_fallbacks() {
  for (uint32_t i = 0; i < size; ++i) {
    if (i == self) continue;
    const FallbackShm& fallback = control(i).fallback;
    const uint64_t word = fallback.word.load_acquire();  // Q1 <- Q0
    if (word == fallbacks_seen[i] || static_cast<uint32_t>(word) != self) continue;
    if (!is_ours(control(i))) continue;
    // The last one has come, or there would be no new fallback request; this end may be the last to notice.
    if (answers[i] != nullptr) {
      if (!services.done(answers[i])) continue;
      uint64_t bytes = 0;
      services.finish(answers[i], &bytes);
    }
    const copy::Buffer out{const_cast<std::byte*>(offered_source) + fallback.from, fallback.bytes, nullptr};
    const copy::Buffer in{offered_target + fallback.from, fallback.bytes, nullptr};
    answers[i] = fallback.to_owner != 0 ? services.recv(members[i], context, kWriteTag, in)
                                        : services.send(members[i], context, kReadTag, out, p2p::SendMode::kStandard);
    if (answers[i] != nullptr) fallbacks_seen[i] = word;  // else memory is short: tried again
  }
}

}  // namespace zh::coll
