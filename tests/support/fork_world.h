// Ranks for tests: N threads of one process or N forked processes, with a collective between them (node::Bootstrap).
// Used by the tests of node, p2p, engine and everything above. A rank that fails, dies or hangs fails the test; the
// others are released from their collectives with an error instead of hanging.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "base/atomic.h"
#include "node/node.h"
#include "os/clock.h"
#include "os/futex.h"
#include "os/process.h"

namespace zh::test {

enum class World { kThreads, kProcesses };
inline const char* to_string(World kind) { return kind == World::kThreads ? "threads" : "processes"; }
/// For INSTANTIATE_TEST_SUITE_P: names the instance.
inline std::string world_name(const ::testing::TestParamInfo<World>& info) { return to_string(info.param); }

/// What the ranks of a test world share: a barrier and an exchange area, anonymous shared memory.
/// Writers: every rank, its own slot of `data` between two barriers; the barrier's words by all; `broken` by anyone.
/// Readers: all. Invariant: `arrived` < n. Wrap: `generation` may wrap, only equality is used.
/// Crash: the parent (or the rank's thread wrapper) sets `broken`, which ends every wait.
struct WorldShm {
  Atomic<uint32_t> arrived;
  Atomic<uint32_t> generation;
  Atomic<uint32_t> broken;
  uint32_t n;
  // The exchange area follows at kDataOffset.
};
constexpr size_t kDataOffset = 4096;
constexpr size_t kDataBytes = size_t{64} << 20;

class TestBootstrap final : public node::Bootstrap {
 public:
  TestBootstrap(WorldShm* world, int rank) : world_(world), rank_(rank) {}
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(world_->n); }

  Status allgather(const void* in, size_t bytes, void* out) override {
    ++allgathers_;
    const size_t piece = kDataBytes / world_->n;  // large contributions go in pieces
    size_t at = 0;
    do {
      const size_t n = std::min(piece, bytes - at);
      std::memcpy(slot(rank_, piece), static_cast<const std::byte*>(in) + at, n);
      if (Status s = barrier(); !s.ok()) return s;
      for (int r = 0; r < size(); ++r) {
        std::memcpy(static_cast<std::byte*>(out) + static_cast<size_t>(r) * bytes + at, slot(r, piece), n);
      }
      if (Status s = barrier(); !s.ok()) return s;
      at += n;
    } while (at < bytes);
    return kOk;
  }

  /// All ranks meet; an error once a rank of the world has died or failed.
  Status barrier() {
    const uint32_t generation =
        world_->generation.load_acquire();                        // W1 -> W1: everything before the last rank's arrival
    if (world_->arrived.fetch_add_acq_rel(1) + 1 == world_->n) {  // W2 -> W2: slots written before arriving
      world_->arrived.store_relaxed(0);
      world_->generation.store_release(generation + 1);  // W1 -> W1
      os::futex_wake(world_->generation, os::kWakeAll);
      return kOk;
    }
    while (world_->generation.load_acquire() == generation) {  // W1 -> W1
      if (world_->broken.load_acquire() != 0) {                // W3 -> W3: pairs with mark_broken
        return {Code::kPeerDead, "a rank of the test world has ended"};
      }
      os::futex_wait(world_->generation, generation, 50'000'000);
    }
    return kOk;
  }

  [[nodiscard]] int allgathers() const { return allgathers_; }

 private:
  [[nodiscard]] std::byte* slot(int rank, size_t piece) const {
    return reinterpret_cast<std::byte*>(world_) + kDataOffset + static_cast<size_t>(rank) * piece;
  }

  WorldShm* world_;
  int rank_;
  int allgathers_ = 0;
};

using RankBody = std::function<void(TestBootstrap& world)>;

struct WorldOptions {
  int timeout_s = 120;  ///< then every rank is killed (threads: the whole test process aborts) and the test fails
  int may_die = -1;     ///< processes only: this rank is expected to end by a signal
};

namespace detail {

inline void mark_broken(WorldShm* world) {
  world->broken.store_release(1);  // W3 -> W3
  os::futex_wake(world->generation, os::kWakeAll);
}

class SharedWorld {
 public:
  explicit SharedWorld(int n) {
    void* p = mmap(nullptr, kDataOffset + kDataBytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) std::abort();
    world_ = new (p) WorldShm{};
    world_->n = static_cast<uint32_t>(n);
  }
  ~SharedWorld() { munmap(world_, kDataOffset + kDataBytes); }
  SharedWorld(const SharedWorld&) = delete;
  SharedWorld& operator=(const SharedWorld&) = delete;
  [[nodiscard]] WorldShm* get() const { return world_; }

