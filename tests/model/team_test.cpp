// The boards of collectives under the model checker: the shipped algorithms of src/coll (team.cpp, small.cpp,
// large_reduce.cpp, staged_reduce.cpp, reach.cpp, board_pool.cpp) with members as threads, at the smallest sizes. Each
// case shows that every result is right, that a slot, a cell, a staging area or a board is written again only when
// nobody reads it, and that a member's memory is its own when its call returns; together they show that none of the
// acquires and releases can be spared. Messages, memory of peers and the waiting are doubles, which announce every
// plain access to the race detector.
#include "coll/team.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "base/crash_point.h"
#include "checker.h"
#include "coll/board.h"
#include "coll/board_pool.h"
#include "coll/services.h"
#include "coll/team_state.h"
#include "prove.h"

namespace zh::mc {
namespace {

using coll::BoardShm;
using coll::Team;

constexpr uint32_t kMembersMax = 3;
constexpr uint32_t kBoardsMax = 2;
/// An element of the large reductions: so long that few of them are large.
constexpr uint64_t kHugeBytes = coll::kStagingBytes / 4;
/// Of an element, the first bytes and, of a huge one, the last hold the values that are added.
constexpr uint64_t kWord = 8;
constexpr uint64_t kEdge = 16;

/// One member's part of the segment. Static: too large for an object of each execution.
struct Part {
  std::array<BoardShm, kBoardsMax> boards;
  alignas(kPairBytes) std::byte staging[coll::kStagingBytes];
  coll::EdgesShm edges;
};
struct Segment {
  std::byte header[kPairBytes];  // offset 0 is no memory
  std::array<Part, kMembersMax> parts;
};
alignas(4096) Segment g_segment;

/// Messages of one member to another, in order of their tags' sending.
struct Mailbox {
  Atomic<uint32_t> sent{0};
  uint32_t received = 0;
  std::array<std::vector<std::byte>, 4> messages;
};

struct FakeRequest {
  Mailbox* box;
  uint32_t index;     ///< of the message
  copy::Buffer into;  ///< of a receive; null base: a send
};

class Member final : public coll::Services {
 public:
  Member(uint32_t self, std::array<std::array<Mailbox, kMembersMax>, kMembersMax>& boxes, uint32_t polls)
      : self_(self), boxes_(boxes), polls_(polls) {}

