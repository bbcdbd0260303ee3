// Reductions of two members that each have a CPU: one message brings an operand, and whoever wants the result combines.
// Both ends copy the message; a combination out of the other one's memory would wait for each line of its cache.
#include "coll/team/team_state.h"

namespace zh::coll {

Code Team::State::send_operand(const void* in, uint64_t bytes) {
  const uint32_t other = 1 - self;
  p2p::Request* message = nullptr;
  const copy::Buffer data{static_cast<std::byte*>(const_cast<void*>(in)), bytes, nullptr};
  if (const Code code = start_message(other, data, &message); code != Code::kOk) return code;
  // A receiver of this way contributes nothing itself: one that does means another length.
  const ContributionShm& theirs = slot(other);
  auto settled = [&] { return services.done(message) || theirs.seq.load_acquire() == seq; };  // CS1 <- CS0
  if (const Code code = turn_until(settled, other); code != Code::kOk) return code;
  if (services.done(message)) return finish(message, 0);
  services.abandon(message);
  return Code::kOk;
}

Code Team::State::receive_operand(uint64_t bytes, std::byte** operand) {
  const uint32_t other = 1 - self;
  std::byte* const room = incoming.get(bytes);
  if (room == nullptr) return decline();
  bool came = false;
  const Code received = await_message(other, start_receive(other, {room, bytes, nullptr}), 0, &came);
  if (received == Code::kNoMemory) return decline();
  if (received != Code::kOk) return received;
  if (const Code code = await(other); code != Code::kOk) return code;
  *operand = agree(other, other, bytes) && came ? room : nullptr;
  if (*operand != nullptr) [[likely]]
    return Code::kOk;
  return contribute_nothing();  // the other one may wait for it
}

void Team::State::combine_behind(std::byte* theirs, const void* in, void* out, uint64_t count, const Reduction& how) {
  if (how.kernel != nullptr) return how.kernel(theirs, in, out, count);
  if (out != in) std::memcpy(out, in, count * how.element_bytes);
  how.combine(theirs, out, count);
}

Code Team::State::reduce_of_two(const void* in, void* out, uint64_t count, const Reduction& how, uint32_t root) {
  if (const Code code = begin(); code != Code::kOk) return code;
  const uint64_t bytes = count * how.element_bytes;
  if (self != root) {
    const Code code = send_operand(in, bytes);
    end();
    return code;
  }
  std::byte* mine = nullptr;  // the function may be careless with its first argument
  if (self == 0 && how.kernel == nullptr) {
    mine = prefix.get(bytes);
    if (mine == nullptr) return decline();
  }
  std::byte* theirs = nullptr;
  if (const Code code = receive_operand(bytes, &theirs); code != Code::kOk) return code;
  if (theirs != nullptr && self == 1) {
    combine_behind(theirs, in, out, count, how);
  } else if (theirs != nullptr && how.kernel != nullptr) {
    how.kernel(in, theirs, out, count);
  } else if (theirs != nullptr) {
    std::memcpy(mine, in, bytes);
    how.combine(mine, theirs, count);
    std::memcpy(out, theirs, bytes);
  }
  all_arrived();
  end();
  return Code::kOk;
}

Code Team::State::scan_of_two(const void* in, void* out, uint64_t count, const Reduction& how, bool exclusive) {
  if (const Code code = begin(); code != Code::kOk) return code;
  const uint64_t bytes = count * how.element_bytes;
  if (self == 0) {
    const Code code = send_operand(in, bytes);
    if (!exclusive && out != in) std::memcpy(out, in, bytes);
    end();
    return code;
  }
  std::byte* theirs = nullptr;
  if (const Code code = receive_operand(bytes, &theirs); code != Code::kOk) return code;
  if (theirs != nullptr && exclusive) {
    std::memcpy(out, theirs, bytes);
  } else if (theirs != nullptr) {
    combine_behind(theirs, in, out, count, how);
  }
  all_arrived();
  end();
  return Code::kOk;
}

}  // namespace zh::coll
