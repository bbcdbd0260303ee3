// The inside of a Team, shared by the algorithms of this folder only: control blocks, waiting, and reaching members'
// memory.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/crash_point.h"
#include "base/invariant.h"
#include "coll/sizes.h"
#include "coll/team/control_block.h"
#include "coll/team/control_block_pool.h"
#include "coll/team/fold.h"
#include "coll/team/scratch.h"
#include "coll/team/services.h"
#include "coll/team/team.h"

namespace zh::coll {

/// Bytes handled at a time by reductions in place: the accumulator and a piece of every operand stay in a core's cache.
constexpr uint64_t kChunkBytes = 32 << 10;

// From how many members on they are in groups, and leaders stand between a root and their groups; members of a group at
// most. Chosen on emulated machines (docs/design/scale.md).
#ifdef ZH_MODEL_CHECK
constexpr uint32_t kGroupedMembers = 4;
constexpr uint32_t kRelayedMembers = 4;
constexpr uint32_t kLargestGroup = 2;
#else
constexpr uint32_t kGroupedMembers = 16;
constexpr uint32_t kRelayedMembers = 64;
constexpr uint32_t kLargestGroup = 8;
#endif

/// Flags of other members that are on the way at once. Processors have ten or more lines on the way.
constexpr uint32_t kLinesAhead = 8;

/// Looks at what a leader relays between two at the root, so that nobody waits for a leader that is late.
constexpr uint32_t kLooksPerRoot = 64;

/// Looks at a flag between two questions whether this rank keeps others from their CPU.
constexpr uint32_t kPollsPerNotice = 64;

/// Least contribution whose successor's lines are asked for ahead.
constexpr uint64_t kAskedBytes = 256;

/// Tags of a team's messages below the second belong to team.cpp. Messages of one kind between two members are in
/// order.
constexpr int32_t kMessageTag = 2;  // and the number of the collective above it
constexpr int32_t kFirstFreeTag = 3;

struct Team::State {
  State(Services& services_in, ControlBlockPool& pool_in, uint64_t context_in, std::vector<uint32_t> members_in,
        uint32_t self_in);
  ~State();

  // --- team.cpp: setting up, waiting

  [[nodiscard]] bool set_up();
  /// Ranks move while a job runs: looks now and then whether most other members share no cache with this one.
  void look_at_distances();
  /// Begins the next collective. kPeerDead once a member's death was seen: those that have not seen it yet must not
  /// take this rank's next contribution for the one that they wait for.
  Code begin() {
    if (broken) [[unlikely]]
      return Code::kPeerDead;
    if (++seq % kSlots == 1) [[unlikely]]
      look_at_distances();
    fault = Code::kOk;
    less = false;
    return growth_is_over ? Code::kOk : grow();
  }
  /// growth.cpp: what the collective at hand begins with, if it has one of two numbers.
  Code grow();
  /// Where member's contributions, and results on its control block, are from now on.
  void use(uint32_t member, ContributionShm* slots, std::byte* ring, std::byte* result);
  /// The collective at hand goes on, but not as it should; the first fault is told.
  void fail(Code code) {
    if (fault == Code::kOk) fault = code;
  }
  /// What has come of a collective that ended like that.
  [[nodiscard]] Code outcome(Code code) const { return code == Code::kOk ? fault : code; }
  /// Of `theirs` bytes what has room in `mine`.
  uint64_t fit(uint64_t theirs, uint64_t mine) {
    if (theirs == mine) [[likely]]
      return mine;
    if (theirs > mine) fail(Code::kTruncated);
    less = less || theirs < mine;
    return theirs < mine ? theirs : mine;
  }
  /// True if contributions to a reduction, of members that have arrived, from `first` to `last`, have `bytes` as well.
  bool agree(uint32_t first, uint32_t last, uint64_t bytes);
  /// This rank's contribution is that it has none; published.
  Code contribute_nothing();
  /// Ends the collective at hand for want of memory, before this rank has contributed anything: whoever waits for it
  /// learns so, as of a member that refuses. kNoMemory.
  Code decline(bool to_all = false);
  /// Ends it: nothing of others is needed any more.
  [[gnu::always_inline]] void end() {
    ZH_CRASH_POINT("team: not yet done");
    // CN0 -> CN1: this rank's last reads of control blocks, and its accesses to others' memory.
    control(self).done.store_release(seq);
    ZH_CHECK_INVARIANT(broken_invariant());
    wake_sleepers();
  }
  /// Members that sleep look at their flags again. Called when this one has set what they may wait for: before it waits
  /// itself, and when it leaves.
  void wake_sleepers() {
    if (sleepers != nullptr && sleepers->load_relaxed() != 0) [[unlikely]]
      wake_members();
  }
  void wake_members();
  // In the place of a member that is waited for: all that have not done the collective at hand, or not contributed to
  // it; nobody in particular.
  static constexpr uint32_t kWhoHasNotDone = ~0U;
  static constexpr uint32_t kWhoHasNotCome = ~1U;
  static constexpr uint32_t kNobody = ~2U;
  /// Waits until ready() is true; kPeerDead if a member ends meanwhile. `member`: for whom, for those who ask (tell()).
  template <typename Ready>
  Code wait(Ready&& ready, uint32_t member) {
    for (uint32_t i = 0; i < polls; ++i) {
      if (ready()) return Code::kOk;
      if (i % kPollsPerNotice == kPollsPerNotice - 1 && services.keeps_cpu_from_peer()) break;
      cpu_relax();
    }
    return turn_until(ready, member);
  }
  /// The same, with the engine turning from the first look on.
  template <typename Ready>
  Code turn_until(Ready& ready, uint32_t member) {
    return turn_until([](void* p) { return (*static_cast<Ready*>(p))(); }, &ready, member);
  }
  Code turn_until(bool (*ready)(void*), void* ready_context, uint32_t member);
  void tell(uint32_t member, p2p::Activity* out) const;

