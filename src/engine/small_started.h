// SmallStarted: small nonblocking and persistent collectives of a communicator on one node, through shared memory
// (coll/team/started_team.h). Members tell each other where their blocks are by messages at the first call, which does
// not wait for that. Called by the shim, one thread at a time.
#pragma once

#include <memory>

#include "coll/schedule/problem.h"
#include "coll/schedule/run.h"
#include "coll/team/started_team.h"
#include "engine/block_exchange.h"
#include "engine/rank.h"
#include "engine/started_exchange.h"

namespace zh::engine {

class SmallStarted {
 public:
  /// Everyone reads everyone. Guesses: that many have not been measured.
  static constexpr uint32_t kMostRanks = 32;
  static constexpr uint64_t kMostReadBytes = 8192;
  /// Whether it serves the call, of ranks that are all on one node. The same on all ranks.
  [[nodiscard]] static bool fits(const coll::Problem& p) {
    return p.uniform && p.ranks() <= kMostRanks && p.bytes() <= coll::kStartedBytes / pieces_of(p) &&
           p.bytes() <= kMostReadBytes / p.ranks();
  }

  /// `members`: node-local indices by rank of the communicator; `self`: this rank. No other messages have `context`.
  SmallStarted(Rank& rank, uint64_t context, const RankList& members, uint32_t self);
  ~SmallStarted();
  SmallStarted(const SmallStarted&) = delete;
  SmallStarted& operator=(const SmallStarted&) = delete;

  /// Begins what `problem` describes, with buffers as coll::Call has them. Calls begin in the order of their numbers.
  void begin(const coll::Problem& problem, uint64_t number, const coll::Call& buffers, coll::StartedCall* call);
  using Progress = StartedProgress;
  Progress advance(coll::StartedCall* call);
  /// Once that has said kWaits: as StartedTeam has it.
  [[nodiscard]] const Atomic<uint64_t>* awaited(const coll::StartedCall* call) const { return team_->awaited(call); }
  /// Ends a call that waits.
  void fail(coll::StartedCall* call, Code code) { team_->fail(call, code); }

 private:
  enum class State : uint8_t { kNew, kSettingUp, kServes, kUnserved, kFailed };
  void begin_set_up();
  void set_up();

  BlockExchange exchange_;
  std::unique_ptr<coll::StartedTeam> team_;
  State state_ = State::kNew;
  Code fault_ = Code::kOk;  ///< kFailed: what has kept members from telling
};

}  // namespace zh::engine
