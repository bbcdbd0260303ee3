// NonblockingTeam: the members of a communicator on one node, and their collectives that go on after the call has
// returned. Nothing here waits: each member goes on when its rank is in MPI and the others are as far. NonblockingSlots
// and NonblockingStaged are the two kinds. Called by engine::NonblockingOnNode, one thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/atomic.h"
#include "base/invariant.h"
#include "coll/team/block_pool.h"
#include "coll/team/nonblocking_call.h"
#include "coll/team/services.h"
#include "os/clock.h"

namespace zh::coll {

/// Nothing is pure: what stands for a pure function in a destructor is the C++ runtime's, which no job may need.
class NonblockingTeam {
 public:
  virtual ~NonblockingTeam() = default;
  NonblockingTeam(const NonblockingTeam&) = delete;
  NonblockingTeam& operator=(const NonblockingTeam&) = delete;

  /// This member's block, for all members to know; kNoOffset when the budget of shared memory is used up. Once.
  [[nodiscard]] virtual Offset take_block() { return kNoOffset; }
  /// The blocks of all members, in their order. From now on calls go on.
  virtual void open(const std::vector<Offset>& /*blocks*/) {}
  /// In place of that: some member has none, and all know it.
  virtual void give_up() {}

  /// Before or after open(), in the order of numbers.
  virtual void begin(NonblockingCall*) {}
  /// Gives and takes what may be by now. True once the call has ended. A call that has ended stays so.
  virtual bool advance(NonblockingCall*) { return true; }
  /// Ends a call that was begun.
  virtual void fail(NonblockingCall*, Code) {}
  /// The flag that the call waits for, which advance() has not seen yet; null: it waits for something else.
  [[nodiscard]] virtual const Atomic<uint64_t>* awaited(const NonblockingCall*) const { return nullptr; }

  /// Whose that is, as a node-local index; < 0: nobody's.
  [[nodiscard]] virtual int32_t awaited_rank(const NonblockingCall*) const { return -1; }

  /// Whether most other members share no cache with this one. Members that take turns on CPUs are as near as the
  /// scheduler has them.
  [[nodiscard]] bool is_apart() const {
    return services_.polls() > 1 && streamed_from_most(services_, ranks_, self_) != kNeverStreamed;
  }
  /// Whether a member has died, as far as was seen. Looks now and then.
  bool look_for_deaths() {
    if (dead_ || ++looks_ % kLooksPerClock != 0 || !death_checks_.over(kDeathCheckEveryUs)) return dead_;
    dead_ = std::any_of(ranks_.begin(), ranks_.end(), [this](uint32_t rank) { return !services_.alive(rank); });
    return dead_;
  }

 protected:
  /// `ranks`: node-local indices in the order of the communicator's ranks; `self`: this rank's place among them.
  NonblockingTeam(Services& services, std::vector<uint32_t> ranks, uint32_t self)
      : services_(services),
        ranks_(std::move(ranks)),
        size_(static_cast<uint32_t>(ranks_.size())),
        self_(self),
        sleepers_(services.sleepers()) {}

  /// Members that sleep look at their flags again.
  void wake_sleepers() {
    if (sleepers_ == nullptr || sleepers_->load_relaxed() == 0) return;
    for (uint32_t i = 0; i < size_; ++i) {
      if (i != self_) services_.wake(ranks_[i]);
    }
  }
  /// Numbers in shared memory begin at 1.
  [[nodiscard]] static uint64_t seq_of(const NonblockingCall* call) { return call->number + 1; }

  Services& services_;
  const std::vector<uint32_t> ranks_;
  const uint32_t size_;
  const uint32_t self_;

 private:
  const Atomic<uint32_t>* const sleepers_;
  static constexpr uint32_t kLooksPerClock = 16;
  static constexpr double kDeathCheckEveryUs = 5000;
  uint32_t looks_ = 0;
  os::Interval death_checks_;
  bool dead_ = false;
};

/// A team whose members have a `Block` of shared memory each.
template <typename Block>
class TeamOfBlocks : public NonblockingTeam {
 public:
  Offset take_block() final { return own_ = pool_.take(context_); }
  void open(const std::vector<Offset>& blocks) final {
    offsets_ = blocks;
    for (const Offset offset : offsets_) blocks_.push_back(at<Block>(services_.base(), offset));
    tell_done();
  }
  void give_up() final {
    if (own_ != kNoOffset) pool_.give(context_, 0, own_, {});
    own_ = kNoOffset;
  }

 protected:
  /// `context` is the same on every member.
  TeamOfBlocks(Services& services, BlockPool<Block>& pool, uint64_t context, std::vector<uint32_t> ranks, uint32_t self)
      : NonblockingTeam(services, std::move(ranks), self), pool_(pool), context_(context) {}
  /// Of every destructor. A block that others may look at, and not know that this member is gone, is never used again.
  void leave() {
    if (is_open() && under_way_.empty()) pool_.give(context_, done_, own_, std::move(offsets_));
  }

  [[nodiscard]] bool is_open() const { return !blocks_.empty(); }
  [[nodiscard]] Block& block(uint32_t member) const { return *blocks_[member]; }

  /// Calls that were none of this team's, or none of this member's, are done with the next one that begins.
  void add(NonblockingCall* call) {
    call->ended = false;
    call->unserved = false;
    call->code = Code::kOk;
    latest_ = seq_of(call);
    under_way_.push_back(call);
    tell_done();
  }
  void remove(NonblockingCall* call) {
    call->ended = true;
    if (under_way_.back() == call) {
      under_way_.pop_back();
    } else {
      under_way_.erase(std::find(under_way_.begin(), under_way_.end(), call));
    }
    tell_done();
  }

  [[nodiscard]] uint64_t context() const { return context_; }
  [[nodiscard]] NonblockingCall* front() const { return under_way_.front(); }
  [[nodiscard]] uint64_t done() const { return done_; }

 private:
  void tell_done() {
    if (!is_open()) return;
    const uint64_t done = under_way_.empty() ? latest_ : seq_of(under_way_.front()) - 1;
    if (done == done_) return;
    done_ = done;
    block(self_).done.store_release(done);  // SD0 -> SD1: this member's last reads
    ZH_CHECK_INVARIANT(block(self_).broken_invariant(context_));
    wake_sleepers();
  }

  BlockPool<Block>& pool_;
  const uint64_t context_;
  Offset own_ = kNoOffset;
  std::vector<Offset> offsets_;              ///< by member; empty before open()
  std::vector<Block*> blocks_;               ///< likewise
  std::vector<NonblockingCall*> under_way_;  ///< that have not ended, in the order of their numbers
  uint64_t latest_ = 0;                      ///< seq_of() the last one that was begun
  uint64_t done_ = 0;                        ///< in this member's block
};

}  // namespace zh::coll