  /// This rank's slot of the collective at hand, free to be written.
  Code own_slot(ContributionShm** out) {
    *out = &slot(self);
    return await_past(seq - slot_mask - 1);
  }
  /// Until every member has done collective `past`.
  Code await_past(uint32_t past) {
    if (static_cast<int32_t>(past - safe) <= 0) [[likely]]
      return Code::kOk;
    return wait_for_past(past);
  }
  Code wait_for_past(uint32_t past);
  /// Makes what is in this rank's slot known.
  void publish() {
    ZH_CRASH_POINT("team: contributed");
    ZH_CHECK_INVARIANT(slot(self).broken_invariant(ring_blocks * kBlockBytes));
    // CS0 -> CS1: the contribution, and its memory.
    slot(self).seq.store_release(seq);
    ZH_CRASH_POINT("team: published");
    if (polls > 1) ask_ahead();
  }
  /// The next collective will probably be like this one: the lines that this rank writes for it are asked for now,
  /// while it waits for others anyway (measured at 2 ranks far: 512 bytes a fifth, 16 KiB a seventh less time).
  void ask_ahead() {
    const ContributionShm& mine = slot(self);
    if ((mine.way != ContributionWay::kInline && mine.way != ContributionWay::kRing) || mine.bytes < kAskedBytes ||
        mine.bytes >= streamed)
      return;
    const ContributionShm& next = slots_of[self][(seq + 1) & slot_mask];
    prefetch_for_write(&next.seq);
    const std::byte* const room =
        mine.way == ContributionWay::kInline ? next.payload : rings_of[self] + next_block % ring_blocks * kBlockBytes;
    for (uint64_t at_byte = 0; at_byte < mine.bytes; at_byte += kLineBytes) prefetch_for_write(room + at_byte);
  }
  /// Until member's contribution to the collective at hand is there.
  Code await(uint32_t member) {
    const ContributionShm& theirs = slot(member);
    return wait([&] { return theirs.seq.load_acquire() == seq; }, member);  // CS1 <- CS0
  }
  Code await_all() { return size >= kGroupedMembers ? await_many() : await_few(); }
  Code await_few() {
    for (uint32_t i = 0; i < size; ++i) {
      if (i == self) continue;
      if (const Code code = await(i); code != Code::kOk) return code;
    }
    all_arrived();
    return Code::kOk;
  }
  Code await_many();
  /// Until those of `count` members are there; the k-th is member_at(k). When one has come others have meanwhile, and
  /// their lines had better come at once.
  template <typename MemberAt>
  Code await_each(uint32_t count, MemberAt&& member_at) {
    uint32_t come = 0;
    const auto flag = [&](uint32_t k) -> const Atomic<uint32_t>& { return slot(member_at(k)).seq; };
    auto have_come = [&] {
      uint32_t ahead = come;
      while (come < count && flag(come).load_acquire() == seq) {  // CS1 <- CS0
        ++come;
        for (ahead = std::max(ahead, come); ahead < std::min(count, come + kLinesAhead); ++ahead)
          prefetch_for_read(&flag(ahead));
      }
      return come == count;
    };
    return wait(have_come, kWhoHasNotCome);
  }
  /// The same where members are taken one after the other: after the first of many. Of every `step`-th member.
  void ask_for_slots(uint32_t step) const {
    for (uint32_t i = 0; size >= kGroupedMembers && i < size; i += step) prefetch_for_read(&slot(i).seq);
  }
  /// Every member is in the collective at hand, so it has done the one before.
  void all_arrived() { safe = seq - 1; }
  /// A slot's stage when `steps` of the collective at hand are done.
  [[nodiscard]] uint64_t stage_of(uint64_t steps) const { return (uint64_t{seq} << 32) | steps; }
  /// Says that this rank has done so many steps.
  void reach_step(uint64_t steps) {
    // CT0 -> CT1: what the step wrote, and its last reads of what others wrote.
    slot(self).stage.store_release(stage_of(steps));
    ZH_CHECK_INVARIANT(broken_invariant());
  }
  /// Until the member has.
  Code await_step(uint32_t member, uint64_t steps) {
    const ContributionShm& theirs = slot(member);
    return wait([&] { return theirs.stage.load_acquire() >= stage_of(steps); }, member);  // CT1 <- CT0
  }
  /// Until all other members have done the collective at hand, this rank's memory included.
  Code await_done();
  [[nodiscard]] bool all_done() const;
  [[nodiscard]] bool has_done(uint32_t member) const;
  /// No longer once its owner has found all through: then nothing in it is of this team.
  [[nodiscard]] bool is_ours(const ControlBlockShm& block) const {
    return block.context.load_acquire() == context;  // CB1 <- CB0: the owner is through
  }

