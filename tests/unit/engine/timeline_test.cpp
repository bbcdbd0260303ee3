// A rank's latest events: the ring keeps them in order and whole whoever reads meanwhile, and both ends of a message
// tell it by the same number.
#include "p2p/timeline.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "team_support.h"

namespace zh::test {
namespace {

using p2p::Event;
using p2p::TimelineShm;
using Kind = Event::Kind;

constexpr uint64_t kKept = TimelineShm::kEvents - 1;
/// Those that are there, and how many there were before them.
std::vector<Event> latest(const TimelineShm& timeline, uint64_t* before) {
  const uint64_t told = timeline.told();
  std::vector<Event> events;
  Event event;
  for (uint64_t n = TimelineShm::first_of(told); n < told; ++n) {
    if (timeline.read(n, &event)) events.push_back(event);
  }
  *before = told - events.size();
  return events;
}
Event numbered(uint64_t n) { return {.begin_ticks = n, .key = n}; }

TEST(Timeline, KeepsTheLatestEventsInOrder) {
  const auto timeline = std::make_unique<TimelineShm>();
  uint64_t before = 0;
  uint64_t told = 0;
  for (const uint64_t until : {uint64_t{0}, uint64_t{1}, kKept, kKept + 1, kKept + 2, 3 * kKept}) {
    for (; told < until; ++told) timeline->add(numbered(told));
    const std::vector<Event> events = latest(*timeline, &before);
    ASSERT_EQ(events.size(), std::min(told, kKept)) << told;
    EXPECT_EQ(before, told - events.size());
    for (uint64_t i = 0; i < events.size(); ++i) ASSERT_EQ(events[i].key, before + i);
  }
}

TEST(Timeline, IsReadWhileItIsWritten) {
  const auto timeline = std::make_unique<TimelineShm>();
  Atomic<uint32_t> stop{0};
  std::thread writer([&] {
    for (uint64_t n = 0; stop.load_relaxed() == 0; ++n) timeline->add(numbered(n));
  });
  for (int look = 0; look < 20; ++look) {
    uint64_t before = 0;
    uint64_t least = 0;
    for (const Event& e : latest(*timeline, &before)) {
      ASSERT_TRUE(e.begin_ticks == e.key && e.key >= least) << e.key;
      least = e.key + 1;
    }
  }
  stop.store_relaxed(1);
  writer.join();
}

class TimelineOfRanks : public ::testing::TestWithParam<World> {};

// Small ones through rings that grow, one through a block, large ones, some unexpected.
TEST_P(TimelineOfRanks, BothEndsKnowAMessageByOneNumber) {
  constexpr int kMessages = 2000;
  StormConfig config = config_in(GetParam());
  config.timeline = true;
  run_engine(2, config, [&](TestBootstrap& world, EngineRank& r, uint32_t self) {
    const auto bytes_of = [](int i) { return i % 500 == 0 ? uint64_t{1} << 20 : i % 50 == 0 ? 3000 : i % 90; };
    std::vector<std::byte> bytes(1 << 20);
    std::vector<engine::Request*> requests;
    for (int i = 0; i < kMessages; ++i) {
      const int tag = i % 3;
      requests.push_back(self == 0 ? r.rank->isend(to_other(1, tag, bytes.data(), bytes_of(i)))
                                   : r.rank->irecv(message_from(0, tag, bytes.data(), bytes.size())));
    }
    for (engine::Request* request : requests) finish(*r.rank, request);
    r.rank->tell({.begin_ticks = 1, .function = 5});
    r.rank->tell({.context = 4, .bytes = 80, .key = 9, .kind = Kind::kCollective});
    ASSERT_TRUE(world.barrier().ok());
    if (self == 1) return;
    const auto events = [&](uint32_t rank, Kind kind) {
      std::map<uint64_t, std::pair<int32_t, uint64_t>> found;
      uint64_t before = 0;
      const Offset offset = r.rank->account(rank).timeline_at();
      for (const Event& e : latest(*at<TimelineShm>(r.rank->node().base(), offset), &before)) {
        EXPECT_GE(e.end_ticks, e.begin_ticks);
        EXPECT_TRUE(e.kind != kind || found.emplace(e.key, std::pair(e.tag, e.bytes)).second) << e.key;
      }
      return found;
    };
    EXPECT_EQ(events(0, Kind::kSent).size(), size_t{kMessages});
    EXPECT_EQ(events(0, Kind::kSent), events(1, Kind::kReceived));
    EXPECT_EQ(events(1, Kind::kCall).size(), 1U);
    EXPECT_EQ(events(1, Kind::kCollective).at(9), std::pair(0, uint64_t{80}));
  });
}

INSTANTIATE_TEST_SUITE_P(All, TimelineOfRanks, ::testing::Values(World::kProcesses, World::kThreads));

}  // namespace
}  // namespace zh::test
