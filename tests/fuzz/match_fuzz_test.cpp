// Matching against the oracle: random programs of sends, receives, probes and cancels. A failure prints its seed and
// the smallest program that still fails; put into corpus/matching it is run every time.
#include <gtest/gtest.h>

#include <cstdio>

#include "fuzz_support.h"
#include "match_oracle.h"
#include "match_program.h"
#include "match_run.h"

namespace zh::test {
namespace {

constexpr uint64_t kPatienceS = 40;  // of one program, on a machine that does other things
constexpr uint64_t kMinimiseS = 60;

std::string try_program(const Program& p, uint64_t patience_s = kPatienceS) {
  return in_child([&] { return run_program(p, patience_s); }, static_cast<int>(patience_s + 20));
}

TEST(MatchFuzz, EveryProgramEndsAsAListWouldHaveMatched) {
  const uint64_t seed = fuzz_seed();
  const FuzzClock clock;
  uint64_t programs = 0;
  for (; !clock.over(); ++programs) {
    const Program p = random_program(seed + programs);
    const std::string wrong = try_program(p);
    if (wrong.empty()) continue;
    // With threads a program may need several tries to fail again.
    const auto fails = [](const Program& smaller) {
      for (int i = 0; i < (smaller.threads ? 5 : 1); ++i) {
        if (!try_program(smaller, 2).empty()) return true;
      }
      return false;
    };
    FAIL() << "program of seed " << seed + programs << ": " << wrong << "\n"
           << to_text(p) << "\nthe smallest found that fails:\n"
           << to_text(minimised(p, fails, kMinimiseS));
  }
  std::printf("%llu programs\n", static_cast<unsigned long long>(programs));
  EXPECT_GT(programs, 0u);
}

TEST(MatchFuzz, TheCorpusEndsSoToo) {
  const auto files = corpus("matching");
  ASSERT_FALSE(files.empty());
  for (const auto& file : files) {
    Program p;
    ASSERT_TRUE(read_program(whole_file(file), &p)) << file;
    for (const bool threads : {false, true}) {
      p.threads = threads;
      EXPECT_EQ(try_program(p), "") << file << (threads ? ", with threads" : "");
    }
  }
}

TEST(MatchFuzz, AProgramIsReadAsItWasWritten) {
  const Program p = random_program(fuzz_seed());
  Program read;
  ASSERT_TRUE(read_program(to_text(p), &read));
  EXPECT_EQ(to_text(read), to_text(p));
}

TEST(MatchFuzz, AFailureIsCutDownToTheActsThatMatter) {
  const auto fails = [](const Program& p) {
    int sends = 0;
    for (const Op& o : p.ops) sends += o.act == Act::kSend ? 1 : 0;
    return sends >= 2;
  };
  Program p = random_program(1);
  while (!fails(p)) p.ops.push_back({.act = Act::kSend});
  EXPECT_EQ(minimised(p, fails, 10).ops.size(), 2u);
}

// --- the oracle finds what it is there for: one rank's receives of messages from two others

SentMessage sent(uint32_t source, int32_t tag, uint64_t at, uint64_t bytes = 8) {
  SentMessage m;
  m.source = source;
  m.tag = tag;
  m.bytes = bytes;
  m.matched.from = at;
  return m;
}

PostedReceive got(int32_t want_source, int32_t want_tag, Span span, int32_t source, int32_t tag) {
  PostedReceive r;
  r.want_source = want_source;
  r.want_tag = want_tag;
  r.matched = span;
  r.source = source;
  r.tag = tag;
  r.capacity = r.bytes = 8;
  return r;
}

PostedReceive cancelled(int32_t want_source, int32_t want_tag, Span span) {
  PostedReceive r = got(want_source, want_tag, span, -1, -1);
  r.cancelled = true;
  return r;
}

std::string judged(const std::vector<SentMessage>& sends, const std::vector<PostedReceive>& receives) {
  std::vector<int> message_of;
  return judge({sends, receives}, &message_of);
}

bool finds(const std::string& said, const char* what) { return said.find(what) != std::string::npos; }

TEST(MatchOracle, AllowsWhatAListCanDo) {
  EXPECT_EQ(judged({sent(1, 5, 1), sent(1, 6, 2)}, {got(-1, -1, {3, 9}, 1, 5), got(-1, -1, {4, 9}, 1, 6)}), "");
  EXPECT_EQ(judged({sent(1, 5, 1), sent(1, 6, 2)}, {got(-1, 6, {3, 9}, 1, 6), got(-1, -1, {4, 9}, 1, 5)}), "");
  // Either source may come first.
  EXPECT_EQ(judged({sent(1, 5, 1), sent(2, 5, 2)}, {got(-1, -1, {3, 9}, 2, 5), got(-1, -1, {4, 9}, 1, 5)}), "");
  // A cancelled receive leaves the message to the next one.
  EXPECT_EQ(judged({sent(1, 5, 1)}, {cancelled(-1, -1, {4, 5}), got(-1, -1, {3, 9}, 1, 5)}), "");
}

TEST(MatchOracle, FindsAMessageThatOvertook) {
  EXPECT_TRUE(finds(judged({sent(1, 5, 1), sent(1, 6, 2)}, {got(-1, -1, {3, 9}, 1, 6), got(-1, -1, {4, 9}, 1, 5)}),
                    "overtaken"));
}

TEST(MatchOracle, FindsAReceiveThatOvertook) {
  // The second took the message, though the first was posted, accepted it, and was cancelled only later.
  EXPECT_TRUE(finds(judged({sent(1, 5, 1)}, {cancelled(-1, 5, {8, 9}), got(1, -1, {3, 4}, 1, 5)}), "too late"));
  // The second had its message before the first's was sent.
  EXPECT_TRUE(
      finds(judged({sent(1, 5, 1), sent(2, 5, 6)}, {got(-1, 5, {2, 9}, 2, 5), got(-1, 5, {3, 4}, 1, 5)}), "too late"));
}

TEST(MatchOracle, FindsASynchronousSendThatEndedUnreceived) {
  SentMessage m = sent(1, 5, 1);
  m.matched.to = 2;
  EXPECT_TRUE(finds(judged({m}, {got(1, 5, {3, 9}, 1, 5)}), "too late"));
}

TEST(MatchOracle, FindsLossesDoublesAndWrongResults) {
  EXPECT_TRUE(finds(judged({sent(1, 5, 1)}, {}), "lost"));
  EXPECT_TRUE(finds(judged({sent(1, 5, 1)}, {got(1, 5, {2, 9}, 1, 5), got(1, 5, {3, 9}, 1, 5)}), "twice"));
  EXPECT_TRUE(finds(judged({sent(1, 5, 1)}, {got(2, 5, {2, 9}, 1, 5)}), "does not accept"));
  EXPECT_TRUE(finds(judged({sent(1, 5, 1, 9)}, {got(1, 5, {2, 9}, 1, 5)}), "8 bytes of"));
  SentMessage gone = sent(1, 5, 1);
  gone.cancelled = true;
  EXPECT_TRUE(finds(judged({gone}, {got(1, 5, {2, 9}, 1, 5)}), "not sent"));
}

}  // namespace
}  // namespace zh::test