  /// The member k places on, 0 < k < size: everyone begins with another one.
  [[nodiscard]] uint32_t after_self(uint32_t k) const { return self + k < size ? self + k : self + k - size; }
  [[nodiscard]] ControlBlockShm& control(uint32_t member) const { return *control_of[member]; }
  [[nodiscard]] ContributionShm& slot(uint32_t member) const { return slots_of[member][seq & slot_mask]; }
  /// What this rank's control block promises.
  [[nodiscard]] const char* broken_invariant() const {
    const bool grown = slots_of[self] != control(self).slots;
    return control(self).broken_invariant(
        context, size, grown ? at<LargerBlockShm>(services.base(), control(self).larger.load_relaxed()) : nullptr);
  }

  // --- reach.cpp: other members' memory, whatever the way

  /// Publishes this rank's memory for the collective at hand. `target` may be null. Pieces of `piece` bytes are
  /// `stride` apart; what lies between them belongs to nobody.
  Code offer(const void* source, uint64_t source_bytes, void* target, uint64_t target_bytes);
  Code offer(const void* source, uint64_t source_bytes, void* target, uint64_t target_bytes, uint64_t stride,
             uint64_t piece);
  /// An area for the edges of what is offered in this rank's slot, if it has edges; with those of the source in it.
  void offer_edges(ContributionShm* mine);
  /// Bytes [from, from + n) of the source have changed since: their edges are copied again.
  void renew_edges(uint64_t from, uint64_t n);
  /// Bytes [from, from + n) of the target were written by others, who have done: takes their edges over.
  void take_edges(uint64_t from, uint64_t n);
  /// The area of a member's edges; null if there is none.
  [[nodiscard]] EdgesShm* edges_of(uint32_t member) const;
  Code read(uint32_t member, uint64_t from, uint64_t n, void* out);
  Code write(uint32_t member, uint64_t from, uint64_t n, const void* in);
  /// Which operand of an operation is the other member's.
  enum class Theirs : uint8_t { kLeft, kRight };
  /// out = theirs op mine or, with a predefined operation, mine op theirs, on n bytes of elements; `out` may be `mine`.
  Code combine(Theirs theirs, uint32_t member, uint64_t from, uint64_t n, const std::byte* mine, std::byte* out,
               const Reduction& how);
  Code combine_run(Theirs theirs, uint32_t member, uint64_t from, uint64_t n, const std::byte* mine, std::byte* out,
                   const Reduction& how);
  /// copy(), with a place among those that copy from or into `memory` of member `owner` if that takes the kernel.
  template <typename Copy>
  Code throttled(uint32_t owner, const copy::RemoteBufferShm& memory, Copy&& copy) {
    if (size - 1 <= copiers || memory.mapped()) return copy();
    ThrottleShm& throttle = control(owner).throttle;
    if (const Code code = wait([&] { return throttle.try_enter(copiers); }, kNobody); code != Code::kOk) return code;
    ZH_CHECK_INVARIANT(throttle.broken_invariant(size));
    ZH_CRASH_POINT("team: copying");
    const Code code = copy();
    throttle.leave();
    return code;
  }
  Code request_fallback(uint32_t member, uint64_t from, uint64_t n, std::byte* local, bool to_owner);
  void answer_fallbacks();
  /// Until a message to or from the member is over. `room` is that of a receive.
  Code transfer(uint32_t member, p2p::Request* request, uint64_t room);
  Code finish(p2p::Request* request, uint64_t room);

