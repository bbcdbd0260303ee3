// fork(): the child sees the memory as it was, neither side the other's writes, and nothing of other threads is lost.
// label not-emulated: ForkClients|ForkHabit|Ways/Forks
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <vector>

#include "heap_support.h"

namespace zh::heap::test {
namespace {

using Protection = Heap::Protection;

constexpr size_t kLittle = 1 << 20;
constexpr size_t kMuch = 16 << 20;

/// Alone, and with another thread beside.
class Forks : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr size_t n() { return kMuch; }
  void SetUp() override {
    if (GetParam()) beside.emplace_back(std::make_unique<Beside>());
  }
  std::vector<std::unique_ptr<Beside>> beside;
  Heap& heap = fresh_heap();
  std::byte* const p = shared(heap, n(), 1);
};

TEST_P(Forks, BothSidesHaveTheirOwn) {
  EXPECT_TRUE(in_fork(heap, [&] {
    if (!holds(p, n(), 1)) return false;
    std::memset(p, 2, n());
    return holds(p, n(), 2) && !heap.touches(p - 1, 1) && heap.declined() != nullptr;
  }));
  EXPECT_TRUE(holds(p, n(), 1));
  EXPECT_EQ(heap.stats().forks, 1U);
  EXPECT_EQ(heap.stats().forks_copied, 0U);
  EXPECT_EQ(heap.stats().shared_bytes, 0U);
  EXPECT_EQ(heap.declined(), nullptr);
}

TEST_P(Forks, TheChildHasNoDescriptorOfTheParentsMemory) {
  SharedPlace place;
  ASSERT_TRUE(heap.locate(p, n(), &place));
  const int fd = heap.descriptor(place.region);
  EXPECT_TRUE(in_fork(heap, [fd] { return fcntl(fd, F_GETFD) < 0; }));
  EXPECT_GE(fcntl(fd, F_GETFD), 0);
}

/// A child that lives until it is told to end; it says whether it still sees ones.
class Living {
 public:
  template <typename Begin>
  Living(Heap& of, const std::byte* p, size_t n, Begin&& begin) {
    EXPECT_EQ(pipe(go_.data()), 0);
    pid_ = fork_heap(of);
    if (pid_ != 0) return;
    dup2(go_[0], 0);
    begin();
    char byte = 0;
    (void)!read(0, &byte, 1);
    _exit(holds(p, n, 1) ? 0 : 1);
  }
  bool ends_well() {
    (void)!write(go_[1], "x", 1);
    return ended_well(pid_);
  }

