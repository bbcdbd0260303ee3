// Who has the first word on an algorithm and its chunk.
#include "coll/algorithms/precedence.h"
#include "coll/algorithms/choose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace zh::test {
namespace {

using coll::AlgorithmChoice;
using coll::ChosenBy;
using coll::Collective;
using coll::Precedence;
using coll::Problem;

constexpr uint64_t kUsualChunk = 64 << 10;

Problem preferred_allreduce(uint32_t ranks, uint64_t bytes) {
  Problem problem{.collective = Collective::kAllreduce, .count = bytes, .chunk_bytes = kUsualChunk};
  problem.layout = coll::Layout::one_node(ranks);
  return problem;
}

std::string told(const AlgorithmChoice& choice) {
  const std::string_view algorithm = choice.algorithm != nullptr ? choice.algorithm->name : coll::kHostAlgorithm;
  return std::string(algorithm) + " " + std::to_string(choice.chunk_bytes) + " " + std::string(name_of(choice.by));
}

void name(Precedence* precedence, std::string_view word) {
  std::vector<std::string> faults;
  precedence->named = coll::read_names("allreduce:" + std::string(word), &faults);
  EXPECT_TRUE(faults.empty());
}

TEST(Precedence, VariableThenMeasuredThenModelThenDefault) {
  Precedence precedence;
  const Problem problem = preferred_allreduce(4, 8);
  EXPECT_EQ(told(precedence.choose(problem)), "recursive-doubling 65536 default");
  ASSERT_TRUE(precedence.modelled.parse("allreduce 2 one 0 single-reducer 8192\n").ok());
  EXPECT_EQ(told(precedence.choose(problem)), "single-reducer 8192 model");
  ASSERT_TRUE(precedence.measured.parse("allreduce 2 one 0 hierarchical 4096\n").ok());
  EXPECT_EQ(told(precedence.choose(problem)), "hierarchical 4096 measured");
  name(&precedence, "cyclic");
  EXPECT_EQ(told(precedence.choose(problem)), "shmem-cyclic 65536 variable");
  name(&precedence, "host");
  EXPECT_EQ(told(precedence.choose(problem)), "host 65536 variable");
}

TEST(Precedence, ASourceWithoutAWordLeavesItToTheNext) {
  Precedence precedence;
  ASSERT_TRUE(precedence.measured.parse("allreduce 8 one 0 hierarchical\nallreduce 2 several 0 ring\n").ok());
  ASSERT_TRUE(precedence.modelled.parse("allreduce 4 one 0 single-reducer\n").ok());
  EXPECT_EQ(precedence.choose(preferred_allreduce(8, 8)).by, ChosenBy::kMeasured);
  EXPECT_EQ(precedence.choose(preferred_allreduce(4, 8)).by, ChosenBy::kModel);
  EXPECT_EQ(precedence.choose(preferred_allreduce(2, 8)).by, ChosenBy::kDefault);
}

TEST(Precedence, WhatDoesNotFitLeavesItToTheNext) {
  Precedence precedence;
  Problem ordered = preferred_allreduce(4, 8);
  ordered.commutative = false;
  name(&precedence, "ring");
  ASSERT_TRUE(precedence.measured.parse("allreduce 2 one 0 ring\n").ok());
  ASSERT_TRUE(precedence.modelled.parse("allreduce 2 one 0 single-reducer\n").ok());
  EXPECT_EQ(told(precedence.choose(ordered)), "single-reducer 65536 model");
  precedence.modelled = {};
  EXPECT_EQ(told(precedence.choose(ordered)), "recursive-doubling 65536 default");
}

TEST(Precedence, MeasuredAsTheHostsIsTheHosts) {
  Precedence precedence;
  ASSERT_TRUE(precedence.measured.parse("allreduce 2 one 0 host\n").ok());
  ASSERT_TRUE(precedence.modelled.parse("allreduce 2 one 0 single-reducer\n").ok());
  EXPECT_EQ(told(precedence.choose(preferred_allreduce(4, 8))), "host 65536 measured");
}

TEST(Precedence, AChunkThatIsSetCountsMoreThanTheTables) {
  Precedence precedence;
  ASSERT_TRUE(precedence.measured.parse("allreduce 2 one 0 ring 0\n").ok());
  EXPECT_EQ(precedence.choose(preferred_allreduce(4, 8)).chunk_bytes, 0U);
  precedence.chunk_set = true;
  EXPECT_EQ(precedence.choose(preferred_allreduce(4, 8)).chunk_bytes, kUsualChunk);
}

TEST(Precedence, ANamedAlgorithmThatCannotObeyTheChunkIsSaid) {
  std::vector<std::string> faults;
  const coll::NamedAlgorithms named = coll::read_names("bcast:binomial,reduce:hierarchical,scan:host", &faults);
  coll::find_uncut(named, 0, &faults);
  EXPECT_TRUE(faults.empty());
  coll::find_uncut(named, 8192, &faults);
  EXPECT_EQ(faults, std::vector<std::string>{"chunk: binomial does not cut what it passes on"});
}

TEST(Precedence, AChunkThatNobodySetMakesNotTooManyPieces) {
  Precedence precedence;
  Problem problem = preferred_allreduce(4, 8);
  problem.count = (64 << 20) / problem.element_bytes;
  EXPECT_EQ(precedence.choose(problem).chunk_bytes, 256U << 10);
  ASSERT_TRUE(precedence.measured.parse("allreduce 2 one 0 ring 4096\n").ok());
  EXPECT_EQ(precedence.choose(problem).chunk_bytes, 256U << 10);
  precedence.chunk_set = true;
  EXPECT_EQ(precedence.choose(problem).chunk_bytes, kUsualChunk);
  EXPECT_EQ(coll::unasked_chunk(0, 64 << 20), 0U) << "whole";
}

// A table of before may name a chunk.
TEST(Precedence, LeadersNeverCut) {
  Precedence precedence;
  Problem problem = preferred_allreduce(4, 8);
  problem.blocks = true;
  problem.layout = std::make_shared<const coll::Layout>(std::vector<uint32_t>{0, 0, 1, 1});
  EXPECT_EQ(precedence.choose(problem).chunk_bytes, 0U);
  ASSERT_TRUE(precedence.measured.parse("allreduce 2 several 0 host-leaders\n").ok());
  EXPECT_EQ(told(precedence.choose(problem)), "host-leaders 0 measured");
  ASSERT_TRUE(precedence.measured.parse("allreduce 2 several 0 host-leaders 4096\n").ok());
  EXPECT_EQ(told(precedence.choose(problem)), "host-leaders 0 measured");
  precedence.chunk_set = true;
  EXPECT_EQ(told(precedence.choose(problem)), "host-leaders 0 measured");
  name(&precedence, "leaders");
  EXPECT_EQ(told(precedence.choose(problem)), "host-leaders 0 variable");
}

TEST(Precedence, HostLeadsAllLengthsWhereNothingElseHasAWord) {
  Precedence precedence;
  Problem problem = preferred_allreduce(4, 8);
  problem.blocks = true;
  EXPECT_EQ(precedence.host_leads(problem), coll::HostLeads::kNever) << "one node";
  problem.layout = std::make_shared<const coll::Layout>(std::vector<uint32_t>{0, 0, 1, 1});
  EXPECT_EQ(precedence.host_leads(problem), coll::HostLeads::kAlways);
  EXPECT_EQ(told(precedence.choose(problem)), "host-leaders 0 default");
  ASSERT_TRUE(precedence.measured.parse("allreduce 2 several 0 host-leaders\n").ok());
  EXPECT_EQ(precedence.host_leads(problem), coll::HostLeads::kSometimes);
  name(&precedence, "leaders");
  EXPECT_EQ(precedence.host_leads(problem), coll::HostLeads::kAlways);
  name(&precedence, "ring");
  EXPECT_EQ(precedence.host_leads(problem), coll::HostLeads::kNever);
  problem.commutative = false;  // the ring does not fit
  EXPECT_EQ(precedence.host_leads(problem), coll::HostLeads::kSometimes);
  name(&precedence, "host");
  EXPECT_EQ(precedence.host_leads(problem), coll::HostLeads::kNever);
}

TEST(Precedence, BetweenNodesLeadersServeOrTheHostWhereTheyGainNothing) {
  using coll::HostLeads;
  const auto two_nodes_of = [](uint32_t ranks) {
    std::vector<uint32_t> node_of(2 * ranks);
    std::fill(node_of.begin() + ranks, node_of.end(), 1);
    return std::make_shared<const coll::Layout>(node_of);
  };
  struct Case {
    Collective collective;
    uint32_t node_ranks;
    bool uniform;
    const char* of_8_bytes;
    const char* of_1_mib;
    HostLeads leads;
  };
  for (const Case& c : {Case{Collective::kAlltoall, 4, true, "host-leaders", "host", HostLeads::kSometimes},
                        Case{Collective::kAlltoall, 4, false, "host", "host", HostLeads::kNever},
                        Case{Collective::kReduceScatter, 4, true, "host-leaders", "host-leaders", HostLeads::kAlways},
                        Case{Collective::kReduceScatter, 2, true, "host", "host", HostLeads::kNever},
                        Case{Collective::kReduceScatter, 4, false, "host-leaders", "host-leaders", HostLeads::kAlways},
                        Case{Collective::kGather, 4, true, "host", "host", HostLeads::kNever},
                        Case{Collective::kGather, 4, false, "linear", "linear", HostLeads::kNever},
                        Case{Collective::kScatter, 4, true, "host-leaders", "host-leaders", HostLeads::kAlways},
                        Case{Collective::kScatter, 2, true, "host", "host", HostLeads::kNever},
                        Case{Collective::kScatter, 4, false, "host", "host", HostLeads::kNever},
                        Case{Collective::kReduce, 4, true, "hierarchical", "hierarchical", HostLeads::kNever},
                        Case{Collective::kScan, 4, true, "linear", "linear", HostLeads::kNever},
                        Case{Collective::kScan, 64, true, "recursive-doubling", "linear", HostLeads::kNever}}) {
    const Precedence precedence;
    Problem problem{.collective = c.collective, .chunk_bytes = kUsualChunk, .uniform = c.uniform};
    for (const uint64_t bytes : {uint64_t{8}, uint64_t{1} << 20}) {
      const std::string what = std::string(coll::name_of(c.collective)) + " of " + std::to_string(bytes);
      problem.count = bytes;
      problem.layout = two_nodes_of(c.node_ranks);
      problem.blocks = true;
      const std::string algorithm = bytes == 8 ? c.of_8_bytes : c.of_1_mib;
      const std::string chunk = algorithm == coll::kHostLeaders ? "0" : "65536";
      EXPECT_EQ(told(precedence.choose(problem)), algorithm + " " + chunk + " default") << what;
      EXPECT_EQ(precedence.host_leads(problem), c.leads) << what;
      // Members that refuse their arguments would tell a team of it where the others tell none. Of a reduce-scatter
      // they know the form before.
      const bool known = c.collective == Collective::kReduceScatter && c.uniform && c.node_ranks >= 4;
      EXPECT_EQ(coll::may_share(problem), known) << what;
      problem.blocks = false;
      EXPECT_NE(precedence.choose(problem).algorithm, nullptr) << what;
      problem.blocks = true;
      problem.layout = coll::Layout::one_node(2 * c.node_ranks);
      ASSERT_NE(precedence.choose(problem).algorithm, nullptr) << what;
      EXPECT_NE(precedence.choose(problem).algorithm->name, coll::kHostLeaders) << what;
    }
  }
}

TEST(Precedence, NamesAreReadAsTheVariableHasThem) {
  std::vector<std::string> faults;
  Precedence p;
  for (const char* nothing : {"", "auto", "bcast:auto", "bcast:linear,bcast:auto", ","}) {
    p.named = coll::read_names(nothing, &faults);
    EXPECT_FALSE(p.named_for(Collective::kBcast).has_value()) << nothing;
  }
  p.named = coll::read_names("bcast:leader-ring,allreduce:host", &faults);
  EXPECT_EQ(p.named_for(Collective::kBcast).value()->name, "leader-ring");
  EXPECT_EQ(p.named_for(Collective::kAllreduce).value(), nullptr);
  EXPECT_FALSE(p.named_for(Collective::kReduce).has_value());
  EXPECT_TRUE(faults.empty());
  p.named = coll::read_names("bcast,brodcast:linear,reduce:nonsense,scan:linear", &faults);
  ASSERT_EQ(faults.size(), 3U);
  EXPECT_EQ(faults[0], "ZEROHOP_ALGORITHM: bcast: is not collective:algorithm");
  EXPECT_EQ(faults[1], "ZEROHOP_ALGORITHM: brodcast:linear: there is no such collective");
  EXPECT_EQ(faults[2].find("ZEROHOP_ALGORITHM: reduce:nonsense: there are auto, host, "), 0U) << faults[2];
  EXPECT_FALSE(p.named_for(Collective::kReduce).has_value());
  EXPECT_EQ(p.named_for(Collective::kScan).value()->name, "linear") << "what is right is obeyed";
}

}  // namespace
}  // namespace zh::test
