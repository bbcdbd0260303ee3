// CollectiveCall: a collective that goes on a little whenever this rank is inside MPI, and in the helper thread while
// it is in a call of the host: nonblocking ones, persistent ones from start to start, and blocking ones that no team
// serves. Small ones of one node go through shared memory, and so do some large ones (nonblocking_on_node.h), all
// others as schedules over point-to-point (coll/schedule/run.h). Made by the shim and by zerohop.h. Refuses to know
// datatypes, buffers with gaps and handles of requests. What a caller does, in order:
// 1. fills in `problem` and `buffers`, then agree(), which may wait for the ranks of this node
// 2. ready(), or make_empty() where there is nothing to do; left_to_host(): it goes to the host, and this is destroyed
// 3. start(), a persistent one as often as it likes; then finish() of a blocking one, look() until true of the others
// Where the rank's arguments are wrong, refuse() comes in the place of 2 and 3, or withdraw() if nobody is to know.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/atomic.h"
#include "base/status.h"
#include "coll/schedule/problem.h"
#include "coll/schedule/run.h"
#include "engine/collectives.h"
#include "engine/team_steps.h"

namespace zh::engine {

class CollectiveCall {
 public:
  enum class Kind : uint8_t { kBlocking, kNonblocking, kPersistent };
  /// Takes its number, which members share because they make the same calls in the same order.
  CollectiveCall(std::shared_ptr<Collectives> of, Kind kind);
  virtual ~CollectiveCall();
  CollectiveCall(const CollectiveCall&) = delete;
  CollectiveCall& operator=(const CollectiveCall&) = delete;

  // Filled in by the caller before agree().
  coll::Problem problem;
  coll::Call buffers;  ///< but for `first_tag` and `node`; `leaders` after ready()

  /// Whether the team of the members on this node shares the steps of the call: where it is worth it and all of them
  /// take part in it as this one does, or where all lengths may take the same steps. Each call comes here once on each
  /// member, and it is the same for all. Never of neighbours. `refuses`: this one takes no part.
  void agree(bool refuses = false);
  /// Whether it takes steps by coll::kHostLeaders whatever its length.
  [[nodiscard]] bool of_any_length() const { return of_any_length_; }
  /// After that: everything that a start needs. Without it, starts are complete at once, as those of make_empty() are.
  /// kNoMemory; or what building a schedule says.
  Status ready();
  /// Then: the host's own collective is to take its place.
  [[nodiscard]] bool left_to_host() const { return left_to_host_; }
  /// Then: whether it has steps of leaders and this rank is one.
  [[nodiscard]] bool has_leader_steps() const { return shares_ && of_->leads(); }
  void make_empty() {
    run_.reset();
    shares_ = false;
  }
  void start();
  /// Of a nonblocking one through slots that has ended well: the same call again, with other buffers. What was agreed,
  /// planned and made for it serves that, too. Takes a number.
  void start_again();
  /// Of a call that blocks: waits until it is complete.
  void finish();
  /// In place of that, where something is wrong with this rank's arguments: members that wait for it learn so.
  void refuse();
  /// In place of refuse(): the call never was.
  void withdraw();
  /// Whether it is complete. Advances everything that was started.
  [[nodiscard]] bool look();
  /// For whoever is going to wait: looks for a while before the engine is turned, where that brings it on.
  void look_for_long();

  /// For whom it waits.
  void tell(p2p::Activity* out) const;

  [[nodiscard]] const Collectives& of() const { return *of_; }
  /// Once it is ready: whether there is anything to do; whether it goes through shared memory; if not, by which of
  /// coll::algorithms().
  [[nodiscard]] bool does_anything() const { return through_memory() || run_ != nullptr; }
  [[nodiscard]] bool through_memory() const { return memory_team_ != nullptr; }
  /// Once it is ready: whether that is by slots, if at all.
  [[nodiscard]] bool small() const { return small_; }
  [[nodiscard]] size_t algorithm() const { return algorithm_; }

 protected:
  /// Gives up what is still under way. Before the memory of its buffers goes.
  void stop() {
    if (run_ != nullptr) give_up_run();
  }
  [[nodiscard]] Collectives& collectives() { return *of_; }

 private:
  friend class ActiveCollectives;

  /// The team of this node's members of a communicator that has others; null if there is none. May wait for them.
  [[nodiscard]] virtual coll::Team* blocking_team() { return nullptr; }
  /// The call has ended, `code` says how: results go where they belong.
  virtual void end(Code /*code*/) {}
  /// Whether end() calls a host.
  [[nodiscard]] virtual bool ends_by_host() const { return false; }

  [[nodiscard]] bool blocks() const { return kind_ == Kind::kBlocking; }
  [[nodiscard]] bool is_persistent() const { return kind_ == Kind::kPersistent; }
  /// Whether it goes on without a call of a host or of the program.
  [[nodiscard]] bool goes_alone() const { return buffers.how.user == nullptr && of_->comm_.layout->nodes() == 1; }
  /// True once it is complete. `alone`: as ActiveCollectives::advance() has it.
  bool advance(bool alone);
  /// True once the call under way has ended, as code_ says.
  [[gnu::always_inline]] bool step();
  void fail(Code code);
  /// Whether all members on this node want to share the steps of a run made now, and take the call for the same. If
  /// not, there is none.
  [[nodiscard]] bool can_agree(bool wants);
  /// By the problem as it is now; left_to_host_, where that may be, or run_ says what has come of it.
  Status make_run(bool may_leave);
  /// Whether a team of the members serves it.
  bool choose_memory();
  void start_run();
  void await_end() {
    done_.store_relaxed(0);
    awaited_.store_relaxed(nullptr);
    ask_at_ns_ = 0;
    comes_by_itself_ = through_memory();
  }
  /// For any thread: whether nothing is under way but this call, and what it waits for has not come.
  [[nodiscard]] bool still_waits() const;
  /// What keeps the call from ending, where it stands still: members that disagree about it, or a dead one. Seldom
  /// looked at.
  Code trouble();
  void run_with_others(p2p::Tell told);
  void give_up_run();
  void take_no_part();

  std::shared_ptr<Collectives> of_;
  Rank& rank_;
  ActiveCollectives& calls_;
  std::shared_ptr<coll::Transport> own_transport_;  ///< a persistent one's
  coll::Transport* transport_;                      ///< that, or the communicator's
  std::unique_ptr<coll::Run> run_;
  NonblockingOnNode* memory_team_ = nullptr;            ///< in the place of run_, as long as it serves the call
  std::unique_ptr<NonblockingOnNode> own_memory_team_;  ///< a persistent one's
  coll::NonblockingCall memory_call_;
  std::optional<TeamSteps> node_steps_;
  uint64_t init_ = 0;     ///< number among the persistent ones
  uint64_t number_;       ///< of the call; of persistent ones, of the next start
  uint64_t started_ = 0;  ///< number of the call under way
  uint64_t ask_at_ns_ = 0;
  uint32_t digest_ = 0;
  uint32_t idle_ = 0;
  Kind kind_;
  bool of_any_length_ = false;
  bool small_ = false;
  bool shares_ = false;  ///< has steps that wait for others
  bool left_to_host_ = false;
  bool comes_by_itself_ = false;  ///< the call under way, as it began: others bring it about without this rank's engine
  size_t algorithm_ = 0;
  Code code_ = Code::kOk;
  Atomic<uint32_t> done_{1};
  Atomic<const Atomic<uint64_t>*> awaited_{nullptr};  ///< of memory_call_
};

}  // namespace zh::engine
