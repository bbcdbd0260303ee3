// Small collectives of many members. A counter that all change, or flags that one member reads, cross the machine once
// for each of them. So members that are near each other are a group, whose leader waits for them, and leaders have
// leaders: contributions go up this tree and results down. A group that is a block of members, in the order of ranks,
// folds its own part. Blocks are folded so in any case, so a result does not depend on who is near whom.
#include <algorithm>
#include <numeric>
#include <utility>

#include "coll/team/team_state.h"

namespace zh::coll {

// All members know the same levels, so they make the same tree. A leader is the first member of its group.
void Team::State::make_groups() {
  parents.resize(size);
  std::iota(parents.begin(), parents.end(), 0U);
  std::vector<uint32_t> heads = parents;  // who has no leader yet
  uint32_t most = kLargestGroup;          // members of a group
  const auto join = [&](node::Level apart) {
    std::vector<uint32_t> led(size, 0);
    std::vector<uint32_t> left;
    for (const uint32_t head : heads) {
      const auto takes = [&](uint32_t leader) {
        return led[leader] + 1 < most && services.level(members[leader], members[head]) <= apart;
      };
      const auto leader = std::find_if(left.begin(), left.end(), takes);
      if (leader == left.end()) {
        left.push_back(head);
        continue;
      }
      ++led[*leader];
      parents[head] = *leader;
      if (*leader == self) children.push_back(head);
    }
    if (left.size() == heads.size()) return;
    if (most == kLargestGroup) {
      block_children = static_cast<uint32_t>(children.size());
      leaders = parents;
      groups_are_blocks = true;
      for (uint32_t i = 0; i < size; ++i) groups_are_blocks &= leaders[i] == i / kBlockMembers * kBlockMembers;
    }
    heads = std::move(left);
    most = size;
  };
  for (const node::Level apart : {node::Level::kSharedL3, node::Level::kSharedL3, node::Level::kSameSocket,
                                  node::Level::kOtherSocket, node::Level::kOtherSocket}) {
    join(apart);
  }
}

// --- Up the tree

Code Team::State::await_many() {
  const Code code = await_each(size - 1, [this](uint32_t k) { return after_self(k + 1); });
  if (code == Code::kOk) all_arrived();
  return code;
}

Code Team::State::await_children(uint32_t count) {
  Code code = await_each(count, [this](uint32_t k) { return children[k]; });
  for (uint32_t k = 0; code == Code::kOk && k < count; ++k) code = await_below(children[k]);
  return code;
}

Code Team::State::await_below(uint32_t member) {
  const ContributionWay way = slot(member).way;
  const bool has_waited =
      way == ContributionWay::kInline || way == ContributionWay::kRing || way == ContributionWay::kPartial;
  for (uint32_t i = member + 1; !has_waited && i < size; ++i) {
    if (parents[i] != member) continue;
    if (const Code code = await(i); code != Code::kOk) return code;
    if (const Code code = await_below(i); code != Code::kOk) return code;
  }
  return Code::kOk;
}

// Where a group is a block.
bool Team::State::group_agrees(uint32_t leader, uint64_t bytes) const {
  for (uint32_t i = leader; i < std::min(leader + kBlockMembers, size); ++i) {
    if (slot(i).bytes != bytes) return false;
  }
  return true;
}

void Team::State::fold_group(uint32_t leader, uint64_t bytes, const Reduction& how, std::byte* out) {
  fold_by_kernel(leader, std::min(leader + kBlockMembers, size) - 1, bytes, out, how,
                 [this](uint32_t i) { return contents(i); });
}

void Team::State::contribute_group(uint64_t bytes, const Reduction& how) {
  if (!group_agrees(self, bytes)) return;
  alignas(kLineBytes) std::byte partial[kPartialBytes];
  fold_group(self, bytes, how, partial);
  ContributionShm& mine = slot(self);
  std::memcpy(mine.payload, partial, bytes);
  mine.way = ContributionWay::kPartial;
}

bool Team::State::fold_groups(uint64_t bytes, const Reduction& how, std::byte* out) {
  const auto is_partial = [&](uint32_t leader) { return slot(leader).way == ContributionWay::kPartial; };
  bool by_groups = groups_are_blocks && in_blocks(bytes, how);
  if (by_groups) ask_for_slots(kBlockMembers);
  for (uint32_t leader = 0; by_groups && leader < size; leader += kBlockMembers) {
    by_groups =
        is_partial(leader) ? slot(leader).bytes == bytes : leader == leaders[self] && group_agrees(leader, bytes);
  }
  if (!by_groups) {
    if (!agree(0, size - 1, bytes)) return false;
    fold_slots(0, size - 1, 0, bytes, out, how);
    return true;
  }
  alignas(kLineBytes) std::byte own[kPartialBytes];
  if (!is_partial(leaders[self])) fold_group(leaders[self], bytes, how, own);
  fold_by_kernel(0, (size - 1) / kBlockMembers, bytes, out, how, [&](uint32_t block) {
    const uint32_t leader = block * kBlockMembers;
    return is_partial(leader) ? slot(leader).payload : own;
  });
  return true;
}

// --- Down the tree

Code Team::State::await_result(const ResultShm** out) {
  *out = nullptr;
  for (uint32_t above = parents[self];; above = parents[above]) {
    const ResultShm& result = control(above).result;
    bool has_come = false;
    auto settled = [&] {
      has_come = result.seq.load_acquire() == seq;  // CR1 <- CR0
      if (has_come || !has_left(result)) return has_come;
      has_come = result.seq.load_acquire() == seq;  // CR1 <- CR0: who has left a later one has told of this one before
      return true;
    };
    if (const Code code = wait(settled, kWhoHasNotCome); code != Code::kOk) return code;
    if (has_come && result.what != ResultShm::What::kAbove) {
      *out = &result;
      return Code::kOk;
    }
    if (above == 0) return await_all();  // who should have made the result has left
  }
}

bool Team::State::has_left(const ResultShm& result) const {
  return static_cast<int32_t>(result.left.load_acquire() - seq) >= 0;  // CG1 <- CG0: what it has told of before
}

void Team::State::leave_groups() {
  if (!children.empty()) control(self).result.left.store_release(seq);  // CG0 -> CG1
}

Code Team::State::grouped_allreduce(const void* in, void* out, uint64_t bytes, const Reduction& how) {
  const bool aligned = bytes != 0 && how.kernel == nullptr;
  const copy::Buffer input{static_cast<std::byte*>(const_cast<void*>(in)), bytes, nullptr};
  if (const Code code = contribute(input, aligned); code != Code::kOk) return code;
  if (const Code code = await_children(static_cast<uint32_t>(children.size())); code != Code::kOk) return code;
  if (groups_are_blocks && leaders[self] == self && in_blocks(bytes, how)) contribute_group(bytes, how);
  publish();
  const bool beside_flag = bytes <= kInlineBytes && !aligned;
  ResultShm& mine = control(self).result;
  const ResultShm* result = &mine;
  if (self == 0) {
    const bool well = how.element_bytes == 0 || fold_groups(bytes, how, beside_flag ? mine.payload : result_room);
    mine.what = well ? ResultShm::What::kHere : ResultShm::What::kNone;
    ZH_CHECK_INVARIANT(mine.broken_invariant());
    ZH_CRASH_POINT("team: last to arrive");
  } else if (const Code code = await_result(&result); code != Code::kOk) {
    return code;
  } else if (!children.empty()) {
    mine.what = result == nullptr || !beside_flag ? ResultShm::What::kAbove : result->what;
    if (mine.what == ResultShm::What::kHere && bytes != 0) std::memcpy(mine.payload, result->payload, bytes);
    ZH_CRASH_POINT("team: result handed on");
  }
  if (!children.empty()) mine.seq.store_release(seq);  // CR0 -> CR1: the result, or that those above have it
  if (result == nullptr || result->what == ResultShm::What::kNone) [[unlikely]] {
    agree(0, size - 1, bytes);
  } else if (bytes != 0) {
    copy::copy_bytes(out, beside_flag ? result->payload : result_room, bytes, copy::Store::kTemporal);
  }
  all_arrived();
  end();
  return Code::kOk;
}

// --- A reduction to a root

Code Team::State::give_to_leader(uint64_t bytes, const Reduction& how, uint32_t root) {
  if (leaders[self] != self || leaders[root] == self) return Code::kOk;
  const Code code = await_children(block_children);
  if (code == Code::kOk) contribute_group(bytes, how);
  return code;
}

Code Team::State::await_groups() {
  const uint32_t own = self / kBlockMembers;
  const auto leader_at = [&](uint32_t k) { return k == own ? self : k * kBlockMembers; };
  const uint32_t groups = (size + kBlockMembers - 1) / kBlockMembers;
  if (const Code code = await_each(groups, leader_at); code != Code::kOk) return code;
  for (uint32_t leader = 0; leader < size; leader += kBlockMembers) {
    if (slot(leader).way == ContributionWay::kPartial) continue;
    const uint32_t count = std::min(kBlockMembers, size - leader);
    const Code code = await_each(count, [&](uint32_t k) { return leader + k; });
    if (code != Code::kOk) return code;
  }
  all_arrived();
  return Code::kOk;
}

}  // namespace zh::coll
