// NonblockingOnNode: nonblocking and persistent collectives of a communicator on one node through shared memory, small
// ones (coll/team/small_team.h) or large ones (coll/team/pipelined_team.h). Members tell each other where their blocks
// are by messages at the first call, which does not wait for that. One thread at a time.
#pragma once

#include <memory>

#include "coll/schedule/problem.h"
#include "coll/schedule/run.h"
#include "coll/team/node_team.h"
#include "engine/block_exchange.h"
#include "engine/rank.h"

namespace zh::engine {

class NonblockingOnNode {
 public:
  enum class Kind : uint8_t {
    kSmall,      ///< of coll::fits_slots()
    kPipelined,  ///< of coll::fits_staging(), where members mostly share no cache
    kPipelinedAnywhere,
  };
  /// `members`: node-local indices by rank of the communicator; `self`: this rank. No other messages have `context`.
  NonblockingOnNode(Rank& rank, Kind kind, uint64_t context, const RankList& members, uint32_t self);

  /// Begins what `problem` describes, with buffers as coll::Call has them; `digest` is coll::digest() of it. Calls
  /// begin in the order of their numbers.
  void begin(const coll::Problem& problem, uint64_t number, uint32_t digest, const coll::Call& buffers,
             coll::NodeCall* call);
  enum class Progress : uint8_t {
    kWaits,
    kEnded,    ///< its code says how
    kUnserved  ///< all members take another way for it, and it is forgotten here
  };
  Progress advance(coll::NodeCall* call);
  /// Once that has said kWaits: as NodeTeam has it.
  [[nodiscard]] const Atomic<uint64_t>* awaited(const coll::NodeCall* call) const { return team_->awaited(call); }
  /// Whether it is known to serve no call. Members may learn it at different ones.
  [[nodiscard]] bool is_out() const { return state_ == State::kUnserved; }
  /// Ends a call that waits.
  void fail(coll::NodeCall* call, Code code) { team_->fail(call, code); }

 private:
  enum class State : uint8_t { kNew, kSettingUp, kServes, kUnserved, kFailed };
  void begin_set_up();
  void set_up();

  Kind kind_;
  BlockExchange exchange_;
  std::unique_ptr<coll::NodeTeam> team_;
  State state_ = State::kNew;
  Code fault_ = Code::kOk;  ///< kFailed: what has kept members from telling
};

}  // namespace zh::engine
