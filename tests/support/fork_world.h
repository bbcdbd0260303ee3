// Ranks for tests: N threads of one process or N forked processes, with a collective between them (node::Bootstrap).
// Used by the tests of node, p2p, engine and everything above. A rank that fails, dies or hangs fails the test; the
// others are released from their collectives with an error instead of hanging.
// label threads: /threads
// label processes: /processes
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
#include <memory>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/atomic.h"
#include "node/node.h"
#include "os/clock.h"
#include "os/futex.h"
#include "os/process.h"
#include "os/vm.h"

namespace zh::test {

enum class World { kThreads, kProcesses };
inline const char* to_string(World kind) { return kind == World::kThreads ? "threads" : "processes"; }
/// For INSTANTIATE_TEST_SUITE_P: names the instance.
inline std::string world_name(const ::testing::TestParamInfo<World>& info) { return to_string(info.param); }

/// Sanitizers look at what a path does; more ranks on the same path take longer and show them nothing new.
#ifdef ZH_SANITIZE
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

/// A barrier of some ranks.
/// Writers: all of these. Readers: they. Invariant: `arrived` is less than how many they are. Wrap: `generation` may
/// wrap, only equality is used. Crash: as WorldShm.
struct BarrierShm {
  Atomic<uint32_t> arrived;
  Atomic<uint32_t> generation;
};

/// What the ranks of a test world share: barriers and an exchange area, anonymous shared memory.
/// Writers: every rank, its own slot of `data` between two barriers; `broken` by anyone. Readers: all.
/// Invariant: none. Wrap: none. Crash: the parent (or the rank's thread wrapper) sets `broken`, which ends every wait.
struct WorldShm {
  static constexpr size_t kParts = 500;
  BarrierShm all;
  Atomic<uint32_t> broken;
  uint32_t n;
  BarrierShm parts[kParts];  ///< by the first rank of a part
  // The exchange area follows at kDataOffset.
};
constexpr size_t kDataOffset = 4096;
static_assert(sizeof(WorldShm) <= kDataOffset);
constexpr size_t kDataBytes = size_t{64} << 20;

class TestBootstrap final : public node::Bootstrap {
 public:
  TestBootstrap(WorldShm* world, int rank) : world_(world), meeting_(&world->all), rank_(rank), self_(rank) {
    for (int r = 0; r < static_cast<int>(world->n); ++r) ranks_.push_back(r);
  }
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(ranks_.size()); }

  Status allgather(const void* in, size_t bytes, void* out) override {
    ++allgathers_;
    gathered_bytes_ += bytes;
    return exchange(in, bytes, out);
  }

  Status least(std::span<uint64_t> values) override {
    ++reductions_;
    std::vector<uint64_t> all(values.size() * ranks_.size());
    if (Status s = exchange(values.data(), values.size_bytes(), all.data()); !s.ok()) return s;
    for (size_t i = 0; i < all.size(); ++i) {
      uint64_t& value = values[i % values.size()];
      const bool less = takes_for_signed_ ? static_cast<int64_t>(all[i]) < static_cast<int64_t>(value) : all[i] < value;
      if (less) value = all[i];
    }
    return kOk;
  }
  /// From now on least() orders as MPICH 4.0 does.
  void take_for_signed() { takes_for_signed_ = true; }

  Status among(std::span<const int> ranks, std::unique_ptr<node::Bootstrap>* out) override {
    ++splits_;
    if (size() > static_cast<int>(WorldShm::kParts)) return Bootstrap::among(ranks, out);
    const auto place = std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin();
    auto part = std::make_unique<TestBootstrap>(world_, rank_);
    part->meeting_ = &world_->parts[ranks.front()];
    part->ranks_.assign(ranks.begin(), ranks.end());
    part->rank_ = static_cast<int>(place);
    *out = std::move(part);
    return kOk;
  }

  /// All ranks meet; an error once a rank of the world has died or failed.
  Status barrier() {
    BarrierShm& meeting = *meeting_;
    const uint32_t generation = meeting.generation.load_acquire();    // W1 -> W1: everything before the last arrival
    if (meeting.arrived.fetch_add_acq_rel(1) + 1 == ranks_.size()) {  // W2 -> W2: slots written before arriving
      meeting.arrived.store_relaxed(0);
      meeting.generation.store_release(generation + 1);  // W1 -> W1
      os::futex_wake(meeting.generation, os::kWakeAll);
      return kOk;
    }
    while (meeting.generation.load_acquire() == generation) {  // W1 -> W1
      if (world_->broken.load_acquire() != 0) {                // W3 -> W3: pairs with mark_broken
        return {Code::kPeerDead, "a rank of the test world has ended"};
      }
      os::futex_wait(meeting.generation, generation, 50'000'000);
    }
    return kOk;
  }

  /// How often this rank has been in an allgather of the whole world, with how many bytes in all; in a reduction; in a
  /// call of among().
  [[nodiscard]] int allgathers() const { return allgathers_; }
  [[nodiscard]] size_t gathered_bytes() const { return gathered_bytes_; }
  [[nodiscard]] int reductions() const { return reductions_; }
  [[nodiscard]] int splits() const { return splits_; }

 private:
  Status exchange(const void* in, size_t bytes, void* out) {
    const size_t piece = kDataBytes / world_->n;  // large contributions go in pieces
    size_t at = 0;
    do {
      const size_t n = std::min(piece, bytes - at);
      std::memcpy(slot(self_, piece), static_cast<const std::byte*>(in) + at, n);
      if (Status s = barrier(); !s.ok()) return s;
      for (size_t i = 0; i < ranks_.size(); ++i) {
        std::memcpy(static_cast<std::byte*>(out) + i * bytes + at, slot(ranks_[i], piece), n);
      }
      if (Status s = barrier(); !s.ok()) return s;
      at += n;
    } while (at < bytes);
    return kOk;
  }
  [[nodiscard]] std::byte* slot(int rank, size_t piece) const {
    return reinterpret_cast<std::byte*>(world_) + kDataOffset + static_cast<size_t>(rank) * piece;
  }

  WorldShm* world_;
  BarrierShm* meeting_;
  std::vector<int> ranks_;  ///< of the world, by rank of this
  int rank_;                ///< among them
  int self_;                ///< in the world
  int allgathers_ = 0;
  size_t gathered_bytes_ = 0;
  int reductions_ = 0;
  int splits_ = 0;
  bool takes_for_signed_ = false;
};

using RankBody = std::function<void(TestBootstrap& world)>;

struct WorldOptions {
  int timeout_s = 120;  ///< then every rank is killed (threads: the whole test process aborts) and the test fails
  int may_die = -1;     ///< processes only: this rank is expected to end by a signal
};

namespace detail {

inline void mark_broken(WorldShm* world) {
  world->broken.store_release(1);  // W3 -> W3
  os::futex_wake(world->all.generation, os::kWakeAll);
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
      os::close_fd(c.fd);
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
