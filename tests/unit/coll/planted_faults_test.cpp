// Faults planted in schedules, which the proof must find.
// label one-thread: [.]PlantedFault[.]
#include <gtest/gtest.h>

#include <algorithm>

#include "coll/analysis/check.h"
#include "schedule_support.h"

namespace zh::test {
namespace {

using coll::Algorithm;
using coll::Collective;
using coll::kNoStep;
using coll::Problem;
using coll::Schedule;
using coll::Step;
using coll::StepKind;

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

/// The same, of the first step that `wanted` holds for, in every schedule that has one.
template <typename Wanted, typename Change>
int plant_in_step(Wanted&& wanted, Change&& change, bool teams = false) {
  return plant_everywhere(
      [&](Schedule& s) {
        Step* step = find_step(s, wanted);
        if (step != nullptr) change(*step);
        return step != nullptr;
      },
      teams);
}

const auto of_kind = [](StepKind kind) { return [kind](const Step& x) { return x.kind == kind; }; };
const auto is_shared = [](const Step& x) { return x.shared(); };
const auto among_leaders = [](const Step& x) { return x.of_leaders; };
const auto leave_out = [](Step& x) { x = {.kind = StepKind::kCopy}; };

TEST(PlantedFault, DroppedSend) { EXPECT_GT(plant_in_step(of_kind(StepKind::kSend), leave_out), 50); }

TEST(PlantedFault, WrongPeer) {
  EXPECT_GT(plant_in_step([](const Step& x) { return x.message(); }, [](Step& x) { x.peer = (x.peer + 1) % 7; }), 50);
}

TEST(PlantedFault, ShortChunk) {
  EXPECT_GT(plant_in_step([](const Step& x) { return x.writes() && x.bytes > 4; }, [](Step& x) { x.bytes -= 4; }), 50);
}

TEST(PlantedFault, WrongChunkRead) {
  EXPECT_GT(plant_in_step([](const Step& x) { return x.reads() && x.bytes > 0; }, [](Step& x) { x.from_at += 4; }), 50);
}

TEST(PlantedFault, WrongChunkWritten) {
  EXPECT_GT(plant_in_step([](const Step& x) { return x.writes() && x.bytes > 0; }, [](Step& x) { x.to_at += 4; }), 50);
}

TEST(PlantedFault, LostWait) {
  // Of a step with bytes: only data, not pacing, must be waited for.
  const auto has_data = [](const Step& x) {
    return x.n_waits > 0 && (x.kind == StepKind::kReduceLocal ||
                             (x.kind == StepKind::kSend && x.bytes > 0 && x.from != coll::Place::kInput));
  };
  EXPECT_GT(plant_in_step(has_data, [](Step& x) { x.n_waits = 0; }), 50);
}

TEST(PlantedFault, WaitsSwapped) {
  // Two reductions, each waiting for the other one's operand.
  EXPECT_GT(plant_everywhere([](Schedule& s) {
              std::vector<uint32_t*> operands;  // of different steps
              for (const Step& step : s.steps) {
                uint32_t* operand = nullptr;
                for (uint32_t k = 0; k < step.n_waits && step.kind == StepKind::kReduceLocal; ++k) {
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
  const auto of_data = [](const Step& x) {
    return x.kind == StepKind::kReduceLocal && x.from != coll::Place::kInput && x.bytes > 0;
  };
  const auto swap = [](Step& x) {
    std::swap(x.from, x.to);
    std::swap(x.from_at, x.to_at);
  };
  EXPECT_GT(plant_in_step(of_data, swap), 10);
}

TEST(PlantedFault, OperandsOfEachOther) {
  // Two receives, each of the rank that the other one was to hear: all operands are there, in another order.
  EXPECT_GT(plant_everywhere([](Schedule& s) {
              const auto with_data = [](const Step& x) { return x.kind == StepKind::kReceive && x.bytes > 0; };
              Step* one = find_step(s, with_data);
              if (one == nullptr) return false;
              Step* other = find_step(s, [&](const Step& x) {
                return with_data(x) && x.peer != one->peer && x.tag == one->tag && x.bytes == one->bytes;
              });
              if (other == nullptr) return false;
              std::swap(one->peer, other->peer);
              return true;
            }),
            30);
}

TEST(PlantedFault, ReadsBehindTheEnd) {
  // Into scratch that nobody looks at, after everything else.
  EXPECT_GT(plant_everywhere([](Schedule& s) {
              uint64_t end = 0;
              for (const Step& x : s.steps) {
                if (x.writes() && x.to == coll::Place::kOutput) end = std::max(end, x.to_at + s.written(x));
              }
              if (end < 8) return false;
              Step beyond{.kind = StepKind::kCopy};
              beyond.from = coll::Place::kOutput;
              beyond.from_at = end - 4;
              beyond.to = coll::Place::kScratch;
              beyond.to_at = s.scratch_bytes;
              beyond.bytes = 8;
              s.scratch_bytes += beyond.bytes;
              beyond.first_wait = static_cast<uint32_t>(s.waits.size());
              beyond.n_waits = static_cast<uint32_t>(s.steps.size());
              for (uint32_t i = 0; i < beyond.n_waits; ++i) s.waits.push_back(i);
              s.steps.push_back(beyond);
              return true;
            }),
            50);
}

TEST(PlantedFault, AResultOfTheFirstRankOfAnExclusiveScan) {
  const std::vector<Problem> problems = coll::for_all_ranks(planted_problem(Collective::kExscan));
  std::vector<Schedule> schedules;
  ASSERT_TRUE(coll::build(problems, "linear", &schedules).ok());
  Step own{.kind = StepKind::kCopy};
  own.from = coll::Place::kInput;
  own.to = coll::Place::kOutput;
  own.bytes = problems[0].bytes();
  schedules[0].steps.push_back(own);
  EXPECT_NE(coll::check(problems, schedules).fault.find("should not be written"), std::string::npos);
}

TEST(PlantedFault, CombinedTwice) {
  EXPECT_GT(plant_everywhere([](Schedule& s) {
              Step* step = find_step(s, [](const Step& x) { return x.kind == StepKind::kReduceLocal; });
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
  EXPECT_GT(plant_in_step(
                is_shared, [](Step& x) { x.kind = StepKind::kCopy; }, true),
            20);
}

TEST(PlantedFault, SharedWithAnotherRank) {
  EXPECT_GT(plant_in_step(
                is_shared, [](Step& x) { x.tag ^= 1; }, true),
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
  const auto of_data = [](const Step& x) { return x.shared() && x.reads() && x.bytes > 0; };
  EXPECT_GT(plant_in_step(
                of_data, [](Step& x) { x.from_at += 4; }, true),
            20);
}

TEST(PlantedFault, LeadersStepTakenWithTheNode) {
  EXPECT_GT(plant_in_step(
                among_leaders, [](Step& x) { x.of_leaders = false; }, true),
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

TEST(PlantedFault, LeadersStepLeftOut) { EXPECT_GT(plant_in_step(among_leaders, leave_out), 10); }

TEST(PlantedFault, AnotherKindOfStepAmongLeaders) {
  const auto other = [](Step& x) {
    x.kind = x.kind == StepKind::kAllreduce ? StepKind::kReduceRoot : StepKind::kAllreduce;
  };
  EXPECT_GT(plant_in_step(among_leaders, other), 10);
}

TEST(PlantedFault, AnotherRootAmongLeaders) {
  EXPECT_GT(plant_in_step(among_leaders, [](Step& x) { x.tag = (x.tag + 1) % 3; }), 10);
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
  const auto parted = [](const Step& x) { return x.kind == StepKind::kGatherLeaf || x.kind == StepKind::kScatterLeaf; };
  EXPECT_GT(plant_in_step(
                parted, [](Step& x) { x.even = !x.even; }, true),
            2);
}

/// The schedules of an algorithm with teams, spoiled alike on all ranks, so that their steps still fit each other.
template <typename Plant>
std::string fault_of_all(Collective collective, Plant&& plant, std::string_view algorithm = coll::kHostLeaders) {
  const std::vector<Problem> problems = with_teams(coll::for_all_ranks(planted_problem(collective)), false);
  std::vector<Schedule> schedules;
  EXPECT_TRUE(coll::build(problems, algorithm, &schedules).ok());
  int planted = 0;
  for (Schedule& schedule : schedules) planted += plant(schedule) ? 1 : 0;
  EXPECT_GT(planted, 1);
  return coll::check(problems, schedules).fault;
}

TEST(PlantedFault, InclusiveForExclusive) {
  const auto other_kind = [](Schedule& s) {
    Step* step = find_step(s, [](const Step& x) { return x.kind == StepKind::kScan || x.kind == StepKind::kExscan; });
    if (step != nullptr) step->kind = step->kind == StepKind::kScan ? StepKind::kExscan : StepKind::kScan;
    return step != nullptr;
  };
  EXPECT_NE(fault_of_all(Collective::kScan, other_kind), "");
  EXPECT_NE(fault_of_all(Collective::kExscan, other_kind), "");
  EXPECT_NE(fault_of_all(Collective::kScan,
                         [](Schedule& s) {
                           Step* step = find_step(s, [](const Step& x) { return x.of_leaders; });
                           if (step != nullptr) step->kind = StepKind::kScan;
                           return step != nullptr;
                         }),
            "");
}

TEST(PlantedFault, NothingIsPutBeforeTheFirstNode) {
  // Its leader gets no prefix, and must not use one.
  std::vector<Problem> problems = with_teams(coll::for_all_ranks(planted_problem(Collective::kScan)), false);
  std::vector<Schedule> schedules;
  ASSERT_TRUE(coll::build(problems, coll::kHostLeaders, &schedules).ok());
  Schedule& first = schedules[0];
  const auto exscan = static_cast<uint32_t>(first.steps.size()) - 1;
  ASSERT_EQ(first.steps[exscan].kind, StepKind::kExscan);
  Step use = first.steps[exscan];
  use = {.kind = StepKind::kReduceLocal,
         .from = use.to,
         .to = coll::Place::kOutput,
         .from_at = use.to_at,
         .bytes = use.bytes};
  use.first_wait = static_cast<uint32_t>(first.waits.size());
  use.n_waits = 1;
  first.waits.push_back(exscan);
  first.steps.push_back(use);
  EXPECT_NE(coll::check(problems, schedules).fault.find("what was never written"), std::string::npos);
}

TEST(PlantedFault, PartsInAnotherOrder) {
  // The parts of nodes of 3, 2 and 2 ranks.
  const auto turned = [](StepKind kind) {
    return [kind](Schedule& s) {
      Step* step = find_step(s, [kind](const Step& x) { return x.kind == kind && x.of_leaders; });
      if (step == nullptr) return false;
      std::swap(s.parts[step->first_part], s.parts[step->first_part + 1]);
      return true;
    };
  };
  EXPECT_NE(fault_of_all(Collective::kReduceScatter, turned(StepKind::kReduceScatter)), "");
  EXPECT_NE(fault_of_all(Collective::kAlltoall, turned(StepKind::kAlltoall)), "");
}

TEST(PlantedFault, PartsOfANodeInAnotherOrder) {
  // The first two slices of the last chunk, of 5 elements, are 3 and 2, and the node of three ranks has one without.
  for (const StepKind kind : {StepKind::kReduceScatter, StepKind::kAllgather}) {
    const auto turned = [kind](Schedule& s) {
      const Step* step = find_step(
          s, [&](const Step& x) { return x.kind == kind && !x.of_leaders && s.parts_of(x)[0] != s.parts_of(x)[1]; });
      if (step == nullptr) return false;
      std::swap(s.parts[step->first_part], s.parts[step->first_part + 1]);
      return true;
    };
    EXPECT_NE(fault_of_all(Collective::kAllreduce, turned, "shmem-parallel"), "");
  }
}

TEST(PlantedFault, ExchangedFromElsewhere) {
  // What a rank has is not where it belongs among the parts of all.
  const auto moved = [](Schedule& s) {
    Step* step = find_step(s, [](const Step& x) { return x.kind == StepKind::kAllgather && x.bytes > 0; });
    if (step != nullptr) step->from_at ^= 4;
    return step != nullptr;
  };
  EXPECT_NE(fault_of_all(Collective::kAllreduce, moved, "shmem-parallel").find("another shared step"),
            std::string::npos);
}

TEST(PlantedFault, LeadersTradeWhatIsNotSorted) {
  const auto unsorted = [](Schedule& s) {
    Step* step = find_step(s, [](const Step& x) { return x.kind == StepKind::kAlltoall; });
    if (step == nullptr) return false;
    // The first two copies of its leader, each to the other one's place.
    Step* first = find_step(s, [](const Step& x) { return x.kind == StepKind::kCopy; });
    std::swap(first[0].to_at, first[1].to_at);
    return true;
  };
  EXPECT_NE(fault_of_all(Collective::kAlltoall, unsorted).find("output"), std::string::npos);
}

TEST(PlantedFault, NobodyMeets) {
  std::vector<Problem> problems = with_teams(coll::for_all_ranks(planted_problem(Collective::kBarrier)), false);
  std::vector<Schedule> schedules;
  ASSERT_TRUE(coll::build(problems, coll::kHostLeaders, &schedules).ok());
  for (Schedule& s : schedules) {
    Step* step = find_step(s, among_leaders);
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

}  // namespace
}  // namespace zh::test