 private:
  std::array<int, 2> go_{};
  pid_t pid_ = 0;
};

TEST_P(Forks, WhatTheParentWritesLaterIsNotSeen) {
  Living child(heap, p, n(), [] {});
  std::memset(p, 2, n() / 2);
  EXPECT_EQ(heap.share(p, n()), Sharing::kNot) << "the child may still see it";
  std::memset(p, 3, n() / 4);
  EXPECT_TRUE(child.ends_well());
  EXPECT_EQ(heap.share(p, n()), Sharing::kMapped) << heap.stats().declined_why;
  EXPECT_TRUE(holds(p, n() / 4, 3) && holds(p + n() / 4, n() / 4, 2) && holds(p + n() / 2, n() / 2, 1));
}

TEST_P(Forks, AChildThatClosesAllDescriptorsStillHasItsOwn) {
  std::array<int, 2> closed{};
  ASSERT_EQ(pipe(closed.data()), 0);
  Living child(heap, p, n(), [] {
    for (int fd = 1; fd < 1024; ++fd) close(fd);
  });
  close(closed[1]);
  char byte = 0;
  EXPECT_EQ(read(closed[0], &byte, 1), 0) << "the child has closed its end";
  EXPECT_EQ(heap.share(p, n()), Sharing::kNot);
  std::memset(p, 4, n());
  EXPECT_TRUE(child.ends_well());
  EXPECT_EQ(heap.share(p, n()), Sharing::kMapped);
  EXPECT_TRUE(holds(p, n(), 4));
}

TEST_P(Forks, ASecondChildSeesWhatTheParentHasOnlyReadSince) {
  EXPECT_TRUE(in_fork(heap, [&] { return holds(p, n(), 1); }));
  std::byte* other = shared(heap, kLittle, 1);  // looks whether the first child has ended
  Living child(heap, p, n(), [] {});
  EXPECT_EQ(heap.share(p, n()), Sharing::kNot);
  std::memset(p, 5, n());
  std::memset(other, 5, kLittle);
  EXPECT_TRUE(child.ends_well());
  EXPECT_EQ(heap.share(p, n()), Sharing::kMapped);
  EXPECT_TRUE(holds(p, n(), 5));
}

TEST_P(Forks, EveryChildHasItsOwnThoughNothingIsSharedAnyMore) {
  Living first(heap, p, n(), [] {});
  Living second(heap, p, n(), [] {});  // the first fork has left nothing that is shared
  EXPECT_TRUE(first.ends_well());
  EXPECT_EQ(heap.share(p, n()), Sharing::kNot) << "the second one may still see it";
  std::memset(p, 6, n());
  EXPECT_TRUE(second.ends_well());
  EXPECT_EQ(heap.share(p, n()), Sharing::kMapped);
}

TEST_P(Forks, AChildThatLivesOnKeepsNoMoreThanABound) {
  SharedPlace place;
  ASSERT_TRUE(heap.locate(p, n(), &place));
  Living child(heap, p, n(), [] {});
  constexpr size_t kEach = 16 << 20;
  for (int i = 0; i < 20; ++i) {
    std::byte* q = shared(heap, kEach, 1);
    EXPECT_TRUE(in_fork(heap, [&] { return holds(q, kEach, 1); }));
    EXPECT_TRUE(heap.replace(q, kEach, [&] { return munmap(q, kEach) == 0; }));
  }
  struct stat info {};
  fstat(heap.descriptor(place.region), &info);
  EXPECT_LT(static_cast<size_t>(info.st_blocks) * 512, n() + 7 * kEach);
  EXPECT_TRUE(child.ends_well());
}

TEST_P(Forks, ARefusedExchangeLosesNothing) {
  EXPECT_TRUE(in_fork(heap, [&] { return holds(p, n(), 1); }));
  // No mapping can be made any more, as near vm.max_map_count.
  EXPECT_TRUE(in_process([&] {
    rlimit limit{1 << 20, RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &limit);
    return heap.share(p, n()) != Sharing::kMapped && holds(p, n(), 1);
  }));
  EXPECT_TRUE(holds(p, n(), 1));
}

TEST_P(Forks, WhatHasLeftMayBeProtected) {
  for (const bool readable : {false, true}) {
    Heap& own = fresh_heap();
    std::byte* q = shared(own, n(), 1);
    EXPECT_TRUE(in_fork(own, [&] { return holds(q, n(), 1); }));
    own.protect(q + kPage, 2 * kPage, readable ? Protection::kRead : Protection::kNone);
    ASSERT_EQ(mprotect(q + kPage, 2 * kPage, readable ? PROT_READ : PROT_NONE), 0);
    EXPECT_TRUE(own.guarded(q, n()));
    EXPECT_TRUE(own.come_back(q, n()));
    EXPECT_EQ(mapping_at(q + kPage).readable, readable);
    EXPECT_FALSE(mapping_at(q + kPage).writable);
    EXPECT_EQ(mapping_at(q + kPage).inode, 0U);
    ASSERT_EQ(mprotect(q, n(), PROT_READ | PROT_WRITE), 0);
    EXPECT_TRUE(holds(q, n(), 1));
  }
}

TEST_P(Forks, WhatAChildSeesOfFreedMemoryGoesWithTheChild) {
  SharedPlace place;
  ASSERT_TRUE(heap.locate(p, n(), &place));
  const auto file_bytes = [&] {
    struct stat info {};
    fstat(heap.descriptor(place.region), &info);
    return static_cast<uint64_t>(info.st_blocks) * 512;
  };
  EXPECT_EQ(file_bytes(), n());
  Living child(heap, p, n(), [] {});
  EXPECT_TRUE(heap.replace(p + kPage, kLittle - kPage, [&] { return munmap(p + kPage, kLittle - kPage) == 0; }));
  EXPECT_EQ(file_bytes(), n());
  EXPECT_TRUE(child.ends_well());
  shared(heap, kLittle, 1);
  EXPECT_EQ(file_bytes(), n() - (kLittle - kPage) + kLittle);
  EXPECT_EQ(heap.share(p, kPage), Sharing::kMapped);
}

TEST_P(Forks, AChildThatRunsAnotherProgramHoldsNothing) {
  const pid_t pid = fork_heap(heap);
  if (pid == 0) {
    execl("/bin/sleep", "sleep", "20", static_cast<char*>(nullptr));
    _exit(1);
  }
  Sharing again = Sharing::kNot;
  for (int i = 0; i < 2000 && again != Sharing::kMapped; ++i) {
    usleep(5000);
    again = heap.share(p, n());
  }
  EXPECT_EQ(again, Sharing::kMapped);
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  EXPECT_TRUE(holds(p, n(), 1));
}

TEST_P(Forks, WipedPagesAreZeroInTheChild) {
  heap.mark(Bit::kWiped, p + kPage, 2 * kPage, true);
  heap.mark(Bit::kWiped, p + 2 * kPage, kPage, false);
  const auto wiped = [&] {
    return holds(p, kPage, 1) && holds(p + kPage, kPage, 0) && holds(p + 2 * kPage, n() - 2 * kPage, 1);
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(in_fork(heap, wiped));
    EXPECT_TRUE(holds(p, n(), 1));
  }
}

TEST_P(Forks, PagesThatLeftBeforeAreWipedToo) {
  EXPECT_TRUE(in_fork(heap, [&] { return holds(p, n(), 1); }));
  if (is_plain(p)) return;  // then the kernel does it
  heap.mark(Bit::kWiped, p + kPage, kPage, true);
  EXPECT_TRUE(in_fork(heap, [&] {
    return holds(p, kPage, 1) && holds(p + kPage, kPage, 0) && holds(p + 2 * kPage, n() - 2 * kPage, 1);
  }));
  EXPECT_TRUE(holds(p, n(), 1));
}

TEST_P(Forks, HiddenPagesAreMissingInTheChild) {
  heap.mark(Bit::kHidden, p + kPage, 2 * kPage, true);
  heap.mark(Bit::kHidden, p + 2 * kPage, kPage, false);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(in_fork(heap, [&] {
      unsigned char in_core = 0;
      return holds(p, kPage, 1) && mincore(p + kPage, kPage, &in_core) != 0 && holds(p + 2 * kPage, n() - 2 * kPage, 1);
    }));
    EXPECT_TRUE(holds(p, n(), 1));
  }
}

