// Every algorithm, proved for all numbers of ranks up to 33, all roots, many layouts, counts and chunk sizes; and
// faults planted in schedules, which the proof must find.
#include <gtest/gtest.h>

#include <algorithm>

#include "coll/analysis/check.h"
#include "schedule_support.h"

namespace zh::test {
namespace {

using coll::Algorithm;
using coll::Collective;
using coll::kNoStep;
using coll::Layout;
using coll::Problem;
using coll::Schedule;
using coll::Step;
using coll::StepKind;
using coll::Verdict;

constexpr uint32_t kMostRanks = 33;

Verdict prove(const std::vector<Problem>& problems, const Algorithm& algorithm) {
  std::vector<Schedule> schedules;
  const Status built = coll::build(problems, algorithm.name, &schedules);
  EXPECT_TRUE(built.ok()) << built.what();
  Verdict verdict = coll::check(problems, schedules);
  EXPECT_EQ(verdict.fault, "") << text(problems[0], algorithm.name);
  return verdict;
}

/// Calls f(problem, algorithm) for commutative and other operations and all algorithms that fit.
template <typename F>
void each_algorithm(Problem problem, F&& f) {
  for (const bool commutative : {true, false}) {
    if (!commutative && !coll::reduces(problem.collective)) continue;
    problem.commutative = commutative;
    for (const Algorithm& algorithm : coll::algorithms(problem.collective)) {
      if (algorithm.fits(problem)) f(problem, algorithm);
    }
  }
}

class EveryCollective : public ::testing::TestWithParam<Collective> {};

TEST_P(EveryCollective, AllRanksAndRoots) {
  for (uint32_t ranks = 1; ranks <= kMostRanks; ++ranks) {
    Problem problem;
    problem.collective = GetParam();
    problem.element_bytes = 4;
    problem.count = 37;  // less than a piece for every rank, and with a remainder
    problem.chunk_bytes = 48;
    const std::vector<std::shared_ptr<const Layout>> nodes = layouts(ranks);
    const uint32_t roots = coll::has_root(GetParam()) ? ranks : 1;
    for (problem.root = 0; problem.root < roots && !HasFailure(); ++problem.root) {
      problem.layout = nodes[(problem.root + ranks) % nodes.size()];
      each_algorithm(problem, [](const Problem& p, const Algorithm& a) { prove(make_problems(p, true), a); });
    }
  }
}

TEST_P(EveryCollective, LayoutsCountsAndChunks) {
  for (const uint32_t ranks : {1u, 2u, 3u, 5u, 8u, 13u}) {
    for (const std::shared_ptr<const Layout>& layout : layouts(ranks)) {
      for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{ranks} - 1, uint64_t{ranks}, uint64_t{1000}}) {
        for (const uint64_t chunk : {uint64_t{0}, uint64_t{1}, uint64_t{1040}}) {
          Problem problem;
          problem.collective = GetParam();
          problem.element_bytes = count % 2 != 0 ? 12 : 8;
          problem.count = count;
          problem.chunk_bytes = count == 1000 && chunk == 1 ? 400 : chunk;
          problem.layout = layout;
          problem.root = static_cast<uint32_t>(count + chunk) % ranks;
          each_algorithm(problem, [](const Problem& p, const Algorithm& a) { prove(make_problems(p, true), a); });
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST_P(EveryCollective, ListsAndInPlace) {
  for (uint32_t ranks = 1; ranks <= 12; ++ranks) {
    for (const std::shared_ptr<const Layout>& layout : layouts(ranks)) {
      Problem problem;
      problem.collective = GetParam();
      problem.element_bytes = 4;
      problem.count = 5;
      problem.chunk_bytes = 8;
      problem.layout = layout;
      problem.root = (ranks * 2) / 3;
      each_algorithm(problem, [](const Problem& p, const Algorithm& a) {
        prove(in_place(make_problems(p, true)), a);
        Problem listed = p;
        listed.uniform = false;
        if (!has_lists(p.collective) || !a.fits(listed)) return;
        prove(make_problems(p, false), a);
        prove(in_place(make_problems(p, false)), a);
      });
      if (HasFailure()) return;
    }
  }
}

// What a node shares by its team changes nothing between nodes, so some may have one and others not.
TEST_P(EveryCollective, Teams) {
  for (uint32_t ranks = 1; ranks <= 16; ++ranks) {
    for (const std::shared_ptr<const Layout>& layout : layouts(ranks)) {
      for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{50}}) {
        Problem problem;
        problem.collective = GetParam();
        problem.element_bytes = 4;
        problem.count = count;
        problem.chunk_bytes = 48;
        problem.layout = layout;
        problem.root = (ranks * 2) / 3;
        each_algorithm(problem, [](const Problem& p, const Algorithm& a) {
          const uint64_t messages = prove(make_problems(p, true), a).node_messages;
          for (const bool some : {false, true}) {
            const std::vector<Problem> problems = with_teams(make_problems(p, true), some);
            EXPECT_EQ(prove(problems, a).node_messages, messages) << text(problems[0], a.name);
            prove(in_place(problems), a);
          }
        });
        if (HasFailure()) return;
      }
    }
  }
}

/// Calls f(problem, algorithm) for the algorithms by domains.
template <typename F>
void each_by_domains(const Problem& problem, F&& f) {
  each_algorithm(problem, [&f](const Problem& p, const Algorithm& a) {
    if (a.by_domains) f(p, a);
  });
}

TEST_P(EveryCollective, DomainsOfAllRanksAndRoots) {
  for (uint32_t ranks = 2; ranks <= kMostRanks; ++ranks) {
    Problem problem;
    problem.collective = GetParam();
    problem.element_bytes = 4;
    problem.count = 37;
    problem.chunk_bytes = 48;
    const std::vector<std::shared_ptr<const Layout>> domains = layouts(ranks);
    const uint32_t roots = coll::has_root(GetParam()) ? ranks : 1;
    for (problem.root = 0; problem.root < roots && !HasFailure(); ++problem.root) {
      each_by_domains(divided(problem, domains[(problem.root + ranks) % domains.size()]),
                      [](const Problem& p, const Algorithm& a) { prove(make_problems(p, true), a); });
    }
  }
}

// The team is the whole node's, so it takes no part.
TEST_P(EveryCollective, DomainsCountsChunksListsAndTeams) {
  for (const uint32_t ranks : {2u, 3u, 5u, 8u, 13u}) {
    for (const std::shared_ptr<const Layout>& domains : layouts(ranks)) {
      for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{ranks} - 1, uint64_t{1000}}) {
        for (const uint64_t chunk : {uint64_t{0}, uint64_t{1}, uint64_t{1040}}) {
          Problem problem;
          problem.collective = GetParam();
          problem.element_bytes = count % 2 != 0 ? 12 : 8;
          problem.count = count;
          problem.chunk_bytes = count == 1000 && chunk == 1 ? 400 : chunk;
          problem.root = static_cast<uint32_t>(count + chunk) % ranks;
          each_by_domains(divided(problem, domains), [](const Problem& p, const Algorithm& a) {
            const std::vector<Problem> uniform = make_problems(p, true);
            EXPECT_EQ(prove(uniform, a).node_messages, 0U);
            prove(in_place(uniform), a);
            prove(with_teams(uniform, false), a);
            if (!has_lists(p.collective)) return;
            prove(make_problems(p, false), a);
            prove(in_place(make_problems(p, false)), a);
          });
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST_P(EveryCollective, TheChoiceFits) {
  for (const uint32_t ranks : {1u, 2u, 4u, 7u, 16u}) {
    for (const std::shared_ptr<const Layout>& layout : layouts(ranks)) {
      for (const uint64_t count : {0u, 1u, 100u, 1000u, 100'000u}) {
        for (const int kind : {0, 1, 2, 3}) {
          Problem problem;
          problem.collective = GetParam();
          problem.element_bytes = 8;
          problem.count = count;
          problem.layout = layout;
          problem.commutative = kind % 2 == 0;
          problem.uniform = kind < 2 || !has_lists(problem.collective);
          const Algorithm* chosen = coll::algorithm(GetParam(), coll::choose(problem));
          ASSERT_NE(chosen, nullptr);
          EXPECT_TRUE(chosen->fits(problem));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Collectives, EveryCollective, ::testing::ValuesIn(all_collectives()),
                         [](const auto& p) { return std::string(coll::name_of(p.param)); });

Problem planted_problem(Collective collective) {
  Problem problem;
  problem.collective = collective;
  problem.element_bytes = 4;
  problem.count = 21;
  problem.chunk_bytes = 16;
  problem.layout = blocks_of(7, 3);
  problem.root = 2;
  problem.commutative = false;
  return problem;
}

/// Builds all ranks' schedules of every algorithm that fits, lets `plant` spoil them (false: nothing to spoil there)
/// and expects the checker to find it. Returns how many were spoiled.
template <typename Plant>
int plant_everywhere(Plant&& plant, bool teams = false) {
  int planted = 0;
  for (const Collective collective : all_collectives()) {
    const Problem problem = planted_problem(collective);
    for (const Algorithm& algorithm : coll::algorithms(collective)) {
      if (!algorithm.fits(problem)) continue;
      std::vector<Problem> problems = coll::for_all_ranks(problem);
      if (teams) problems = with_teams(std::move(problems), false);
      for (size_t rank = 0; rank < problems.size(); ++rank) {
        std::vector<Schedule> schedules;
        EXPECT_TRUE(coll::build(problems, algorithm.name, &schedules).ok());
        if (!plant(schedules[rank])) continue;
        ++planted;
        EXPECT_FALSE(coll::check(problems, schedules).proved())
            << "not found on rank " << rank << " of " << text(problem, algorithm.name);
      }
    }
  }
  return planted;
}

/// The first step that `wanted` holds for; null if there is none.
template <typename Wanted>
Step* find_step(Schedule& schedule, Wanted&& wanted) {
  const auto found = std::find_if(schedule.steps.begin(), schedule.steps.end(), wanted);
  return found == schedule.steps.end() ? nullptr : &*found;
}

TEST(PlantedFault, DroppedSend) {
  EXPECT_GT(plant_everywhere([](Schedule& s) {
              Step* step = find_step(s, [](const Step& x) { return x.kind == StepKind::kSend; });
              if (step != nullptr) *step = {.kind = StepKind::kCopy};
              return step != nullptr;
            }),
            50);
}

TEST(PlantedFault, WrongPeer) {
  EXPECT_GT(plant_everywhere([](Schedule& s) {
              Step* step = find_step(s, [](const Step& x) { return x.message(); });
              if (step != nullptr) step->peer = (step->peer + 1) % 7;
              return step != nullptr;
            }),
            50);
}

TEST(PlantedFault, ShortChunk) {
  EXPECT_GT(plant_everywhere([](Schedule& s) {
              Step* step = find_step(s, [](const Step& x) { return x.writes() && x.bytes > 4; });
              if (step != nullptr) step->bytes -= 4;
              return step != nullptr;
            }),
            50);
}

TEST(PlantedFault, WrongChunkRead) {
  EXPECT_GT(plant_everywhere([](Schedule& s) {
              Step* step = find_step(s, [](const Step& x) { return x.reads() && x.bytes > 0; });
              if (step != nullptr) step->from_at += 4;
              return step != nullptr;
            }),
            50);
}

TEST(PlantedFault, WrongChunkWritten) {
  EXPECT_GT(plant_everywhere([](Schedule& s) {
              Step* step = find_step(s, [](const Step& x) { return x.writes() && x.bytes > 0; });
              if (step != nullptr) step->to_at += 4;
              return step != nullptr;
            }),
            50);
}

TEST(PlantedFault, LostWait) {
  EXPECT_GT(plant_everywhere([](Schedule& s) {
              // Of a step with bytes: only data, not pacing, must be waited for.
              Step* step = find_step(s, [&](const Step& x) {
                return x.n_waits > 0 && (x.kind == StepKind::kReduce ||
                                         (x.kind == StepKind::kSend && x.bytes > 0 && x.from != coll::Place::kInput));
              });
              if (step != nullptr) step->n_waits = 0;
              return step != nullptr;
            }),
            50);
}

TEST(PlantedFault, WaitsSwapped) {
  // Two reductions, each waiting for the other one's operand.
  EXPECT_GT(plant_everywhere([](Schedule& s) {
              std::vector<uint32_t*> operands;  // of different steps
              for (const Step& step : s.steps) {
                uint32_t* operand = nullptr;
                for (uint32_t k = 0; k < step.n_waits && step.kind == StepKind::kReduce; ++k) {
                  uint32_t& wait = s.waits[step.first_wait + k];
                  if (s.steps[wait].kind == StepKind::kReceive) operand = &wait;
                }
                if (operand != nullptr) operands.push_back(operand);
              }
              if (operands.size() < 2) return false;
              std::swap(*operands[0], *operands[1]);
              return true;
            }),
            10);
}

TEST(PlantedFault, OperandsSwapped) {
  EXPECT_GT(plant_everywhere([](Schedule& s) {
              Step* step = find_step(s, [](const Step& x) {
                return x.kind == StepKind::kReduce && x.from != coll::Place::kInput && x.bytes > 0;
              });
              if (step == nullptr) return false;
              std::swap(step->from, step->to);
              std::swap(step->from_at, step->to_at);
              return true;
            }),
            10);
}

TEST(PlantedFault, CombinedTwice) {
  EXPECT_GT(plant_everywhere([](Schedule& s) {
              Step* step = find_step(s, [](const Step& x) { return x.kind == StepKind::kReduce; });
              if (step == nullptr) return false;
              s.steps.push_back(*step);
              s.waits.push_back(static_cast<uint32_t>(s.steps.size()) - 2);
              return true;
            }),
            20);
}

/// The `n`-th shared step, counting from 0.
Step* find_shared(Schedule& schedule, int n = 0) {
  return find_step(schedule, [&n](const Step& x) { return x.shared() && n-- == 0; });
}

TEST(PlantedFault, SharedStepLeftOut) {
  EXPECT_GT(plant_everywhere(
                [](Schedule& s) {
                  Step* step = find_shared(s);
                  if (step != nullptr) step->kind = StepKind::kCopy;
                  return step != nullptr;
                },
                true),
            20);
}

TEST(PlantedFault, SharedWithAnotherRank) {
  EXPECT_GT(plant_everywhere(
                [](Schedule& s) {
                  Step* step = find_shared(s);
                  if (step != nullptr) step->tag ^= 1;
                  return step != nullptr;
                },
                true),
            20);
}

TEST(PlantedFault, SharedStepsInNoOrder) {
  EXPECT_GT(plant_everywhere(
                [](Schedule& s) {
                  const Step* first = find_shared(s);
                  Step* second = find_shared(s, 1);
                  if (second == nullptr) return false;
                  const auto before = static_cast<uint32_t>(first - s.steps.data());
                  // All that it waits for, by whatever way, is taken away.
                  for (Step& step : s.steps) {
                    if (&step > first && &step <= second) step.n_waits = 0;
                  }
                  return before != kNoStep;
                },
                true),
            20);
}

TEST(PlantedFault, SharedBytesFromElsewhere) {
  EXPECT_GT(plant_everywhere(
                [](Schedule& s) {
                  Step* step = find_step(s, [](const Step& x) { return x.shared() && x.reads() && x.bytes > 0; });
                  if (step != nullptr) step->from_at += 4;
                  return step != nullptr;
                },
                true),
            20);
}

TEST(PlantedFault, LeadersStepTakenWithTheNode) {
  EXPECT_GT(plant_everywhere(
                [](Schedule& s) {
                  Step* step = find_step(s, [](const Step& x) { return x.of_leaders; });
                  if (step != nullptr) step->of_leaders = false;
                  return step != nullptr;
                },
                true),
            10);
}

TEST(PlantedFault, NodesStepTakenWithLeaders) {
  EXPECT_GT(plant_everywhere(
                [](Schedule& s) {
                  Step* step = find_shared(s);
                  if (step == nullptr || step->of_leaders) return false;
                  step->of_leaders = true;
                  return true;
                },
                true),
            20);
}

TEST(PlantedFault, LeadersStepLeftOut) {
  EXPECT_GT(plant_everywhere([](Schedule& s) {
              Step* step = find_step(s, [](const Step& x) { return x.of_leaders; });
              if (step != nullptr) *step = {.kind = StepKind::kCopy};
              return step != nullptr;
            }),
            10);
}

TEST(PlantedFault, AnotherKindOfStepAmongLeaders) {
  EXPECT_GT(plant_everywhere([](Schedule& s) {
              Step* step = find_step(s, [](const Step& x) { return x.of_leaders; });
              if (step == nullptr) return false;
              step->kind = step->kind == StepKind::kCombine ? StepKind::kCollect : StepKind::kCombine;
              return true;
            }),
            10);
}

TEST(PlantedFault, AnotherRootAmongLeaders) {
  EXPECT_GT(plant_everywhere([](Schedule& s) {
              Step* step = find_step(s, [](const Step& x) { return x.of_leaders; });
              if (step != nullptr) step->tag = (step->tag + 1) % 3;
              return step != nullptr;
            }),
            10);
}

TEST(PlantedFault, PartOfAnotherSize) {
  EXPECT_GT(plant_everywhere(
                [](Schedule& s) {
                  if (s.parts.empty()) return false;
                  s.parts.back() -= 4;
                  return true;
                },
                true),
            2);
}

TEST(PlantedFault, PartsThatOneTakesForEven) {
  EXPECT_GT(plant_everywhere(
                [](Schedule& s) {
                  Step* step = find_step(s, [](const Step& x) { return x.kind == StepKind::kPart; });
                  if (step != nullptr) step->even = !step->even;
                  return step != nullptr;
                },
                true),
            2);
}

TEST(PlantedFault, NobodyMeets) {
  std::vector<Problem> problems = with_teams(coll::for_all_ranks(planted_problem(Collective::kBarrier)), false);
  std::vector<Schedule> schedules;
  ASSERT_TRUE(coll::build(problems, coll::kHostLeaders, &schedules).ok());
  for (Schedule& s : schedules) {
    Step* step = find_step(s, [](const Step& x) { return x.of_leaders; });
    if (step == nullptr) continue;
    step->of_leaders = false;
    step->kind = StepKind::kCopy;
  }
  EXPECT_NE(coll::check(problems, schedules).fault.find("without having heard"), std::string::npos);
}

TEST(PlantedFault, BarrierRoundMissing) {
  const std::vector<Problem> problems = coll::for_all_ranks(planted_problem(Collective::kBarrier));
  std::vector<Schedule> schedules;
  ASSERT_TRUE(coll::build(problems, "dissemination", &schedules).ok());
  for (Schedule& s : schedules) s.steps.resize(s.steps.size() - 2);
  EXPECT_NE(coll::check(problems, schedules).fault.find("without having heard"), std::string::npos);
}

TEST(PlantedFault, Deadlock) {
  // Everybody receives before sending: fine for nobody.
  const std::vector<Problem> problems = coll::for_all_ranks(planted_problem(Collective::kAlltoall));
  std::vector<Schedule> schedules;
  ASSERT_TRUE(coll::build(problems, "linear", &schedules).ok());
  for (Schedule& s : schedules) {
    const Step* in = find_step(s, [](const Step& x) { return x.kind == StepKind::kReceive; });
    Step* out = find_step(s, [](const Step& x) { return x.kind == StepKind::kSend; });
    out->first_wait = static_cast<uint32_t>(s.waits.size());
    out->n_waits = 1;
    s.waits.push_back(static_cast<uint32_t>(in - s.steps.data()));
  }
  EXPECT_NE(coll::check(problems, schedules).fault.find("wait for each other"), std::string::npos);
}

TEST(Schedules, LeadersAloneCrossBetweenNodes) {
  Problem problem;
  problem.count = 1024;
  problem.layout = blocks_of(16, 4);
  problem.root = 6;  // no node's first rank
  problem.collective = Collective::kBcast;
  // The vector enters each of the three other nodes once.
  for (const char* name : {"leader-ring", "hierarchical"}) {
    EXPECT_EQ(prove(coll::for_all_ranks(problem), *coll::algorithm(Collective::kBcast, name)).node_bytes, 3 * 1024u);
  }
  EXPECT_EQ(prove(coll::for_all_ranks(problem), *coll::algorithm(Collective::kBcast, "linear")).node_bytes, 12 * 1024u);
  problem.collective = Collective::kAllgather;
  EXPECT_EQ(prove(coll::for_all_ranks(problem), *coll::algorithm(Collective::kAllgather, "leader-ring")).node_messages,
            12u);
}

TEST(Schedules, LeadersAloneCrossBetweenDomains) {
  Problem problem;
  problem.count = 1024;
  problem.root = 6;
  problem.collective = Collective::kBcast;
  problem = divided(problem, blocks_of(16, 4));
  for (const char* name : {"leader-ring-domains", "hierarchical-domains"}) {
    const Verdict verdict = prove(coll::for_all_ranks(problem), *coll::algorithm(Collective::kBcast, name));
    EXPECT_EQ(verdict.domain_bytes, 3 * 1024u);
    EXPECT_EQ(verdict.node_bytes, 0u);
  }
  EXPECT_EQ(prove(coll::for_all_ranks(problem), *coll::algorithm(Collective::kBcast, "linear")).domain_bytes,
            12 * 1024u);
  problem.collective = Collective::kAllgather;
  const Algorithm& ring = *coll::algorithm(Collective::kAllgather, "leader-ring-domains");
  EXPECT_EQ(prove(coll::for_all_ranks(problem), ring).domain_messages, 12u);
}

TEST(Schedules, OnlyADividedNodeHasDomains) {
  const auto of = [](std::vector<uint32_t> numbers) { return Layout::of_domains(numbers); };
  EXPECT_EQ(of({3, 3, 3}), nullptr);
  EXPECT_EQ(of({0, 1, 2}), nullptr) << "each is its own leader";
  ASSERT_NE(of({5, 1, 5}), nullptr);
  EXPECT_EQ(of({5, 1, 5})->nodes(), 2U);
  EXPECT_FALSE(of({5, 1, 5})->consecutive());
  for (const Collective collective : all_collectives()) {
    for (const Algorithm& algorithm : coll::algorithms(collective)) {
      EXPECT_EQ(algorithm.by_domains, algorithm.name.ends_with("-domains"));
      if (!algorithm.by_domains) continue;
      Schedule schedule;
      EXPECT_EQ(coll::build(planted_problem(collective), algorithm.name, &schedule).code(), Code::kNotSupported);
    }
  }
}

TEST(Schedules, LeadersTakeTheSameStepsForEveryLength) {
  for (const bool team : {false, true}) {
    for (const Collective collective : all_collectives()) {
      const Algorithm* how = coll::algorithm(collective, coll::kHostLeaders);
      if (how == nullptr) continue;
      std::vector<std::vector<StepKind>> usual;
      for (const uint64_t count : {0u, 1u, 1000u, 1'000'000u}) {
        Problem problem = planted_problem(collective);
        problem.count = count;
        std::vector<Problem> problems = coll::for_all_ranks(problem);
        if (team) problems = with_teams(std::move(problems), false);
        std::vector<Schedule> schedules;
        ASSERT_TRUE(coll::build(problems, how->name, &schedules).ok());
        std::vector<std::vector<StepKind>> kinds(schedules.size());
        for (size_t rank = 0; rank < schedules.size(); ++rank) {
          for (const Step& step : schedules[rank].steps) {
            if (step.shared()) kinds[rank].push_back(step.kind);
          }
        }
        if (usual.empty()) usual = kinds;
        EXPECT_EQ(kinds, usual) << text(problem, how->name);
      }
    }
  }
}

// A rank that took its node for divided in another way would break the call: the proof finds it.
TEST(PlantedFault, DomainsThatDiffer) {
  int planted = 0;
  for (const Collective collective : all_collectives()) {
    const Problem problem = divided(planted_problem(collective), blocks_of(7, 3));
    for (const Algorithm& algorithm : coll::algorithms(collective)) {
      if (!algorithm.by_domains || !algorithm.fits(problem)) continue;
      std::vector<Problem> problems = coll::for_all_ranks(problem);
      problems[3].domains = blocks_of(7, 2);
      std::vector<Schedule> schedules;
      ASSERT_TRUE(coll::build(problems, algorithm.name, &schedules).ok());
      EXPECT_FALSE(coll::check(problems, schedules).proved()) << text(problem, algorithm.name);
      ++planted;
    }
  }
  EXPECT_GT(planted, 5);
}

TEST(Schedules, HostLeadsCallsThatBlockOnSeveralNodes) {
  Problem problem = planted_problem(Collective::kAllreduce);
  EXPECT_NE(coll::choose(problem), coll::kHostLeaders);
  problem.blocks = true;
  EXPECT_EQ(coll::choose(problem), coll::kHostLeaders);
  problem.layout = Layout::one_node(7);
  EXPECT_NE(coll::choose(problem), coll::kHostLeaders);
  problem.layout = std::make_shared<const Layout>(std::vector<uint32_t>{0, 1, 0, 1});
  EXPECT_NE(coll::choose(problem), coll::kHostLeaders) << "operands in rank order";
  problem.commutative = true;
  EXPECT_EQ(coll::choose(problem), coll::kHostLeaders);
}

TEST(Schedules, TagsAreUsedAgainInOrder) {
  Problem problem;
  problem.collective = Collective::kAllgather;
  problem.count = 1;
  problem.layout = Layout::one_node(coll::kTags + 40);
  Schedule schedule;
  ASSERT_TRUE(coll::build(problem, "ring", &schedule).ok());
  const auto tag_zero = std::count_if(schedule.steps.begin(), schedule.steps.end(),
                                      [](const Step& s) { return s.kind == StepKind::kSend && s.tag == 0; });
  EXPECT_EQ(tag_zero, 2);
}

TEST(Schedules, WhatDoesNotFitIsRefused) {
  Problem problem = planted_problem(Collective::kAllreduce);
  Schedule schedule;
  EXPECT_EQ(coll::build(problem, "ring", &schedule).code(), Code::kNotSupported);
  EXPECT_EQ(coll::build(problem, "no such", &schedule).code(), Code::kInvalid);
}

}  // namespace
}  // namespace zh::test
