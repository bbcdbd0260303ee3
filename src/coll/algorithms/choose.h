// Which way a collective goes. Pure: it follows from the call and from facts that all ranks of the communicator know
// alike. The sizes at which the ways inside a node begin are in coll/sizes.h, those of schedules in choose.cpp;
// variables and tables that count more are precedence.h's. Nonblocking calls ask it (engine::CollectiveCall). Blocking
// ones of a team, in which each instruction counts, ask its parts: no_algorithm_named(), and node_way() once the team
// has the call. Commands print it.
#pragma once

#include <cstdint>
#include <string_view>

#include "coll/algorithms/precedence.h"
#include "coll/schedule/problem.h"
#include "coll/sizes.h"

namespace zh::coll {

enum class CollectiveWay : uint8_t {
  kHost,      ///< the host's own collective
  kTeam,      ///< blocking: the node's team, as Choice::node says
  kInSlots,   ///< nonblocking: slots in shared memory
  kStaged,    ///< nonblocking: staging areas, if most ranks find at their first call that they share no cache; else
              ///< as kSchedule
  kSchedule,  ///< messages, and steps of nodes' teams and of leaders, by Choice::schedule
};

/// What all ranks know beside the call.
struct Facts {
  bool team = false;   ///< all are on this node, and have memory for a team
  bool kernel = true;  ///< of a reduction: it has one; else the program's own function combines
  NodeFacts node;      ///< of that team
};

struct Choice {
  CollectiveWay way = CollectiveWay::kHost;
  NodeWay node = NodeWay::kSmall;            ///< kTeam
  StagingOrder order = StagingOrder::kFree;  ///< of kTeam's staging areas
  AlgorithmChoice schedule;                  ///< kHost, kStaged, kSchedule
};

/// Problem::blocks says which kind of call it is. O(entries of tables).
[[nodiscard]] Choice choose(const Problem& problem, const Facts& facts, const Precedence& precedence);

/// Whether no variable names an algorithm: then calls of ranks that are all on one node may go through its shared
/// memory, whatever tables say.
[[nodiscard]] inline bool no_algorithm_named(Collective collective, const Precedence& precedence) {
  return !precedence.named_for(collective).has_value();
}

/// The order that an algorithm of section 4.2 stands for: on one node its blocking calls are no messages but a team's.
[[nodiscard]] StagingOrder order_of(Collective collective, std::string_view algorithm);
/// The one that a variable asks for.
[[nodiscard]] StagingOrder named_order(Collective collective, const Precedence& precedence);

/// Whether one may go through staging areas, where there is a kernel for its operation.
[[nodiscard]] bool fits_staging(const Problem& problem);
/// Pieces of one rank's contribution.
[[nodiscard]] inline uint32_t pieces_of(const Problem& p) {
  const bool one_each = p.collective == Collective::kReduceScatter || p.collective == Collective::kScatter ||
                        p.collective == Collective::kAlltoall;
  return one_each ? p.ranks() : 1;
}
/// Whether a nonblocking call of ranks that are all on one node is small enough for slots.
[[nodiscard]] inline bool fits_slots(const Problem& p) {
  return p.uniform && p.ranks() <= kMostNonblockingRanks && p.bytes() <= kSlotBytes &&
         p.bytes() * pieces_of(p) <= kSlotBytes && p.bytes() * p.ranks() <= kMostReadBytes;
}
/// Whether choose() says kInSlots.
[[nodiscard]] inline bool goes_by_slots(const Problem& p, const Facts& facts, const Precedence& precedence) {
  return !p.blocks && p.layout->nodes() == 1 && facts.kernel && fits_slots(p) &&
         no_algorithm_named(p.collective, precedence);
}

// --- Schedules where no variable and no table says which

/// The same on all ranks, and always one that fits. O(1).
[[nodiscard]] std::string_view default_algorithm(const Problem& problem);
/// Whether that is kHostLeaders for this call and for those that differ from it by length alone.
[[nodiscard]] HostLeads default_leads(const Problem& problem);
/// Whether the host's own collective is better than all schedules where nobody has measured them: of several nodes,
/// where leaders gain nothing (docs/design/schedules.md). The same for all lengths but where default_leads() says
/// kSometimes, since ranks that disagree on one must not wait for each other in different places.
[[nodiscard]] bool host_serves(const Problem& problem);

// --- Shared steps: whether nodes that have teams take a schedule's steps inside the node by them (Problem::team)

enum class StepSharing : uint8_t {
  kNever,
  kIfAgreed,  ///< where all ranks of a node want_to_share() and take the call for the same
  kAlways,    ///< whatever their lengths are
};
[[nodiscard]] StepSharing sharing(const Problem& problem, HostLeads leads);
/// By what all ranks know alike, if they agree on the length.
[[nodiscard]] bool wants_to_share(const Problem& problem, HostLeads leads, const Precedence& precedence);
/// Whether a node with a team takes this call's steps by it, if its ranks agree on the call: sharing() and
/// wants_to_share() together. O(entries of tables).
[[nodiscard]] bool shares_steps(const Problem& problem, const Precedence& precedence);
/// Whether any call that differs from this one by length alone is worth_sharing().
[[nodiscard]] bool may_share(const Problem& problem);
[[nodiscard]] bool worth_sharing(const Problem& problem);

}  // namespace zh::coll