TEST_P(Forks, ProtectedPagesStaySoOnBothSides) {
  heap.protect(p, kPage, Protection::kRead);
  ASSERT_EQ(mprotect(p, kPage, PROT_READ), 0);
  heap.protect(p + kPage, kPage, Protection::kNone);
  ASSERT_EQ(mprotect(p + kPage, kPage, PROT_NONE), 0);
  const auto as_before = [&] {
    const bool ok = mapping_at(p).readable && !mapping_at(p).writable && !mapping_at(p + kPage).readable &&
                    mapping_at(p + 2 * kPage).writable;
    return ok && mprotect(p, 2 * kPage, PROT_READ | PROT_WRITE) == 0 && holds(p, n(), 1);
  };
  EXPECT_TRUE(in_fork(heap, as_before));
  EXPECT_TRUE(as_before());
}

TEST_P(Forks, FreedBlocksThatAreKeptAreNobodysInTheChild) {
  static std::byte* block = nullptr;
  static size_t bytes = 0;
  Surroundings around;
  around.usable_bytes = [](void* at) { return at == block ? bytes : uint64_t{0}; };
  around.free_block = [](void*) {};
  Heap& own = fresh_heap(around);
  bytes = kLittle;
  block = shared(own, bytes, 1);
  std::byte* other = shared(own, n(), 2);
  ASSERT_TRUE(own.keep(block));
  EXPECT_TRUE(in_fork(own, [&] {
    std::memset(block, 5, bytes);
    return holds(other, n(), 2);
  }));
  EXPECT_TRUE(is_plain(block)) << "nobody wants what is in them";
  EXPECT_EQ(own.reuse(bytes), block);
  std::memset(block, 6, bytes);
  EXPECT_TRUE(holds(other, n(), 2));
}

INSTANTIATE_TEST_SUITE_P(Ways, Forks, ::testing::Bool(),
                         [](const auto& way) { return std::string(way.param ? "BesideAThread" : "Alone"); });

class CountingClient final : public Client {
 public:
  void keep_peers_away() override { ++away; }
  void let_peers_in() override {
    --away;
    ++ended;
  }
  void in_child() override { child = true; }
  int away = 0;
  int ended = 0;
  bool child = false;
};

