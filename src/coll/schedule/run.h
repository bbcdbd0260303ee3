// Run: executes a rank's schedule over a transport, a little each time it is asked. Used by the engine and the shim for
// blocking, nonblocking and persistent collectives. It never waits, and refuses to know how messages travel.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "base/status.h"
#include "coll/schedule/schedule.h"
#include "coll/schedule/scratch_pool.h"
#include "coll/types.h"

namespace zh::coll {

/// Nonblocking messages of contiguous bytes between ranks of one communicator, apart from all others on it. Messages
/// with equal rank and tag match in the order of their starts (MPI standard 3.5).
class Transport {
 public:
  /// Starts a message. kOk: `*handle` is null if it is complete already, else has to be given to test() or abandon().
  /// The memory stays with the transport until then. kNoMemory without a handle: nothing was started. A receive ends
  /// with kTruncated where more has come than `bytes`, with kInvalid where less has, with kIo where nothing has.
  virtual Code send(uint32_t rank, int32_t tag, const void* data, uint64_t bytes, void** handle) = 0;
  virtual Code receive(uint32_t rank, int32_t tag, void* data, uint64_t bytes, void** handle) = 0;
  /// True once complete; `*code` says how it ended, and the handle is gone. Only looks: whoever calls Run::advance()
  /// turns the progress loop.
  virtual bool test(void* handle, Code* code) = 0;
  /// Gives a message up; its memory is not touched after this returns.
  virtual void abandon(void* handle) = 0;

  /// The call with tags [first_tag, first_tag + kTags) begins, and blocks: every rank ends it before its next one that
  /// blocks, so that messages of such calls with equal rank and place in their call start in the order of calls.
  virtual void begin_blocking(int32_t /*first_tag*/) {}
  /// That call, which may block or not, has stood still for long.
  virtual void stands_still(int32_t /*first_tag*/) {}

  /// Tells the other ranks what this one takes its call with that number for (digest() of its problem; kRefused: it
  /// takes no part).
  virtual void announce(uint64_t number, uint32_t digest) = 0;
  /// This rank waits for nothing any more of its call with that number, whose tags are [first_tag, first_tag + kTags).
  /// Ranks that cannot ask it are told so; what others still send for the call is taken and let go, so that they end.
  virtual void give_up(uint64_t number, int32_t first_tag) = 0;
  /// Whether another rank has announced something else under that number, or has told that it has given it up. Not
  /// every rank can be asked: false says nothing.
  [[nodiscard]] virtual bool contradicted(uint64_t number, uint32_t digest) const = 0;
  /// Whether a rank has died that can be asked about. Others may have given the call up because of that.
  [[nodiscard]] virtual bool bereft() const = 0;

 protected:
  ~Transport() = default;
};

/// What the ranks of a node do together: all call the same functions in the same order. Whoever gets something waits
/// for those that give it, also of no bytes. Codes as those of Transport; kIo: a rank refused.
class NodeSteps {
 public:
  /// All get what rank `root` of the node gives.
  virtual Code bcast_root(const void* data, uint64_t bytes, uint32_t root) = 0;
  virtual Code bcast_leaf(void* data, uint64_t bytes, uint32_t root) = 0;
  /// out = in of the first op ... op in of the last, on `root` alone.
  virtual Code reduce(const void* in, void* out, uint64_t count, const Reduction& how, uint32_t root) = 0;
  /// Rank `root` gets the parts of all, one behind another. `even`: they are of one size, as all know.
  virtual Code gather_leaf(const void* data, uint64_t bytes, bool even, uint32_t root) = 0;
  virtual Code gather_root(const void* own, void* all, std::span<const uint64_t> parts, bool even) = 0;
  /// All others get their parts of what rank `root` of the node has, one behind another.
  virtual Code scatter_root(const void* all, std::span<const uint64_t> parts, bool even) = 0;
  virtual Code scatter_leaf(void* data, uint64_t bytes, bool even, uint32_t root) = 0;
  /// out = in of the first op ... op in of this rank, or `exclusive`, of the one before; the first gets nothing then.
  virtual Code scan(const void* in, void* out, uint64_t count, const Reduction& how, bool exclusive) = 0;
  // `parts`: bytes of the parts of all, one behind another.
  /// `out` gets the own part of in of the first op ... op in of the last; it may lie in `in`.
  virtual Code reduce_scatter(const void* in, void* out, std::span<const uint64_t> parts, const Reduction& how) = 0;
  /// `all` gets the parts of all on every rank; the own one is there already.
  virtual Code allgather(void* all, std::span<const uint64_t> parts) = 0;
  /// In place of any of these, for a rank that has nothing to give: those that wait for it learn so.
  virtual void refuse() = 0;

