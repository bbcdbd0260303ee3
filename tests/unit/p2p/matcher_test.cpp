// Matching by itself (MPI standard 3.5): which message a receive gets, whoever matches them, and what a probe, a
// receive that is taken back and a broken lock leave behind.
// label one-thread: [.]MatcherRules[.]
#include "p2p/matcher.h"

#include "sides_support.h"

namespace zh::p2p::test {
namespace {

class MatcherRules : public Sides {
 protected:
  Matcher& matcher() { return receives().matcher; }
  /// A receive that is not queued.
  Request* receive(int32_t source, int32_t tag, uint64_t context = kContext) {
    return receives().receiver.irecv_unposted(receives().from(source, tag, data_, context));
  }
  /// The same, queued, or matched at once: then taken() is its value.
  Request* posted(int32_t source, int32_t tag, uint64_t context = kContext) {
    Request* request = receive(source, tag, context);
    EXPECT_NE(matcher().describe(request), nullptr);
    outcome_ = matcher().post(request, true);
    return request;
  }
  /// The values taken since the latest call, and by which requests.
  std::vector<std::pair<Request*, int>> taken() {
    std::vector<std::pair<Request*, int>> all;
    for (const Matcher::Taken& t : matcher().taken()) {
      all.emplace_back(t.request, 0);
      std::memcpy(&all.back().second, t.message.payload, sizeof(int));
    }
    matcher().clear_taken();
    return all;
  }
  using Expected = std::vector<std::pair<Request*, int>>;
  Matcher::Posted outcome_ = Matcher::Posted::kBroken;
  std::vector<int> data_ = std::vector<int>(1);
};

TEST_F(MatcherRules, AReceiveGetsTheEarliestMessageThatFitsIt) {
  for (const auto& [tag, value] : {std::pair{1, 10}, {2, 20}, {1, 11}, {3, 30}}) sends().put(tag, value);
  receives().drain();
  EXPECT_EQ(matcher().taken().size(), 0U);
  Request* r = posted(0, 2);
  EXPECT_EQ(outcome_, Matcher::Posted::kFound);
  EXPECT_EQ(taken(), Expected({{r, 20}}));
  r = posted(kAnySource, 1);
  EXPECT_EQ(taken(), Expected({{r, 10}}));
  r = posted(kAnySource, kAnyTag);
  EXPECT_EQ(taken(), Expected({{r, 11}})) << "the earliest, not the latest";
  r = posted(0, kAnyTag);
  EXPECT_EQ(taken(), Expected({{r, 30}}));
  posted(0, kAnyTag);
  EXPECT_EQ(outcome_, Matcher::Posted::kQueued) << "nothing is left";
}

TEST_F(MatcherRules, AMessageGoesToTheReceiveThatWasPostedFirst) {
  Request* exact = posted(0, 2);
  Request* any_tag = posted(0, kAnyTag);
  Request* any = posted(kAnySource, kAnyTag);
  Request* late = posted(0, 2);
  for (const int value : {1, 2, 3, 4}) sends().put(2, value);
  receives().drain();
  EXPECT_EQ(taken(), Expected({{exact, 1}, {any_tag, 2}, {any, 3}, {late, 4}}));
}

TEST_F(MatcherRules, ContextsAndSourcesAreKeptApart) {
  Request* other = posted(kAnySource, kAnyTag, kContext + 1);
  posted(1, kAnyTag);  // of this rank itself
  sends().put(7, 1);
  receives().drain();
  EXPECT_EQ(matcher().taken().size(), 0U);
  sends().put(7, 2, kContext + 1);
  receives().drain();
  EXPECT_EQ(taken(), Expected({{other, 2}}));
  EXPECT_TRUE(matcher().holds_receives());
}

TEST_F(MatcherRules, AReceiveThatLooksForItselfIsTheLast) {
  Request* looks = receive(0, kAnyTag);
  Request* first = posted(0, 5);
  sends().put(5, 1);
  sends().put(6, 2);
  sends().put(6, 3);
  matcher().search(looks);
  EXPECT_EQ(taken(), Expected({{first, 1}, {looks, 2}}));
  Request* next = receive(0, 6);
  matcher().search(next);
  EXPECT_EQ(taken(), Expected({{next, 3}}));
}

TEST_F(MatcherRules, AProbeTellsOfWhatAReceiveWouldGet) {
  sends().put(2, 20);
  sends().put(2, 21);
  receives().drain();
  Result seen;
  EXPECT_FALSE(matcher().probe(receives().from(0, 3, data_), &seen));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(matcher().probe(receives().from(kAnySource, 2, data_), &seen));
  EXPECT_EQ(seen.source, 0);
  EXPECT_EQ(seen.bytes, sizeof(int));
  ASSERT_TRUE(matcher().take_probed(receives().from(0, kAnyTag, data_)));
  EXPECT_EQ(taken(), Expected({{nullptr, 20}})) << "nobody else can receive it";
  Request* r = posted(0, 2);
  EXPECT_EQ(taken(), Expected({{r, 21}}));
}

TEST_F(MatcherRules, ASenderMatchesForAReceiverThatIsAway) {
  Request* r = posted(0, 2);
  Request* stays = posted(0, 3);
  sends().put(4, 1);  // unexpected
  sends().put(2, 2);
  EXPECT_EQ(sends().matcher.progress_peer(1), 2U);
  EXPECT_FALSE(matcher().unpost(r)) << "it has been matched";
  EXPECT_TRUE(matcher().unpost(stays));
  const Ref ref = matcher().take_matched();
  ASSERT_NE(ref, kNoRef);
  Matcher::Taken matched;
  EXPECT_EQ(matcher().unpack_matched(ref, &matched), kNoRef) << "there is but one";
  EXPECT_EQ(matched.request, r);
  EXPECT_EQ(matched.message.tag, 2);
  Request* other = posted(0, kAnyTag);
  EXPECT_EQ(taken(), Expected({{other, 1}}));
}

TEST_F(MatcherRules, BrokenQueuesSaySo) {
  sends().put(1, 1);
  ASSERT_TRUE(matcher().queues().lock.try_lock(0));  // for ever: its holder has died
  matcher().queues().broken.store_relaxed(1);
  bool moved = false;
  EXPECT_FALSE(matcher().drain(0, &moved));
  posted(0, 1);
  EXPECT_EQ(outcome_, Matcher::Posted::kBroken);
  EXPECT_EQ(sends().matcher.progress_peer(1), 0U);
}

// LiMIC paper, section 4.4: whose queues are held up by who works in those of rank 0, and where its death leaves them.
class QueueLock : public Sides, public ::testing::WithParamInterface<bool> {
 protected:
  QueueLock() { config_.ablations.coarse_lock = GetParam(); }
};

TEST_P(QueueLock, CoversOneReceiversQueuesOrAll) {
  const bool coarse = GetParam();
  sends().put(1, 1);
  shm::OwnerLockShm& first = sends().matcher.queues().lock;
  ASSERT_TRUE(first.try_lock(0));
  EXPECT_EQ(sends().matcher.progress_peer(1), coarse ? 0U : 1U);
  first.unlock();
  EXPECT_EQ(sends().matcher.progress_peer(1), coarse ? 1U : 0U);
  EXPECT_EQ(first.holder(), 0U) << "given back";
}

TEST_P(QueueLock, IsBrokenForAllThatItCovers) {
  const bool coarse = GetParam();
  sends().put(1, 1);
  ASSERT_TRUE(sends().matcher.queues().lock.try_lock(0));  // for ever: its holder has died
  sends().matcher.queues().broken.store_relaxed(1);
  bool moved = false;
  EXPECT_EQ(receives().matcher.drain(0, &moved), !coarse);
  EXPECT_EQ(receives().matcher.broken(), coarse);
  EXPECT_EQ(sends().matcher.progress_peer(1), 0U);
}

INSTANTIATE_TEST_SUITE_P(OfAReceiverOrTheNode, QueueLock, ::testing::Bool());

}  // namespace
}  // namespace zh::p2p::test