  [[nodiscard]] std::byte* base() const override { return reinterpret_cast<std::byte*>(&g_segment); }
  [[nodiscard]] Offset allocate(uint64_t bytes) override {
    Part& part = g_segment.parts[self_];
    const void* const p = bytes == coll::kStagingBytes      ? static_cast<const void*>(part.staging)
                          : bytes == sizeof(coll::EdgesShm) ? static_cast<const void*>(&part.edges)
                                                            : static_cast<const void*>(&part.boards.at(boards_++));
    return static_cast<Offset>(static_cast<const std::byte*>(p) - base());
  }
  void describe(const void* address, uint64_t bytes, bool, p2p::RemoteBufferShm* out) override {
    data_write(out);
    *out = {};
    out->address = reinterpret_cast<uintptr_t>(address);
    out->bytes = bytes;
    out->region.region = mapped ? 1 : 0;
    out->set_span(edge_bytes, bytes - edge_bytes);
  }
  [[nodiscard]] uint64_t read(uint32_t, const p2p::RemoteBufferShm& remote, uint64_t from, uint64_t n,
                              void* out) override {
    data_read(&remote);
    if (!mapped) return 0;
    check(inside(remote, from, n), "edges are private");
    const auto* const p = reinterpret_cast<const std::byte*>(remote.address) + from;
    data_read(p);
    data_read(p + n - kWord);
    std::memcpy(out, p, n);
    return n;
  }
  [[nodiscard]] uint64_t write(uint32_t, const p2p::RemoteBufferShm& remote, uint64_t from, uint64_t n,
                               const void* in) override {
    data_read(&remote);
    if (!mapped) return 0;
    check(inside(remote, from, n), "edges are private");
    auto* const p = reinterpret_cast<std::byte*>(remote.address) + from;
    data_write(p);
    data_write(p + n - kWord);
    std::memcpy(p, in, n);
    return n;
  }
  [[nodiscard]] bool visit(uint32_t, const p2p::RemoteBufferShm& remote, uint64_t from, uint64_t n, coll::Visit look,
                           void* context) override {
    data_read(&remote);
    if (!mapped || !inside(remote, from, n)) return false;
    look(context, reinterpret_cast<const std::byte*>(remote.address) + from);
    return true;
  }
  [[nodiscard]] p2p::Request* send(uint32_t dest, uint64_t, int32_t tag, const copy::Buffer& data,
                                   p2p::SendMode) override {
    if (tag == coll::kFirstFreeTag) data_read(&g_segment.parts[dest].boards[0].plea.from);  // the answer to a plea
    Mailbox& box = boxes_[self_][dest];
    const uint32_t index = sent_[dest]++;
    box.messages.at(index).assign(data.base, data.base + data.bytes);
    box.sent.store_release(index + 1);
    return request({&box, index, {}});
  }
  [[nodiscard]] p2p::Request* recv(uint32_t source, uint64_t, int32_t, const copy::Buffer& data) override {
    return request({&boxes_[source][self_], boxes_[source][self_].received++, data});
  }
  [[nodiscard]] bool done(const p2p::Request* request) const override {
    const auto* const r = reinterpret_cast<const FakeRequest*>(request);
    return r->into.base == nullptr || r->box->sent.load_acquire() > r->index;
  }
  Code finish(p2p::Request* request) override {
    const auto* const r = reinterpret_cast<const FakeRequest*>(request);
    if (r->into.base != nullptr) std::memcpy(r->into.base, r->box->messages[r->index].data(), r->into.bytes);
    return Code::kOk;
  }
  void wait(bool (*ready)(void*), void* context) override {
    for (bool is_ready = false; !is_ready;) {
      await([&] {
        const uint64_t before = writes();
        is_ready = ready(context);
        return is_ready || writes() != before;  // it may have answered a plea
      });
    }
  }
  [[nodiscard]] uint32_t polls() const override { return polls_; }
  void count_staged(uint64_t) override {}
  [[nodiscard]] uint32_t copiers() const override { return 1; }
  [[nodiscard]] bool alive(uint32_t) override { return true; }

  bool mapped = true;
  uint64_t edge_bytes = 0;  ///< of each end of what is mapped

 private:
  static bool inside(const p2p::RemoteBufferShm& remote, uint64_t from, uint64_t n) {
    return from >= remote.from() && from + n <= remote.end();
  }
  p2p::Request* request(FakeRequest r) {
    requests_.push_back(std::make_unique<FakeRequest>(std::move(r)));
    return reinterpret_cast<p2p::Request*>(requests_.back().get());
  }