  // --- small.cpp: through control blocks

  Code small_barrier();
  Code small_reduce(const void* in, void* out, uint64_t bytes, const Reduction& how, uint32_t root);
  Code small_allreduce(const void* in, void* out, uint64_t bytes, const Reduction& how);
  Code counted_allreduce(const void* in, void* out, uint64_t bytes, const Reduction& how);
  /// Whether arrivals at a small allreduce are counted.
  [[nodiscard]] bool counts() const;
  /// Counts this one; `*last`: the others have.
  Code arrive(bool* last);
  /// Arrives at an allreduce without result, and waits for nobody.
  Code arrive_in_vain();
  /// Leaves an allreduce that this rank finds to have no result; the others learn so.
  Code leave_allreduce() {
    if (in_groups()) leave_groups();
    return counts() && !in_groups() ? arrive_in_vain() : Code::kOk;
  }
  /// Where a result of so many bytes is, on member 0's control block.
  [[nodiscard]] std::byte* room_of_result(uint64_t bytes, bool aligned) const {
    return bytes <= kInlineBytes && !aligned ? control(0).result.payload : result_room;
  }
  Code small_reduce_scatter(const void* in, void* out, const uint64_t* counts, uint64_t bytes, const Reduction& how);
  Code small_scan(const void* in, void* out, uint64_t bytes, const Reduction& how, bool exclusive);
  /// Room for `bytes` in this rank's slot, `aligned` where the program's own code will read them; then publish().
  Code claim(uint64_t bytes, bool aligned, std::byte** room);
  /// How this rank writes bytes that the others read.
  [[nodiscard]] copy::Store store_of(uint64_t bytes) const {
    return bytes >= streamed ? copy::Store::kNonTemporal : copy::Store::kTemporal;
  }
  /// Puts bytes there.
  Code contribute(const copy::Buffer& data, bool aligned);
  /// Room for `bytes` in this rank's ring.
  Code claim_ring(uint64_t bytes, ContributionShm* mine);
  [[nodiscard]] const std::byte* contents(uint32_t member) const {
    const ContributionShm& theirs = slot(member);
    return theirs.way <= ContributionWay::kPartial ? theirs.payload : rings_of[member] + theirs.ring_at;
  }
  /// out = operands of members [first, last] combined in their order; n bytes of each, at operand(member).
  template <typename Operand>
  void fold(uint32_t first, uint32_t last, uint64_t n, std::byte* out, const Reduction& how, const Operand& operand);
  /// Of contributions on control blocks, bytes [from, from + n).
  void fold_slots(uint32_t first, uint32_t last, uint64_t from, uint64_t n, std::byte* out, const Reduction& how) {
    const auto operand = [&](uint32_t i) { return contents(i) + from; };
    if (!in_blocks(n, how)) [[likely]]
      return fold(first, last, n, out, how, operand);
    fold_blocks(first, last, n, out, how, operand);
  }
  template <typename Operand>
  [[gnu::noinline]] void fold_blocks(uint32_t first, uint32_t last, uint64_t n, std::byte* out, const Reduction& how,
                                     const Operand& operand) {
    alignas(kLineBytes) std::byte partial[kPartialBytes];
    const auto block = [&](uint32_t b) {
      std::byte* const to = b == last / kBlockMembers ? out : partial;
      const uint32_t begin = b * kBlockMembers;
      fold_by_kernel(std::max(first, begin), std::min(last, begin + kBlockMembers - 1), n, to, how, operand);
      return to;
    };
    fold_by_kernel(first / kBlockMembers, last / kBlockMembers, n, out, how, block);
  }
  /// Blocks of members in the order of ranks are folded, then their results. So a group of members that is a block may
  /// fold its own, and the result is the same, bit for bit, where groups are others.
  static constexpr uint32_t kBlockMembers = kLargestGroup;
  static constexpr uint64_t kPartialBytes = 256;
  [[nodiscard]] bool in_blocks(uint64_t bytes, const Reduction& how) const {
    return size >= kGroupedMembers && how.kernel != nullptr && bytes <= kPartialBytes;
  }

