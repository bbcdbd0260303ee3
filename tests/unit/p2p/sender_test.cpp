// What becomes of a send: at once, offered, or in a queue for room, in MPI's order (standard 3.5) in each case; taken
// back; copied for a receiver that takes nothing.
// label one-thread: [.](SenderRules|WaitingSends)[.]
#include "p2p/sender.h"

#include "sides_support.h"

namespace zh::p2p::test {
namespace {

class SenderRules : public Sides {
 protected:
  void SetUp() override {
    Sides::SetUp();
    receives().is_there();
  }
  Request* send(int32_t tag, SendMode mode = SendMode::kStandard) {
    return sends().sender.isend(sends().to(tag, data_, mode));
  }
  /// Messages of one int until the ring is full, and `more`; the tag of each is its number. Those that wait.
  std::vector<Request*> fill_ring(int more = 0) {
    std::vector<Request*> waiting;
    for (int left = more + 1; left != 0; ++sent_) {
      data_[0] = sent_;
      Request* r = send(sent_);
      if (r->stage == Stage::kQueued) {
        waiting.push_back(r);
        --left;
      }
    }
    return waiting;
  }
  /// The tag of the next message of the receiver; -1: there is none.
  int next_tag() {
    Result result;
    std::vector<int> in(1);
    receives().turn();
    Message* message = receives().receiver.improbe(receives().from(0, kAnyTag, in), &result);
    if (message == nullptr) return -1;
    Request* r = receives().receiver.imrecv(message, buffer(in));
    EXPECT_EQ(r->stage, Stage::kDone);
    receives().requests.release(r);
    return result.tag;
  }
  int sent_ = 0;
  std::vector<int> data_ = std::vector<int>(1);
};

TEST_F(SenderRules, ASmallMessageIsSentAtOnce) {
  EXPECT_EQ(send(1), sends().requests.sent());
  EXPECT_EQ(sends().requests.pending_sends(), 0U);
  data_.assign(2000, 3);  // in a block
  EXPECT_TRUE(sends().sender.send_now(sends().to(2, data_)));
  data_.assign(100'000, 3);
  EXPECT_FALSE(sends().sender.send_now(sends().to(3, data_)));
  EXPECT_FALSE(sends().sender.waiting());
}

TEST_F(SenderRules, ABlockingSendOfABufferThatWasNotUsedLatelyGoesThroughTheRing) {
  tune::PairChoice& choice = sends().to_peer().choice;
  choice.single_copy_min = 4 << 10;
  choice.eager_max = choice.piped_max = 4 << 10;
  const auto rings = [&](std::vector<int>& data, bool waits) {
    const auto eager = [&] {
      uint64_t n = 0;
      for (const Tally& t : sends().channels.counters().sent[static_cast<uint32_t>(Path::kEager)]) n += t.messages;
      return n;
    };
    const uint64_t before = eager();
    Request* r = sends().sender.start(sends().to(1, data), waits);
    if (!r->is_done() && !sends().sender.cancel(r)) ADD_FAILURE() << "nobody has received it";
    sends().requests.release(r);
    return eager() != before;
  };
  std::vector<int> a(1500);
  std::vector<int> b(1500);
  EXPECT_TRUE(rings(a, true));
  EXPECT_FALSE(rings(a, true));
  EXPECT_FALSE(rings(b, false)) << "no blocking send";
  EXPECT_TRUE(rings(b, true));
  choice.single_copy_min_cold = choice.single_copy_min;
  EXPECT_FALSE(rings(b, true)) << "from a size on never";
}

TEST_F(SenderRules, BuffersAreForgottenAfterOtherBytes) {
  RecentBuffers recent;
  std::vector<std::byte> room(64);
  EXPECT_FALSE(recent.note(&room[0], 1));
  EXPECT_TRUE(recent.note(&room[0], 16 << 20)) << "there were no others";
  EXPECT_FALSE(recent.note(&room[1], 4 << 20));
  EXPECT_TRUE(recent.note(&room[0], 1));
  EXPECT_FALSE(recent.note(&room[2], (4 << 20) + 1));
  EXPECT_FALSE(recent.note(&room[0], 1));
}

TEST_F(SenderRules, ASynchronousSendIsOfferedWhateverItsSize) {
  EXPECT_FALSE(sends().sender.send_now(sends().to(1, data_, SendMode::kSynchronous)));
  Request* s = send(1, SendMode::kSynchronous);
  ASSERT_EQ(s->stage, Stage::kTransfer);
  for (int i = 0; i < 10; ++i) {
    receives().turn();
    sends().turn();
  }
  EXPECT_EQ(s->stage, Stage::kTransfer) << "nobody has received it";
  std::vector<int> in(1);
  Request* r = receives().receiver.irecv(receives().from(0, 1, in));
  for (int i = 0; i < 10; ++i) {
    sends().turn();
    receives().turn();
  }
  EXPECT_EQ(s->stage, Stage::kDone);
  EXPECT_EQ(r->stage, Stage::kDone);
}

TEST_F(SenderRules, WhatFindsNoRoomWaitsInOrder) {
  const std::vector<Request*> waiting = fill_ring(40);
  EXPECT_TRUE(sends().sender.waiting());
  EXPECT_FALSE(sends().sender.send_now(sends().to(9999, data_))) << "it would overtake them";
  EXPECT_FALSE(sends().sender.advance_queued()) << "there is no room yet";
  for (int tag = 0; tag < sent_; ++tag) {
    ASSERT_EQ(next_tag(), tag);
    sends().sender.advance_queued();
  }
  EXPECT_EQ(next_tag(), -1);
  for (const Request* r : waiting) EXPECT_EQ(r->stage, Stage::kDone);
  EXPECT_FALSE(sends().sender.waiting());
  EXPECT_EQ(sends().requests.pending_sends(), 0U);
}

TEST_F(SenderRules, AFullRingOfAReceiverThatIsAwayIsEmptiedForIt) {
  receives().channels.part().state.inside.store_relaxed(0);
  receives().channels.part().state.stamp.store_relaxed(0);
  for (int i = 0; i < 1000; ++i) {
    data_[0] = i;
    ASSERT_EQ(send(i)->stage, Stage::kDone) << i;
  }
  EXPECT_FALSE(sends().sender.waiting());
  EXPECT_GT(sends().channels.counters().peer_turns, 0U);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(next_tag(), i);
}

TEST_F(SenderRules, WhatNobodyHasMatchedIsTakenBack) {
  std::vector<Request*> waiting = fill_ring(2);
  EXPECT_TRUE(sends().sender.cancel(waiting[1]));  // in the queue
  EXPECT_TRUE(waiting[1]->result.cancelled);
  const int cancelled = waiting[1]->tag;
  for (int tag = 0; tag < sent_; ++tag) {
    if (tag == cancelled) continue;
    ASSERT_EQ(next_tag(), tag);
    sends().sender.advance_queued();
  }
  for (const bool seen : {false, true}) {  // in the ring, or among the receiver's unexpected messages
    Request* offered = send(5000, SendMode::kSynchronous);
    if (seen) receives().turn();
    EXPECT_TRUE(sends().sender.cancel(offered));
    EXPECT_TRUE(offered->result.cancelled);
    EXPECT_EQ(next_tag(), -1);
  }
  EXPECT_EQ(sends().requests.pending_sends(), 0U);
  Request* matched = send(5001, SendMode::kSynchronous);
  std::vector<int> in(1);
  receives().turn();
  ASSERT_EQ(receives().receiver.irecv(receives().from(0, 5001, in))->result.tag, 5001);
  EXPECT_FALSE(sends().sender.cancel(matched));
  EXPECT_FALSE(matched->result.cancelled);
}

TEST_F(SenderRules, AReceiverThatTakesNothingStopsNoStandardSend) {
  const std::vector<Request*> waiting = fill_ring(2);
  data_[0] = -1;  // all of them have this buffer
  Request* synchronous = send(8000, SendMode::kSynchronous);
  sends().sender.help(true);
  for (const Request* r : waiting) EXPECT_EQ(r->stage, Stage::kDone) << "a copy stands in for it";
  EXPECT_EQ(synchronous->stage, Stage::kQueued);
  EXPECT_EQ(sends().requests.pending_sends(), waiting.size() + 1);
  EXPECT_GT(sends().requests.buffered_bytes(), 0U);
  EXPECT_TRUE(sends().sender.cancel(synchronous));
  EXPECT_EQ(send(sent_)->stage, Stage::kDone) << "it is known now";
  for (int tag = 0; tag <= sent_; ++tag) {
    ASSERT_EQ(next_tag(), tag);
    sends().sender.advance_queued();
  }
}

TEST_F(SenderRules, SendsToADeadRankFail) {
  const std::vector<Request*> waiting = fill_ring(2);
  sends().to_peer().dead = true;
  sends().sender.fail_dead();
  for (const Request* r : waiting) EXPECT_EQ(r->result.code, Code::kPeerDead);
  data_.resize(100'000);
  EXPECT_EQ(send(1)->result.code, Code::kPeerDead);
  EXPECT_EQ(sends().requests.pending_sends(), 0U);
}

TEST(WaitingSends, OneContextWaitsForMemoryAndOthersGoOn) {
  WaitingSends waiting;
  Request a;
  Request b;
  a.context = b.context = 1;
  EXPECT_TRUE(waiting.lets(1));
  waiting.starve(&a);
  waiting.starve(&b);
  EXPECT_FALSE(waiting.lets(1));
  EXPECT_TRUE(waiting.lets(2));
  EXPECT_EQ(&waiting.list_of(&a), &waiting.memory);
  waiting.memory.remove(&a);
  EXPECT_FALSE(waiting.lets(1)) << "one is left";
  waiting.memory.remove(&b);
  waiting.fed();
  EXPECT_TRUE(waiting.lets(1));
  Request c;
  waiting.ring.push_back(&c);
  EXPECT_FALSE(waiting.lets(2)) << "the ring is full for all";
}

}  // namespace
}  // namespace zh::p2p::test
