// Messages between nodes over a carrier that delays them.
#include "engine/internode.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "network_support.h"

namespace zh::test {
namespace {

using engine::Internode;

/// Two ends in one thread.
struct Pair {
  Network network;
  Internode a{std::make_unique<NetworkCarrier>(network, 0), false};
  Internode b{std::make_unique<NetworkCarrier>(network, 1), false};

  Code finish(Internode& end, void* handle) {
    Code code = Code::kOk;
    while (handle != nullptr && !end.test(handle, &code)) turn();
    return code;
  }
  void turn() {
    a.progress();
    b.progress();
  }
};

TEST(Internode, FindsItsReceiverByContextAndTagWhateverTheOrder) {
  constexpr uint64_t kInline = Internode::kInlineBytes;
  constexpr uint64_t kSizes[] = {0, 1, kInline - 64, kInline, kInline + 1, 100'000};
  for (const bool receives_first : {true, false}) {
    Pair pair;
    std::vector<std::vector<uint8_t>> out;
    std::vector<std::vector<uint8_t>> in;
    std::vector<void*> sends;
    std::vector<std::pair<size_t, void*>> receives;
    // Less has come than was asked for, or nothing.
    const auto outcome = [&](size_t i) { return out[i].empty() ? Code::kIo : Code::kInvalid; };
    const auto send_all = [&] {
      for (size_t i = 0; i < 60; ++i) {
        out.emplace_back(kSizes[i % 6], static_cast<uint8_t>(i));
        void* handle = nullptr;
        ASSERT_EQ(pair.a.send(1, i % 2, static_cast<int32_t>(i % 5), out[i].data(), out[i].size(), &handle), Code::kOk);
        sends.push_back(handle);
      }
    };
    const auto receive_all = [&] {
      for (size_t i = 0; i < 60; ++i) in.emplace_back(kSizes[i % 6] + 3, 0xee);
      // Keys in another order than the sends, messages of one key in theirs.
      for (size_t key = 10; key-- > 0;) {
        for (size_t i = 0; i < 60; ++i) {
          if (i % 10 != key) continue;
          void* handle = nullptr;
          const Code code = pair.b.receive(0, i % 2, static_cast<int32_t>(i % 5), in[i].data(), in[i].size(), &handle);
          ASSERT_EQ(code, handle != nullptr ? Code::kOk : outcome(i));
          if (handle != nullptr) receives.emplace_back(i, handle);
        }
      }
    };
    if (receives_first) receive_all();
    send_all();
    if (!receives_first) {
      for (int i = 0; i < 1000; ++i) pair.turn();
      receive_all();
    }
    for (void* handle : sends) EXPECT_EQ(pair.finish(pair.a, handle), Code::kOk);
    for (const auto& [i, handle] : receives) EXPECT_EQ(pair.finish(pair.b, handle), outcome(i)) << i;
    for (size_t i = 0; i < 60; ++i) {
      EXPECT_TRUE(std::equal(out[i].begin(), out[i].end(), in[i].begin())) << i;
      EXPECT_EQ(in[i][out[i].size()], 0xee) << i;
    }
    EXPECT_EQ(pair.a.stats().messages, 60u);
    EXPECT_EQ(pair.a.stats().bytes, 10u * (1 + 3 * kInline - 63 + 100'000));
    EXPECT_EQ(pair.b.stats().messages, 0u);
  }
}

TEST(Internode, WhatIsTooLongIsTruncatedAndHoldsNobodyUp) {
  for (const size_t bytes : {size_t{100}, size_t{100'000}}) {
    Pair pair;
    const std::vector<uint8_t> out(bytes, 7);
    std::vector<uint8_t> in(50, 0xee);
    void* send = nullptr;
    void* receive = nullptr;
    ASSERT_EQ(pair.b.receive(0, 1, 1, in.data(), 49, &receive), Code::kOk);
    ASSERT_EQ(pair.a.send(1, 1, 1, out.data(), bytes, &send), Code::kOk);
    EXPECT_EQ(pair.finish(pair.b, receive), Code::kTruncated);
    EXPECT_EQ(pair.finish(pair.a, send), Code::kOk);
    EXPECT_EQ(in[49], 0xee);
  }
}

TEST(Internode, WhatIsGivenUpIsNotTouched) {
  Pair pair;
  const std::vector<uint8_t> out(100'000, 7);
  std::vector<uint8_t> in(100'000, 0xee);
  void* send = nullptr;
  void* receive = nullptr;
  ASSERT_EQ(pair.b.receive(0, 1, 1, in.data(), in.size(), &receive), Code::kOk);
  pair.b.abandon(receive);
  ASSERT_EQ(pair.a.send(1, 1, 1, out.data(), out.size(), &send), Code::kOk);
  for (int i = 0; i < 100; ++i) pair.turn();
  pair.a.abandon(send);
  EXPECT_EQ(in, std::vector<uint8_t>(100'000, 0xee));
}

// One end waits for nothing of a call any more. What the other one sends for it, before and after, holds that one up no
// longer; and a later call with the same tags gets its own.
TEST(Internode, MessagesOfACallThatWasGivenUpAreLetGo) {
  constexpr int32_t kFirst = 3 * static_cast<int32_t>(coll::kTags);
  constexpr int32_t kOther = kFirst + static_cast<int32_t>(coll::kTags);
  Pair pair;
  const std::vector<uint8_t> out(100'000, 7);
  std::vector<uint8_t> in(100'000, 0xee);
  void* before = nullptr;
  void* after = nullptr;
  void* other = nullptr;
  ASSERT_EQ(pair.a.send(1, 1, kFirst + 5, out.data(), out.size(), &before), Code::kOk);
  ASSERT_EQ(pair.a.send(1, 1, kOther, out.data(), out.size(), &other), Code::kOk);
  for (int i = 0; i < 100; ++i) pair.turn();
  EXPECT_FALSE(pair.b.lets_go());
  pair.b.let_go_of(1, kFirst);
  pair.b.tell_given_up(0, 1, 77);
  EXPECT_TRUE(pair.b.lets_go());
  EXPECT_EQ(pair.finish(pair.a, before), Code::kOk);
  ASSERT_EQ(pair.a.send(1, 1, kFirst + 6, out.data(), out.size(), &after), Code::kOk);
  EXPECT_EQ(pair.finish(pair.a, after), Code::kOk);
  for (int i = 0; i < 100; ++i) pair.turn();
  EXPECT_TRUE(pair.a.was_given_up(1, 77));
  EXPECT_FALSE(pair.a.was_given_up(1, 78));
  EXPECT_FALSE(pair.a.was_given_up(2, 77));
  // Other tags, and these when they come again.
  for (const int32_t tag : {kOther, kFirst + 5}) {
    void* receive = nullptr;
    void* send = nullptr;
    ASSERT_EQ(pair.b.receive(0, 1, tag, in.data(), in.size(), &receive), Code::kOk);
    if (tag != kOther) {
      ASSERT_EQ(pair.a.send(1, 1, tag, out.data(), out.size(), &send), Code::kOk);
    }
    EXPECT_EQ(pair.finish(pair.b, receive), Code::kOk);
    EXPECT_EQ(pair.finish(pair.a, tag == kOther ? other : send), Code::kOk);
    EXPECT_EQ(in, out);
    in.assign(in.size(), 0xee);
  }
}

}  // namespace
}  // namespace zh::test
