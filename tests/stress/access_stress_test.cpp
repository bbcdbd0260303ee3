// Keeping peers away from a rank's memory (src/shm/access.h) at full speed: every rank copies from and to the others'
// memory, and closes, changes and opens its own, again and again.
#include <cstring>

#include "os/yield.h"
#include "shm/access.h"
#include "stress_support.h"

namespace zh::test {
namespace {

constexpr int kRanks = 4;
constexpr uint64_t kWords = 64;
constexpr uint64_t kOpenings = 300;

/// One rank's memory. Writers: `words` the owner while it is closed, any peer inside an access one of them; `told` the
/// owner. Readers: as the writers. Invariant: an access under an epoch finds its peer's word and the owner's as that
/// epoch left them. Wrap, crash: none here.
struct MemoryShm {
  shm::AccessShm access;
  Atomic<uint32_t> told;      ///< the epoch that the owner told its peers
  uint64_t owners[kWords];    ///< all hold the epoch's number
  uint64_t peers[kRanks][8];  ///< a word for each peer, a line each
};

struct WorldShm {
  MemoryShm memory[kRanks];
  Atomic<uint32_t> ended;
};

class Visitor {
 public:
  Visitor(WorldShm* shm, uint32_t self) : shm_(shm), self_(self) {}

  /// One access to a peer's memory; true if it was let in.
  bool visit(uint32_t owner) {
    MemoryShm& there = shm_->memory[owner];
    // T1 -> T0: the memory as it was told of.
    const uint32_t epoch = there.told.load_acquire();
    const shm::Access access(shm_->memory[self_].access, there.access, owner, epoch);
    if (!access.granted()) return false;
    for (const uint64_t word : there.owners) wrong_ += word != epoch ? 1 : 0;
    uint64_t& mine = there.peers[self_][0];
    if (epoch != last_epoch_[owner]) written_[owner] = mine;
    last_epoch_[owner] = epoch;
    wrong_ += mine != written_[owner] ? 1 : 0;
    mine = ++written_[owner];
    wrong_ += access.broken_invariant() != nullptr ? 1 : 0;
    return true;
  }

  /// What a fork does: nobody else may be inside.
  void change() {
    MemoryShm& own = shm_->memory[self_];
    shm::close_access(own.access);
    for (uint32_t i = 0; i < kRanks; ++i) {
      while (i != self_ && shm::still_accessed(shm_->memory[i].access, self_)) os::yield_cpu();
    }
    for (const MemoryShm& memory : shm_->memory) wrong_ += memory.access.broken_invariant(kRanks) != nullptr ? 1 : 0;
    uint64_t before[kRanks];
    for (uint32_t i = 0; i < kRanks; ++i) before[i] = own.peers[i][0];
    const uint32_t next = own.access.epoch.load_relaxed() + 1;
    for (uint64_t& word : own.owners) word = next;
    for (uint32_t i = 0; i < kRanks; ++i) wrong_ += own.peers[i][0] != before[i] ? 1 : 0;
    shm::open_access(own.access);
    // T0 -> T1: the memory as it is told of.
    own.told.store_release(next);
  }

  [[nodiscard]] uint64_t wrong() const { return wrong_; }

 private:
  WorldShm* shm_;
  uint32_t self_;
  uint64_t wrong_ = 0;
  uint32_t last_epoch_[kRanks] = {};
  uint64_t written_[kRanks] = {};
};

class AccessStress : public ::testing::TestWithParam<World> {};

TEST_P(AccessStress, NobodyIsInsideWhileMemoryIsClosed) {
  SharedMemory memory(sizeof(WorldShm));
  const uint64_t openings = kOpenings * stress_factor();
  run_ranks(
      GetParam(), kRanks,
      [&](TestBootstrap& world) {
        auto* shm = reinterpret_cast<WorldShm*>(memory.view(GetParam()));
        const auto self = static_cast<uint32_t>(world.rank());
        Visitor me(shm, self);
        me.change();
        ASSERT_TRUE(world.barrier().ok());
        uint64_t granted = 0;
        uint64_t visits = 0;
        for (uint64_t opening = 0; opening < openings; ++opening) {
          for (uint32_t k = 0; k < 50; ++k) granted += me.visit((self + 1 + k % (kRanks - 1)) % kRanks) ? 1 : 0;
          visits += 50;
          me.change();
          os::yield_cpu();  // to be found open by those that run next
        }
        shm->ended.fetch_add_relaxed(1);
        while (shm->ended.load_relaxed() != kRanks) me.visit((self + 1) % kRanks);
        EXPECT_EQ(me.wrong(), 0u);
        EXPECT_GT(granted, visits / 100) << "the test tests little";
      },
      stress_options());
}

INSTANTIATE_TEST_SUITE_P(All, AccessStress, ::testing::Values(World::kThreads, World::kProcesses), world_name);

}  // namespace
}  // namespace zh::test
