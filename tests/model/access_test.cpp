// Keeping peers away from a rank's memory (src/shm/access.h) under the model checker: an owner that closes its memory,
// changes it and opens it again, and peers that access it under the epoch they were told.
#include <gtest/gtest.h>

#include "base/atomic.h"
#include "checker.h"
#include "prove.h"
#include "shm/access.h"

namespace zh::mc {
namespace {

using shm::Access;
using shm::AccessShm;

constexpr uint32_t kOwner = 0;

/// Thread 0 owns the memory, the others are peers. A peer's description of it is the epoch that it was told.
class AccessScenario : public Scenario {
 public:
  explicit AccessScenario(uint32_t peers) : peers_(peers) { shm::open_access(words_[kOwner]); }
  [[nodiscard]] uint32_t threads() const override { return 1 + peers_; }
  void finish() override {
    for (const AccessShm& words : words_) ZH_CHECK_INVARIANT(words.broken_invariant(0));
  }
  void run(uint32_t thread) override {
    if (thread == kOwner) {
      fork();
    } else {
      visit(thread);
    }
  }

 protected:
  static constexpr uint32_t kFirstEpoch = 2;
  static constexpr uint32_t kLaterEpoch = 4;

  void fork() {
    close_access(words_[kOwner]);
    for (uint32_t i = 1; i <= peers_; ++i) {
      await([&] { return !shm::still_accessed(words_[i], kOwner); });
    }
    data_write(&memory_);
    memory_ = 7;  // what was told before is void
    open_access(words_[kOwner]);
  }

  /// One copy out of the owner's memory, if it is let in.
  bool copy(uint32_t thread, uint32_t epoch) {
    const Access access(words_[thread], words_[kOwner], kOwner, epoch);
    if (!access.granted()) return false;
    data_read(&memory_);
    check(memory_ == (epoch == kFirstEpoch ? 0 : 7), "the memory is that of its epoch");
    ZH_CHECK_INVARIANT(access.broken_invariant());
    return true;
  }

  virtual void visit(uint32_t thread) {
    for (int i = 0; i < 2; ++i) {
      if (!copy(thread, kFirstEpoch)) return;
    }
  }

  uint32_t peers_;
  AccessShm words_[3];
  uint32_t memory_ = 0;
};

// Nobody is inside while the memory changes, and nobody comes with what was told before.
TEST(ModelAccess, ClosedMemoryIsLeftAlone) {
  prove([] { return std::make_unique<AccessScenario>(1); }, 10,
        {{"open_access release", "accesses of a later epoch need it, see below"}});
}

TEST(ModelAccess, ClosedMemoryIsLeftAloneByTwo) {
  Options options;
  options.exhaustive = false;
  options.preemptions = 3;
  options.stale_reads = 2;
  const Report r = explore(options, [] { return std::make_unique<AccessScenario>(2); });
  ASSERT_TRUE(r.ok) << r.failure;
  ASSERT_TRUE(r.complete);
  EXPECT_GE(r.executions, 100u);
}

// A copy through the kernel takes the epoch that it finds: after the fork it sees what the owner did meanwhile.
class LaterScenario final : public AccessScenario {
 public:
  LaterScenario() : AccessScenario(1) {}

 private:
  void visit(uint32_t thread) override {
    await([&] { return words_[kOwner].epoch.load_relaxed() == kLaterEpoch; });
    check(copy(thread, kLaterEpoch), "open again");
    check(!copy(thread, kFirstEpoch), "but not to what was told before");
  }
};

TEST(ModelAccess, OpenedMemoryIsSeenAsItWasLeft) {
  prove([] { return std::make_unique<LaterScenario>(); }, 1,
        {{"still_accessed acquire", "nobody was inside before"},
         {"~Access release", "nobody was inside before"},
         {"close_access fence", "nobody was inside before"}});
}

}  // namespace
}  // namespace zh::mc