  // --- grouped.cpp: small collectives of many members, by a tree

  /// Sets `parents` and what goes with them.
  void make_groups();
  [[nodiscard]] bool in_groups() const { return !parents.empty(); }
  Code grouped_allreduce(const void* in, void* out, uint64_t bytes, const Reduction& how);
  /// Until the first so many of `children` are there, and all below them.
  Code await_children(uint32_t count);
  /// The same of those below a member that is there: it waits for them itself, unless it has left.
  Code await_below(uint32_t member);
  /// Until a leader tells the result: on its control block, or null if no member makes one; then all are there.
  Code await_result(const ResultShm** out);
  [[nodiscard]] bool has_left(const ResultShm& result) const;
  /// Instead of the collective at hand. Its group looks above this member.
  void leave_groups();
  [[nodiscard]] bool group_agrees(uint32_t leader, uint64_t bytes) const;
  void fold_group(uint32_t leader, uint64_t bytes, const Reduction& how, std::byte* out);
  /// Puts the group's part of a reduction in the place of this leader's, if lengths agree.
  void contribute_group(uint64_t bytes, const Reduction& how);
  /// The result, out of what all groups have. False if contributions differ in length.
  bool fold_groups(uint64_t bytes, const Reduction& how, std::byte* out);
  /// Reduction to a root: a leader's part, unless the root is of its group. Then publish().
  Code give_to_leader(uint64_t bytes, const Reduction& how, uint32_t root);
  /// ... the root's: until all groups are there.
  Code await_groups();

  // --- two_members.cpp: reductions of two

  Code reduce_of_two(const void* in, void* out, uint64_t count, const Reduction& how, uint32_t root);
  Code scan_of_two(const void* in, void* out, uint64_t count, const Reduction& how, bool exclusive);
  /// This member's input goes to the other one, which takes it if it means the same call.
  Code send_operand(const void* in, uint64_t bytes);
  /// `*operand`: the other one's; null where lengths disagree.
  Code receive_operand(uint64_t bytes, std::byte** operand);
  /// out = theirs op in; `out` may be `in`.
  static void combine_behind(std::byte* theirs, const void* in, void* out, uint64_t count, const Reduction& how);

  // --- move.cpp, lists.cpp: on control blocks or where the data lie, as each giver says in its slot

