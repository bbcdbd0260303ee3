// Messages between nodes over a carrier that delays them.
#include "engine/internode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "network_support.h"

namespace zh::test {
namespace {

using engine::Internode;

constexpr int32_t kFewTags = 20;            // announced messages alone, whose tags are used again soon
constexpr int32_t kManyTags = 1 << 20;      // many ranges
constexpr int32_t kTagsOfARange = 1 << 14;  // there
constexpr int32_t kCall = static_cast<int32_t>(coll::kTags);

/// Two ends in one thread.
struct Pair {
  explicit Pair(bool messages_in_order = false, int32_t tag_ub = kManyTags) : in_order(messages_in_order) {
    network.tag_ub = tag_ub;
    a = std::make_unique<Internode>(std::make_unique<NetworkCarrier>(network, 0), false);
    b = std::make_unique<Internode>(std::make_unique<NetworkCarrier>(network, 1), false);
  }

  Network network;
  std::unique_ptr<Internode> a;
  std::unique_ptr<Internode> b;
  bool in_order;

  Code send(uint64_t context, int32_t tag, const std::vector<uint8_t>& out, void** handle) const {
    return a->send(1, context, tag, out.data(), out.size(), in_order, handle);
  }
  /// One that can be started; null: it is over.
  void* sent(uint64_t context, int32_t tag, const std::vector<uint8_t>& out) const {
    void* handle = nullptr;
    EXPECT_EQ(send(context, tag, out, &handle), Code::kOk);
    return handle;
  }
  Code receive(uint64_t context, int32_t tag, std::vector<uint8_t>& in, void** handle) const {
    return b->receive(0, context, tag, in.data(), in.size(), in_order, handle);
  }
  void* received(uint64_t context, int32_t tag, std::vector<uint8_t>& in) const {
    void* handle = nullptr;
    EXPECT_EQ(receive(context, tag, in, &handle), Code::kOk);
    return handle;
  }
  void turn(int times) {
    for (int i = 0; i < times; ++i) turn();
  }

