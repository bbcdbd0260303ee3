// Faults planted in schedules, which the proof must find.
// label one-thread: [.]PlantedFault[.]
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coll/analysis/check.h"
#include "schedule_support.h"

namespace zh::test {
namespace {

using coll::Algorithm;
using coll::Collective;
using coll::Problem;
using coll::Schedule;
using coll::Step;
using coll::StepKind;

enum class Nodes : bool { kAlone, kTeams };

/// Builds all ranks' schedules of every algorithm that fits, lets `plant` spoil them (false: nothing to spoil there)
/// and expects the checker to find it, more than `least` times.
template <typename Plant>
void plant_everywhere(Nodes nodes, int least, Plant&& plant) {
  int planted = 0;
  for (const Collective collective : all_collectives()) {
    const Problem problem = planted_problem(collective);
    for (const Algorithm& algorithm : coll::algorithms(collective)) {
      if (!algorithm.fits(problem)) continue;
      std::vector<Problem> problems = coll::for_all_ranks(problem);
      if (nodes == Nodes::kTeams) problems = with_teams(std::move(problems), false);
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
  EXPECT_GT(planted, least);
}

/// The first step that `wanted` holds for; null if there is none.
template <typename Wanted>
Step* find_step(Schedule& schedule, Wanted&& wanted) {
  const auto found = std::find_if(schedule.steps.begin(), schedule.steps.end(), wanted);
  return found == schedule.steps.end() ? nullptr : &*found;
}

/// Changes the first step that `wanted` holds for; false if there is none.
template <typename Wanted, typename Change>
bool change_step(Schedule& schedule, Wanted&& wanted, Change&& change) {
  Step* const step = find_step(schedule, wanted);
  if (step != nullptr) change(*step);
  return step != nullptr;
}

template <typename Wanted, typename Change>
void plant_in_step(Nodes nodes, int least, Wanted&& wanted, Change&& change) {
  plant_everywhere(nodes, least, [&](Schedule& s) { return change_step(s, wanted, change); });
}

const auto of_kind = [](StepKind kind) { return [kind](const Step& x) { return x.kind == kind; }; };
const auto is_shared = [](const Step& x) { return x.shared(); };
const auto among_leaders = [](const Step& x) { return x.of_leaders; };
const auto leave_out = [](Step& x) { x = {.kind = StepKind::kCopy}; };

TEST(PlantedFault, DroppedSend) { plant_in_step(Nodes::kAlone, 50, of_kind(StepKind::kSend), leave_out); }

TEST(PlantedFault, WrongPeer) {
  const auto message = [](const Step& x) { return x.message(); };
  plant_in_step(Nodes::kAlone, 50, message, [](Step& x) { x.peer = (x.peer + 1) % 7; });
}

TEST(PlantedFault, WrongChunk) {
  const auto reader = [](const Step& x) { return x.reads() && x.bytes > 0; };
  const auto writer = [](const Step& x) { return x.writes() && x.bytes > 0; };
  const auto long_writer = [](const Step& x) { return x.writes() && x.bytes > 4; };
  plant_in_step(Nodes::kAlone, 50, reader, [](Step& x) { x.from_at += 4; });
  plant_in_step(Nodes::kAlone, 50, writer, [](Step& x) { x.to_at += 4; });
  plant_in_step(Nodes::kAlone, 50, long_writer, [](Step& x) { x.bytes -= 4; });
}

TEST(PlantedFault, LostWait) {
  // Of a step with bytes: only data, not pacing, must be waited for.
  const auto has_data = [](const Step& x) {
    return x.n_waits > 0 && (x.kind == StepKind::kReduceLocal ||
                             (x.kind == StepKind::kSend && x.bytes > 0 && x.from != coll::Place::kInput));
  };
  plant_in_step(Nodes::kAlone, 50, has_data, [](Step& x) { x.n_waits = 0; });
}

TEST(PlantedFault, WaitsSwapped) {
  // Two reductions, each waiting for the other one's operand.
  plant_everywhere(Nodes::kAlone, 10, [](Schedule& s) {
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
  });
}

TEST(PlantedFault, OperandsSwapped) {
  const auto of_data = [](const Step& x) {
    return x.kind == StepKind::kReduceLocal && x.from != coll::Place::kInput && x.bytes > 0;
  };
  plant_in_step(Nodes::kAlone, 10, of_data, [](Step& x) {
    std::swap(x.from, x.to);
    std::swap(x.from_at, x.to_at);
  });
}

TEST(PlantedFault, OperandsOfEachOther) {
  // Two receives, each of the rank that the other one was to hear: all operands are there, in another order.
  plant_everywhere(Nodes::kAlone, 30, [](Schedule& s) {
    const auto with_data = [](const Step& x) { return x.kind == StepKind::kReceive && x.bytes > 0; };
    Step* one = find_step(s, with_data);
    if (one == nullptr) return false;
    return change_step(
        s,
        [&](const Step& x) {
          return with_data(x) && x.peer != one->peer && x.tag == one->tag && x.bytes == one->bytes;
        },
        [&](Step& other) { std::swap(one->peer, other.peer); });
  });
}

TEST(PlantedFault, ReadsBehindTheEnd) {
  // Into scratch that nobody looks at, after everything else.
  plant_everywhere(Nodes::kAlone, 50, [](Schedule& s) {
    uint64_t end = 0;
    for (const Step& x : s.steps) {
      if (x.writes() && x.to == coll::Place::kOutput) end = std::max(end, x.to_at + s.written(x));
    }
    if (end < 8) return false;
    Step beyond{.from = coll::Place::kOutput, .to = coll::Place::kScratch, .from_at = end - 4, .bytes = 8};
    beyond.to_at = s.scratch_bytes;
    s.scratch_bytes += beyond.bytes;
    beyond.first_wait = static_cast<uint32_t>(s.waits.size());
    beyond.n_waits = static_cast<uint32_t>(s.steps.size());
    for (uint32_t i = 0; i < beyond.n_waits; ++i) s.waits.push_back(i);
    s.steps.push_back(beyond);
    return true;
  });
}

TEST(PlantedFault, CombinedTwice) {
  plant_everywhere(Nodes::kAlone, 20, [](Schedule& s) {
    Step* step = find_step(s, of_kind(StepKind::kReduceLocal));
    if (step == nullptr) return false;
    s.steps.push_back(*step);
    s.waits.push_back(static_cast<uint32_t>(s.steps.size()) - 2);
    return true;
  });
}

/// The `n`-th shared step, counting from 0.
Step* find_shared(Schedule& schedule, int n = 0) {
  return find_step(schedule, [&n](const Step& x) { return x.shared() && n-- == 0; });
}

TEST(PlantedFault, SharedStepLeftOut) {
  plant_in_step(Nodes::kTeams, 20, is_shared, [](Step& x) { x.kind = StepKind::kCopy; });
}

TEST(PlantedFault, SharedWithAnotherRank) {
  plant_in_step(Nodes::kTeams, 20, is_shared, [](Step& x) { x.tag ^= 1; });
}

TEST(PlantedFault, SharedStepsInNoOrder) {
  plant_everywhere(Nodes::kTeams, 20, [](Schedule& s) {
    const Step* first = find_shared(s);
    Step* second = find_shared(s, 1);
    if (second == nullptr) return false;
    // All that it waits for, by whatever way, is taken away.
    for (Step& step : s.steps) {
      if (&step > first && &step <= second) step.n_waits = 0;
    }
    return true;
  });
}

TEST(PlantedFault, SharedBytesFromElsewhere) {
  const auto of_data = [](const Step& x) { return x.shared() && x.reads() && x.bytes > 0; };
  plant_in_step(Nodes::kTeams, 20, of_data, [](Step& x) { x.from_at += 4; });
}

TEST(PlantedFault, LeadersStepTakenWithTheNode) {
  plant_in_step(Nodes::kTeams, 10, among_leaders, [](Step& x) { x.of_leaders = false; });
}

TEST(PlantedFault, NodesStepTakenWithLeaders) {
  plant_everywhere(Nodes::kTeams, 20, [](Schedule& s) {
    Step* step = find_shared(s);
    if (step == nullptr || step->of_leaders) return false;
    step->of_leaders = true;
    return true;
  });
}

TEST(PlantedFault, AnotherStepAmongLeaders) {
  plant_in_step(Nodes::kAlone, 10, among_leaders, leave_out);
  plant_in_step(Nodes::kAlone, 10, among_leaders, [](Step& x) {
    x.kind = x.kind == StepKind::kAllreduce ? StepKind::kReduceRoot : StepKind::kAllreduce;
  });
  plant_in_step(Nodes::kAlone, 10, among_leaders, [](Step& x) { x.tag = (x.tag + 1) % 3; });
}

TEST(PlantedFault, PartOfAnotherSize) {
  plant_everywhere(Nodes::kTeams, 2, [](Schedule& s) {
    if (s.parts.empty()) return false;
    s.parts.back() -= 4;
    return true;
  });
}

TEST(PlantedFault, PartsThatOneTakesForEven) {
  const auto parted = [](const Step& x) { return x.kind == StepKind::kGatherLeaf || x.kind == StepKind::kScatterLeaf; };
  plant_in_step(Nodes::kTeams, 2, parted, [](Step& x) { x.even = !x.even; });
}

/// What is found where `spoil` has been at the schedules of all ranks.
template <typename Spoil>
std::string fault_of(Collective collective, std::string_view algorithm, Nodes nodes, Spoil&& spoil) {
  std::vector<Problem> problems = coll::for_all_ranks(planted_problem(collective));
  if (nodes == Nodes::kTeams) problems = with_teams(std::move(problems), false);
  std::vector<Schedule> schedules;
  EXPECT_TRUE(coll::build(problems, algorithm, &schedules).ok());
  spoil(schedules);
  return coll::check(problems, schedules).fault;
}

/// The same, with teams and spoiled alike on all ranks, so that their steps still fit each other.
template <typename Plant>
std::string fault_of_all(Collective collective, Plant&& plant, std::string_view algorithm = coll::kHostLeaders) {
  return fault_of(collective, algorithm, Nodes::kTeams, [&](std::vector<Schedule>& schedules) {
    int planted = 0;
    for (Schedule& schedule : schedules) planted += plant(schedule) ? 1 : 0;
    EXPECT_GT(planted, 1);
  });
}

bool tells(const std::string& fault, const char* what) { return fault.find(what) != std::string::npos; }

TEST(PlantedFault, AResultOfTheFirstRankOfAnExclusiveScan) {
  const auto own_result = [](std::vector<Schedule>& schedules) {
    const uint64_t bytes = planted_problem(Collective::kExscan).bytes();
    schedules[0].steps.push_back({.from = coll::Place::kInput, .to = coll::Place::kOutput, .bytes = bytes});
  };
  EXPECT_TRUE(tells(fault_of(Collective::kExscan, "linear", Nodes::kAlone, own_result), "should not be written"));
}

TEST(PlantedFault, InclusiveForExclusive) {
  const auto scans = [](const Step& x) { return x.kind == StepKind::kScan || x.kind == StepKind::kExscan; };
  const auto other_kind = [&](Schedule& s) {
    return change_step(s, scans,
                       [](Step& x) { x.kind = x.kind == StepKind::kScan ? StepKind::kExscan : StepKind::kScan; });
  };
  const auto of_leaders = [](Schedule& s) {
    return change_step(s, among_leaders, [](Step& x) { x.kind = StepKind::kScan; });
  };
  EXPECT_NE(fault_of_all(Collective::kScan, other_kind), "");
  EXPECT_NE(fault_of_all(Collective::kExscan, other_kind), "");
  EXPECT_NE(fault_of_all(Collective::kScan, of_leaders), "");
}

TEST(PlantedFault, NothingIsPutBeforeTheFirstNode) {
  // Its leader gets no prefix, and must not use one.
  const auto use_it = [](std::vector<Schedule>& schedules) {
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
  };
  EXPECT_TRUE(tells(fault_of(Collective::kScan, coll::kHostLeaders, Nodes::kTeams, use_it), "what was never written"));
}

/// Exchanges the first two parts of the first step that `wanted` holds for.
template <typename Wanted>
auto turned(Wanted wanted) {
  return [wanted](Schedule& s) {
    return change_step(
        s, [&](const Step& x) { return wanted(s, x); },
        [&](Step& x) { std::swap(s.parts[x.first_part], s.parts[x.first_part + 1]); });
  };
}

TEST(PlantedFault, PartsInAnotherOrder) {
  // The parts of nodes of 3, 2 and 2 ranks.
  const auto of_leaders = [](StepKind kind) {
    return turned([kind](const Schedule&, const Step& x) { return x.kind == kind && x.of_leaders; });
  };
  EXPECT_NE(fault_of_all(Collective::kReduceScatter, of_leaders(StepKind::kReduceScatter)), "");
  EXPECT_NE(fault_of_all(Collective::kAlltoall, of_leaders(StepKind::kAlltoall)), "");
  // The first two slices of the last chunk, of 5 elements, are 3 and 2, and the node of three ranks has one without.
  for (const StepKind kind : {StepKind::kReduceScatter, StepKind::kAllgather}) {
    const auto of_a_node = turned([kind](const Schedule& s, const Step& x) {
      return x.kind == kind && !x.of_leaders && s.parts_of(x)[0] != s.parts_of(x)[1];
    });
    EXPECT_NE(fault_of_all(Collective::kAllreduce, of_a_node, "shmem-parallel"), "");
  }
}

TEST(PlantedFault, ExchangedFromElsewhere) {
  // What a rank has is not where it belongs among the parts of all.
  const auto with_data = [](const Step& x) { return x.kind == StepKind::kAllgather && x.bytes > 0; };
  const auto moved = [&](Schedule& s) { return change_step(s, with_data, [](Step& x) { x.from_at ^= 4; }); };
  EXPECT_TRUE(tells(fault_of_all(Collective::kAllreduce, moved, "shmem-parallel"), "another shared step"));
}

TEST(PlantedFault, LeadersTradeWhatIsNotSorted) {
  const auto unsorted = [](Schedule& s) {
    if (find_step(s, of_kind(StepKind::kAlltoall)) == nullptr) return false;
    // The first two copies of its leader, each to the other one's place.
    Step* first = find_step(s, of_kind(StepKind::kCopy));
    std::swap(first[0].to_at, first[1].to_at);
    return true;
  };
  EXPECT_TRUE(tells(fault_of_all(Collective::kAlltoall, unsorted), "output"));
}

TEST(PlantedFault, NobodyMeets) {
  const auto leave = [](Schedule& s) {
    return change_step(s, among_leaders, [](Step& x) {
      x.of_leaders = false;
      x.kind = StepKind::kCopy;
    });
  };
  EXPECT_TRUE(tells(fault_of_all(Collective::kBarrier, leave), "without having heard"));
}

TEST(PlantedFault, BarrierRoundMissing) {
  const auto cut = [](std::vector<Schedule>& schedules) {
    for (Schedule& s : schedules) s.steps.resize(s.steps.size() - 2);
  };
  EXPECT_TRUE(tells(fault_of(Collective::kBarrier, "dissemination", Nodes::kAlone, cut), "without having heard"));
}

TEST(PlantedFault, Deadlock) {
  // Everybody receives before sending: fine for nobody.
  const auto receive_first = [](std::vector<Schedule>& schedules) {
    for (Schedule& s : schedules) {
      const Step* in = find_step(s, of_kind(StepKind::kReceive));
      Step* out = find_step(s, of_kind(StepKind::kSend));
      out->first_wait = static_cast<uint32_t>(s.waits.size());
      out->n_waits = 1;
      s.waits.push_back(static_cast<uint32_t>(in - s.steps.data()));
    }
  };
  EXPECT_TRUE(tells(fault_of(Collective::kAlltoall, "linear", Nodes::kAlone, receive_first), "wait for each other"));
}

}  // namespace
}  // namespace zh::test
