// StagedTeam: the members of a communicator on one node, and their large collectives that go on after the call has
// returned (nonblocking and persistent ones), through staging areas in shared memory, piece by piece. Each member takes
// its steps when its rank is in MPI and the others are as far; nobody touches another one's memory, and nothing here
// waits. Called by engine::LargeStarted, one thread at a time. The steps are those of staged_reduce.cpp.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/status.h"
#include "coll/team/control_block.h"
#include "coll/team/control_block_pool.h"
#include "coll/team/distance.h"
#include "coll/team/exchange.h"
#include "coll/team/scratch.h"
#include "coll/team/services.h"
#include "coll/team/team_members.h"

namespace zh::coll {

/// `give` and `out` are its own until it has ended; they may be the same memory where each piece that comes lies where
/// one of as many bytes was given. Stays where it is until it has ended.
struct StagedCall : Exchange {
  uint64_t digest = 0;  ///< members that differ in it, or in `bytes`, mean different calls
  bool able = true;     ///< false: this member lacks what it takes, so all take another way

  // What has come of it:
  bool ended = false;
  bool unserved = false;   ///< all members take another way for it
  Code code = Code::kOk;   ///< kOk; kPeerDead; or what has been given to fail()
  uint32_t step = 0;       ///< steps that this member has done
  uint32_t rounds = 0;     ///< in which pieces go through a staging area
  uint32_t steps = 0;      ///< that it takes
  uint64_t room = 0;       ///< of one member's piece in a staging area, bytes
  uint64_t piece_now = 0;  ///< ... of them used in a round
  uint64_t slice = 0;      ///< of what a member gives, that of one member

  [[nodiscard]] bool reduces() const { return how.kernel != nullptr; }
};

class StagedTeam {
 public:
  /// Least bytes of a room in a staging area, which an element has to fit, of at most 128 members.
  static constexpr uint64_t kLeastRoom = 1024;

  /// `members`: node-local indices in the order of the communicator's ranks; `self`: this rank's place among them.
  /// `context` is the same on every member.
  StagedTeam(Services& services, ControlBlockPool& pool, uint64_t context, std::vector<uint32_t> members,
             uint32_t self);
  ~StagedTeam();
  StagedTeam(const StagedTeam&) = delete;
  StagedTeam& operator=(const StagedTeam&) = delete;

  /// This member's block, for all members to know; kNoOffset when the budget of shared memory is used up. Once.
  [[nodiscard]] Offset take_block();
  /// The blocks of all members, in their order. From now on calls go on.
  void open(std::vector<Offset> blocks);
  /// In place of that: some member has none, and all know it.
  void give_up();
  /// Whether most other members share no cache with this one. Members that take turns on CPUs are as near as the
  /// scheduler has them.
  [[nodiscard]] bool is_apart() const {
    return services_.polls() > 1 && streamed_from_most(services_, members_.ranks(), self_) != kNeverStreamed;
  }

  /// Before or after open(), in the order of numbers; calls go on one after another.
  void begin(StagedCall* call);
  /// Takes the next step, if it is the call's turn and may be taken by now. True once the call has ended. A call that
  /// has ended stays so.
  bool advance(StagedCall* call);
  /// Ends a call that was begun.
  void fail(StagedCall* call, Code code);
  /// Whether a member has died, as far as was seen. Looks now and then.
  bool look_for_deaths() { return members_.look_for_deaths(); }

 private:
  bool try_step(StagedCall* call);
  bool contribute(StagedCall* call);
  /// True once all others have done that many steps of the call.
  [[nodiscard]] bool all_did(uint64_t seq, uint64_t steps) const;
  [[nodiscard]] bool agree(const StagedCall* call) const;
  void tell(StagedCall* call, uint64_t steps);
  void end(StagedCall* call);
  void tell_done();
  [[nodiscard]] static uint64_t seq_of(const StagedCall* call) { return call->number + 1; }
  [[nodiscard]] StagedBlockShm& block(uint32_t member) const { return *blocks_[member]; }

  // staged_steps.cpp
  /// Cuts the call into rounds; false if it cannot be carried out so, or there is no memory.
  bool plan(StagedCall* call);
  void take_step(StagedCall* call);
  void put_round(const StagedCall* call, uint64_t round);
  void combine_round(const StagedCall* call, uint64_t round);
  void take_results(const StagedCall* call, uint64_t round);
  void take_pieces(const StagedCall* call, uint64_t round);
  struct Piece {
    uint64_t from;   ///< of the slice's or the member's bytes
    uint64_t bytes;  ///< 0: there are no more
  };
  /// Bytes of a reduction's slice, from the start of the vector.
  [[nodiscard]] Piece slice_of(const StagedCall* call, uint64_t round, uint32_t slice) const;
  [[nodiscard]] static Piece piece_of(const StagedCall* call, uint64_t round);
  /// Where something for `place` is in a member's area.
  [[nodiscard]] std::byte* room_of(const StagedCall* call, uint64_t round, uint32_t member, uint32_t place) const;
  /// Places in half an area.
  [[nodiscard]] uint32_t places_of(const StagedCall* call) const {
    return call->reduces() || call->pieces > 1 ? size_ : 1;
  }
  [[nodiscard]] copy::Store store_of(uint64_t bytes) const {
    return bytes >= streamed_ ? copy::Store::kNonTemporal : copy::Store::kTemporal;
  }
  [[nodiscard]] uint32_t after_self(uint32_t k) const { return self_ + k < size_ ? self_ + k : self_ + k - size_; }

  Services& services_;
  ControlBlockPool& pool_;
  uint64_t context_;
  TeamMembers members_;
  uint32_t size_;
  uint32_t self_;
  Offset own_ = kNoOffset;
  Offset area_ = kNoOffset;              ///< of the call at hand, or of one that failed
  std::vector<Offset> offsets_;          ///< by member; empty before open()
  std::vector<StagedBlockShm*> blocks_;  ///< likewise
  std::deque<StagedCall*> under_way_;    ///< the first one takes its steps
  uint64_t latest_ = 0;                  ///< seq_of() the last one that was begun
  uint64_t before_ = 0;                  ///< ... the last one that all members took part in
  uint64_t done_ = 0;                    ///< in this member's block
  uint64_t streamed_ = kNeverStreamed;   ///< pieces of so many bytes and more go past this rank's caches
  Scratch accumulator_;
  bool broken_ = false;  ///< a member has died; others may look at this one's area
};

}  // namespace zh::coll
