// Joining with threads and forked processes: everyone shares the memory, everyone fails alike, nobody hangs.
// label not-emulated: JoinModule[.]IsOpened
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "node/joiner.h"
#include "node/machine.h"
#include "node/node.h"
#include "os/affinity.h"
#include "os/process.h"
#include "support/fake_module.h"
#include "support/folder.h"
#include "support/fork_world.h"
#include "support/refused_call.h"

namespace zh::node {
namespace {

using test::Folder;
using test::run_ranks;
using test::TestBootstrap;
using test::World;

class Join : public ::testing::TestWithParam<World> {};
INSTANTIATE_TEST_SUITE_P(Worlds, Join, ::testing::Values(World::kThreads, World::kProcesses), test::world_name);

JoinConfig small() {
  JoinConfig config;
  config.rank_bytes = 1 << 20;
  return config;
}

/// For in_nodes(): every rank joins so.
JoinConfig as_small(const TestBootstrap& /*world*/) { return small(); }

/// `n` ranks join, each as config_of(world) says; each runs body(node, world), and none leaves before all have.
template <typename ConfigOf, typename Body>
void in_nodes(World kind, int n, const ConfigOf& config_of, const Body& body) {
  run_ranks(kind, n, [&](TestBootstrap& world) {
    std::unique_ptr<Node> node;
    const Status s = Node::join(world, config_of(world), &node);
    ASSERT_TRUE(s.ok()) << s.what();
    body(*node, world);
    ASSERT_TRUE(world.barrier().ok());
  });
}

/// Joining fails, for a reason with this word.
Status join_fails(TestBootstrap& world, const JoinConfig& config, const char* word) {
  std::unique_ptr<Node> node;
  const Status s = Node::join(world, config, &node);
  EXPECT_FALSE(s.ok());
  EXPECT_EQ(node, nullptr);
  EXPECT_NE(std::string(s.what()).find(word), std::string::npos) << s.what();
  return s;
}

void expect_same_for_all(TestBootstrap& world, const Status& s) {
  char mine[256] = {};
  std::snprintf(mine, sizeof mine, "%d %s", static_cast<int>(s.code()), s.what());
  const auto n = static_cast<size_t>(world.size());
  std::vector<char> texts(n * sizeof mine);
  ASSERT_TRUE(world.allgather(mine, sizeof mine, texts.data()).ok());
  for (size_t r = 0; r < n; ++r) EXPECT_STREQ(texts.data() + r * sizeof mine, mine);
}

/// Each rank writes into its own part; each then reads all parts.
void expect_shared(Node& node, TestBootstrap& world) {
  ASSERT_TRUE(node.reserve(node.part(node.self()), 4096).ok());
  uint64_t* mine = at<uint64_t>(node.base(), node.part(node.self()));
  *mine = 1000u + static_cast<uint64_t>(world.rank());
  ASSERT_TRUE(world.barrier().ok());
  for (uint32_t i = 0; i < node.size(); ++i) {
    EXPECT_EQ(*at<uint64_t>(node.base(), node.part(i)), 1000u + static_cast<uint64_t>(node.world_rank(i)));
  }
  ASSERT_TRUE(world.barrier().ok());
}

TEST_P(Join, SharesMemoryBetweenAllRanks) {
  for (const int n : {1, 2, 3, 8}) {
    in_nodes(GetParam(), n, as_small, [&](Node& node, TestBootstrap& world) {
      EXPECT_EQ(node.size(), static_cast<uint32_t>(n));
      EXPECT_EQ(node.nodes(), 1);
      EXPECT_EQ(node.self(), static_cast<uint32_t>(world.rank()));
      EXPECT_EQ(node.part_bytes(), uint64_t{1} << 20);
      expect_shared(node, world);
      for (uint32_t i = 0; i < node.size(); ++i) {
        EXPECT_TRUE(node.alive(i));
        EXPECT_EQ(node.level(node.self(), i), node.level(i, node.self()));
        EXPECT_EQ(node.level(node.self(), i) == Level::kSelf, i == node.self());
        EXPECT_EQ(node.same_process(i), GetParam() == World::kThreads || i == node.self());
      }
      EXPECT_NE(node.how().find("MiB"), std::string::npos);
    });
  }
}

TEST_P(Join, AHostThatTakesUnsignedNumbersForSignedIsAnError) {
  run_ranks(GetParam(), 3, [](TestBootstrap& world) {
    world.take_for_signed();
    (void)join_fails(world, small(), "MPI_MIN");
  });
}

TEST_P(Join, MoreRanksThanProcessorsAgreeOnLines) {
  const auto cpus = static_cast<int>(os::allowed_cpus().count());
  if (cpus > 8) GTEST_SKIP() << "too many ranks would be needed";
  in_nodes(GetParam(), 2 * cpus + 1, as_small, [&](Node& node, TestBootstrap& world) {
    EXPECT_TRUE(node.oversubscribed());
    EXPECT_EQ(os::allowed_cpus().count(), static_cast<uint32_t>(cpus)) << "who measured is free again";
    // All may run on the same processors, so all pairs share one line time (none where nobody could measure).
    struct Seen {
      float least, most;
    };
    Seen mine{1e9F, 0};
    for (uint32_t i = 0; i < node.size(); ++i) {
      if (i == node.self()) continue;
      mine.least = std::min(mine.least, node.line_ns(i));
      mine.most = std::max(mine.most, node.line_ns(i));
    }
    std::vector<Seen> all(node.size());
    ASSERT_TRUE(world.allgather(&mine, sizeof mine, all.data()).ok());
    for (const Seen& other : all) {
      EXPECT_EQ(other.least, other.most);
      EXPECT_EQ(other.most, mine.most);
      EXPECT_GE(other.least, 0);
      EXPECT_TRUE(cpus == 2 || other.most == 0) << "they may be anywhere";
    }
  });
}

TEST_P(Join, SplitsConsecutiveRanksIntoPretendedNodes) {
  JoinConfig config = small();
  config.node_ranks = 2;
  const auto in_pairs = [&](const TestBootstrap& /*world*/) { return config; };
  in_nodes(GetParam(), 5, in_pairs, [](Node& node, TestBootstrap& world) {
    EXPECT_EQ(node.nodes(), 3);
    EXPECT_EQ(node.world_size(), 5);
    EXPECT_EQ(node.size(), world.rank() == 4 ? 1u : 2u);
    EXPECT_EQ(node.self(), static_cast<uint32_t>(world.rank() % 2));
    for (int r = 0; r < 5; ++r) {
      EXPECT_EQ(node.local_index(r), r / 2 == world.rank() / 2 ? r % 2 : -1) << "of world rank " << r;
    }
    expect_shared(node, world);
  });
}

/// Ranks r, r + machines, r + 2 machines, ... are on one machine.
JoinConfig on_machine(const TestBootstrap& world, int machines) {
  JoinConfig config = small();
  config.machine = "machine " + std::to_string(world.rank() % machines);
  return config;
}

// To all ranks of the job a rank tells 8 bytes; one reduction is the rest.
TEST_P(Join, MachinesKeepToThemselvesWhatOnlyTheyNeed) {
  static constexpr int kMachines = 4;
  const auto on_its_machine = [](const TestBootstrap& world) { return on_machine(world, kMachines); };
  in_nodes(GetParam(), 3 * kMachines, on_its_machine, [](Node& node, TestBootstrap& world) {
    EXPECT_EQ(world.gathered_bytes(), sizeof(uint64_t));
    EXPECT_EQ(world.reductions(), 1);
    EXPECT_EQ(world.splits(), 1);
    EXPECT_EQ(node.nodes(), kMachines);
    EXPECT_EQ(node.world_size(), 3 * kMachines);
    ASSERT_EQ(node.size(), 3U);
    EXPECT_EQ(node.self(), static_cast<uint32_t>(world.rank() / kMachines));
    for (int r = 0; r < 3 * kMachines; ++r) {
      const bool here = r % kMachines == world.rank() % kMachines;
      EXPECT_EQ(node.node_of(r), static_cast<uint32_t>(r % kMachines));
      EXPECT_EQ(node.local_index(r), here ? r / kMachines : -1);
      EXPECT_EQ(node.world_ranks()[r], r);
    }
    expect_shared(node, world);
  });
}

TEST_P(Join, OneMachineIsNotSplit) {
  in_nodes(GetParam(), 3, as_small, [](Node& /*node*/, TestBootstrap& world) {
    EXPECT_EQ(world.splits(), 0);
    EXPECT_EQ(world.reductions(), 1);
  });
}

TEST_P(Join, TheCallersTermsAreTheLeastOfAllRanks) {
  run_ranks(GetParam(), 3, [](TestBootstrap& world) {
    const auto rank = static_cast<uint64_t>(world.rank());
    std::array<uint64_t, 3> terms = {rank + 5, 9 - rank, rank == 1 ? 7 : ~uint64_t{0}};
    JoinConfig config = small();
    config.terms = terms;
    std::unique_ptr<Node> node;
    ASSERT_TRUE(Node::join(world, config, &node).ok());
    EXPECT_EQ(terms, (std::array<uint64_t, 3>{5, 7, 7}));
    ASSERT_TRUE(world.barrier().ok());
  });
}

// At each second meeting a rank has failed, in turn; some ranks are one meeting ahead of others.
TEST_P(Join, AMeetingIsTheSameForAll) {
  in_nodes(GetParam(), 3, as_small, [](Node& node, TestBootstrap& world) {
    ASSERT_TRUE(node.is_whole_job());
    for (int n = 0; n < 300; ++n) {
      bool well = false;
      node.come(n % 6 != 2 * world.rank());
      while (!node.have_come(&well)) sched_yield();
      ASSERT_EQ(well, n % 2 != 0) << n;
    }
  });
}

TEST(Meeting, EndsWithoutARankThatHasEnded) {
  run_ranks(World::kProcesses, 3,
            [](TestBootstrap& world) {
              std::unique_ptr<Node> node;
              ASSERT_TRUE(Node::join(world, small(), &node).ok());
              if (world.rank() == 2) kill(getpid(), SIGKILL);
              bool well = true;
              node->come(true);
              while (!node->have_come(&well)) sched_yield();
              EXPECT_FALSE(well);
            },
            {.may_die = 2});
}

TEST_P(Join, PretendedNodesOnSeveralMachines) {
  const auto in_threes = [](const TestBootstrap& world) {
    JoinConfig config = on_machine(world, 2);
    config.node_ranks = 3;
    return config;
  };
  in_nodes(GetParam(), 8, in_threes, [](Node& node, TestBootstrap& world) {
    EXPECT_EQ(node.nodes(), 4);  // ranks 0 2 4 | 6 and 1 3 5 | 7
    EXPECT_EQ(node.size(), world.rank() < 6 ? 3U : 1U);
    expect_shared(node, world);
  });
}

TEST_P(Join, AFailureOnOneMachineFailsAllAlike) {
  for (int stage = 0; stage <= static_cast<int>(JoinStage::kVerify); ++stage) {
    run_ranks(GetParam(), 6, [&](TestBootstrap& world) {
      SCOPED_TRACE("stage " + std::to_string(stage));
      JoinConfig config = on_machine(world, 3);
      if (world.rank() == 4) config.fail_stage = stage;  // the second rank of machine 1
      expect_same_for_all(world, join_fails(world, config, "rank 4"));
    });
  }
}

/// A collective of the job that cannot be split: all ranks take part in everything.
class Unsplit final : public Bootstrap {
 public:
  explicit Unsplit(TestBootstrap& world) : world_(world) {}
  [[nodiscard]] int rank() const override { return world_.rank(); }
  [[nodiscard]] int size() const override { return world_.size(); }
  Status allgather(const void* in, size_t bytes, void* out) override { return world_.allgather(in, bytes, out); }

