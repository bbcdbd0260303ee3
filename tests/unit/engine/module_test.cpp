// Messages that the kernel's module copies: with a fake one between threads, with /dev/zerohop, where that is, between
// processes.
// label not-emulated: Module(Alone)?[.].*/processes
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <memory>
#include <string>
#include <vector>

#include "copy/layout.h"
#include "engine_support.h"
#include "support/refused_call.h"

namespace zh::test {
namespace {

constexpr uint64_t kModuleLong = 1 << 20;

class Module : public ::testing::TestWithParam<World> {
 protected:
  /// Two ranks; rank 0 says when it goes on, rank 1 follows.
  void run(const EngineBody& body) {
    StormConfig config = config_in(GetParam());
    config.single_copy_min = 64 << 10;
    config.module_use = node::ModuleUse::kFirst;
    config.ablations.keep_copies = false;  // every message goes the module's way, however late its receiver looks
    if (GetParam() == World::kThreads) config.modules = &modules_;
    run_engine(2, config, [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
      if (config.modules == nullptr && r.node->module() == nullptr) GTEST_SKIP() << r.node->module_refusal();
      ASSERT_NE(r.node->module_member(1 - self), 0U) << r.node->how();
      body(world, r, self);
    });
  }
  /// Rank 0 sends `source`, rank 1 receives into `target`, which is posted first or last.
  static void pass(TestBootstrap& world, EngineRank& r, uint32_t self, const copy::Buffer& source,
                   const copy::Buffer& target, bool posted_first) {
    if (self == 0) {
      if (posted_first) {
        ASSERT_TRUE(world.barrier().ok());
      }
      SendArgs a = message_to(1, 0, 1, nullptr, 0);
      a.data = source;
      ASSERT_EQ(finish(*r.rank, r.rank->isend(a)).code, Code::kOk);
      if (!posted_first) {
        ASSERT_TRUE(world.barrier().ok());
      }
      return;
    }
    // The message is there, or its sender waits for the receive.
    if (!posted_first) compute(1'000'000);
    RecvArgs a = message_from(0, 1, nullptr, 0);
    a.buffer = target;
    Request* const request = r.rank->irecv(a);
    if (posted_first) {
      ASSERT_TRUE(world.barrier().ok());
    }
    ASSERT_EQ(finish(*r.rank, request).bytes, source.bytes);
    if (!posted_first) {
      ASSERT_TRUE(world.barrier().ok());
    }
  }
  /// How many messages rank 0 has sent in a way.
  static uint64_t sent(const EngineRank& r, const std::string& way) {
    const std::string json = r.rank->stats_json();
    uint64_t n = 0;
    size_t at = json.find("\"" + way + "\":[");
    const size_t end = json.find(']', at);
    while ((at = json.find("\"messages\":", at)) < end) n += std::strtoull(json.c_str() + (at += 11), nullptr, 10);
    return n;
  }
  static std::vector<std::byte> content(uint64_t n, uint32_t seed) {
    std::vector<std::byte> data(n);
    for (uint64_t i = 0; i < n; ++i) data[i] = static_cast<std::byte>(i * 7 + (i >> 9) + seed);
    return data;
  }
  static copy::Buffer all_of(std::vector<std::byte>& data) { return {data.data(), data.size(), nullptr}; }

