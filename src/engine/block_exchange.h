// BlockExchange: members of a communicator on one node tell each other where their blocks of started collectives are,
// by messages that go on whenever a call does. Used by NonblockingOnNode.
#pragma once

#include <memory>
#include <vector>

#include "coll/schedule/run.h"
#include "engine/rank.h"
#include "engine/run_transport.h"

namespace zh::engine {

class BlockExchange {
 public:
  /// What a member tells.
  struct Told {
    Offset block = kNoOffset;
    uint64_t mark = 0;  ///< whatever else the others have to know
  };

  /// No other messages have `context`.
  BlockExchange(Rank& rank, uint64_t context, const RankList& members, uint32_t self)
      : transport_(rank, context, members, self), self_(self), told_(members.ranks.size()) {}

  /// Does not wait. An error: nothing was begun.
  Status begin(const Told& own);
  /// True once it is over; `*code` says how. `dead`: a member has died.
  bool advance(bool dead, Code* code);
  /// By member, when it has ended well.
  [[nodiscard]] const std::vector<Told>& told() const { return told_; }
  /// The blocks of all; none if a member has none.
  [[nodiscard]] std::vector<Offset> blocks() const;

 private:
  RunTransport transport_;
  uint32_t self_;
  Told own_;
  std::vector<Told> told_;
  std::unique_ptr<coll::Run> run_;
};

}  // namespace zh::engine