  uint32_t self_;
  std::array<std::array<Mailbox, kMembersMax>, kMembersMax>& boxes_;
  uint32_t polls_;
  uint32_t boards_ = 0;
  std::array<uint32_t, kMembersMax> sent_ = {};
  std::vector<std::unique_ptr<FakeRequest>> requests_;
};

/// Accesses to edges, in the order of the crash points that announce them; the last one stands for all that follow.
/// Bit 0: the head, bit 1: the tail.
struct EdgeSteps {
  std::array<uint32_t, 3> masks = {};
  uint32_t step = 0;
  uint32_t next() { return masks.at(std::min<size_t>(step++, masks.size() - 1)); }
};

/// What a crash point of the running member announces.
struct Doing {
  uint32_t seq = 0;  ///< of its collective
  bool contributes = false;
  int reads_slot_of = -1;
  bool in_ring = false;  ///< contributions are, which has room for one
  bool reads_result = false;
  uint32_t rounds = 0;  ///< of a staged reduction
  uint32_t step = 0;
  uint32_t edges_of = 0;  ///< the member whose edges this one reads or writes
  EdgeSteps kept{};
  EdgeSteps read{};
  EdgeSteps written{};
  EdgeSteps taken{};
};
std::array<Doing, kMembersMax> g_doing;
uint32_t g_members = 0;

const BoardShm& board(uint32_t member) { return g_segment.parts[member].boards[0]; }
const std::byte* payload(uint32_t member) {
  const Doing& d = g_doing[self()];
  return d.in_ring ? board(member).ring : board(member).slots[d.seq % coll::kSlots].payload;
}
void before_store(const void* where, uint64_t) {
  const coll::PleaShm& plea = g_segment.parts[self()].boards[0].plea;
  if (where == &plea.word) data_write(&plea.from);
}
template <typename Announce>
void announce_edges(const coll::EdgePairShm& edges, uint32_t mask, Announce announce) {
  if ((mask & 1) != 0) announce(edges.head);
  if ((mask & 2) != 0) announce(edges.tail);
}
const std::byte* staging_room(uint32_t member, uint32_t round, uint32_t slice) {
  return g_segment.parts[member].staging + (round % 2 * g_members + slice) * (coll::kStagingBytes / (2 * g_members));
}

/// Reads both operands, writes the result: words, the first and the last of huge elements.
void sum_word(const std::byte* a, const std::byte* b, std::byte* c) {
  data_read(a);
  data_read(b);
  uint64_t x = 0;
  uint64_t y = 0;
  std::memcpy(&x, a, sizeof x);
  std::memcpy(&y, b, sizeof y);
  x += y;
  data_write(c);
  std::memcpy(c, &x, sizeof x);
}
template <uint64_t kBytes>
void sum(const void* left, const void* right, void* out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const auto* const a = static_cast<const std::byte*>(left) + i * kBytes;
    const auto* const b = static_cast<const std::byte*>(right) + i * kBytes;
    auto* const c = static_cast<std::byte*>(out) + i * kBytes;
    sum_word(a, b, c);
    if (kBytes != kWord) sum_word(a + kBytes - kWord, b + kBytes - kWord, c + kBytes - kWord);
  }
}
void put_value(std::byte* element, uint64_t value) {
  for (std::byte* p : {element, element + kHugeBytes - kWord}) {
    data_write(p);
    std::memcpy(p, &value, sizeof value);
  }
}
void check_value(const std::byte* element, uint64_t value) {
  for (const std::byte* p : {element, element + kHugeBytes - kWord}) {
    data_read(p);
    check(std::memcmp(p, &value, sizeof value) == 0, "the sum is right");
  }
}
const coll::Reduction kSmallSum{8, sum<8>, nullptr, nullptr, true};
const coll::Reduction kHugeSum{kHugeBytes, sum<kHugeBytes>, nullptr, nullptr, true};

class TeamScenario : public Scenario {
 public:
  explicit TeamScenario(uint32_t members, uint32_t polls = 0) : members_(members) {
    g_members = members;
    g_doing = {};
    set_store_hook(before_store);
    for (uint32_t i = 0; i < members; ++i) {
      for (BoardShm& board : g_segment.parts[i].boards) std::memset(static_cast<void*>(&board), 0, sizeof board);
      services_.push_back(std::make_unique<Member>(i, boxes_, polls));
      pools_.push_back(std::make_unique<coll::BoardPool>(*services_[i]));
    }
  }
  ~TeamScenario() override { set_store_hook(nullptr); }
  [[nodiscard]] uint32_t threads() const override { return members_; }

 protected:
  std::unique_ptr<Team> make_team(uint32_t self) {
    std::vector<uint32_t> all(members_);
    for (uint32_t i = 0; i < members_; ++i) all[i] = i;
    auto team = std::make_unique<Team>(*services_[self], *pools_[self], 1, all, self);
    check(team->ready(), "there is memory");
    return team;
  }
  static uint64_t value(uint32_t call, uint32_t member) { return uint64_t{call + 1} << (8 * member); }
  [[nodiscard]] uint64_t total(uint32_t call) const {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < members_; ++i) sum += value(call, i);
    return sum;
  }
  static Doing& next() {
    Doing& d = g_doing[self()];
    d = {d.seq + 1};
    return d;
  }