  FakeModules modules_;
};

TEST_P(Module, CopiesLongMessages) {
  run([](TestBootstrap& world, EngineRank& r, uint32_t self) {
    uint32_t messages = 0;
    for (const uint64_t n : {uint64_t{64} << 10, kModuleLong + 13, uint64_t{5} << 20}) {
      for (const bool posted_first : {false, true, true}) {
        std::vector<std::byte> source = content(n, ++messages);
        std::vector<std::byte> target(n);
        pass(world, r, self, all_of(source), all_of(target), posted_first);
        if (self == 1) {
          EXPECT_EQ(source, target) << n;
        }
      }
    }
    if (self == 0) {
      EXPECT_EQ(sent(r, "ko"), messages) << r.rank->stats_json();
    }
    EXPECT_EQ(sent(r, "cma"), 0U);
    EXPECT_EQ(stat(*r.rank, "single copy by receiver ended early"), ~uint64_t{0});
    EXPECT_EQ(stat(*r.rank, "single copy by sender ended early"), ~uint64_t{0});
  });
}

TEST_P(Module, CopiesWithGapsUnlessMostIsGap) {
  run([](TestBootstrap& world, EngineRank& r, uint32_t self) {
    for (const int64_t step : {192, 4096}) {
      const copy::OwnedLayout layout = copy::make_layout({{0, 64}}, step);
      constexpr uint64_t kBytes = 128 << 10;
      std::vector<std::byte> source = content(kBytes / 64 * static_cast<uint64_t>(step), 5);
      std::vector<std::byte> target(source.size());
      const copy::Buffer from{source.data(), kBytes, layout.get()};
      pass(world, r, self, from, {target.data(), kBytes, layout.get()}, true);
      for (uint64_t i = 0; self == 1 && i < source.size(); ++i) {
        const bool gap = i % static_cast<uint64_t>(step) >= 64;
        ASSERT_EQ(target[i], gap ? std::byte{0} : source[i]) << i;
      }
      if (self == 0) {
        EXPECT_EQ(sent(r, "ko"), 1U) << step;
      }
    }
  });
}

TEST_P(Module, SendsWhatMayNotBeWritten) {
  run([](TestBootstrap& world, EngineRank& r, uint32_t self) {
    void* const p = mmap(nullptr, kModuleLong, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(p, MAP_FAILED);
    std::memset(p, 0x5a, kModuleLong);
    ASSERT_EQ(mprotect(p, kModuleLong, PROT_READ), 0);
    std::vector<std::byte> target(kModuleLong);
    pass(world, r, self, {static_cast<std::byte*>(p), kModuleLong, nullptr}, all_of(target), true);
    if (self == 1) {
      EXPECT_EQ(target, std::vector<std::byte>(kModuleLong, std::byte{0x5a}));
    }
    if (self == 0) {
      EXPECT_EQ(sent(r, "ko"), 1U);
    }
    munmap(p, kModuleLong);
  });
}

// What is mapped anew at an address is not what was let in to there.
TEST_P(Module, FollowsMemoryThatComesAndGoes) {
  run([&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    void* place = nullptr;
    for (uint32_t k = 0; k < 5; ++k) {
      void* const p = mmap(place, kModuleLong, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | (place != nullptr ? MAP_FIXED : 0), -1, 0);
      ASSERT_NE(p, MAP_FAILED);
      modules_.revoke();
      place = p;
      const copy::Buffer buffer{static_cast<std::byte*>(p), kModuleLong, nullptr};
      const std::vector<std::byte> expected = content(kModuleLong, k);
      if (self == 0) std::memcpy(p, expected.data(), kModuleLong);
      ASSERT_TRUE(world.barrier().ok());
      pass(world, r, self, buffer, buffer, k % 2 == 0);
      ASSERT_EQ(std::memcmp(p, expected.data(), kModuleLong), 0) << k;
    }
    if (self == 0) {
      EXPECT_EQ(sent(r, "ko"), 5U);
    }
    munmap(place, kModuleLong);
  });
}

/// Ranks that refuse CMA to themselves, as under a container's filter: none, the second one, both.
class ModuleAlone : public Module {};

TEST_P(ModuleAlone, ServesWhoIsRefused) {
  for (const uint32_t first : {2U, 1U, 0U}) {
    run_ranks(GetParam(), 2, [&](TestBootstrap& world) {
      const auto is_refused = [&](uint32_t rank) { return rank >= first; };
      for (const unsigned call : {SYS_process_vm_readv, SYS_process_vm_writev}) {
        if (is_refused(static_cast<uint32_t>(world.rank()))) refuse_call(call, SECCOMP_RET_ERRNO | EPERM);
      }
      StormConfig config = config_in(GetParam());
      config.single_copy_min = 64 << 10;
      EngineRank r = make_rank(world, config);
      ASSERT_NE(r.rank, nullptr);
      const uint32_t self = r.node->self();
      if (first < 2 && r.node->module() == nullptr) GTEST_SKIP() << r.node->module_refusal();
      EXPECT_EQ(r.node->module() != nullptr, first < 2);
      EXPECT_EQ(r.node->lets_in(1 - self), is_refused(1 - self));
      EXPECT_EQ(r.node->module_member(1 - self) != 0, is_refused(self));
      for (const bool posted_first : {false, true}) {
        std::vector<std::byte> source = content(kModuleLong, 9);
        std::vector<std::byte> target(kModuleLong);
        pass(world, r, self, all_of(source), all_of(target), posted_first);
        if (self == 1) {
          EXPECT_EQ(source, target);
        }
      }
      EXPECT_EQ(stat(*r.rank, "single copy by receiver ended early"), ~uint64_t{0});
      EXPECT_EQ(stat(*r.rank, "single copy by sender ended early"), ~uint64_t{0});
      if (self == 0) {
        EXPECT_EQ(sent(r, "cma") + sent(r, "ko"), 2U) << r.rank->stats_json();
        EXPECT_EQ(sent(r, "ko") == 2, first == 0);
      }
      ASSERT_TRUE(world.barrier().ok());
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Processes, ModuleAlone, ::testing::Values(World::kProcesses), world_name);
INSTANTIATE_TEST_SUITE_P(Worlds, Module, ::testing::Values(World::kThreads, World::kProcesses), world_name);

using FakeModule = Module;

TEST_P(FakeModule, WhatCannotBeLetInGoesByCells) {
  run([&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    modules_.refusal.store_relaxed(ENOMEM);
    ASSERT_TRUE(world.barrier().ok());
    for (const bool posted_first : {false, true}) {
      std::vector<std::byte> source = content(kModuleLong, 3);
      std::vector<std::byte> target(kModuleLong);
      pass(world, r, self, all_of(source), all_of(target), posted_first);
      if (self == 1) {
        EXPECT_EQ(source, target);
      }
    }
    ASSERT_TRUE(world.barrier().ok());
    modules_.refusal.store_relaxed(0);
    ASSERT_TRUE(world.barrier().ok());
    std::vector<std::byte> data = content(kModuleLong, 4);
    pass(world, r, self, all_of(data), all_of(data), true);
    if (self == 0) {
      EXPECT_EQ(sent(r, "cells") * 10 + sent(r, "ko"), 21U);
    }
    EXPECT_EQ(stat(*r.rank, "single copy by receiver ended early"), ~uint64_t{0});
    EXPECT_EQ(stat(*r.rank, "single copy by sender ended early"), ~uint64_t{0});
  });
}

// The owner changes its mappings while messages are under way: what is not copied comes by cells.
TEST_P(FakeModule, RevokedAtAnyTimeEveryByteArrives) {
  run([&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    for (uint32_t k = 0; k < 20; ++k) {
      std::vector<std::byte> source = content(kModuleLong, k);
      std::vector<std::byte> target(kModuleLong);
      Request* const request =
          self == 0 ? r.rank->isend(to_other(1, 1, source.data(), kModuleLong, p2p::SendMode::kSynchronous))
                    : r.rank->irecv(message_from(0, 1, target.data(), kModuleLong));
      if (self == k % 2) modules_.revoke();
      finish(*r.rank, request);
      if (self == 1) {
        ASSERT_EQ(source, target) << k;
      }
      ASSERT_TRUE(world.barrier().ok());
    }
  });
}

/// The pool may evict a buffer while its owner is in a call of the host: then the helper carries what is left.
class FakeModuleEvicts : public Module {
 protected:
  void while_in_the_host(uint32_t away) {
    run([&](TestBootstrap& world, EngineRank& r, uint32_t self) {
      std::vector<std::byte> data = content(3 * kModuleLong, self == 0 ? 6 : 0);
      const auto start = [&] {
        return self == 0 ? r.rank->isend(to_other(1, 1, data.data(), data.size()))
                         : r.rank->irecv(message_from(0, 1, data.data(), data.size()));
      };
      Request* request = self == away ? start() : nullptr;
      if (self == away) {
        modules_.revoke();
        r.rank->enter_host();
      }
      ASSERT_TRUE(world.barrier().ok());
      if (self != away) finish(*r.rank, start());
      ASSERT_TRUE(world.barrier().ok());
      if (self == away) {
        r.rank->leave_host();
        finish(*r.rank, request);
      }
      EXPECT_EQ(data, content(3 * kModuleLong, 6));
      ASSERT_TRUE(world.barrier().ok());
    });
  }
};
TEST_P(FakeModuleEvicts, WhatASenderInTheHostTold) { while_in_the_host(0); }
TEST_P(FakeModuleEvicts, WhatAReceiverInTheHostTold) { while_in_the_host(1); }
INSTANTIATE_TEST_SUITE_P(Threads, FakeModuleEvicts, ::testing::Values(World::kThreads), world_name);

TEST_P(FakeModule, NoMoreIsPinnedThanAMessageNeeds) {
  run([&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    constexpr uint64_t kRoom = 64 << 20;
    std::vector<std::byte> source = content(kModuleLong, 1);
    std::vector<std::byte> room(self == 1 ? kRoom : 0);
    pass(world, r, self, all_of(source), all_of(room), true);
    if (self == 1) {
      EXPECT_TRUE(std::equal(source.begin(), source.end(), room.begin()));
    }
    if (self == 0) {
      EXPECT_EQ(sent(r, "ko"), 1U);
    }
    ASSERT_TRUE(world.barrier().ok());
    EXPECT_EQ(modules_.longest(), kModuleLong);
  });
}

INSTANTIATE_TEST_SUITE_P(Threads, FakeModule, ::testing::Values(World::kThreads), world_name);

}  // namespace
}  // namespace zh::test
