// NonblockingOnNode: nonblocking and persistent collectives of a communicator on one node through shared memory, small
// ones (coll/team/nonblocking_slots.h) or large ones (coll/team/nonblocking_staged.h). Members tell each other where
// their blocks are by messages at the first call, which does not wait for that. One thread at a time.
#pragma once

#include <memory>
#include <vector>

#include "coll/schedule/problem.h"
#include "coll/schedule/run.h"
#include "coll/team/nonblocking_team.h"
#include "engine/rank.h"
#include "engine/run_transport.h"

namespace zh::engine {

class NonblockingOnNode {
 public:
  enum class Kind : uint8_t {
    kSlots,           ///< of coll::fits_slots()
    kStaged,          ///< of coll::fits_staging(), if most members find that they share no cache
    kStagedAnywhere,  ///< the same without asking (tests)
  };
  /// `members`: node-local indices by rank of the communicator; `self`: this rank. No other messages have `context`.
  NonblockingOnNode(Rank& rank, Kind kind, uint64_t context, const RankList& members, uint32_t self);

  /// Begins what `problem` describes, with buffers as coll::Call has them; `digest` is coll::digest() of it. Calls
  /// begin in the order of their numbers.
  void begin(const coll::Problem& problem, uint64_t number, uint32_t digest, const coll::Call& buffers,
             coll::NonblockingCall* call);
  /// Begins a call that has ended well once more, under another number and with the buffers as they are now.
  void begin_again(const coll::Problem& problem, uint64_t number, const coll::Call& buffers,
                   coll::NonblockingCall* call);
  enum class Progress : uint8_t {
    kWaits,
    kEnded,    ///< its code says how
    kUnserved  ///< all members take another way for it, and it is forgotten here
  };
  [[gnu::always_inline]] Progress advance(coll::NonblockingCall* call) {
    if (state_ != State::kServes) [[unlikely]]
      return advance_unserved(call);
    if (!team_->advance(call)) return Progress::kWaits;
    return call->unserved ? Progress::kUnserved : Progress::kEnded;
  }
  /// Once that has said kWaits: as NonblockingTeam has it.
  [[nodiscard]] const Atomic<uint64_t>* awaited(const coll::NonblockingCall* call) const {
    return team_->awaited(call);
  }
  [[nodiscard]] int32_t awaited_rank(const coll::NonblockingCall* call) const { return team_->awaited_rank(call); }
  /// Of a rank whose first call was refused: the others wait to hear where its block is. True once it is known whether
  /// calls are served.
  bool set_up_alone();
  /// Whether it is known to serve no call. Members may learn it at different ones.
  [[nodiscard]] bool is_out() const { return state_ == State::kUnserved; }
  /// Ends a call that waits.
  void fail(coll::NonblockingCall* call, Code code) { team_->fail(call, code); }

 private:
  enum class State : uint8_t { kNew, kSettingUp, kServes, kUnserved, kFailed };
  /// What a member tells the others before the first call is served.
  struct Told {
    Offset block = kNoOffset;  ///< kNoOffset: it has none
    uint64_t wants = 0;        ///< 1: the member takes this way where it may choose
  };
  Progress advance_unserved(coll::NonblockingCall* call);
  void begin_set_up();
  Status begin_exchange();
  void set_up();

  Kind kind_;
  RunTransport transport_;
  uint32_t self_;
  Told own_;
  std::vector<Told> told_;          ///< by member, when the exchange has ended well
  std::unique_ptr<coll::Run> run_;  ///< of the exchange, which goes on whenever a call does
  std::unique_ptr<coll::NonblockingTeam> team_;
  State state_ = State::kNew;
  Code fault_ = Code::kOk;  ///< kFailed: what has kept members from telling
};

}  // namespace zh::engine
