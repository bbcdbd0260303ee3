// The invariant of the matching queues as a walk: it holds after every change, and each way to break it by hand is
// found.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "p2p/queues.h"

namespace zh::p2p {
namespace {

constexpr uint32_t kEntries = 80;
constexpr uint32_t kPostedUnits = sizeof(PostedShm) / kLineBytes;
constexpr uint32_t kMessageUnits = kMessageBytes / kLineBytes;
constexpr uint64_t kQueueContext = 5;

class QueuesInvariant : public ::testing::Test {
 protected:
  struct alignas(kLineBytes) Unit {
    std::byte bytes[kLineBytes];
  };
  static constexpr uint32_t kUnits = 1 + kEntries * (kPostedUnits + kMessageUnits);  // 0 is "none"

  void SetUp() override {
    for (uint32_t i = kEntries; i-- != 0;) queues_.give_free_message(1 + kEntries * kPostedUnits + i * kMessageUnits);
    ASSERT_STREQ(queues_.broken_invariant(), nullptr);
  }

  Ref post(int32_t source, int32_t tag, Ref place = 0) {
    const Ref ref = (1 + posts_++ * kPostedUnits) | place;
    PostedShm* p = queues_.posted(ref);
    *p = PostedShm{};
    p->context = kQueueContext;
    p->source = source;
    p->tag = tag;
    queues_.post(ref);
    return ref;
  }
  Ref arrive(int32_t source, int32_t tag) {
    const Ref ref = queues_.take_free_message();
    MessageShm* m = queues_.message(ref);
    m->context = kQueueContext;
    m->source = source;
    m->tag = tag;
    m->kind = Kind::kTransfer;
    queues_.add_unexpected(ref);
    return ref;
  }
  /// Both queues into bins, as a search that has looked at enough entries does; they must hold some.
  void sort() {
    for (uint32_t i = 0; i < 8; ++i) {
      sorting_receives_.push_back(post(99, 99));
      sorting_messages_.push_back(arrive(98, 98));
    }
    EXPECT_EQ(queues_.match_posted(kQueueContext, 97, 97), kNoRef);
    EXPECT_EQ(queues_.match_unexpected(kQueueContext, 97, 97), kNoRef);
    for (const Ref ref : sorting_receives_) queues_.unpost(ref);
    for (const Ref ref : sorting_messages_) {
      queues_.remove_unexpected(ref);
      queues_.give_free_message(ref);
    }
    EXPECT_EQ(shm_->posted_sorted, shm_->posted_total.load_relaxed() != 0 ? 1U : 0U);
    EXPECT_EQ(shm_->unexpected_sorted, shm_->unexpected_count.load_relaxed() != 0 ? 1U : 0U);
    sorting_receives_.clear();
    sorting_messages_.clear();
  }
  [[nodiscard]] const char* broken() const { return queues_.broken_invariant(); }
  BinShm& bin_of_receive(Ref ref) { return shm_->posted[queues_.posted(ref)->bin & 0xffff]; }