  uint32_t members_;
  std::array<std::array<Mailbox, kMembersMax>, kMembersMax> boxes_ = {};
  std::vector<std::unique_ptr<Member>> services_;
  std::vector<std::unique_ptr<coll::BoardPool>> pools_;
};

Options bounded(uint32_t preemptions = 2) {
  Options o;
  o.exhaustive = false;
  o.preemptions = preemptions;
  return o;
}

const Unneeded kBoardsServeOneTeam{"take release", "no board is used again here"};
const Unneeded kNobodyPleads{"answer_pleas acquire", "nobody pleads here"};
const Unneeded kNextTellsEnd{"end release", "who contributes to the next collective has done the one before"};

// --- Everyone reads everyone's slot, or the last to arrive combines for all; slots and the result are used again.

class AllreduceScenario final : public TeamScenario {
 public:
  AllreduceScenario(uint32_t members, uint32_t polls, uint32_t calls) : TeamScenario(members, polls), calls_(calls) {
    counted_ = polls == 1 && members > 2;
  }
  void run(uint32_t me) override {
    const auto team = make_team(me);
    for (uint32_t call = 0; call < calls_; ++call) {
      Doing& d = next();
      d.contributes = true;
      d.reads_result = counted_;
      const uint64_t in = value(call, me);
      uint64_t out = 0;
      check(team->allreduce(&in, &out, 1, kSmallSum) == Code::kOk, "it ends well");
      check(out == total(call), "the sum is right");
    }
  }

 private:
  uint32_t calls_;
  bool counted_;
};

TEST(ModelTeam, SmallAllreduce) {
  prove([] { return std::make_unique<AllreduceScenario>(2, 0, 4); }, 300,
        {kBoardsServeOneTeam, kNobodyPleads, kNextTellsEnd});
}
TEST(ModelTeam, CountedAllreduce) {
  prove([] { return std::make_unique<AllreduceScenario>(3, 1, 2); }, 1000,
        {kBoardsServeOneTeam, kNobodyPleads, kNextTellsEnd, {"publish release", "the arrival tells as much"}},
        bounded(1));
}

// --- A root that runs ahead; its slots are written again when the others have read them.

class RootedScenario final : public TeamScenario {
 public:
  explicit RootedScenario(uint64_t bytes) : TeamScenario(2), bytes_(bytes) {}
  void run(uint32_t me) override {
    const auto team = make_team(me);
    std::vector<std::byte> data(bytes_);
    for (uint32_t call = 0; call < 4; ++call) {
      Doing& d = next();
      d.in_ring = bytes_ > coll::kInlineBytes;
      d.contributes = me == 0;
      if (me != 0) d.reads_slot_of = 0;
      data.back() = me == 0 ? std::byte(call + 1) : std::byte(0);
      check(team->bcast({data.data(), bytes_, nullptr}, 0) == Code::kOk, "it ends well");
      check(data.back() == std::byte(call + 1), "the root's bytes came");
    }
  }

 private:
  uint64_t bytes_;
};

TEST(ModelTeam, RootRunsAhead) {
  prove([] { return std::make_unique<RootedScenario>(8); }, 500, {kBoardsServeOneTeam, kNobodyPleads});
}
TEST(ModelTeam, RootRunsAheadInTheRing) {
  prove([] { return std::make_unique<RootedScenario>(600); }, 20, {kBoardsServeOneTeam, kNobodyPleads});
}

// --- Where the data lie: when a call has returned, nobody looks at this member's memory any more.