 protected:
  ~NodeSteps() = default;
};

/// What the leaders of all nodes do together, in the order of nodes, as NodeSteps has it.
class LeaderSteps {
 public:
  /// What takes the steps: these, or others in their place. Known when the first step is taken, which may wait for all.
  virtual LeaderSteps& chosen() { return *this; }
  /// Returns when all have come.
  virtual Code barrier() = 0;
  /// From `data` of the leader of node `root` into that of all others.
  virtual Code bcast(void* data, uint64_t bytes, uint32_t root) = 0;
  /// out = in of the first op ... op in of the last; `in` may be `out`. On `root` alone, or on all.
  virtual Code reduce(const void* in, void* out, uint64_t count, const Reduction& how, uint32_t root) = 0;
  virtual Code allreduce(const void* in, void* out, uint64_t count, const Reduction& how) = 0;
  // Where `all` has the parts of all, `parts` are their bytes, one behind another in the order of nodes.
  /// The own part is there already.
  virtual Code allgather(void* all, std::span<const uint64_t> parts) = 0;
  /// `all` of the leader of node `root` gets own of all; its own one is in its place there. Of the others, `all` and
  /// `parts` mean nothing. `even`: parts are of one size, as all know.
  virtual Code gather(const void* own, uint64_t bytes, void* all, std::span<const uint64_t> parts, bool even,
                      uint32_t root) = 0;
  /// `own` of all others is their part of `all` of the leader of node `root`; as gather() has it.
  virtual Code scatter(const void* all, std::span<const uint64_t> parts, void* own, uint64_t bytes, bool even,
                       uint32_t root) = 0;
  /// The i-th part of `in` is the own place's part of `out` of the leader of node i.
  virtual Code alltoall(const void* in, void* out, std::span<const uint64_t> parts) = 0;
  /// `out` gets the own part of in of the first op ... op in of the last; `in` may be `out`.
  virtual Code reduce_scatter(const void* in, void* out, std::span<const uint64_t> parts, const Reduction& how) = 0;
  /// out = in of the first op ... op in of the one before; the first gets nothing. `in` is not `out`.
  virtual Code exscan(const void* in, void* out, uint64_t count, const Reduction& how) = 0;

 protected:
  ~LeaderSteps() = default;
};

/// A schedule made ready to run: kept by whoever expects the same call again, shared by any number of runs.
class Plan {
 public:
  explicit Plan(Schedule schedule);

  [[nodiscard]] const Schedule& schedule() const { return schedule_; }
  /// Whether it has steps that wait for other ranks, of its node or of leaders: Run::share() takes them.
  [[nodiscard]] bool shares() const { return shares_; }

 private:
  friend class Run;
  Schedule schedule_;
  std::vector<uint32_t> n_waits_;    ///< by step
  std::vector<uint32_t> first_;      ///< by step: followers_[first_[i], first_[i + 1]) wait for step i
  std::vector<uint32_t> followers_;  ///< steps
  std::vector<uint32_t> at_once_;    ///< steps that wait for nothing: receives, sends, the rest
  uint32_t n_messages_ = 0;
  bool shares_ = false;
};

/// One call's buffers, of the sizes that the schedule's problem gives.
struct Call {
  const void* input = nullptr;
  void* output = nullptr;
  Reduction how;          ///< reductions
  int32_t first_tag = 0;  ///< the run uses tags [first_tag, first_tag + kTags)
  bool exact = false;     ///< a message that brings less than it should spoils the call, as one that brings more does
  NodeSteps* node = nullptr;       ///< take the shared steps of a schedule that has any
  LeaderSteps* leaders = nullptr;  ///< ... those of leaders
  /// This rank takes no part: it tells its node so in each shared step and by messages without bytes, and receives
  /// none. Its schedule has no bytes then.
  bool refused = false;
  /// There was no memory for this rank's buffers, which nobody touches: it takes all its steps, but those of leaders,
  /// without them, tells the others so and ends with kNoMemory.
  bool empty_handed = false;
};

class Run {
 public:
  /// Allocates all that it will need, the schedule's scratch memory from `pool` if there is one, which outlives it.
  /// kNoMemory: for lists of its steps. Without memory for scratch its calls are empty-handed.
  static Status create(std::shared_ptr<const Plan> plan, Transport& transport, std::unique_ptr<Run>* out,
                       ScratchPool* pool = nullptr);
  /// Gives up what is still under way.
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// Between calls: gives the scratch memory back, for runs of other plans, and takes some again before the next start.
  void release_scratch();
  void take_scratch();
  [[nodiscard]] const Plan& plan() const { return *plan_; }