 private:
  WorldShm* world_;
};

inline void run_threads(WorldShm* world, int n, const RankBody& body, const WorldOptions& options) {
  Atomic<uint32_t> ended{0};
  // Threads cannot be killed, so a hang ends the whole test process, loudly.
  std::thread watchdog([&] {
    const uint64_t deadline = os::now_ns() + static_cast<uint64_t>(options.timeout_s) * 1'000'000'000u;
    for (;;) {
      const uint32_t seen = ended.load_acquire();  // W4 -> W4: a thread's end
      if (seen == static_cast<uint32_t>(n)) return;
      const uint64_t now = os::now_ns();
      if (now >= deadline) {
        std::fprintf(stderr, "watchdog: %d rank threads still run after %d s\n", n - static_cast<int>(seen),
                     options.timeout_s);
        std::abort();
      }
      os::futex_wait(ended, seen, deadline - now);
    }
  });
  std::vector<std::thread> ranks;
  for (int r = 0; r < n; ++r) {
    ranks.emplace_back([&, r] {
      TestBootstrap bootstrap(world, r);
      body(bootstrap);
      if (::testing::Test::HasFatalFailure()) mark_broken(world);
      ended.fetch_add_acq_rel(1);  // W4 -> W4
      os::futex_wake(ended, os::kWakeAll);
    });
  }
  for (std::thread& t : ranks) t.join();
  watchdog.join();
}

[[noreturn]] inline void rank_process(WorldShm* world, int rank, const RankBody& body) {
  int code = 0;
  {
    TestBootstrap bootstrap(world, rank);
    body(bootstrap);
    if (::testing::Test::HasFailure()) code = 1;
  }
  std::fflush(stdout);
  std::fflush(stderr);
  _exit(code);
}

inline void run_processes(WorldShm* world, int n, const RankBody& body, const WorldOptions& options) {
  std::fflush(stdout);
  std::fflush(stderr);
  struct Child {
    pid_t pid;
    int fd;
  };
  std::vector<Child> children;
  const pid_t parent = getpid();
  for (int r = 0; r < n; ++r) {
    const pid_t pid = fork();
    if (pid == 0) {
      // A parent that is itself killed (ctest's time limit) leaves no ranks behind.
      os::die_with_parent(parent);
      rank_process(world, r, body);
    }
    if (pid < 0) {
      mark_broken(world);
      for (const Child& c : children) kill(c.pid, SIGKILL);
      for (const Child& c : children) waitpid(c.pid, nullptr, 0);
      FAIL() << "fork of rank " << r << ": " << std::strerror(errno);
    }
    children.push_back({pid, os::open_pidfd(pid)});
  }
  const uint64_t deadline = os::now_ns() + static_cast<uint64_t>(options.timeout_s) * 1'000'000'000u;
  int left = n;
  while (left > 0) {
    std::vector<pollfd> polled;
    bool all_have_fd = true;
    for (const Child& c : children) {
      if (c.pid > 0) polled.push_back({c.fd, POLLIN, 0});
      if (c.pid > 0 && c.fd < 0) all_have_fd = false;
    }
    const uint64_t now = os::now_ns();
    if (now >= deadline) {
      ADD_FAILURE() << "watchdog: " << left << " of " << n << " rank processes still run after " << options.timeout_s
                    << " s";
      for (const Child& c : children) {
        if (c.pid > 0) kill(c.pid, SIGKILL);
      }
    }
    const int wait_ms = now >= deadline ? 1000 : static_cast<int>((deadline - now) / 1'000'000 + 1);
    poll(polled.data(), polled.size(), all_have_fd ? wait_ms : 20);
    for (int r = 0; r < n; ++r) {
      Child& c = children[static_cast<size_t>(r)];
      int status = 0;
      if (c.pid <= 0 || waitpid(c.pid, &status, WNOHANG) != c.pid) continue;
      os::close_descriptor(c.fd);
      c.pid = 0;
      --left;
      const bool fine = WIFEXITED(status) && WEXITSTATUS(status) == 0;
      if (fine) continue;
      mark_broken(world);
      if (WIFSIGNALED(status) && r == options.may_die) continue;
      if (WIFSIGNALED(status)) {
        ADD_FAILURE() << "rank " << r << " was ended by signal " << WTERMSIG(status);
      } else {
        ADD_FAILURE() << "rank " << r << " failed (exit code " << WEXITSTATUS(status) << "); its output is above";
      }
    }
  }
}

}  // namespace detail

/// Runs body on n ranks at once and returns when all have ended. EXPECT_* and ASSERT_* work inside the body.
inline void run_ranks(World kind, int n, const RankBody& body, const WorldOptions& options = {}) {
  detail::SharedWorld world(n);
  if (kind == World::kThreads) {
    detail::run_threads(world.get(), n, body, options);
  } else {
    detail::run_processes(world.get(), n, body, options);
  }
}

}  // namespace zh::test