  std::vector<Unit> memory_ = std::vector<Unit>(kUnits);
  std::vector<Unit> private_memory_ = std::vector<Unit>(kUnits);
  std::unique_ptr<QueuesShm> shm_ = std::make_unique<QueuesShm>();
  Queues queues_{memory_[0].bytes, shm_.get(), private_memory_[0].bytes};
  uint32_t posts_ = 0;
  std::vector<Ref> sorting_receives_;
  std::vector<Ref> sorting_messages_;
};

TEST_F(QueuesInvariant, HoldsAfterEveryChange) {
  std::vector<Ref> receives;
  std::vector<Ref> messages;
  for (int32_t i = 0; i < 40; ++i) {
    receives.push_back(
        post(i % 3 == 0 ? kAnySource : i % 4, i % 5 == 0 ? kAnyTag : i % 2, i % 7 == 0 ? kPrivateRef : 0));
    messages.push_back(arrive(i % 4, i % 3));
    ASSERT_STREQ(broken(), nullptr);
    ASSERT_STREQ(queues_.broken_at_hand_over(), nullptr);
  }
  for (size_t i = 0; i < receives.size(); i += 2) {
    queues_.unpost(receives[i]);
    if ((receives[i] & kPrivateRef) == 0) queues_.push_matched(receives[i]);
    queues_.remove_unexpected(messages[i]);
    queues_.give_free_message(messages[i]);
    ASSERT_STREQ(broken(), nullptr);
  }
  (void)queues_.take_matched();
  ASSERT_STREQ(broken(), nullptr);
}

TEST_F(QueuesInvariant, AListIsWhole) {
  const Ref first = post(0, 0);
  const Ref second = post(0, 1);
  EXPECT_STREQ(broken(), nullptr);
  shm_->posted_list.tail = first;
  EXPECT_STREQ(broken(), "a queue of receives ends at its tail");
  shm_->posted_list.tail = second;
  queues_.posted(second)->link.prev = kNoRef;
  EXPECT_STREQ(broken(), "a queued receive is linked both ways");
  queues_.posted(second)->link.prev = first;
  shm_->posted_total.store_relaxed(1);
  EXPECT_STREQ(broken(), "posted_count receives are queued in each class");
  shm_->posted_total.store_relaxed(3);
  shm_->next_order = 3;
  EXPECT_STREQ(broken(), "posted_total receives are queued");
  shm_->posted_total.store_relaxed(2);
  shm_->posted_sorted = 1;
  shm_->posted_count[0] = 2;
  EXPECT_STREQ(broken(), "receives are in the list or in bins");
  shm_->posted_sorted = shm_->posted_count[0] = 0;
  const Ref message = arrive(0, 2);
  EXPECT_STREQ(broken(), nullptr);
  shm_->unexpected_sorted = 1;
  EXPECT_STREQ(broken(), "messages are in the list or in bins");
  shm_->unexpected_sorted = 2;
  EXPECT_STREQ(broken(), "a queue is sorted or not");
  shm_->unexpected_sorted = 0;
  shm_->unexpected_list.tail = kNoRef;
  EXPECT_STREQ(broken(), "a queue of messages ends at its tail");
  shm_->unexpected_list.tail = message;
  EXPECT_STREQ(broken(), nullptr);
}

TEST_F(QueuesInvariant, SortingKeepsOrder) {
  std::vector<Ref> receives;
  std::vector<Ref> messages;
  for (int32_t i = 0; i < 6; ++i) receives.push_back(post(i % 2, kAnyTag));
  for (int32_t i = 0; i < 6; ++i) messages.push_back(arrive(i % 2, 7));
  sort();
  ASSERT_STREQ(broken(), nullptr);
  for (size_t i = 0; i < 6; ++i) {
    const auto source = static_cast<int32_t>(i % 2);
    EXPECT_EQ(queues_.match_posted(kQueueContext, source, 3), receives[i]);
    queues_.unpost(receives[i]);
    EXPECT_EQ(queues_.match_unexpected(kQueueContext, source, kAnyTag), messages[i]);
    queues_.remove_unexpected(messages[i]);
    queues_.give_free_message(messages[i]);
    ASSERT_STREQ(broken(), nullptr);
  }
  EXPECT_EQ(shm_->posted_sorted + shm_->unexpected_sorted, 0U) << "an empty queue is a list again";
}

TEST_F(QueuesInvariant, CountsAgree) {
  post(0, 0);
  arrive(0, 1);
  sort();
  shm_->next_order = 1;
  queues_.posted(1)->order = 0;
  shm_->arrivals.store_relaxed(1);
  shm_->unexpected_high.store_relaxed(1);
  ++shm_->posted_count[3];
  EXPECT_STREQ(broken(), "posted_total counts the receives of all classes");
  shm_->posted_total.store_relaxed(2);
  EXPECT_STREQ(broken(), "each queued receive was posted");
  shm_->next_order = 2;
  EXPECT_STREQ(broken(), "posted_count receives are queued in each class");
  --shm_->posted_count[3];
  ++shm_->posted_count[0];
  EXPECT_STREQ(broken(), "posted_count receives are queued in each class");
  shm_->posted_count[0] = 1;
  shm_->posted_total.store_relaxed(1);
  EXPECT_STREQ(broken(), nullptr);
  shm_->unexpected_count.store_relaxed(2);
  EXPECT_STREQ(broken(), "unexpected_high is the most there ever were");
  shm_->unexpected_high.store_relaxed(2);
  EXPECT_STREQ(broken(), "each unexpected message has arrived");
  shm_->arrivals.store_relaxed(2);
  EXPECT_STREQ(broken(), "an unexpected message is in the list, or in one bin of each class");
  shm_->unexpected_count.store_relaxed(0);
  EXPECT_STREQ(broken(), "an unexpected message is in the list, or in one bin of each class");
  shm_->unexpected_count.store_relaxed(1);
  shm_->private_entries = 3;
  EXPECT_STREQ(broken(), "private entries are queued ones");
  shm_->private_entries = 1;
  EXPECT_STREQ(broken(), "private_entries entries are private");
  shm_->private_entries = 0;
  shm_->free_message_count.store_relaxed(kEntries);
  EXPECT_STREQ(broken(), "free_message_count entries are free");
  shm_->free_message_count.store_relaxed(kEntries - 2);
  EXPECT_STREQ(broken(), "free_message_count entries are free");
}

TEST_F(QueuesInvariant, PrivateEntriesAreTheOwners) {
  const Ref own = post(0, 0, kPrivateRef);
  EXPECT_STREQ(broken(), nullptr);
  queues_.posted(own)->message = own;
  EXPECT_STREQ(broken(), "a queued receive has no message yet");
  EXPECT_STREQ(Queues(memory_[0].bytes, shm_.get(), nullptr).broken_invariant(), nullptr) << "others look away";
  queues_.posted(own)->message = kNoRef;
  queues_.unpost(own);
  EXPECT_STREQ(broken(), nullptr);
  shm_->matched.store_relaxed(own);
  EXPECT_STREQ(broken(), "private entries are on no shared list");
}

TEST_F(QueuesInvariant, ReceivesAreWhereTheyBelong) {
  const Ref first = post(0, 0);
  const Ref second = post(0, 0);
  sort();
  PostedShm* p = queues_.posted(second);
  const PostedShm whole = *p;
  p->order = shm_->next_order;
  EXPECT_STREQ(broken(), "a bin has its receives in the order of posting");
  p->order = queues_.posted(first)->order;
  EXPECT_STREQ(broken(), "a bin has its receives in the order of posting");
  *p = whole;
  p->link.prev = kNoRef;
  EXPECT_STREQ(broken(), "a queued receive is linked both ways");
  *p = whole;
  p->link.next = first;
  EXPECT_STREQ(broken(), "posted_count receives are queued in each class") << "a circle has an end";
  *p = whole;
  p->tag = kAnyTag;
  EXPECT_STREQ(broken(), "a receive is queued in the class of its wildcards");
  *p = whole;
  p->tag = 1;
  EXPECT_STREQ(broken(), "a receive is queued in the bin of its triple");
  *p = whole;
  p->bin ^= 1;
  EXPECT_STREQ(broken(), "a queued receive knows its bin");
  p->bin = kBinFirst[1];
  EXPECT_STREQ(broken(), "a receive is queued in a bin of its class");
  *p = whole;
  p->message = 1;
  EXPECT_STREQ(broken(), "a queued receive has no message yet");
  *p = whole;
  bin_of_receive(first).tail = first;
  EXPECT_STREQ(broken(), "a queue of receives ends at its tail");
  bin_of_receive(first).tail = second;
  EXPECT_STREQ(broken(), nullptr);
}

TEST_F(QueuesInvariant, MessagesAreInABinOfEachClass) {
  const Ref first = arrive(0, 0);
  const Ref second = arrive(0, 0);
  sort();
  MessageShm* m = queues_.message(second);
  for (uint32_t klass = 0; klass < kClasses; ++klass) {
    const LinkShm whole = m->link[klass];
    m->link[klass].prev = kNoRef;
    EXPECT_STREQ(broken(), "an unexpected message is linked both ways");
    m->link[klass] = {first, first};
    EXPECT_STREQ(broken(), "an unexpected message is in the list, or in one bin of each class")
        << "a circle has an end";
    m->link[klass] = whole;
    BinShm* bin = shm_->unexpected;
    while (bin->tail != second || bin - shm_->unexpected < kBinFirst[klass]) ++bin;
    bin->tail = first;
    EXPECT_STREQ(broken(), "a queue of messages ends at its tail");
    bin->tail = second;
  }
  EXPECT_STREQ(broken(), nullptr);
  m->tag = 1;
  EXPECT_STREQ(broken(), "a message is queued in the bins of its triple");
  m->tag = kAnyTag;
  EXPECT_STREQ(broken(), "a message names its source and tag");
  m->tag = 0;
  m->kind = static_cast<Kind>(4);
  EXPECT_STREQ(broken(), "a message has a kind of payload");
  m->kind = Kind::kInline;
  m->inline_bytes = shm::kInlineBytes + 1;
  EXPECT_STREQ(broken(), "inline payload fits beside its header");
}

TEST_F(QueuesInvariant, MessagesKeepTheOrderOfArrival) {
  const Ref first = arrive(0, 0);
  const Ref second = arrive(0, 0);
  sort();
  // The two change places in one class alone.
  constexpr uint32_t kClass = 0;
  BinShm* bin = shm_->unexpected;
  while (bin->head != first) ++bin;
  *bin = {second, first};
  queues_.message(second)->link[kClass] = {first, kNoRef};
  queues_.message(first)->link[kClass] = {kNoRef, second};
  EXPECT_STREQ(broken(), "a bin has its messages in the order of arrival");
}

TEST_F(QueuesInvariant, ListsOfEntriesEnd) {
  const Ref first = post(0, 0);
  const Ref second = post(1, 0);
  const Ref third = post(2, 0);
  for (const Ref ref : {first, second, third}) {
    queues_.unpost(ref);
    queues_.push_matched(ref);
    ASSERT_STREQ(broken(), nullptr);
  }
  for (const Ref last : {first, second, third}) {
    queues_.posted(first)->link.next = last;
    EXPECT_STREQ(broken(), "the list of matched receives has an end");
  }
  queues_.posted(first)->link.next = kNoRef;
  EXPECT_STREQ(broken(), nullptr);
  shm_->free_messages = kPrivateRef | 1;
  EXPECT_STREQ(broken(), "private entries are on no shared list");
}

TEST_F(QueuesInvariant, HandOversWalkNowAndThen) {
  post(0, 0);
  arrive(1, 0);
  bool found = false;
  for (uint32_t i = 0; i < 32; ++i) {
    const Ref ref = post(0, 1);
    const Ref tail = std::exchange(shm_->posted_list.tail, kNoRef);
    found = found || queues_.broken_at_hand_over() != nullptr;
    shm_->posted_list.tail = tail;
    queues_.unpost(ref);
  }
  EXPECT_TRUE(found);
  ++shm_->posted_count[0];
  EXPECT_STREQ(queues_.broken_at_hand_over(), "posted_total counts the receives of all classes") << "always";
}

}  // namespace
}  // namespace zh::p2p