class LargeScenario final : public TeamScenario {
 public:
  /// `rounds`: of a staged reduction, where nothing is mapped; else 0.
  LargeScenario(uint32_t elements, uint32_t rounds, uint32_t calls, uint64_t edge_bytes = 0, bool in_place = false)
      : TeamScenario(2), elements_(elements), rounds_(rounds), calls_(calls), in_place_(in_place) {
    for (const auto& s : services_) {
      s->mapped = rounds == 0;
      s->edge_bytes = edge_bytes;
    }
    for (uint32_t i = 0; i < 2; ++i) {
      for (std::vector<std::byte>* memory : {&in_[i], &out_[i]}) memory->resize(elements * kHugeBytes);
    }
  }
  void run(uint32_t me) override {
    const auto team = make_team(me);
    for (uint32_t call = 0; call < calls_; ++call) {
      Doing& d = next();
      d.rounds = rounds_;
      // Member 0 combines the slice with the head, member 1 the one with the tail.
      const uint32_t own = me == 0 ? 1 : 2;
      d.edges_of = 1 - me;
      d.kept.masks = {3, 3, 3};
      d.read.masks = d.written.masks = {own, own, own};
      d.taken.masks = {3 - own, 3 - own, 3 - own};
      for (uint32_t i = 0; i < elements_; ++i) {
        put_value(out(me, i), 0);
        put_value(in(me, i), value(call + i, me));
      }
      check(team->allreduce(in(me, 0), out(me, 0), elements_, kHugeSum) == Code::kOk, "it ends well");
      for (uint32_t i = 0; i < elements_; ++i) {
        check_value(out(me, i), total(call + i));
        put_value(in(me, i), 0);
        put_value(out(me, i), 0);
      }
    }
  }

 private:
  std::byte* in(uint32_t member, uint32_t i) { return in_.at(member).data() + i * kHugeBytes; }
  std::byte* out(uint32_t member, uint32_t i) { return (in_place_ ? in_ : out_).at(member).data() + i * kHugeBytes; }

  uint32_t elements_;
  uint32_t rounds_;
  uint32_t calls_;
  bool in_place_;
  std::array<std::vector<std::byte>, kMembersMax> in_;
  std::array<std::vector<std::byte>, kMembersMax> out_;
};

TEST(ModelTeam, LargeAllreduceInPlace) {
  prove([] { return std::make_unique<LargeScenario>(3, 0, 1); }, 30, {kBoardsServeOneTeam, kNobodyPleads});
}

TEST(ModelTeam, LargeAllreduceWithEdges) {
  for (const bool in_place : {false, true}) {
    prove([in_place] { return std::make_unique<LargeScenario>(3, 0, 1, kEdge, in_place); }, 30,
          {kBoardsServeOneTeam, kNobodyPleads});
  }
}
TEST(ModelTeam, EdgesAreUsedAgain) {
  prove([] { return std::make_unique<LargeScenario>(2, 0, 2, kEdge); }, 100, {kBoardsServeOneTeam, kNobodyPleads},
        bounded());
}

// A chain: what a member has changed, its edges included, is read by the next one step by step.
class ScanScenario final : public TeamScenario {
 public:
  ScanScenario() : TeamScenario(3) {
    for (const auto& s : services_) s->edge_bytes = kEdge;
  }
  void run(uint32_t me) override {
    const auto team = make_team(me);
    Doing& d = next();
    d.edges_of = me - 1;
    d.kept.masks = {3, 1, 2};
    d.read.masks = {1, 2, 0};
    static std::array<std::array<std::byte, 2 * kHugeBytes>, kMembersMax> memory;  // too large to be made each time
    std::byte* const sums = memory.at(me).data();
    for (uint32_t i = 0; i < 2; ++i) put_value(sums + i * kHugeBytes, value(i, me));
    check(team->scan(sums, sums, 2, kHugeSum, false) == Code::kOk, "it ends well");
    for (uint32_t i = 0; i < 2; ++i) {
      uint64_t sum = 0;
      for (uint32_t m = 0; m <= me; ++m) sum += value(i, m);
      check_value(sums + i * kHugeBytes, sum);
      put_value(sums + i * kHugeBytes, 0);
    }
  }
};

