// Messages whose buffers are mapped without their first and last bytes: every misalignment of both ends, at sizes
// around the thresholds, with the source mapped, the target, or both, with and without the kernel's copy, and while
// processes fork; byte for byte, and nothing beside the buffer.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "base/atomic.h"
#include "engine_support.h"
#include "support/fake_heap.h"

namespace zh::test {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kEdges[] = {0, 1, 16, 2048, 4080, 4095};
constexpr uint64_t kMiddles[] = {kPage, 2 * kPage, 3 * kPage, 16 << 10, 60 << 10, 300 << 10};
constexpr uint64_t kEdgeGuard = 64;
constexpr std::byte kEdgeUntouched{0xee};

struct EdgesCase {
  World world;
  bool source_mapped;
  bool target_mapped;
  bool cma;
  bool forks;
};

std::string edges_case_name(const ::testing::TestParamInfo<EdgesCase>& info) {
  const EdgesCase& c = info.param;
  return std::string(to_string(c.world)) + (c.source_mapped ? "_source" : "") + (c.target_mapped ? "_target" : "") +
         (c.cma ? "" : "_no_cma") + (c.forks ? "_forks" : "");
}

std::byte edge_content(uint32_t message, uint64_t k) {
  return static_cast<std::byte>(message * 37 + k * 7 + (k >> 8) * 13 + 1);
}

/// Room for all cases of one end.
class Room {
 public:
  explicit Room(FakeHeap* heap) : heap_(heap) {
    if (heap != nullptr) {
      memory_ = heap->take(kBytes);
      return;
    }
    own_.resize(kBytes + kPage);
    memory_ = own_.data() + (kPage - reinterpret_cast<uintptr_t>(own_.data()) % kPage);
  }
  /// A buffer with so many bytes in front of the first page bound; mapped if this is memory of the heap.
  std::byte* buffer(uint64_t head, uint64_t n) {
    std::byte* const p = memory_ + 2 * kPage - head;
    heap::SharedPlace place;
    for (int i = 0; i < 2 && heap_ != nullptr; ++i) (void)heap_->publish(p, n, {}, &place);
    return p;
  }

 private:
  static constexpr uint64_t kBytes = (300 << 10) + 8 * kPage;
  FakeHeap* heap_;
  std::vector<std::byte> own_;
  std::byte* memory_ = nullptr;
};

class Edges : public ::testing::TestWithParam<EdgesCase> {
 protected:
  static bool posted_first(uint32_t message) { return message % 2 == 0; }
  static void send(Rank& rank, Room& room, uint32_t message, uint64_t head, uint64_t n) {
    std::byte* const p = room.buffer(head, n);
    for (uint64_t k = 0; k < n; ++k) p[k] = edge_content(message, k);
    if (posted_first(message)) {
      std::byte go{};
      ASSERT_EQ(rank.recv(message_from(1, 0, &go, 1)).code, Code::kOk);
    }
    SendArgs a = to_other(1, 0, p, n);
    a.mode = message % 5 == 0 ? p2p::SendMode::kSynchronous : p2p::SendMode::kStandard;
    ASSERT_EQ(finish(rank, rank.isend(a)).code, Code::kOk);
  }
  static void receive(Rank& rank, Room& room, uint32_t message, uint64_t head, uint64_t n) {
    const uint64_t capacity = message % 7 != 0 ? n : n - std::min<uint64_t>(n / 2, 1 + message % 5000);
    std::byte* const p = room.buffer(head, capacity);
    std::memset(p - kEdgeGuard, static_cast<int>(kEdgeUntouched), n + 2 * kEdgeGuard);
    Request* const r = rank.irecv(message_from(0, 0, p, capacity));
    if (posted_first(message)) {
      std::byte go{};
      ASSERT_EQ(rank.send(to_other(0, 0, &go, 1)).code, Code::kOk);
    }
    const Result result = finish(rank, r);
    ASSERT_EQ(result.bytes, capacity);
    ASSERT_EQ(result.code, capacity < n ? Code::kTruncated : Code::kOk);
    for (uint64_t k = 0; k < n + 2 * kEdgeGuard; ++k) {
      const bool inside = k >= kEdgeGuard && k < kEdgeGuard + capacity;
      ASSERT_EQ(p[k - kEdgeGuard], inside ? edge_content(message, k - kEdgeGuard) : kEdgeUntouched)
          << "byte " << k - kEdgeGuard << " of " << n << ", capacity " << capacity << ", head " << head;
    }
  }
};

TEST_P(Edges, EveryByteArrivesAndNoOther) {
  const EdgesCase c = GetParam();
  run_ranks(c.world, 2,
            [&](TestBootstrap& world) {
              FakeHeap heap(8 << 20);
              StormConfig config = config_in(c.world, c.cma);
              config.single_copy_min = 8 << 10;  // what is not mapped waits for its receive, which may be
              config.heap = &heap;
              EngineRank r = make_rank(world, config);
              ASSERT_NE(r.rank, nullptr);
              const uint32_t self = r.node->self();
              Room room((self == 0 ? c.source_mapped : c.target_mapped) ? &heap : nullptr);
              Atomic<uint32_t> over{0};
              std::thread forker;
              if (c.forks) {
                forker = std::thread([&] {
                  for (; over.load_relaxed() == 0; std::this_thread::sleep_for(std::chrono::microseconds(100)))
                    heap.pretend_fork([] {});
                });
              }
              uint32_t message = 0;
              for (const uint64_t middle : kMiddles) {
                for (const uint64_t head : kEdges) {
                  for (const uint64_t tail : kEdges) {
                    for (const uint64_t other_head : kEdges) {
                      if (++message % 3 != 0 && (c.forks || middle > (16 << 10))) continue;
                      const uint64_t n = head + middle + tail;
                      SCOPED_TRACE(n);
                      if (self == 0) {
                        send(*r.rank, room, message, head, n);
                      } else {
                        receive(*r.rank, room, message, other_head, n);
                      }
                      if (::testing::Test::HasFatalFailure()) break;
                    }
                  }
                }
              }
              over.store_relaxed(1);
              if (c.forks) forker.join();
              ASSERT_TRUE(world.barrier().ok());
              // Else most bytes are in cells before the receive has come, or what was told is void.
              if (self == 0 && !c.forks && ((c.cma && r.node->cma(1)) || c.source_mapped)) {
                EXPECT_GT(stat(*r.rank, "by_one_end") + stat(*r.rank, "by_both_ends"), 100U);
                EXPECT_GT(stat(*r.rank, "edge_bytes"), 0U);
              }
            },
            {.timeout_s = 120});
}

std::vector<EdgesCase> edge_cases() {
  std::vector<EdgesCase> all;
  for (const World world : {World::kThreads, World::kProcesses}) {
    for (const int mapped : {1, 2, 3}) {
      for (const bool cma : {true, false}) {
        for (const bool forks : {false, true}) {
          all.push_back({world, (mapped & 1) != 0, (mapped & 2) != 0, cma, forks});
        }
      }
    }
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, Edges, ::testing::ValuesIn(edge_cases()), edges_case_name);

}  // namespace
}  // namespace zh::test
