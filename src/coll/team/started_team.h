// StartedTeam: the members of a communicator on one node, and their small collectives that go on after the call has
// returned (nonblocking and persistent ones), over shared memory alone. What a member gives is in its slot when the
// call returns; whoever needs it takes it when its rank is in MPI next. Nothing here waits. Called by
// engine::SmallStarted, one thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "coll/team/control_block_pool.h"
#include "coll/team/exchange.h"
#include "coll/team/services.h"
#include "coll/team/team_members.h"

namespace zh::coll {

/// A call whose contributions are kStartedBytes at most. `give` is read when it begins or, if its slot is not free,
/// some time later; `out` is written after that. Stays where it is until it has ended.
struct StartedCall : Exchange {
  bool exact = false;  ///< less than there is room for is an error, too

  // What has come of it:
  bool published = false;
  uint64_t before = 0;  ///< the call that had its slot last
  bool ended = false;
  uint32_t next = 0;  ///< what members before this one give is there
  /// When it has ended: kOk; kPeerDead; or, where members disagree on a length, on those that see it: kTruncated (more
  /// came than there is room for, or goes into a reduction) or kInvalid (less did). What has been given to fail().
  Code code = Code::kOk;
};

class StartedTeam {
 public:
  /// `members`: node-local indices in the order of the communicator's ranks; `self`: this rank's place among them.
  /// `context` is the same on every member.
  StartedTeam(Services& services, ControlBlockPool& pool, uint64_t context, std::vector<uint32_t> members,
              uint32_t self);
  ~StartedTeam();
  StartedTeam(const StartedTeam&) = delete;
  StartedTeam& operator=(const StartedTeam&) = delete;

  /// This member's block, for all members to know; kNoOffset when the budget of shared memory is used up. Once.
  [[nodiscard]] Offset take_block();
  /// The blocks of all members, in their order. From now on calls go on.
  void open(std::vector<Offset> blocks);
  /// In place of that: some member has none, and all know it.
  void give_up();

  /// Before or after open(), in the order of numbers.
  void begin(StartedCall* call);
  /// Gives and takes what may be by now. True once the call has ended. A call that has ended stays so.
  bool advance(StartedCall* call);
  /// The flag that the call waits for, which advance() has not seen yet; null: it waits for something else. And whether
  /// it has come by now. That one is for any thread, as long as the call has not ended.
  [[nodiscard]] const Atomic<uint64_t>* awaited(const StartedCall* call) const;
  [[nodiscard]] static bool has_come(const Atomic<uint64_t>& awaited, const StartedCall& call) {
    return awaited.load_relaxed() == seq_of(&call);
  }
  /// Ends a call that was begun.
  void fail(StartedCall* call, Code code);
  /// Whether a member has died, as far as was seen. Looks now and then.
  bool look_for_deaths() { return members_.look_for_deaths(); }

 private:
  bool try_to_end(StartedCall* call);
  void ask_for_next(const StartedCall* call) const;
  bool publish(StartedCall* call);
  /// Whether every member has done the collectives up to that one.
  bool is_done(uint64_t seq);
  void take(StartedCall* call);
  void copy_pieces(StartedCall* call);
  void combine_pieces(StartedCall* call);
  void end(StartedCall* call);
  void tell_done();
  [[nodiscard]] StartedBlockShm& block(uint32_t member) const { return *blocks_[member]; }
  [[nodiscard]] StartedSlotShm& slot(uint32_t member, const StartedCall* call) const {
    return blocks_[member]->slots[seq_of(call) % kStartedSlots];
  }
  [[nodiscard]] static uint64_t seq_of(const StartedCall* call) { return call->number + 1; }

  Services& services_;
  ControlBlockPool& pool_;
  uint64_t context_;
  TeamMembers members_;
  uint32_t size_;
  uint32_t self_;
  Offset own_ = kNoOffset;
  std::vector<Offset> offsets_;                  ///< by member; empty before open()
  std::vector<StartedBlockShm*> blocks_;         ///< likewise
  std::vector<uint64_t> under_way_;              ///< the `seq`s of calls that have not ended, ascending
  uint64_t latest_ = 0;                          ///< ... of the last one that was begun
  uint64_t latest_in_slot_[kStartedSlots] = {};  ///< ... of those that give
  uint64_t done_ = 0;                            ///< in this member's block
  uint64_t safe_ = 0;                            ///< every member has done those up to this one
};

}  // namespace zh::coll
