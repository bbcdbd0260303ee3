// Small barriers, reductions and allreduces of many members: in groups of members that follow each other, each about as
// large as there are groups. The first member of a group combines what its members contribute, and contributes that in
// place of its own. The root combines what the first members contribute. In an allreduce member 0 is that root, and
// writes the result on the control block of each group's first member. So nobody reads more than a few lines, and few
// read one. No structure of shared memory is for this alone.
#include <algorithm>

#include "coll/team/team_state.h"

namespace zh::coll {

namespace {
/// From this many members on, where each has a CPU. By a count of lines that go from one core to another one after the
/// other (docs/design/teams.md), not by measurement: no machine with so many processors was there.
constexpr uint32_t kGroupedMembers = 16;
}  // namespace

// A power of two, because so many cores share a cache, as a rule.
uint32_t Team::State::choose_group() const {
  if (const uint32_t told = services.group_members(); told != 0) return told == 1 || told >= size ? 0 : told;
  if (facts.crowded || size < kGroupedMembers) return 0;
  uint32_t members_of_one = 1;
  while (members_of_one * members_of_one < size) members_of_one *= 2;
  return members_of_one;
}

Code Team::State::give_operand(const void* in, uint64_t bytes, const Reduction& how) {
  const bool aligned = bytes != 0 && how.kernel == nullptr;
  const copy::Buffer own{static_cast<std::byte*>(const_cast<void*>(in)), bytes, nullptr};
  if (self != first_of_group()) {
    if (const Code code = contribute(own, aligned); code != Code::kOk) return code;
    publish();
    return Code::kOk;
  }
  const uint32_t last = std::min(self + group, size) - 1;
  bool agreed = true;
  for (uint32_t i = self + 1; i <= last; ++i) {
    if (const Code code = await(i); code != Code::kOk) return code;
    agreed = agreed && slot(i).bytes == bytes;
  }
  std::byte* room = nullptr;
  if (const Code code = claim(bytes, aligned, &room); code != Code::kOk) return code;
  if (!agreed) [[unlikely]] {
    slot(self).way = ContributionWay::kOfNoGroup;
  } else if (bytes != 0) {
    fold(self, last, bytes, room, how, [&](uint32_t i) { return i == self ? own.base : contents(i); });
  }
  publish();
  return Code::kOk;
}

// Whoever finds no result looks at all contributions, to say what is wrong. They come, whatever their members find.
Code Team::State::await_groups(uint64_t bytes, bool* agreed) {
  *agreed = true;
  for (uint32_t first = 0; first < size; first += group) {
    if (first != self) {
      if (const Code code = await(first); code != Code::kOk) return code;
    }
    const ContributionShm& theirs = slot(first);
    *agreed = *agreed && theirs.bytes == bytes && theirs.way != ContributionWay::kOfNoGroup;
  }
  if (!*agreed) return await_all();
  all_arrived();
  return Code::kOk;
}

void Team::State::fold_groups(uint64_t bytes, std::byte* out, const Reduction& how) {
  if (bytes == 0) return;
  fold(0, (size - 1) / group, bytes, out, how, [&](uint32_t i) { return contents(i * group); });
}

Code Team::State::grouped_reduce(const void* in, void* out, uint64_t bytes, const Reduction& how, uint32_t root) {
  if (const Code code = give_operand(in, bytes, how); code != Code::kOk) return code;
  if (self == root) {
    bool agreed = false;
    if (const Code code = await_groups(bytes, &agreed); code != Code::kOk) return code;
    if (agreed) {
      fold_groups(bytes, static_cast<std::byte*>(out), how);
    } else {
      agree(0, size - 1, bytes);
    }
  }
  end();
  return Code::kOk;
}

void Team::State::tell_group(uint32_t first, uint32_t wrong) {
  ResultShm& result = control(first).result;
  result.wrong = wrong;
  ZH_CHECK_INVARIANT(result.broken_invariant());
  ZH_CRASH_POINT("team: group not yet told");
  result.seq.store_release(seq);  // CR0 -> CR1: the result, or that there is none
}

// Nobody reads the results before any more: all members have contributed, so they have done all collectives before.
Code Team::State::answer(uint64_t bytes, const Reduction& how) {
  const bool aligned = bytes != 0 && how.kernel == nullptr;
  bool agreed = false;
  if (const Code code = await_groups(bytes, &agreed); code != Code::kOk) return code;
  std::byte* const result = room_of_result(0, bytes, aligned);
  if (agreed) fold_groups(bytes, result, how);
  for (uint32_t first = 0; first < size; first += group) {
    if (agreed && bytes != 0 && first != 0) {
      copy::copy_bytes(room_of_result(first, bytes, aligned), result, bytes, copy::Store::kTemporal);
    }
    tell_group(first, agreed ? 0 : 1);
  }
  return Code::kOk;
}

// The others may still read the result before.
Code Team::State::answer_nothing() {
  if (self != 0) return Code::kOk;
  if (const Code code = await_past(seq - 1); code != Code::kOk) return code;
  for (uint32_t first = 0; first < size; first += group) tell_group(first, 1);
  return Code::kOk;
}

Code Team::State::grouped_allreduce(const void* in, void* out, uint64_t bytes, const Reduction& how) {
  if (const Code code = give_operand(in, bytes, how); code != Code::kOk) return code;
  const uint32_t first = first_of_group();
  const ResultShm& result = control(first).result;
  if (self == 0) {
    if (const Code code = answer(bytes, how); code != Code::kOk) return code;
  } else {
    const Code code = wait([&] { return result.seq.load_acquire() == seq; });  // CR1 <- CR0
    if (code != Code::kOk) return code;
  }
  if (result.wrong != 0) [[unlikely]] {
    // It may have been told before all have contributed.
    if (const Code code = await_all(); code != Code::kOk) return code;
    agree(0, size - 1, bytes);
  } else if (bytes != 0) {
    const bool aligned = how.kernel == nullptr;
    copy::copy_bytes(out, room_of_result(first, bytes, aligned), bytes, copy::Store::kTemporal);
  }
  all_arrived();
  end();
  return Code::kOk;
}

}  // namespace zh::coll