  /// A message to one member; this rank's slot says that there is one.
  Code start_message(uint32_t member, const copy::Buffer& data, p2p::Request** out);
  /// One that was not taken is never taken for that of another collective.
  [[nodiscard]] int32_t message_tag() const { return static_cast<int32_t>(seq & 0xfffff) << 4 | kMessageTag; }
  [[nodiscard]] p2p::Request* start_receive(uint32_t member, const copy::Buffer& recv);
  /// Until the member has it, or its slot says that it takes none.
  Code await_taken(uint32_t member, p2p::Request* message);
  /// Until it has come, or the member's slot says that none does.
  Code await_message(uint32_t member, p2p::Request* message, uint64_t room, bool* came);
  /// Until the member's contribution is there; then piece `k` of its `pieces`, as much as there is room for.
  Code take(uint32_t member, const copy::Buffer& recv, uint32_t k, uint32_t pieces);
  Code take_arrived(uint32_t member, const copy::Buffer& recv, uint32_t k, uint32_t pieces);
  /// The same from a root, which all members read at once. `message`: it is probably one.
  Code take_from_root(uint32_t root, const copy::Buffer& recv, uint32_t k, uint32_t pieces, bool message);
  Code take_arrived_at_once(uint32_t root, const copy::Buffer& recv, uint32_t k, uint32_t pieces);
  /// Of a broadcast, from the root or this member's leader.
  Code take_relayed(uint32_t root, const copy::Buffer& recv);
  /// Until the root's contribution to a broadcast is there, or its copy on the slot of this member's leader; `*from`:
  /// whose slot it is on. A leader makes the copy.
  Code await_relayed(uint32_t root, uint32_t* from);
  /// One piece for all, or one for each, copied or as memory that is offered. Publishes it.
  Code give(const copy::Buffer& send, bool copied);
  Code give_pieces(const Pieces& send, bool copied);
  /// Ends the collective; a member whose memory is read stays until that is over.
  Code end_given();
  /// take_one(member), everyone beginning with another one; then end_given().
  template <typename Take>
  Code take_from_others(Take&& take_one) {
    for (uint32_t k = 1; k < size; ++k) {
      if (const Code code = take_one(after_self(k)); code != Code::kOk) return code;
      if (k == 1) ask_for_slots(1);
    }
    all_arrived();
    return end_given();
  }
  Code even_bcast(const copy::Buffer& data, uint32_t root);
  Code even_gather(const copy::Buffer& send, const Pieces& recv, uint32_t root);
  Code gather_by_writing(const copy::Buffer& send, const Pieces& recv);
  Code scatter_by_messages(const Pieces& send, const copy::Buffer& recv);
  Code give_to_root(const copy::Buffer& send, uint32_t root, NodeWay way);
  Code even_scatter(const Pieces& send, const copy::Buffer& recv, uint32_t root);
  Code even_alltoall(const Pieces& send, const Pieces& recv);
  /// Of two members, each of whom sends the other one a piece. `k`, `pieces`: as in take(), should it come another way.
  Code exchange(const copy::Buffer& send, const copy::Buffer& recv, uint32_t k, uint32_t pieces);
  Code gather_all(const copy::Buffer& send, const Pieces& recv);
  Code list_gather(const copy::Buffer& send, const Pieces& recv, uint32_t root);
  Code list_scatter(const Pieces& send, const copy::Buffer& recv, uint32_t root);
  Code list_alltoall(const Pieces& send, const Pieces& recv);
  Code list_offer_table(const Pieces& send);
  Code list_take_piece(uint32_t member, const copy::Buffer& recv);

  // --- neighbors.cpp

  struct NeighborCall;
  Code exchange_blocks(const Blocks& send, const Blocks& recv);

  // --- single_copy_reduce.cpp

  /// Whether there is memory to combine chunks of so many bytes; it stays.
  [[nodiscard]] bool has_room(uint64_t bytes);
  Code give_up_together(bool to_all);
  Code break_chain();
  Code single_copy_reduce(const void* in, void* out, uint64_t count, const Reduction& how, uint32_t root, bool to_all);
  Code single_copy_reduce_scatter(const void* in, void* out, const uint64_t* counts, const Reduction& how);
  Code single_copy_scan(const void* in, void* out, uint64_t count, const Reduction& how, bool exclusive);
  /// Elements [first, first + n) of all inputs, combined in rank order, into `acc`. `in` is this rank's input.
  Code fold_members(const std::byte* in, uint64_t from, uint64_t n, std::byte* acc, const Reduction& how);

  // --- staged_reduce.cpp: large reductions through staging areas

  /// `slices` are set. `out` and `slice_out` as StagedSlices::combine() has them. `*served` false: a member lacks
  /// memory, and the members know it alike.
  /// `order`: of an allreduce that has one.
  Code staged_reduce(const std::byte* in, std::byte* out, std::byte* slice_out, const Reduction& how,
                     StagingOrder order, bool* served);
  /// Whether the reduction at hand is staged; `last` and the members from `first` before it take results.
  [[nodiscard]] bool stages(uint32_t first, uint32_t last) const;

  /// `data` as contiguous bytes: where they are, or packed. Null when out of memory.
  [[nodiscard]] const std::byte* contiguous(const copy::Buffer& data);
  /// The pieces of all members in one array, `*stride` apart: where they are, or packed. Null when out of memory.
  [[nodiscard]] const std::byte* contiguous(const Pieces& pieces, uint64_t* stride);
  /// Bytes [from, from + n) of a member's memory into `out` of any layout.
  Code read_into(uint32_t member, uint64_t from, uint64_t n, const copy::Buffer& out);