TEST(ForkClients, AreToldBeforeAndAfter) {
  Heap& heap = fresh_heap();
  CountingClient client;
  ASSERT_TRUE(heap.add_client(&client));
  EXPECT_TRUE(in_fork(heap, [&] { return client.child && client.away == 0; }));
  shared(heap, kLittle, 1);
  EXPECT_EQ(client.ended, 0) << "nothing goes, so nobody is kept away";
  EXPECT_TRUE(in_fork(heap, [&] { return client.child && client.away == 1; }));
  EXPECT_EQ(client.away, 0);
  EXPECT_EQ(client.ended, 1);
  EXPECT_FALSE(client.child);
  heap.remove_client(&client);
  shared(heap, kMuch, 1);
  EXPECT_TRUE(in_fork(heap, [&] { return !client.child; }));
  EXPECT_EQ(client.ended, 1);
}

/// Shares a page of its own, as MPI_Alloc_mem's memory is shared.
class OwnerOfAPage final : public Client {
 public:
  OwnerOfAPage()
      : page_(static_cast<int*>(mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~OwnerOfAPage() { munmap(page_, kPage); }
  void keep_peers_away() override {}
  void let_peers_in() override {}
  void in_child() override { in_order = copied; }
  [[nodiscard]] bool has_memory() const override { return true; }
  void copy_in_child() override {
    usleep(20'000);  // what the parent writes meanwhile, it writes later
    const int value = *page_;
    copied = os::map_private_at(reinterpret_cast<std::byte*>(page_), kPage);
    *page_ = value;
  }
  [[nodiscard]] int& value() { return *page_; }
  bool copied = false;
  bool in_order = false;

 private:
  int* page_;
};

TEST(ForkClients, CopyTheirMemoryWhileTheParentWaits) {
  for (const uint64_t bytes : {uint64_t{0}, kLittle, kMuch}) {
    Heap& heap = fresh_heap();
    OwnerOfAPage client;
    ASSERT_TRUE(heap.add_client(&client));
    if (bytes != 0) shared(heap, bytes, 1);
    client.value() = 1;
    const pid_t pid = fork_heap(heap);
    if (pid == 0) {
      usleep(20'000);
      const bool own = client.in_order && client.value() == 1;
      client.value() = 3;
      _exit(own ? 0 : 1);
    }
    client.value() = 2;
    EXPECT_TRUE(ended_well(pid)) << bytes;
    EXPECT_EQ(client.value(), 2) << bytes;
    heap.remove_client(&client);
  }
}

TEST(ForkClients, AreToldWhenMemoryComesBack) {
  Heap& heap = fresh_heap();
  CountingClient client;
  ASSERT_TRUE(heap.add_client(&client));
  std::byte* p = shared(heap, kLittle, 1);
  heap.protect(p, kPage, Protection::kNone);
  EXPECT_EQ(client.ended, 1);
  heap.protect(p, kPage, Protection::kReadWrite);
  EXPECT_EQ(client.ended, 1) << "nothing to keep away from";
  EXPECT_TRUE(heap.come_back(p, kLittle));
  EXPECT_EQ(client.ended, 2);
  EXPECT_EQ(client.away, 0);
  heap.remove_client(&client);
}

TEST(ForkClients, SoManyAndNoMore) {
  Heap& heap = fresh_heap();
  std::vector<CountingClient> clients(65);
  for (size_t i = 0; i < 64; ++i) EXPECT_TRUE(heap.add_client(&clients[i]));
  EXPECT_FALSE(heap.add_client(&clients[64]));
  heap.remove_client(&clients[7]);
  EXPECT_TRUE(heap.add_client(&clients[64]));
}

TEST(ForkHabit, ABufferBecomesSharedAgainAfterEachFork) {
  Heap& heap = fresh_heap();
  std::byte* p = filled(kMuch, 1);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(heap.share(p, kMuch), Sharing::kMapped) << i;
    EXPECT_TRUE(in_fork(heap, [&] { return holds(p, kMuch, 1); }));
  }
  EXPECT_EQ(heap.declined(), nullptr);
  EXPECT_TRUE(holds(p, kMuch, 1));
}

TEST(ForkHabit, ChildrenOfChildrenHaveTheirOwn) {
  Heap& heap = fresh_heap();
  std::byte* p = shared(heap, kLittle, 1);
  EXPECT_TRUE(in_fork(heap, [&] {
    std::memset(p, 2, kLittle);
    const bool inner = in_fork(heap, [&] {
      const bool ok = holds(p, kLittle, 2);
      std::memset(p, 3, kLittle);
      return ok;
    });
    return inner && holds(p, kLittle, 2);
  }));
  EXPECT_TRUE(holds(p, kLittle, 1));
}

}  // namespace
}  // namespace zh::heap::test