// The steps' orders are proved needed by the staged reductions; here they tell what the flags of the slots do as well.
TEST(ModelTeam, LargeScanWithEdges) {
  const Report r = explore(bounded(1), [] { return std::make_unique<ScanScenario>(); });
  EXPECT_TRUE(r.ok) << r.failure;
  EXPECT_TRUE(r.complete);
  EXPECT_GE(r.executions, 1000U);
}

// The members write, and the root takes from its edges' area what they wrote, and nothing that is its own.
class GatherScenario final : public TeamScenario {
 public:
  explicit GatherScenario(uint32_t root) : TeamScenario(3), root_(root), all_(3 * kHugeBytes) {
    for (const auto& s : services_) s->edge_bytes = kEdge;
    for (auto& memory : mine_) memory.resize(kHugeBytes);
  }
  void run(uint32_t me) override {
    const auto team = make_team(me);
    Doing& d = next();
    d.edges_of = root_;
    const uint32_t own = me == 0 ? 1 : me == 2 ? 2 : 0;
    d.written.masks = {own, own, own};
    d.taken.masks = root_ == 0   ? std::array<uint32_t, 3>{0, 2, 2}
                    : root_ == 1 ? std::array<uint32_t, 3>{1, 2, 2}
                                 : std::array<uint32_t, 3>{1, 0, 0};
    const bool is_root = me == root_;
    for (uint32_t i = 0; is_root && i < 3; ++i) put_value(all_.data() + i * kHugeBytes, 0);
    std::byte* const mine = is_root ? all_.data() + me * kHugeBytes : mine_.at(me).data();
    put_value(mine, value(0, me));
    const coll::Pieces all{{all_.data(), kHugeBytes, nullptr}, kHugeBytes, nullptr};
    check(team->gather({mine, kHugeBytes, nullptr}, all, root_, true) == Code::kOk, "it ends well");
    put_value(mine, value(0, me));
    for (uint32_t i = 0; is_root && i < 3; ++i) {
      check_value(all_.data() + i * kHugeBytes, value(0, i));
      put_value(all_.data() + i * kHugeBytes, 0);
    }
  }

 private:
  uint32_t root_;
  std::vector<std::byte> all_;
  std::array<std::vector<std::byte>, kMembersMax> mine_;
};

TEST(ModelTeam, LargeGatherWithEdges) {
  for (uint32_t root = 0; root < 3; ++root) {
    prove([root] { return std::make_unique<GatherScenario>(root); }, 100, {kBoardsServeOneTeam, kNobodyPleads},
          bounded(1));
  }
}

// Each half of the staging areas is used twice in one reduction, then both in another one.
TEST(ModelTeam, StagedAllreduce) {
  prove([] { return std::make_unique<LargeScenario>(6, 3, 1); }, 1000,
        {kBoardsServeOneTeam,
         kNobodyPleads,
         {"end release", "the area is not used again"},
         {"all_done acquire", "the area is not used again"}},
        bounded());
}
TEST(ModelTeam, StagedAllreduceAfterAnother) {
  prove([] { return std::make_unique<LargeScenario>(2, 1, 2); }, 1000,
        {kBoardsServeOneTeam,
         kNobodyPleads,
         kNextTellsEnd,
         {"all_done acquire", "needed where another team uses the area next"}},
        bounded());
}

// --- What no way leads to is asked for: two members ask each other at once.

class PleaScenario final : public TeamScenario {
 public:
  PleaScenario() : TeamScenario(2) {
    for (const auto& s : services_) s->mapped = false;
  }
  void run(uint32_t me) override {
    const auto team = make_team(me);
    next();
    std::vector<std::byte> mine(kBytes, std::byte(me + 1));
    std::vector<std::byte> all(2 * kBytes);
    const copy::Buffer send{mine.data(), kBytes, nullptr};
    const coll::Pieces recv{{all.data(), kBytes, nullptr}, kBytes, nullptr};
    check(team->allgather(send, recv, true) == Code::kOk, "it ends well");
    check(all[0] == std::byte(1) && all[2 * kBytes - 1] == std::byte(2), "both pieces came");
  }

