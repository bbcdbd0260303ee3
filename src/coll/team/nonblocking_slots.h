// NonblockingSlots: small collectives that go on after the call has returned, over shared memory alone. What a member
// gives is in its slot when the call returns; whoever needs it takes it when its rank is in MPI next.
#pragma once

#include <cstdint>
#include <vector>

#include "coll/team/control_block_pool.h"
#include "coll/team/nonblocking_team.h"

namespace zh::coll {

/// Serves calls whose contributions are kSlotBytes at most. `give` is read when the call begins or, if its slot is not
/// free, some time later; `out` is written after that.
class NonblockingSlots final : public TeamOfBlocks<SlotBlockShm> {
 public:
  NonblockingSlots(Services& services, ControlBlockPool& pool, uint64_t context, std::vector<uint32_t> ranks,
                   uint32_t self)
      : TeamOfBlocks(services, pool.slots(), context, std::move(ranks), self) {}
  ~NonblockingSlots() override { leave(); }

  void begin(NonblockingCall* call) override;
  bool advance(NonblockingCall* call) override;
  void fail(NonblockingCall* call, Code code) override;
  [[nodiscard]] const Atomic<uint64_t>* awaited(const NonblockingCall* call) const override;
  [[nodiscard]] int32_t awaited_rank(const NonblockingCall* call) const override {
    return awaited(call) != nullptr ? static_cast<int32_t>(ranks_[call->slots.next]) : -1;
  }
  /// Whether what awaited() said has come by now. For any thread, as long as the call has not ended.
  [[nodiscard]] static bool has_come(const Atomic<uint64_t>& awaited, const NonblockingCall& call) {
    return awaited.load_relaxed() == seq_of(&call);
  }

 private:
  [[gnu::always_inline]] bool try_to_end(NonblockingCall* call);
  void ask_for_next(const NonblockingCall* call) const;
  [[gnu::always_inline]] bool publish(NonblockingCall* call);
  /// Whether every member has done the collectives up to that one.
  bool is_done(uint64_t seq);
  [[gnu::always_inline]] void take(NonblockingCall* call);
  void copy_pieces(NonblockingCall* call);
  void combine_pieces(NonblockingCall* call);
  void tell_lengths(NonblockingCall* call) const;
  void end(NonblockingCall* call);
  [[nodiscard]] CallSlotShm& slot(uint32_t member, uint64_t seq) const {
    return block(member).slots[seq % kNonblockingSlots];
  }

  uint64_t latest_in_slot_[kNonblockingSlots] = {};  ///< seq_of() the last call there that gives
  uint64_t safe_ = 0;                                ///< every member has done those up to this one
};

}  // namespace zh::coll
