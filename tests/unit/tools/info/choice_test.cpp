// What `zerohop info --collective` answers: who is in force, who said so, and whom it serves.
#include "tools/info/choice.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "support/folder.h"

namespace zh::tools {
namespace {

using coll::Collective;
using nlohmann::json;

ChoiceQuestion allreduce(uint64_t bytes, uint32_t ranks, uint32_t nodes) {
  return {Collective::kAllreduce, bytes, ranks, nodes};
}

ChoiceFacts facts() {
  ChoiceFacts f;
  f.chunk_bytes = 64 << 10;
  return f;
}

std::string told(const ChoiceQuestion& question, const ChoiceFacts& f) {
  return choice_text(question, {{"ompi", choice_json(question, f)}}, 500);
}

void expect(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
}

TEST(InfoChoice, NamesTheSourceThatWon) {
  const ChoiceQuestion question = allreduce(8, 4, 1);
  ChoiceFacts f = facts();
  json a = choice_json(question, f);
  EXPECT_EQ(a["source"], "default");
  EXPECT_EQ(a["algorithm"], "recursive-doubling");
  ASSERT_TRUE(f.precedence.modelled.parse("allreduce 2 one 0 single-reducer 8192\n").ok());
  a = choice_json(question, f);
  EXPECT_EQ(a["source"], "model");
  EXPECT_EQ(a["chunk_bytes"], 8192);
  ASSERT_TRUE(f.precedence.measured.parse("allreduce 2 one 0 hierarchical 4096\n").ok());
  a = choice_json(question, f);
  EXPECT_EQ(a["source"], "measured");
  EXPECT_EQ(a["chunk_bytes"], 4096);
  f.precedence.named[static_cast<size_t>(Collective::kAllreduce)] = nullptr;
  a = choice_json(question, f);
  EXPECT_EQ(a["source"], "variable");
  EXPECT_EQ(a["algorithm"], "host");
  expect(told(question, f),
         "variable: host, measured: hierarchical, model: single-reducer, default: recursive-doubling");
}

TEST(InfoChoice, SaysWhomItServes) {
  ChoiceFacts f = facts();
  uint64_t bytes = 1024;
  const auto served = [&](uint32_t ranks, uint32_t nodes) {
    const json a = choice_json(allreduce(bytes, ranks, nodes), f);
    return a["blocking"].get<std::string>() + " " + a["nonblocking"].get<std::string>();
  };
  EXPECT_EQ(served(4, 1), "team schedule");
  EXPECT_EQ(served(4, 2), "schedule host");
  EXPECT_EQ(served(4, 4), "host host");
  bytes = 64 << 10;
  EXPECT_EQ(served(4, 1), "team team-if-apart");
  expect(told(allreduce(bytes, 4, 1), f), "a team if ranks mostly share no cache, else a schedule by this algorithm");
  ASSERT_TRUE(f.precedence.measured.parse("allreduce 2 one 0 host\nallreduce 2 several 0 host\n").ok());
  EXPECT_EQ(served(4, 1), "team host");
  EXPECT_EQ(served(4, 2), "host host");
  bytes = 1024;
  EXPECT_EQ(served(4, 1), "team host");
  // Small ones read no table.
  bytes = 8;
  EXPECT_EQ(served(4, 1), "team team");
  EXPECT_EQ(served(4, 2), "host host");
  // A variable takes a call from the team.
  f.precedence.named[static_cast<size_t>(Collective::kAllreduce)] = coll::algorithm(Collective::kAllreduce, "ring");
  EXPECT_EQ(served(4, 1), "schedule schedule");
  f.serves = false;
  EXPECT_EQ(served(4, 1), "host host");
  expect(told(allreduce(8, 4, 1), facts()), "blocking calls: a team by control blocks, which reads no table");
}

TEST(InfoChoice, AnswersThatAreAlikeAreToldOnce) {
  const ChoiceQuestion question = allreduce(8, 4, 1);
  ChoiceFacts other = facts();
  ASSERT_TRUE(other.precedence.measured.parse("allreduce 2 one 0 ring\n").ok());
  const json same = choice_json(question, facts());
  const std::string text =
      choice_text(question, {{"abi", same}, {"mpich", choice_json(question, other)}, {"ompi", same}}, 80);
  expect(text, "Under abi, ompi\n");
  expect(text, "Under mpich\n");
  expect(text, "\n\nA team shares memory on its node; a schedule is");
}

TEST(InfoChoice, RefusesNodesThatAreNotAlike) {
  EXPECT_EQ(fault_of(allreduce(8, 4, 2)), "");
  EXPECT_NE(fault_of(allreduce(8, 5, 2)).find("a multiple of 2"), std::string::npos);
}

TEST(InfoChoice, ReadsVariablesAndBothTables) {
  const test::Folder made;
  const std::string folder = made.path();
  Options options;
  ASSERT_TRUE(options.set("ZEROHOP_CACHE", folder, Source::kCommandLine).ok());
  ASSERT_TRUE(options.set("chunk", "4K", Source::kCommandLine).ok());
  ASSERT_TRUE(options.set("ZEROHOP_ALGORITHM", "bcast:linear,reduce:nonsense", Source::kCommandLine).ok());
  ChoiceFacts f = facts_of(options, "ompi");
  EXPECT_EQ(choice_json({Collective::kBcast, 8, 4, 1}, f)["source"], "variable");
  EXPECT_EQ(choice_json(allreduce(8, 4, 1), f)["chunk_bytes"], 4096);
  ASSERT_EQ(f.complaints.size(), 2U);
  EXPECT_EQ(f.complaints[1], "chunk: linear does not cut what it passes on");
  EXPECT_NE(f.complaints[0].find("ZEROHOP_ALGORITHM: reduce:nonsense: there are auto, host, "), std::string::npos);
  std::ofstream(coll::selection_path(folder, "ompi")) << "allreduce 2 one 0\n";
  std::ofstream(coll::model_selection_path(folder, "ompi")) << "allreduce 2 one 0 ring 0\n";
  f = facts_of(options, "ompi");
  ASSERT_EQ(f.complaints.size(), 3U);
  EXPECT_NE(f.complaints[2].find("-ompi.txt: line 1: a line has 5 or 6 words"), std::string::npos);
  // The setting chunk counts more than the table's.
  const json a = choice_json(allreduce(8, 4, 1), f);
  EXPECT_EQ(a["source"], "model");
  EXPECT_EQ(a["chunk_bytes"], 4096);
  EXPECT_EQ(choice_json(allreduce(8, 4, 1), facts_of(options, "mpich"))["source"], "default");
}

}  // namespace
}  // namespace zh::tools
