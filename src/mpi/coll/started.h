// Collectives that go on a little whenever this rank is inside MPI: nonblocking ones, persistent ones from start to
// start, and blocking ones that no team serves. Small ones of one node go through shared memory, and so do some large
// ones (engine/nonblocking_on_node.h), all others as schedules over point-to-point
// (coll/schedule/run.h). Made by wrap_coll_start.cpp (owned by requests) and wrap_coll.cpp. Refuses to know request
// handles and what a schedule does.
#pragma once

#include <array>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "base/atomic.h"
#include "coll/algorithms/algorithms.h"
#include "coll/schedule/run.h"
#include "engine/nonblocking_on_node.h"
#include "engine/run_transport.h"
#include "engine/team_steps.h"
#include "mpi/coll/held.h"
#include "mpi/coll/leaders.h"
#include "mpi/coll/neighborhood.h"
#include "mpi/handles/context.h"
#include "mpi/handles/reduction.h"

namespace zh::mpi {

/// What the started collectives of one communicator share. Lives as long as the communicator or the last of them.
/// MPI has them start in the same order on all members, one at a time (MPI standard 6.14).
class Runs {
 public:
  explicit Runs(const CommInfo& comm);

  struct Chosen {
    std::shared_ptr<const coll::Plan> plan;  ///< null: the host's own collective
    size_t algorithm = 0;                    ///< place in coll::algorithms()
    std::unique_ptr<coll::Run> idle;         ///< of the plan and transport(), as keep_run() got it; or null
  };
  /// The plan of a collective, kept if all that it follows from is in the key: the same call is likely to come again.
  /// A new one takes its chunk from the choice. `may_leave`: the host's own may be chosen, then there is none. For any
  /// thread.
  Status plan(coll::Problem* problem, Chosen* out, bool may_leave);
  /// What serves small and large nonblocking calls, and those of one persistent operation.
  [[nodiscard]] engine::NonblockingOnNode* on_node(bool small);
  [[nodiscard]] std::unique_ptr<engine::NonblockingOnNode> on_node_of(bool small, uint64_t init) const {
    return make_on_node(small, persistent_context(context_, init));
  }
  /// Keeps a run over transport() that has ended well, without scratch memory, for the next call of its plan.
  void keep_run(std::unique_ptr<coll::Run> run);
  /// Messages of one persistent operation, whose starts other members may order differently among those of others.
  [[nodiscard]] std::shared_ptr<coll::Transport> transport_of(uint64_t init) const {
    return make_transport(persistent_context(context_, init));
  }
  [[nodiscard]] coll::Transport* transport() const { return transport_.get(); }
  /// Whether the host's collectives are the part between nodes of such calls.
  [[nodiscard]] coll::HostLeads host_leads(const coll::Problem& problem);
  /// Null on ranks that lead no node.
  [[nodiscard]] Leaders* leaders();
  /// Who a rank's neighbours are, which never changes.
  [[nodiscard]] Neighborhood& neighborhood();
  /// When the program frees the communicator.
  void free_leaders() {
    if (leaders_ != nullptr) leaders_->free();
  }

  MPI_Comm comm;  ///< on which errors are raised
  uint64_t calls = 0;
  uint64_t inits = 0;

 private:
  [[nodiscard]] std::shared_ptr<coll::Transport> make_transport(uint64_t context) const;
  [[nodiscard]] std::unique_ptr<engine::NonblockingOnNode> make_on_node(bool small, uint64_t context) const;
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

  uint64_t context_;
  uint32_t self_;
  engine::RankList members_;
  engine::RankList world_;
  std::shared_ptr<const coll::Layout> layout_;
  std::shared_ptr<coll::Transport> transport_;
  std::unique_ptr<engine::NonblockingOnNode> small_, large_;  ///< made at the first call
  std::unique_ptr<Leaders> leaders_;
  std::optional<Neighborhood> neighborhood_;
  /// What host_leads() said, by collective and what else it follows from.
  std::array<std::optional<coll::HostLeads>, 4 * coll::kCollectives> host_leads_;
  std::mutex known_mutex_;
  std::list<Known> known_;  ///< the last used first

  friend class Started;
};

/// Null if collectives of `comm` are the host's, else what its schedules need, as all members find alike.
Runs* runs_of(CommInfo* comm);

class Started {
 public:
  /// Takes its number, which members share because they make the same calls in the same order. `blocks`: the
  /// communicator, for a call that blocks.
  Started(std::shared_ptr<Runs> runs, bool persistent, CommInfo* blocks = nullptr);
  ~Started();
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;
  /// One that has gone leaves its memory to the next: programs mostly have one at a time.
  static void* operator new(size_t bytes);
  static void operator delete(void* memory);

  // Filled in by prepare() of the calls.
  coll::Problem problem;
  HeldBuffer input;
  HeldBuffer output;
  Reducing reducing;