  Code finish(Internode& end, void* handle) {
    Code code = Code::kOk;
    while (handle != nullptr && !end.test(handle, &code)) turn();
    return code;
  }
  void turn() {
    a->progress();
    b->progress();
  }
};

TEST(Internode, FindsItsReceiverByContextAndTagWhateverTheOrder) {
  constexpr uint64_t kInline = Internode::kInlineBytes;
  constexpr uint64_t kSizes[] = {0, 1, kInline - 64, kInline, kInline + 1, 100'000};
  for (const int form : {0, 1, 2, 3, 4}) {
    const bool receives_first = form % 2 == 0;
    Pair pair(form >= 2, form >= 4 ? kFewTags : kManyTags);
    std::vector<std::vector<uint8_t>> out;
    std::vector<std::vector<uint8_t>> in;
    std::vector<void*> sends;
    std::vector<std::pair<size_t, void*>> receives;
    // Less has come than was asked for, or nothing.
    const auto outcome = [&](size_t i) { return out[i].empty() ? Code::kIo : Code::kInvalid; };
    const auto send_all = [&] {
      for (size_t i = 0; i < 60; ++i) {
        out.emplace_back(kSizes[i % 6], static_cast<uint8_t>(i));
        sends.push_back(pair.sent(i % 2, static_cast<int32_t>(i % 5), out[i]));
      }
    };
    const auto receive_all = [&] {
      for (size_t i = 0; i < 60; ++i) in.emplace_back(kSizes[i % 6] + 3, 0xee);
      // Keys in another order than the sends, messages of one key in theirs.
      for (size_t key = 10; key-- > 0;) {
        for (size_t i = 0; i < 60; ++i) {
          if (i % 10 != key) continue;
          void* handle = nullptr;
          const Code code = pair.receive(i % 2, static_cast<int32_t>(i % 5), in[i], &handle);
          ASSERT_EQ(code, handle != nullptr ? Code::kOk : outcome(i));
          if (handle != nullptr) receives.emplace_back(i, handle);
        }
      }
    };
    if (receives_first) receive_all();
    send_all();
    if (!receives_first) {
      pair.turn(1000);
      receive_all();
    }
    for (const auto& [i, handle] : receives) EXPECT_EQ(pair.finish(*pair.b, handle), outcome(i)) << i;
    for (void* handle : sends) EXPECT_EQ(pair.finish(*pair.a, handle), Code::kOk);
    for (size_t i = 0; i < 60; ++i) {
      EXPECT_TRUE(std::equal(out[i].begin(), out[i].end(), in[i].begin())) << i;
      EXPECT_EQ(in[i][out[i].size()], 0xee) << i;
    }
    EXPECT_EQ(pair.a->stats().messages, 60u);
    EXPECT_EQ(pair.a->stats().bytes, 10u * (1 + 3 * kInline - 63 + 100'000));
    EXPECT_EQ(pair.b->stats().messages, 0u);
  }
}

TEST(Internode, WhatIsTooLongIsTruncatedAndHoldsNobodyUp) {
  for (const size_t bytes : {size_t{100}, size_t{100'000}}) {
    Pair pair;
    const std::vector<uint8_t> out(bytes, 7);
    std::vector<uint8_t> in(50, 0xee);
    void* receive = nullptr;
    ASSERT_EQ(pair.b->receive(0, 1, 1, in.data(), 49, pair.in_order, &receive), Code::kOk);
    void* const send = pair.sent(1, 1, out);
    EXPECT_EQ(pair.finish(*pair.b, receive), Code::kTruncated);
    EXPECT_EQ(pair.finish(*pair.a, send), Code::kOk);
    EXPECT_EQ(in[49], 0xee);
  }
}

class InternodeForms : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Forms, InternodeForms, ::testing::Bool(),
                         [](const auto& form) { return form.param ? "Direct" : "Announced"; });

TEST_P(InternodeForms, WhatIsGivenUpIsNotTouched) {
  Pair pair(GetParam());
  const std::vector<uint8_t> out(100'000, 7);
  std::vector<uint8_t> in(100'000, 0xee);
  pair.b->abandon(pair.received(1, 1, in));
  void* const send = pair.sent(1, 1, out);
  pair.turn(100);
  pair.a->abandon(send);
  EXPECT_EQ(in, std::vector<uint8_t>(100'000, 0xee));
}

// One end waits for nothing of a call any more. What the other one sends for it, before and after, holds that one up no
// longer; and a later call with the same tags gets its own.
TEST_P(InternodeForms, MessagesOfACallThatWasGivenUpAreLetGo) {
  constexpr int32_t kFirst = 3 * kCall;
  constexpr int32_t kOther = kFirst + kCall;
  Pair pair(GetParam());
  const std::vector<uint8_t> out(100'000, 7);
  std::vector<uint8_t> in(100'000, 0xee);
  void* const before = pair.sent(1, kFirst + 5, out);
  void* const other = pair.sent(1, kOther, out);
  pair.turn(100);
  EXPECT_FALSE(pair.b->lets_go());
  pair.b->let_go_of(1, kFirst);
  pair.b->tell_given_up(0, 1, 77);
  EXPECT_TRUE(pair.b->lets_go());
  EXPECT_EQ(pair.finish(*pair.a, before), Code::kOk);
  EXPECT_EQ(pair.finish(*pair.a, pair.sent(1, kFirst + 6, out)), Code::kOk);
  pair.turn(100);
  EXPECT_TRUE(pair.a->was_given_up(1, 77));
  EXPECT_FALSE(pair.a->was_given_up(1, 78));
  EXPECT_FALSE(pair.a->was_given_up(2, 77));
  // Other tags, and these when they come again.
  for (const int32_t tag : {kOther, kFirst + 5}) {
    void* const receive = pair.received(1, tag, in);
    void* const send = tag == kOther ? other : pair.sent(1, tag, out);
    EXPECT_EQ(pair.finish(*pair.b, receive), Code::kOk);
    EXPECT_EQ(pair.finish(*pair.a, send), Code::kOk);
    EXPECT_EQ(in, out);
    in.assign(in.size(), 0xee);
  }
}

/// How both ends of one message end, each of which looks again when it has stood still.
std::pair<Code, Code> exchange(Pair& pair, int32_t tag, const std::vector<uint8_t>& out, std::vector<uint8_t>& in,
                               bool receives_first) {
  const int32_t first = tag / kCall * kCall;
  void* send = nullptr;
  void* receive = nullptr;
  Code received = Code::kOk;
  const auto start_receive = [&] { received = pair.receive(1, tag, in, &receive); };
  if (receives_first) start_receive();
  Code sent = pair.send(1, tag, out, &send);
  if (!receives_first) {
    pair.turn(50);
    start_receive();
  }
  for (int i = 0; send != nullptr || receive != nullptr; ++i) {
    if (send != nullptr && pair.a->test(send, &sent)) send = nullptr;
    if (receive != nullptr && pair.b->test(receive, &received)) receive = nullptr;
    pair.turn();
    if (i % 100 == 99) {
      pair.a->stands_still(1, first);
      pair.b->stands_still(1, first);
    }
    if (i == 100'000) {
      ADD_FAILURE() << "hangs";
      break;
    }
  }
  return {sent, received};
}

TEST(Internode, ALongMessageInOrderIsOneOfTheHosts) {
  for (const bool receives_first : {true, false}) {
    Pair pair(true);
    std::vector<uint8_t> in(50'000);
    for (int32_t call = 0; call < 40; ++call) {  // more than a range has
      const std::vector<uint8_t> out(in.size(), static_cast<uint8_t>(call + 1));
      const uint64_t before = pair.network.sent;
      EXPECT_EQ(exchange(pair, call * kCall, out, in, receives_first), std::pair(Code::kOk, Code::kOk));
      EXPECT_EQ(pair.network.sent - before, call == 0 ? 2U : 1U) << "beside the range of its tags, once";
      EXPECT_EQ(in, out) << call;
    }
  }
}

TEST(Internode, WithoutARangeOfTagsLongMessagesAreAnnounced) {
  constexpr int32_t kOneRange = 32767;
  for (const int32_t tag_ub : {kFewTags, kOneRange}) {
    Pair pair(true, tag_ub);
    const std::vector<uint8_t> out(50'000, 7);
    std::vector<uint8_t> in(out.size());
    const auto messages_of = [&](uint64_t context) {
      const uint64_t before = pair.network.sent;
      void* const send = pair.sent(context, 0, out);
      EXPECT_EQ(pair.finish(*pair.b, pair.received(context, 0, in)), Code::kOk);
      EXPECT_EQ(pair.finish(*pair.a, send), Code::kOk);
      EXPECT_EQ(std::exchange(in, std::vector<uint8_t>(out.size())), out);
      return pair.network.sent - before;
    };
    messages_of(1);
    EXPECT_EQ(messages_of(2), 2U);
    EXPECT_EQ(messages_of(1 << 20), 2U);
  }
}

// Contexts never share tags of the host's, whatever the order of their messages.
TEST(Internode, DirectMessagesOfSeveralContextsAreApart) {
  Pair pair(true);
  constexpr size_t kContexts = 100;  // more than there are ranges
  std::vector<std::vector<uint8_t>> out;
  std::vector<std::vector<uint8_t>> in(kContexts, std::vector<uint8_t>(20'000));
  std::vector<void*> sends(kContexts);
  std::vector<void*> receives(kContexts);
  for (size_t i = 0; i < kContexts; ++i) out.emplace_back(in[i].size(), static_cast<uint8_t>(i + 1));
  for (int32_t call = 0; call < 3; ++call) {
    for (size_t i = 0; i < kContexts; ++i) sends[i] = pair.sent(i, call * kCall, out[i]);
    for (size_t i = kContexts; i-- > 0;) receives[i] = pair.received(i, call * kCall, in[i]);
    for (size_t i = 0; i < kContexts; ++i) {
      EXPECT_EQ(pair.finish(*pair.b, receives[i]), Code::kOk);
      EXPECT_EQ(pair.finish(*pair.a, sends[i]), Code::kOk);
      EXPECT_EQ(in[i], out[i]);
      std::ranges::fill(in[i], uint8_t{0});
    }
  }
}

// One end takes a message for a long one that the other takes for a short one, or both for long ones of other lengths.
TEST(Internode, LengthsThatDisagreeAreErrorsAndNobodyWaits) {
  const size_t lengths[] = {0, 100, 20'000, 60'000};
  for (const bool receives_first : {true, false}) {
    Pair pair(true);
    int32_t tag = 0;
    for (const size_t sent : lengths) {
      for (const size_t asked : lengths) {
        const std::vector<uint8_t> out(sent, 5);
        std::vector<uint8_t> in(asked, 0xee);
        Code expected = sent > asked ? Code::kTruncated : sent < asked ? Code::kInvalid : Code::kOk;
        if (sent == 0 && asked > 0) expected = Code::kIo;
        EXPECT_EQ(exchange(pair, tag, out, in, receives_first), std::pair(Code::kOk, expected))
            << sent << " for " << asked;
        // The next ones are not disturbed.
        for (const size_t length : {size_t{30'000}, size_t{200}}) {
          const std::vector<uint8_t> right(length, 9);
          std::vector<uint8_t> got(length);
          tag += kCall;
          EXPECT_EQ(exchange(pair, tag, right, got, receives_first), std::pair(Code::kOk, Code::kOk));
          EXPECT_EQ(got, right);
        }
        tag += kCall;
      }
    }
  }
}

// A tag comes again within a call. The second message may be there before the first one is asked for.
TEST(Internode, MessagesWithOneTagKeepTheirOrder) {
  const size_t lengths[] = {0, 100, 30'000, 60'000};
  for (size_t form = 0; form < 256; ++form) {
    for (const bool receives_first : {true, false}) {
      Pair pair(true);
      std::vector<std::vector<uint8_t>> out;
      std::vector<std::vector<uint8_t>> in;
      std::vector<void*> sends(4);
      std::vector<void*> receives(4);
      for (size_t i = 0, rest = form; i < 4; ++i, rest /= 4) {
        out.emplace_back(lengths[rest % 4], static_cast<uint8_t>(i + 1));
        in.emplace_back(lengths[rest % 4]);
      }
      const auto receive_all = [&] {
        for (size_t i = 0; i < 4; ++i) receives[i] = pair.received(1, 3, in[i]);
      };
      if (receives_first) receive_all();
      for (size_t i = 0; i < 4; ++i) sends[i] = pair.sent(1, 3, out[i]);
      if (!receives_first) {
        pair.turn(30);
        receive_all();
      }
      for (size_t i = 0; i < 4; ++i) EXPECT_EQ(pair.finish(*pair.b, receives[i]), Code::kOk);
      for (size_t i = 0; i < 4; ++i) EXPECT_EQ(pair.finish(*pair.a, sends[i]), Code::kOk);
      EXPECT_EQ(in, out) << form;
    }
  }
}

// A rank that waits for a late one announces what it has sent directly. That is no second message.
TEST(Internode, WhatIsAnnouncedAfterAllComesOnce) {
  Pair pair(true);
  for (int32_t call = 0; call < 50; ++call) {
    const std::vector<uint8_t> out(40'000, static_cast<uint8_t>(call + 1));
    std::vector<uint8_t> in(out.size());
    const bool early = call % 3 == 0;
    void* receive = early ? pair.received(1, call * kCall, in) : nullptr;
    void* const send = pair.sent(1, call * kCall, out);
    pair.a->stands_still(1, call * kCall);
    if (call % 3 == 1) pair.turn(30);
    if (!early) receive = pair.received(1, call * kCall, in);
    EXPECT_EQ(pair.finish(*pair.b, receive), Code::kOk);
    EXPECT_EQ(pair.finish(*pair.a, send), Code::kOk);
    EXPECT_EQ(in, out) << call;
  }
  pair.turn(100);
  EXPECT_TRUE(pair.network.messages.empty());
}

// The sender of a call that it gives up has told of its direct message, so that the other end lets it go.
TEST(Internode, ADirectMessageThatIsGivenUpIsInNobodysWay) {
  Pair pair(true);
  const std::vector<uint8_t> out(40'000, 7);
  std::vector<uint8_t> in(out.size());
  pair.a->abandon(pair.sent(1, 5, out));
  pair.b->let_go_of(1, 0);
  pair.turn(200);
  EXPECT_TRUE(pair.network.messages.empty());
  // The same tag of a range, some calls later.
  for (const int32_t tag : {kTagsOfARange + 5, 2 * kTagsOfARange + 5}) {
    const std::vector<uint8_t> next(40'000, static_cast<uint8_t>(tag / kTagsOfARange));
    EXPECT_EQ(exchange(pair, tag, next, in, true), std::pair(Code::kOk, Code::kOk));
    EXPECT_EQ(in, next);
  }
}

}  // namespace
}  // namespace zh::test
