// CMA between real processes: contiguous and strided sides, partial progress, errors.
// label one-thread: [.](Cma|Transfer)[.]
#include "copy/cma.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "os/process.h"
#include "unit/copy/layout_support.h"

namespace zh::copy {
namespace {

/// A child that sleeps until it is destroyed; it has this process's memory as it was at the fork.
class Sleeper {
 public:
  Sleeper() {
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      os::die_with_parent(parent);
      for (;;) pause();
    }
  }
  ~Sleeper() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

class Cma : public testing::Test {
 protected:
  void SetUp() override {
    uint64_t here = 1;
    uint64_t there = 2;
    uint64_t done = 0;
    Sleeper peer;
    const Status status = cma_read(peer.pid(), {reinterpret_cast<std::byte*>(&here), 8, nullptr},
                                   {reinterpret_cast<std::byte*>(&there), 8, nullptr}, 0, 8, &done);
    if (!status.ok()) GTEST_SKIP() << "process_vm_readv is not allowed here, errno " << status.error();
  }
};

TEST_F(Cma, ReadsALongContiguousBuffer) {
  std::vector<std::byte> source(3 << 20);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 7);
  const auto original = source;
  Sleeper peer;
  source.assign(source.size(), std::byte{0});  // the peer keeps the original
  std::vector<std::byte> target(original.size());
  uint64_t done = 0;
  ASSERT_TRUE(cma_read(peer.pid(), {target.data(), target.size(), nullptr}, {source.data(), source.size(), nullptr}, 5,
                       target.size() - 9, &done)
                  .ok());
  EXPECT_EQ(done, target.size() - 9);
  EXPECT_EQ(std::memcmp(target.data() + 5, original.data() + 5, target.size() - 9), 0);
  EXPECT_EQ(target[4], std::byte{0});
  EXPECT_EQ(target[target.size() - 4], std::byte{0});
}

TEST_F(Cma, MovesBetweenAnyTwoLayoutsInBothDirections) {
  std::mt19937_64 random(21);
  for (int round = 0; round < 60; ++round) {
    const test::Sample near = test::random_sample(random);
    const test::Sample away = test::random_sample(random);
    const uint64_t bytes = std::min(near.bytes.size(), away.bytes.size()) * 3;
    constexpr size_t kArena = 1 << 20;
    std::vector<std::byte> local(kArena);
    auto* shared =
        static_cast<std::byte*>(mmap(nullptr, kArena, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(shared, MAP_FAILED);
    for (size_t i = 0; i < kArena; ++i) {
      local[i] = static_cast<std::byte>(random());
      shared[i] = static_cast<std::byte>(random());
    }
    const OwnedLayout near_layout = make_layout(near.blocks, near.extent);
    const OwnedLayout away_layout = make_layout(away.blocks, away.extent);
    const Buffer here{local.data() + kArena / 2, bytes, near_layout.get()};
    const Buffer there{shared + kArena / 2, bytes, away_layout.get()};
    const uint64_t from = random() % bytes;
    const uint64_t n = random() % (bytes - from + 1);
    Sleeper peer;
    uint64_t done = 0;
    if (round % 2 == 0) {
      auto want = local;
      for (uint64_t k = from; k < from + n; ++k) {
        want[kArena / 2 + static_cast<size_t>(near.position(k))] = there.base[away.position(k)];
      }
      ASSERT_TRUE(cma_read(peer.pid(), here, there, from, n, &done).ok());
      ASSERT_EQ(local, want);
    } else {
      std::vector<std::byte> want(shared, shared + kArena);
      for (uint64_t k = from; k < from + n; ++k) {
        want[kArena / 2 + static_cast<size_t>(away.position(k))] = here.base[near.position(k)];
      }
      ASSERT_TRUE(cma_write(peer.pid(), here, there, from, n, &done).ok());
      ASSERT_EQ(std::memcmp(shared, want.data(), kArena), 0);
    }
    ASSERT_EQ(done, n);
    munmap(shared, kArena);
  }
}

TEST_F(Cma, AHoleInTheRemoteBufferReportsTheProgressBeforeIt) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto* remote =
      static_cast<std::byte*>(mmap(nullptr, 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(remote, MAP_FAILED);
  std::memset(remote, 0x33, 8 * page);
  ASSERT_EQ(mprotect(remote + 5 * page, page, PROT_NONE), 0);
  Sleeper peer;
  std::vector<std::byte> target(8 * page);
  uint64_t done = 1;
  const Status status =
      cma_read(peer.pid(), {target.data(), 8 * page, nullptr}, {remote, 8 * page, nullptr}, 0, 8 * page, &done);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.error(), EFAULT);
  EXPECT_EQ(done, 5 * page);
  EXPECT_EQ(target[5 * page - 1], std::byte{0x33});
  EXPECT_EQ(target[5 * page], std::byte{0});
  munmap(remote, 8 * page);
}

TEST_F(Cma, ADeadPeerIsNamedAsDead) {
  pid_t pid = 0;
  {
    Sleeper peer;
    pid = peer.pid();
  }
  std::byte byte{};
  uint64_t done = 1;
  const Status status = cma_read(pid, {&byte, 1, nullptr}, {&byte, 1, nullptr}, 0, 1, &done);
  EXPECT_EQ(status.code(), Code::kPeerDead);
  EXPECT_EQ(done, 0U);
}

TEST_F(Cma, NothingToMoveIsNoError) {
  uint64_t done = 1;
  EXPECT_TRUE(cma_read(getpid(), {}, {}, 0, 0, &done).ok());
  EXPECT_EQ(done, 0U);
}

// Any call of the kernel's kind: one that moves a little at a time, and ends early in the end.
TEST(Transfer, GoesOnWhereACallEndedUntilOneFails) {
  const OwnedLayout layout = make_layout({{0, 8}, {16, 24}}, 48);
  constexpr uint64_t kBytes = 32 * 4000;
  std::vector<std::byte> mine(kBytes), theirs(48 * 4000);
  for (size_t i = 0; i < theirs.size(); ++i) theirs[i] = static_cast<std::byte>(i * 5 + i / 256);
  for (const uint64_t most : {kBytes, uint64_t{50'000}}) {
    uint64_t left = most;
    const auto move = [&](const iovec* here, size_t n_here, const iovec* there, size_t n_there) -> ssize_t {
      EXPECT_LE(n_there, 1024U);
      uint64_t listed = 0;
      for (size_t k = 0; k < n_there; ++k) listed += there[k].iov_len;
      EXPECT_EQ(n_here, 1U);
      EXPECT_EQ(here[0].iov_len, listed);
      const uint64_t n = std::min({listed, uint64_t{1000}, left});
      if (n == 0) return -ENOENT;
      auto* to = static_cast<std::byte*>(here[0].iov_base);
      for (uint64_t done = 0; done < n; ++there) {
        const uint64_t run = std::min(n - done, there->iov_len);
        std::memcpy(to + done, there->iov_base, run);
        done += run;
      }
      left -= n;
      return static_cast<ssize_t>(n);
    };
    uint64_t done = 0;
    const Status status = transfer(move, "a test", {mine.data(), kBytes, nullptr},
                                   {theirs.data(), kBytes, layout.get()}, 0, kBytes, &done);
    EXPECT_EQ(done, most);
    EXPECT_EQ(status.error(), most == kBytes ? 0 : ENOENT);
    for (uint64_t k = 0; k < most; ++k) {
      const uint64_t in_element = k % 32;
      ASSERT_EQ(mine[k], theirs[k / 32 * 48 + in_element + (in_element < 8 ? 0 : 8)]) << k;
    }
  }
}

}  // namespace
}  // namespace zh::copy
