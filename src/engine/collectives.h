// Collectives: what the collective calls of one communicator share beside its team of blocking ones: plans, teams of
// nonblocking ones, messages, numbers. Made by the shim and by zerohop.h; used by CollectiveCall. It lives as long as
// the communicator or the last of its calls. MPI has them start in the same order on all members, one at a time (MPI
// standard 6.14).
#pragma once

#include <array>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "coll/algorithms/choose.h"
#include "coll/schedule/run.h"
#include "engine/active_collectives.h"
#include "engine/nonblocking_on_node.h"
#include "engine/run_transport.h"

namespace zh::engine {

/// The ranks of a communicator.
struct CommRanks {
  uint64_t context = 0;  ///< the communicator's; its collectives derive theirs from it (contexts.h)
  uint32_t self = 0;
  RankList members;  ///< node-local indices by rank, < 0 on other nodes
  RankList world;    ///< world ranks by rank; of communicators that span nodes
  std::shared_ptr<const coll::Layout> layout;
};

class Collectives {
 public:
  /// `precedence` is the same on all ranks of the job and outlives this.
  Collectives(Rank& rank, CommRanks comm, const coll::Precedence& precedence);
  virtual ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  [[nodiscard]] const CommRanks& comm() const { return comm_; }
  /// Whether this rank is the first of its node.
  [[nodiscard]] bool leads() const;
  /// Whether leaders take steps by coll::kHostLeaders.
  [[nodiscard]] coll::HostLeads host_leads(const coll::Problem& problem);

 private:
  friend class CollectiveCall;
  struct Chosen {
    std::shared_ptr<const coll::Plan> plan;  ///< null: the host's own collective
    size_t algorithm = 0;                    ///< place in coll::algorithms()
    std::unique_ptr<coll::Run> idle;         ///< of the plan and transport(), as keep_run() got it; or null
  };
  /// The plan of a collective, kept if all that it follows from is in the key: the same call is likely to come again.
  /// A new one takes its chunk from the choice. `may_leave`: the host's own may be chosen, then there is none. For any
  /// thread.
  Status plan(coll::Problem* problem, Chosen* out, bool may_leave);
  /// Fills in Problem::sources and destinations of a collective of neighbours.
  virtual void add_neighbors(coll::Problem*) {}
  /// What serves small and large nonblocking calls, and those of one persistent operation.
  [[nodiscard]] NonblockingOnNode* on_node(bool small);
  [[nodiscard]] std::unique_ptr<NonblockingOnNode> on_node_of(bool small, uint64_t init) const;
  /// Keeps a run over transport() that has ended well, without scratch memory, for the next call of its plan.
  void keep_run(std::unique_ptr<coll::Run> run);
  /// Messages of one persistent operation, whose starts other members may order differently among those of others.
  [[nodiscard]] std::shared_ptr<coll::Transport> transport_of(uint64_t init) const;
  [[nodiscard]] std::shared_ptr<coll::Transport> make_transport(uint64_t context) const;
  [[nodiscard]] std::unique_ptr<NonblockingOnNode> make_on_node(bool small, uint64_t context) const;

  /// Not whether it blocks: of several nodes only such calls come here, and on one node that decides nothing.
  struct Key {
    coll::Collective collective;
    uint32_t root;
    uint64_t count;
    uint64_t element_bytes;
    bool commutative;
    bool in_place;
    bool team;
    [[nodiscard]] bool operator==(const Key&) const = default;
  };
  struct Known {
    Key key;
    std::vector<coll::Piece> send, recv;  ///< of neighbours: what else the plan follows from
    std::shared_ptr<const coll::Plan> plan;
    size_t algorithm;
    std::unique_ptr<coll::Run> idle;
  };
  static constexpr size_t kKnown = 16;

  Rank& rank_;
  CommRanks comm_;
  const coll::Precedence& precedence_;
  std::shared_ptr<ActiveCollectives> calls_;
  std::shared_ptr<coll::Transport> transport_;
  std::unique_ptr<NonblockingOnNode> small_, large_;  ///< made at the first call
  uint64_t n_calls_ = 0;
  uint64_t n_inits_ = 0;  ///< persistent ones
  /// What host_leads() said, by collective and what else it follows from.
  std::array<std::optional<coll::HostLeads>, 4 * coll::kCollectives> host_leads_;
  std::mutex known_mutex_;
  std::list<Known> known_;  ///< the last used first
};

}  // namespace zh::engine