  Services& services;
  ControlBlockPool& pool;
  uint64_t context;
  std::vector<uint32_t> members;  ///< node-local index by member
  uint32_t size;
  uint32_t self;
  uint32_t polls;
  uint32_t copiers;
  const Atomic<uint32_t>* sleepers;
  uint64_t streamed = kNeverStreamed;  ///< contributions of so many bytes and more go past this rank's caches
  uint32_t seq = 0;                    ///< of the collective at hand, or the latest
  uint32_t safe = 0;                   ///< every member has done this collective
  NodeFacts facts;
  uint32_t slot_mask = kFirstSlots - 1;
  uint32_t ring_blocks = kFirstRingBytes / kBlockBytes;
  uint32_t next_block = 0;                              ///< of the ring
  uint32_t block_users[kRingBytes / kBlockBytes] = {};  ///< the collective that used it last
  uint32_t counted = 0;                                 ///< arrivals expected before the next counted collective
  uint32_t left_at = 0;  ///< `left_early`: the counted collective that this rank arrived at in vain
  bool left_early = false;
  std::vector<uint32_t> parents;   ///< by member: its leader in the tree; member 0 its own. Empty: there is no tree
  std::vector<uint32_t> children;  ///< of this member, its group first
  uint32_t block_children = 0;     ///< how many are that group
  std::vector<uint32_t> leaders;   ///< by member: of its group; empty as `parents`
  bool groups_are_blocks = false;
  uint32_t most_edges = 0;      ///< of any member, on one side of a neighbourhood
  bool growth_is_over = false;  ///< no collective to come is one that grow() waits for
  bool asked = false;
  bool usable = false;
  bool broken = false;     ///< a member has died
  Code fault = Code::kOk;  ///< of the collective at hand
  bool less = false;       ///< it brought less than there was room for
  std::vector<ControlBlockShm*> control_of;
  std::vector<ContributionShm*> slots_of;  ///< those of the control block, or of the larger one
  std::vector<std::byte*> rings_of;        ///< likewise
  std::byte* result_room = nullptr;        ///< member 0's, for results that are not beside their flag
  std::vector<Offset> offsets;
  std::vector<uint64_t> fallbacks_seen;
  StagingOrder staging_order = StagingOrder::kFree;  ///< of large allreduces
  std::vector<uint64_t> slices;        ///< of the reduction at hand: member i combines bytes [slices[i], slices[i + 1])
  std::vector<p2p::Request*> answers;  ///< messages under way for members that asked
  std::vector<p2p::Request*> pieces_under_way;  ///< by member, of a gather or scatter by messages
  Offset edges = kNoOffset;                     ///< EdgesShm of what is offered; kept, once it was needed
  std::byte* offered_target = nullptr;
  const std::byte* offered_source = nullptr;
  Scratch packed;    ///< what others read or write in place of a buffer with a layout
  Scratch prefix;    ///< results that cannot be where they belong yet
  Scratch chunk;     ///< accumulator
  Scratch incoming;  ///< operand of another member
};

template <typename Operand>
void Team::State::fold(uint32_t first, uint32_t last, uint64_t n, std::byte* out, const Reduction& how,
                       const Operand& operand) {
  if (how.kernel != nullptr) return fold_by_kernel(first, last, n, out, how, operand);
  if (n != 0) std::memcpy(out, operand(last), n);
  const uint64_t count = n / how.element_bytes;
  for (uint32_t i = last; i-- > first && count != 0;) {
    const std::byte* const left = operand(i);
    // The function may be careless with its first argument; the other members read that, too.
    std::byte* const own = incoming.get(n);
    if (own != nullptr) std::memcpy(own, left, n);
    how.user(how.context, own != nullptr ? own : const_cast<std::byte*>(left), out, count);
  }
}

/// Copies contiguous bytes into a buffer of any layout and back.
inline void scatter_bytes(const copy::Buffer& to, const std::byte* from, uint64_t n) {
  if (n == 0) return;
  if (to.layout == nullptr) {
    copy::copy_bytes(to.base, from, n, copy::Store::kTemporal);
  } else {
    copy::unpack(to, 0, n, from, copy::Store::kTemporal);
  }
}
inline void gather_bytes(std::byte* to, const copy::Buffer& from, uint64_t n,
                         copy::Store store = copy::Store::kTemporal) {
  if (n == 0) return;
  if (from.layout == nullptr) {
    copy::copy_bytes(to, from.base, n, store);
  } else {
    copy::pack(from, 0, n, to, store);
  }
}
/// This rank's own piece, from one of its buffers to another; nothing if they are the same.
void copy_own(const copy::Buffer& to, const copy::Buffer& from);

}  // namespace zh::coll