 private:
  static constexpr uint64_t kBytes = coll::kSmallBytes + 1;
};

TEST(ModelTeam, Pleas) {
  prove([] { return std::make_unique<PleaScenario>(); }, 1000,
        {kBoardsServeOneTeam,
         {"end release", "only the owner looks at its memory"},
         {"all_done acquire", "only the owner looks at its memory"}});
}

// --- Boards serve one team after another: the pool alone, used as teams use it. Member 2 is slow, and not in the
// second team.

class BoardsScenario final : public TeamScenario {
 public:
  BoardsScenario() : TeamScenario(3) {}
  void run(uint32_t me) override {
    coll::BoardPool& pool = *pools_[me];
    check(pool.take(1) == offset_of(me), "the first board");
    taken_.fetch_add_acq_rel(1);  // a team begins when all have told each other where their boards are
    await([&] { return taken_.load_acquire() == 3; });
    BoardShm& mine = g_segment.parts[me].boards[0];
    const auto* const shown = &g_segment.parts[0].boards[0].slots[0];
    if (me == 0) {
      data_write(shown);
      shown_.store_release(1);
    } else {
      await([&] { return shown_.load_acquire() == 1; });
      data_read(shown);
    }
    mine.done.store_release(1);
    pool.give(1, 1, offset_of(me), {offset_of(0), offset_of(1), offset_of(2)});
    if (me == 2) return;
    if (pool.take(2) != offset_of(me)) return;  // somebody may still read
    if (me == 0) data_write(shown);
  }

 private:
  static Offset offset_of(uint32_t member) {
    return static_cast<Offset>(reinterpret_cast<const std::byte*>(&g_segment.parts[member].boards[0]) -
                               reinterpret_cast<const std::byte*>(&g_segment));
  }
  Atomic<uint32_t> taken_{0};
  Atomic<uint32_t> shown_{0};
};

TEST(ModelTeam, BoardsAreUsedAgain) {
  prove([] { return std::make_unique<BoardsScenario>(); }, 1000, {}, bounded(1));
}

}  // namespace
}  // namespace zh::mc

namespace zh {

void crash_point(const char* name) {
  using namespace mc;
  if (!running()) return;
  const std::string_view at = name;
  const uint32_t me = self();
  Doing& d = g_doing[me];
  if (at == "team: contributed") {
    // In a staged reduction it stands for what the slot says of the memory.
    if (d.contributes || d.rounds != 0) data_write(payload(me));
  } else if (at == "team: not yet done") {
    if (d.reads_slot_of >= 0) data_read(payload(static_cast<uint32_t>(d.reads_slot_of)));
    if (d.reads_result) data_read(board(0).result.payload);
  } else if (at == "team: step of a staged reduction") {
    for (uint32_t i = 0; i < g_members; ++i) {
      if (d.step == 0) data_read(payload(i));
      if (d.step < d.rounds && i != me) data_write(staging_room(me, d.step, i));
      if (d.step >= 2 && i != me) data_read(staging_room(i, d.step - 2, i));
    }
    if (d.step >= 1 && d.step <= d.rounds) data_write(staging_room(me, d.step - 1, me));
    ++d.step;
  } else if (at == "team: edges kept") {
    announce_edges(g_segment.parts[me].edges.source, d.kept.next(), data_write);
  } else if (at == "team: edges read") {
    announce_edges(g_segment.parts[d.edges_of].edges.source, d.read.next(), data_read);
  } else if (at == "team: edges written") {
    announce_edges(g_segment.parts[d.edges_of].edges.target, d.written.next(), data_write);
  } else if (at == "team: edges taken") {
    announce_edges(g_segment.parts[me].edges.target, d.taken.next(), data_read);
  }
}

}  // namespace zh
