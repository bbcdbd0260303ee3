// NonblockingStaged: large collectives that go on after the call has returned, through staging areas in shared memory,
// piece by piece. Nobody touches another one's memory. The steps are those of staged_slices.h.
#pragma once

#include <cstdint>
#include <vector>

#include "coll/team/control_block.h"
#include "coll/team/control_block_pool.h"
#include "coll/team/nonblocking_team.h"
#include "coll/team/scratch.h"

namespace zh::coll {

/// `give` and `out` are a call's own until it has ended; they may be the same memory where each piece that comes lies
/// where one of as many bytes was given. Calls go on one after another.
class NonblockingStaged final : public TeamOfBlocks<StagedBlockShm> {
 public:
  NonblockingStaged(Services& services, ControlBlockPool& pool, uint64_t context, std::vector<uint32_t> ranks,
                    uint32_t self)
      : TeamOfBlocks(services, pool.staged(), context, std::move(ranks), self), pool_(pool) {}
  ~NonblockingStaged() override;

  void begin(NonblockingCall* call) override;
  bool advance(NonblockingCall* call) override;
  void fail(NonblockingCall* call, Code code) override;

 private:
  bool try_step(NonblockingCall* call);
  bool contribute(NonblockingCall* call);
  /// True once all others have done that many steps of the call.
  [[nodiscard]] bool all_did(uint64_t seq, uint64_t steps) const;
  [[nodiscard]] bool agree(const NonblockingCall* call) const;
  void tell(NonblockingCall* call, uint64_t steps);

  /// Cuts the call into rounds; false if it cannot be carried out so, or there is no memory.
  bool plan(NonblockingCall* call);
  void take_step(NonblockingCall* call);
  void combine(const NonblockingCall* call, uint64_t round);
  void take_pieces(const NonblockingCall* call, uint64_t round);
  /// Of what each member gives, whether it is combined or not; of a bcast or allgather there is one.
  [[nodiscard]] auto slices_of(const NonblockingCall* call) const;
  /// Slices that have a place in half an area.
  [[nodiscard]] uint32_t places_of(const NonblockingCall* call) const {
    return call->reduces() || call->pieces > 1 ? size_ : 1;
  }
  [[nodiscard]] uint32_t after_self(uint32_t k) const { return self_ + k < size_ ? self_ + k : self_ + k - size_; }

  ControlBlockPool& pool_;
  Offset area_ = kNoOffset;             ///< of the call at hand, or of one that failed
  uint64_t before_ = 0;                 ///< seq_of() the last call that all members took part in
  uint64_t streamed_ = kNeverStreamed;  ///< pieces of so many bytes and more go past this rank's caches
  Scratch accumulator_;
  bool broken_ = false;  ///< a member has died; others may look at this one's area
};

}  // namespace zh::coll
