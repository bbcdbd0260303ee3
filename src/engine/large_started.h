// LargeStarted: large nonblocking and persistent collectives of a communicator on one node whose members mostly share
// no cache, through staging areas in shared memory (coll/team/staged_team.h). Members tell each other at the first call
// where their blocks are and how far they are from each other. Called by the shim, one thread at a time.
#pragma once

#include <memory>

#include "coll/schedule/problem.h"
#include "coll/schedule/run.h"
#include "coll/team/staged_team.h"
#include "engine/block_exchange.h"
#include "engine/rank.h"
#include "engine/started_exchange.h"

namespace zh::engine {

class LargeStarted {
 public:
  /// Everyone reads everyone, and all take their steps together. A guess: that many have not been measured.
  static constexpr uint32_t kMostRanks = 32;
  /// Of a vector or a piece. Less is as fast by messages.
  static constexpr uint64_t kLeastBytes = 16 << 10;
  /// Whether it may serve the call, of ranks that are all on one node and have a kernel for its operation. The same on
  /// all ranks.
  [[nodiscard]] static bool fits(const coll::Problem& p);

  enum class Where : uint8_t { kApart, kAnywhere };
  /// `members`: node-local indices by rank of the communicator; `self`: this rank. No other messages have `context`.
  /// `where`: whether members that share a cache, or CPUs, are served as well.
  LargeStarted(Rank& rank, uint64_t context, const RankList& members, uint32_t self, Where where = Where::kApart);
  ~LargeStarted();
  LargeStarted(const LargeStarted&) = delete;
  LargeStarted& operator=(const LargeStarted&) = delete;

  /// Begins what `problem` describes, with buffers as coll::Call has them. Calls begin in the order of their numbers.
  void begin(const coll::Problem& problem, uint64_t number, const coll::Call& buffers, coll::StagedCall* call);
  using Progress = StartedProgress;
  Progress advance(coll::StagedCall* call);
  /// Whether it is known to serve no call. Members may learn it at different ones.
  [[nodiscard]] bool is_out() const { return state_ == State::kUnserved; }
  /// Ends a call that waits.
  void fail(coll::StagedCall* call, Code code) { team_->fail(call, code); }

 private:
  enum class State : uint8_t { kNew, kSettingUp, kServes, kUnserved, kFailed };
  void begin_set_up();
  void set_up();

  Where where_;
  BlockExchange exchange_;
  std::unique_ptr<coll::StagedTeam> team_;
  State state_ = State::kNew;
  Code fault_ = Code::kOk;  ///< kFailed: what has kept members from telling
};

}  // namespace zh::engine