 private:
  TestBootstrap& world_;
};

TEST_P(Join, AnAllgatherOfTheWorldIsEnough) {
  run_ranks(GetParam(), 6, [&](TestBootstrap& world) {
    Unsplit unsplit(world);
    std::unique_ptr<Node> node;
    const Status s = Node::join(unsplit, on_machine(world, 3), &node);
    ASSERT_TRUE(s.ok()) << s.what();
    EXPECT_EQ(node->nodes(), 3);
    EXPECT_EQ(node->local_index(world.rank()), world.rank() / 3);
    expect_shared(*node, world);
  });
}

TEST_P(Join, WordsReachTheNode) {
  const auto on_two = [](const TestBootstrap& world) { return on_machine(world, 2); };
  in_nodes(GetParam(), 4, on_two, [](Node& node, TestBootstrap& world) {
    node.leave_word(100 + static_cast<uint64_t>(world.rank()));
    ASSERT_TRUE(world.barrier().ok());
    for (uint32_t i = 0; i < 2; ++i) EXPECT_EQ(node.word_of(i), 100 + static_cast<uint64_t>(node.world_rank(i)));
  });
}

TEST_P(Join, EveryWayToTheSegmentWorks) {
  const char* expected[] = {"/proc/<pid>/fd", "Unix socket", "named file"};
  for (int way = 0; way < 3; ++way) {
    JoinConfig config = small();
    config.reach_ways = 1u << way;
    const auto this_way = [&](const TestBootstrap& /*world*/) { return config; };
    in_nodes(GetParam(), 3, this_way, [&](Node& node, TestBootstrap& world) {
      if (world.rank() != 0) {
        EXPECT_NE(node.how().find(expected[way]), std::string::npos) << node.how();
      }
      expect_shared(node, world);
    });
  }
}

TEST_P(Join, OneRankWithoutProcUsesTheSocketAlone) {
  const auto without_proc = [](const TestBootstrap& world) {
    JoinConfig config = small();
    if (world.rank() == 2) config.reach_ways = JoinConfig::kReachSocket | JoinConfig::kReachFile;
    return config;
  };
  in_nodes(GetParam(), 3, without_proc, [](Node& node, TestBootstrap& world) {
    EXPECT_EQ(node.how().find("Unix socket") != std::string::npos, world.rank() == 2) << node.how();
    expect_shared(node, world);
  });
}

TEST_P(Join, FilesServeWhereMemfdIsRefused) {
  JoinConfig config = small();
  config.memory_kinds = JoinConfig::kFile;
  const auto in_a_file = [&](const TestBootstrap& /*world*/) { return config; };
  in_nodes(GetParam(), 2, in_a_file, [](Node& node, TestBootstrap& world) {
    if (world.rank() == 0) {
      EXPECT_NE(node.how().find("file in"), std::string::npos) << node.how();
    }
    expect_shared(node, world);
  });
}

TEST_P(Join, AFailureOfOneRankAtAnyStageFailsAllAlikeAndLeavesNothing) {
  for (int stage = 0; stage < static_cast<int>(JoinStage::kStages); ++stage) {
    for (int culprit = 0; culprit < 2; ++culprit) {
      Folder folder;
      run_ranks(GetParam(), 2, [&](TestBootstrap& world) {
        SCOPED_TRACE("stage " + std::to_string(stage));
        JoinConfig config = small();
        config.folder = folder.path();
        config.memory_kinds = JoinConfig::kFile;
        if (world.rank() == culprit) config.fail_stage = stage;
        expect_same_for_all(world, join_fails(world, config, "rank"));
        int counts[2];
        const int count = world.allgathers();
        ASSERT_TRUE(world.allgather(&count, sizeof count, counts).ok());
        EXPECT_EQ(counts[0], counts[1]);
      });
      EXPECT_TRUE(folder.empty()) << "stage " << stage;
    }
  }
}

TEST_P(Join, AFolderThatCannotBeWrittenIsAReasonForAll) {
  run_ranks(GetParam(), 3, [&](TestBootstrap& world) {
    JoinConfig config = small();
    config.memory_kinds = JoinConfig::kFile;
    config.folder = "/proc/no-such-folder";
    EXPECT_NE(join_fails(world, config, "rank 0").error(), 0);
  });
}

TEST_P(Join, DifferentNodeRanksAreRefused) {
  run_ranks(GetParam(), 2, [&](TestBootstrap& world) {
    JoinConfig config = small();
    config.node_ranks = static_cast<uint32_t>(world.rank());
    EXPECT_EQ(join_fails(world, config, "node_ranks").code(), Code::kInvalid);
  });
}

TEST_P(Join, PartsThatAreTooSmallAreRefused) {
  run_ranks(GetParam(), 2, [&](TestBootstrap& world) {
    JoinConfig config = small();
    if (world.rank() == 1) config.rank_bytes = 4096;
    EXPECT_EQ(join_fails(world, config, "").code(), Code::kNoMemory);
  });
}

TEST_P(Join, CmaIsProbedAndCanBeSwitchedOffByEitherSide) {
  const auto not_the_last = [](const TestBootstrap& world) {
    JoinConfig config = small();
    config.cma = world.rank() != 2;
    return config;
  };
  in_nodes(GetParam(), 3, not_the_last, [](Node& node, TestBootstrap& world) {
    EXPECT_FALSE(node.cma(2));
    if (world.rank() == 2) {
      EXPECT_FALSE(node.cma(0));
    }
    // Between ranks 0 and 1 the machine decides; it must say the same as a call made now.
    if (world.rank() == 0) {
      EXPECT_TRUE(node.cma(1) || node.how().find("CMA to 0") != std::string::npos) << node.how();
    }
  });
}

TEST(JoinModule, IsOpenedOnceAndOnlyWhereTheSystemRefuses) {
  for (const bool refused : {false, true}) {
    for (const ModuleUse use : {ModuleUse::kWhereRefused, ModuleUse::kFirst, ModuleUse::kNever}) {
      run_ranks(World::kProcesses, 3, [&](TestBootstrap& world) {
        if (refused) test::refuse_call(SYS_process_vm_readv, SECCOMP_RET_ERRNO | EPERM);
        uint32_t opened = 0;
        JoinConfig config = small();
        config.module_use = use;
        config.open_module = [&](auto* out) {
          ++opened;
          return os::open_copy_module("/dev/zerohop-that-is-not-there", out);
        };
        std::unique_ptr<Node> node;
        ASSERT_TRUE(Node::join(world, config, &node).ok());
        const bool wanted = use == ModuleUse::kFirst || (use == ModuleUse::kWhereRefused && !node->cma(node->self()));
        EXPECT_EQ(opened, wanted ? 1U : 0U);
        EXPECT_EQ(node->module(), nullptr);
        EXPECT_EQ(node->module_refusal().find("not loaded") != std::string::npos, wanted) << node->module_refusal();
        EXPECT_EQ(node->how().find("not loaded") != std::string::npos, wanted) << node->how();
        for (uint32_t i = 0; i < 3; ++i) EXPECT_FALSE(node->lets_in(i) || node->module_member(i) != 0);
        ASSERT_TRUE(world.barrier().ok());
      });
    }
  }
}

TEST(JoinModule, WhoAsksForItIsLetInByAll) {
  test::FakeModules modules;
  const auto one_asks = [&](const TestBootstrap& world) {
    JoinConfig config = small();
    if (world.rank() == 1) config.module_use = ModuleUse::kFirst;
    config.open_module = [&](auto* out) { return modules.open(out); };
    return config;
  };
  in_nodes(World::kThreads, 3, one_asks, [](Node& node, TestBootstrap& /*world*/) {
    ASSERT_NE(node.module(), nullptr) << node.module_refusal();
    const bool asks = node.self() == 1;
    for (uint32_t i = 0; i < 3; ++i) {
      EXPECT_EQ(node.lets_in(i), i != node.self() && (i == 1 || !node.cma(i)));
      if (node.cma(i)) {
        EXPECT_EQ(node.module_member(i) != 0, asks && i != node.self());
      }
    }
    if (asks) {
      EXPECT_NE(node.module_member(0), node.module_member(2));
    }
  });
  EXPECT_EQ(modules.opened.load_relaxed(), 3U);
}

TEST(JoinModule, OneThatCannotJoinIsLeftOut) {
  test::FakeModules modules;
  const auto two_join = [&](const TestBootstrap& world) {
    JoinConfig config = small();
    config.module_use = ModuleUse::kFirst;
    config.open_module = [&, out_of_it = world.rank() == 2](auto* out) {
      return out_of_it ? Status{Code::kNotPermitted, "a test", EACCES} : modules.open(out);
    };
    return config;
  };
  in_nodes(World::kThreads, 3, two_join, [](Node& node, TestBootstrap& /*world*/) {
    for (uint32_t i = 0; i < 3; ++i) {
      EXPECT_EQ(node.module_member(i) != 0, node.self() != 2 && i != 2 && i != node.self());
    }
    EXPECT_EQ(node.module_refusal(), node.self() == 2 ? "a test: Permission denied" : "rank 2 cannot join it");
  });
}

TEST_P(Join, ReserveKeepsToTheOwnPart) {
  in_nodes(GetParam(), 2, as_small, [](Node& node, TestBootstrap& /*world*/) {
    const Offset own = node.part(node.self());
    EXPECT_TRUE(node.reserve(own, node.part_bytes()).ok());
    EXPECT_TRUE(node.reserve(own + 5, 10).ok());
    EXPECT_EQ(node.reserve(own, node.part_bytes() + 1).code(), Code::kInvalid);
    EXPECT_EQ(node.reserve(node.part(1 - node.self()), 64).code(), Code::kInvalid);
    EXPECT_EQ(node.reserve(0, 64).code(), Code::kInvalid);
    std::memset(node.base() + own, 7, node.part_bytes());
  });
}

// Nobody's annex can be touched, nor takes memory where all is locked, before it is opened.
TEST_P(Join, AnnexesOpenWhenTheyAreNeeded) {
  JoinConfig config = small();
  config.annex_bytes = 64 << 20;
  const auto with_annexes = [&](const TestBootstrap& /*world*/) { return config; };
  in_nodes(GetParam(), 2, with_annexes, [](Node& node, TestBootstrap& world) {
    ASSERT_EQ(node.annex_bytes(), uint64_t{64} << 20);
    const Offset own = node.annex(node.self());
    const Offset other = node.annex(1 - node.self());
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    // The kernel refuses to read what may not be touched.
    EXPECT_EQ(write(pipe_ends[1], node.base() + own, 1), -1);
    EXPECT_EQ(msync(node.base() + own, 1, MS_ASYNC), 0) << "it is mapped";
    ASSERT_TRUE(node.reserve(own + (20 << 20), 4096).ok());
    node.base()[own + (20 << 20)] = std::byte{5};
    EXPECT_EQ(node.reserve(own + (64 << 20) - 64, 65).code(), Code::kInvalid);
    ASSERT_TRUE(world.barrier().ok());
    ASSERT_TRUE(node.open(other + (20 << 20)));
    EXPECT_EQ(node.base()[other + (20 << 20)], std::byte{5});
    close(pipe_ends[0]);
    close(pipe_ends[1]);
  });
}

TEST_P(Join, ThereAreNoAnnexesWhereFilesMustBeShort) {
  if (GetParam() != World::kProcesses) GTEST_SKIP() << "a limit of processes";
  const auto with_a_limit = [](const TestBootstrap& world) {
    JoinConfig config = small();
    config.annex_bytes = 64 << 20;
    const rlimit limit{16 << 20, 16 << 20};
    if (world.rank() == 1) setrlimit(RLIMIT_FSIZE, &limit);
    return config;
  };
  in_nodes(GetParam(), 2, with_a_limit, [](Node& node, TestBootstrap& /*world*/) {
    EXPECT_EQ(node.annex_bytes(), 0U);
    EXPECT_EQ(node.part_bytes(), uint64_t{1} << 20);
  });
}

TEST(Alive, SeesTheEndOfAKilledRank) {
  test::WorldOptions options;
  options.may_die = 1;
  run_ranks(
      World::kProcesses, 2,
      [&](TestBootstrap& world) {
        std::unique_ptr<Node> node;
        ASSERT_TRUE(Node::join(world, small(), &node).ok());
        EXPECT_TRUE(node->alive(0));
        EXPECT_TRUE(node->alive(1));
        ASSERT_TRUE(world.barrier().ok());
        if (world.rank() == 1) {
          raise(SIGKILL);
        }
        const uint64_t limit = os::now_ns() + 20'000'000'000;
        while (node->alive(1) && os::now_ns() < limit) {
        }
        EXPECT_FALSE(node->alive(1));
        EXPECT_FALSE(node->alive(1));
      },
      options);
}

TEST(Levels, FollowASyntheticMachine) {
  if (!Machine::has_hwloc()) GTEST_SKIP() << "built without hwloc";
  // 2 sockets x 1 memory node x 2 L3 x 1 L2 x 2 cores x 2 threads = 16 hardware threads.
  JoinConfig config = small();
  config.topology_file = "synthetic:pack:2 numa:1 l3:2 l2:2 core:1 pu:2";
  const auto synthetic = [&](const TestBootstrap& /*world*/) { return config; };
  in_nodes(World::kThreads, 16, synthetic, [](Node& node, TestBootstrap& /*world*/) {
    EXPECT_EQ(node.level(0, 0), Level::kSelf);
    EXPECT_EQ(node.level(0, 1), Level::kSameCore);
    EXPECT_EQ(node.level(0, 2), Level::kSharedL3);
    EXPECT_EQ(node.level(0, 4), Level::kSameNuma);
    EXPECT_EQ(node.level(0, 8), Level::kOtherSocket);
    EXPECT_EQ(node.level(15, 14), Level::kSameCore);
  });
}

TEST(Levels, ABadTopologyFailsForAll) {
  run_ranks(World::kThreads, 2, [&](TestBootstrap& world) {
    JoinConfig config = small();
    config.topology_file = "synthetic:nonsense:2";
    (void)join_fails(world, config, "topology");
  });
}

}  // namespace
}  // namespace zh::node