  /// Begins a call; the last one must have ended. Communicates nothing yet, allocates nothing.
  void start(const Call& call);
  /// Starts, copies and combines whatever may be by now. True once the call has ended: code() says how. Then, and
  /// before the first start(), it does nothing.
  bool advance();
  /// Whether a shared step is next, which advance() leaves to share(): it waits for other ranks.
  [[nodiscard]] bool shared_is_next() const { return shared_ != kNoStep; }
  void share();
  /// How the call ended. Where ranks disagree on a length, kTruncated or kInvalid; where this one lacked memory,
  /// kNoMemory; where another one had an error, kIo; after a fault in a step of leaders, what that said. The rest of
  /// the call went on then, so that the others end too. They learn of it by messages without bytes, or with one where
  /// none are meant (of lengths that disagree: where the call is `exact`), and a node's ranks by steps in which others
  /// refuse. Else what the transport or fail() said: this rank has given the call up.
  [[nodiscard]] Code code() const { return code_; }
  /// visit(rank) for each message under way.
  void visit_peers(FunctionRef<void(uint32_t)> visit) const;
  /// Gives the call under way up: what is left of it are shared steps of its node, which this rank refuses.
  void fail(Code code);
  /// Whether that has happened. Then, when the call has ended, its transport is to be told (Transport::give_up()).
  [[nodiscard]] bool gave_up() const { return gave_up_; }

 private:
  struct UnderWay {
    void* handle;
    uint32_t step;
  };

  Run(std::shared_ptr<const Plan> plan, Transport& transport, ScratchPool* pool);
  [[nodiscard]] std::byte* memory(Place place) const;
  /// False where there is no memory to start it: it is the next one again.
  bool perform(uint32_t step);
  bool start_message(uint32_t step);
  void complete(uint32_t step);
  void poll();
  void end_message(uint32_t step, Code code);
  [[nodiscard]] Code share_with_node(const Step& step);
  [[nodiscard]] Code share_with_leaders(const Step& step);
  /// Whether this rank takes no step with other leaders: none that is left.
  [[nodiscard]] bool leads_no_more() const { return call_.refused || empty_handed_ || gave_up_; }
  /// Elements of a reduction.
  [[nodiscard]] uint64_t count_of(const Step& step) const;
  [[nodiscard]] int32_t tag_of(const Step& step) const { return call_.first_tag + static_cast<int32_t>(step.tag); }
  /// Whether what this rank has is not what the others expect, so that it sends none of it.
  [[nodiscard]] bool spoilt() const;

  std::shared_ptr<const Plan> plan_;
  Transport& transport_;
  Call call_;
  ScratchPool* pool_;
  std::byte* scratch_ = nullptr;
  uint64_t scratch_size_ = 0;    ///< as the pool has it
  std::vector<uint32_t> waits_;  ///< by step: how many it still waits for
  std::vector<uint32_t> ready_;  ///< steps in the order in which they became ready; [0, next_) were performed
  std::vector<UnderWay> under_way_;
  uint32_t next_ = 0;
  uint32_t n_ready_ = 0;
  uint32_t left_ = 0;          ///< steps that are not complete
  uint32_t shared_ = kNoStep;  ///< the one that may be taken now; they follow each other
  bool empty_handed_ = false;
  bool gave_up_ = false;
  Code code_ = Code::kOk;
};

}  // namespace zh::coll