  /// After that: everything that a start needs. Returns a step (peers.h). Without it, starts are complete at once, as
  /// those of nothing() are.
  int ready();
  void nothing() {
    run_.reset();
    shares_ = false;
  }
  /// MPI_SUCCESS, or an error that was raised.
  int start();
  /// Of a call that blocks: waits until it is complete.
  void finish();
  /// In place of that, where something is wrong with this rank's arguments, which gave that error: members that wait
  /// for it learn so, unless it is without effect (peers.h).
  void refuse(int error);
  /// Whether the team of the members on this node shares the steps of the call: where it is worth it and all of them
  /// take part in it as this one does, or where all lengths may take the same steps. Each call comes here once on each
  /// member, and it is the same for all. Never of neighbours. `refuses`: this one takes no part.
  void agree(bool refuses = false);
  /// Whether it takes steps by kHostLeaders whatever its length.
  [[nodiscard]] bool of_any_length() const { return of_any_length_; }
  /// Whether it is complete. Advances everything that was started.
  [[nodiscard]] bool look();
  /// For whoever is going to wait: looks for a while before the engine is turned, where that brings it on.
  void look_for_long();
  /// When complete: error class, not raised.
  [[nodiscard]] int error() const { return error_; }
  [[nodiscard]] ErrorSite error_site() const { return {runs_->comm, runs_->context_}; }
  [[nodiscard]] const Runs* runs() const { return runs_.get(); }
  /// Once it is ready: whether there is anything to do; whether it goes through shared memory; if not, by which of
  /// coll::algorithms().
  [[nodiscard]] bool does_anything() const { return by_team() || run_ != nullptr; }
  [[nodiscard]] bool by_team() const { return team_ != nullptr; }
  [[nodiscard]] size_t algorithm() const { return algorithm_; }

 private:
  friend void advance_started(bool alone);
  friend bool started_advance_alone();
  /// True once it is complete. `alone`: as advance_started() has it.
  bool advance(bool alone);
  /// True once the call under way has ended, as code_ says.
  bool step();
  void fail(Code code);
  /// Whether all members on this node want to share the steps of a run made now, and take the call for the same. If
  /// not, there is none.
  [[nodiscard]] bool can_agree(bool wants);
  /// By the problem as it is now; left_to_host_, where that may be, or run_ says what has come of it.
  Status make_run(bool may_leave);
  /// Whether a team of the members serves it; `*error` is of this rank alone.
  bool choose_team(int* error);
  void start_run();
  [[nodiscard]] coll::Call buffers();
  /// For any thread: whether nothing is under way but this call, and what it waits for has not come.
  [[nodiscard]] bool still_waits() const;
  /// What keeps the call from ending, where it stands still: members that disagree about it, or a dead one. Seldom
  /// looked at.
  Code trouble();
  /// Whether it goes on without a call of MPI.
  [[nodiscard]] bool alone() const;
  void run_with_others();
  void take_no_part();

  std::shared_ptr<Runs> runs_;
  std::shared_ptr<coll::Transport> own_transport_;  ///< a persistent one's
  coll::Transport* transport_;                      ///< that, or the communicator's
  CommInfo* blocks_;
  std::unique_ptr<coll::Run> run_;
  engine::NonblockingOnNode* team_ = nullptr;            ///< in the place of run_, as long as it serves the call
  std::unique_ptr<engine::NonblockingOnNode> own_team_;  ///< a persistent one's
  coll::NodeCall team_call_;
  std::optional<engine::TeamSteps> node_;
  std::optional<HostLeaders> leaders_;
  uint64_t init_ = 0;     ///< number among the persistent ones
  uint64_t number_;       ///< of the call; of persistent ones, of the next start
  uint64_t started_ = 0;  ///< number of the call under way
  uint64_t ask_at_ns_ = 0;
  uint32_t digest_ = 0;
  uint32_t idle_ = 0;
  bool persistent_;
  bool of_any_length_ = false;
  bool shares_ = false;  ///< has steps that wait for others
  bool left_to_host_ = false;
  bool comes_by_itself_ = false;  ///< the call under way, as it began: others bring it about without this rank's engine
  bool holds_operation_ = false;
  size_t algorithm_ = 0;
  Code code_ = Code::kOk;
  int error_ = MPI_SUCCESS;
  Atomic<uint32_t> done_{1};
  Atomic<const Atomic<uint64_t>*> awaited_{nullptr};  ///< of team_call_
};

/// Advances everything that was started and has not ended. Cheap when there is nothing. `alone`: for the engine's
/// helper thread, which calls no MPI; only those that need none.
void advance_started(bool alone = false);
/// Whether there are any that need none.
[[nodiscard]] bool started_advance_alone();
/// Waits until nothing of that communicator is under way.
void finish_started(const Runs* runs);

/// A call's schedule, ready to be started. Returns a step (peers.h).
template <typename Call>
int set_up(const Call& call, const CommInfo& info, Started& started) {
  started.problem.collective = Call::kCollective;
  ZH_STEP(call.prepare(info, started));
  started.agree();
  const bool empty = started.problem.uniform && started.problem.count == 0 && !started.of_any_length();
  if (!empty || Call::kCollective == coll::Collective::kBarrier) return started.ready();
  started.nothing();
  return MPI_SUCCESS;
}

}  // namespace zh::mpi
