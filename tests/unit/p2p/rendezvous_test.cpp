// A large message from its offer to its end, step by step: who is in which state, what a receive that is too short
// gets, and when a description is used again.
// label one-thread: [.]RendezvousSteps[.]
#include "p2p/rendezvous.h"

#include <numeric>

#include "sides_support.h"

namespace zh::p2p::test {
namespace {

constexpr size_t kInts = 300'000;  // more than all cells of a transfer hold

class RendezvousSteps : public Sides {
 protected:
  void SetUp() override {
    Sides::SetUp();
    std::iota(out_.begin(), out_.end(), 7);
    // Both are there: none matches or copies for the other one.
    sends().is_there();
    receives().is_there();
  }
  Request* send(int32_t tag = 1, SendMode mode = SendMode::kStandard) {
    return sends().sender.isend(sends().to(tag, out_, mode));
  }
  Request* receive(int32_t tag = 1) { return receives().receiver.irecv(receives().from(0, tag, in_)); }
  TransferShm& transfer_of(const Request* r) { return *at<TransferShm>(sends().channels.base(), r->transfer); }
  void finish(const Request* s, const Request* r) {
    for (int i = 0; i < 1000 && (s->stage != Stage::kDone || r->stage != Stage::kDone); ++i) {
      receives().turn();
      sends().turn();
    }
    EXPECT_EQ(s->stage, Stage::kDone);
    EXPECT_EQ(r->stage, Stage::kDone);
  }
  std::vector<int> out_ = std::vector<int>(kInts);
  std::vector<int> in_ = std::vector<int>(kInts);
};

TEST_F(RendezvousSteps, OfferedMatchedMovedReleased) {
  Request* s = send();
  ASSERT_EQ(s->stage, Stage::kTransfer);
  TransferShm& t = transfer_of(s);
  EXPECT_TRUE(sends().rendezvous.is_offered(s));
  EXPECT_EQ(sends().requests.pending_sends(), 1U);
  sends().turn();
  EXPECT_EQ(t.load_state(), TransferState::kOffered) << "nobody wants it yet";
  receives().turn();  // unexpected
  EXPECT_FALSE(receives().rendezvous.receiving());

  Request* r = receive();
  EXPECT_EQ(r->stage, Stage::kTransfer);
  EXPECT_EQ(t.load_state(), TransferState::kFound) << "the receive came later";
  EXPECT_EQ(r->result.bytes, kInts * sizeof(int));
  EXPECT_EQ(t.released.load_relaxed(), 0U);
  finish(s, r);
  EXPECT_EQ(in_, out_);
  EXPECT_EQ(t.released.load_relaxed(), 1U);
  EXPECT_EQ(t.published.load_relaxed(), t.consumed.load_relaxed());
  EXPECT_EQ(sends().requests.pending_sends(), 0U);
  EXPECT_FALSE(sends().rendezvous.sending() || receives().rendezvous.receiving());
}

TEST_F(RendezvousSteps, APostedReceiveIsJoinedWhenTheOfferIsSeen) {
  Request* r = receive();
  EXPECT_EQ(r->stage, Stage::kPosted);
  Request* s = send();
  EXPECT_EQ(r->stage, Stage::kPosted) << "its rank has not looked";
  receives().turn();
  EXPECT_EQ(r->stage, Stage::kTransfer);
  EXPECT_EQ(transfer_of(s).load_state(), TransferState::kMatched) << "the send came later";
  finish(s, r);
  EXPECT_EQ(in_, out_);
}

TEST_F(RendezvousSteps, AShortReceiveGetsWhatItHasRoomForAndTheSendEnds) {
  in_.resize(kInts / 3);
  Request* s = send();
  Request* r = receive();
  finish(s, r);
  EXPECT_EQ(s->result.code, Code::kOk);
  EXPECT_EQ(r->result.code, Code::kTruncated);
  EXPECT_EQ(r->result.bytes, in_.size() * sizeof(int));
  EXPECT_TRUE(std::equal(in_.begin(), in_.end(), out_.begin()));
}

TEST_F(RendezvousSteps, NoMoreCellsAreFilledThanTheReceiverHasEmptied) {
  Request* s = send();
  for (int i = 0; i < 100; ++i) sends().turn();
  const TransferShm& t = transfer_of(s);
  const uint32_t published = t.published.load_relaxed();
  EXPECT_LE(published, t.window);
  EXPECT_EQ(t.broken_invariant(), nullptr);
  Request* r = receive();
  for (int i = 0; i < 100; ++i) receives().turn();
  EXPECT_EQ(t.consumed.load_relaxed(), published);
  EXPECT_EQ(r->stage, Stage::kTransfer) << "the rest is the sender's";
  finish(s, r);
  EXPECT_EQ(in_, out_);
}

TEST_F(RendezvousSteps, AFullRingMakesNoOffer) {
  std::vector<Request*> all;
  for (int tag = 0; all.empty() || all.back()->stage == Stage::kTransfer; ++tag) all.push_back(send(tag));
  EXPECT_EQ(all.back()->stage, Stage::kQueued);
  EXPECT_EQ(sends().rendezvous.offer(all.back()), Submitted::kNoRoom);
  EXPECT_EQ(all.back()->transfer, kNoOffset) << "nothing has happened";
  EXPECT_EQ(sends().rendezvous.sends().size + sends().rendezvous.parked().size, all.size() - 1);
  receives().turn();
  sends().turn();
  EXPECT_EQ(all.back()->stage, Stage::kTransfer);
}

TEST_F(RendezvousSteps, ADescriptionIsUsedAgainWhenTheReceiverHasLeftIt) {
  out_.resize(kInts / 6);  // in cells as a whole: the send ends before its receive begins
  const Request* s = send();
  ASSERT_EQ(s->stage, Stage::kDone);
  const Offset first = s->transfer;
  const Offset second = send(2)->transfer;
  EXPECT_NE(second, first);
  receives().turn();
  EXPECT_EQ(receive()->stage, Stage::kDone);
  EXPECT_EQ(send(3)->transfer, first);
}

TEST_F(RendezvousSteps, AnOfferThatIsTakenBackLeavesNothing) {
  Request* s = send();
  const Offset first = s->transfer;
  receives().turn();
  ASSERT_TRUE(sends().matcher.withdraw(s));
  sends().rendezvous.drop(s);
  EXPECT_FALSE(sends().rendezvous.sending());
  s = send(2);
  EXPECT_EQ(s->transfer, first);
  receives().turn();
  finish(s, receive(2));
  EXPECT_EQ(in_, out_);
}

TEST_F(RendezvousSteps, AReceiverTellsOfParkedSends) {
  std::vector<Request*> all;
  for (int tag = 0; tag < 70; ++tag) {
    all.push_back(send(tag));
    receives().turn();  // or the ring is full
  }
  EXPECT_FALSE(all[63]->parked);
  ASSERT_TRUE(all[69]->parked);
  EXPECT_EQ(sends().rendezvous.parked().size, 6U);
  Request* r = receive(69);
  sends().rendezvous.advance_sends();
  EXPECT_FALSE(all[69]->parked);
  EXPECT_EQ(sends().channels.counters().unparked, 1U);
  EXPECT_EQ(sends().rendezvous.parked().size, 5U);
  finish(all[69], r);
  EXPECT_EQ(in_, out_);
}

TEST_F(RendezvousSteps, WithADeadPeerBothEndsFail) {
  Request* s = send();
  receives().turn();
  Request* r = receive();
  ASSERT_EQ(r->stage, Stage::kTransfer);
  sends().to_peer().dead = receives().to_peer().dead = true;
  sends().rendezvous.fail_dead();
  receives().rendezvous.fail_dead();
  EXPECT_EQ(s->result.code, Code::kPeerDead);
  EXPECT_EQ(r->result.code, Code::kPeerDead);
  EXPECT_EQ(s->stage, Stage::kDone);
  EXPECT_EQ(r->stage, Stage::kDone);
  EXPECT_FALSE(sends().rendezvous.sending() || receives().rendezvous.receiving());
}

}  // namespace
}  // namespace zh::p2p::test
