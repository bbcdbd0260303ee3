// Members of a team under the model checker: messages, memory of peers and the waiting are doubles, which announce
// every plain access to the race detector. Places named by ZH_CRASH_POINT, which lie between accesses to plain memory
// and what orders them, announce those accesses. Used by team_test.cpp, which defines them, and team_edges_test.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "checker.h"
#include "coll/team/control_block.h"
#include "coll/team/control_block_pool.h"
#include "coll/team/services.h"
#include "coll/team/team.h"
#include "coll/team/team_state.h"
#include "prove.h"

namespace zh::mc {

using coll::ControlBlockShm;
using coll::Team;

constexpr uint32_t kMembersMax = 4;
constexpr uint32_t kControlBlocksMax = 2;
/// An element of the large reductions: so long that few of them are large.
constexpr uint64_t kHugeBytes = coll::kStagingBytes / 4;
/// Of an element, the first bytes and, of a huge one, the last hold the values that are added.
constexpr uint64_t kWord = 8;
constexpr uint64_t kEdge = 16;

/// One member's part of the segment. Static: too large for an object of each execution.
struct Part {
  std::array<ControlBlockShm, kControlBlocksMax> blocks;
  alignas(kPairBytes) std::byte staging[coll::kStagingBytes];
  coll::EdgesShm edges;
  coll::SlotBlockShm started;
  coll::StagedBlockShm staged;
  coll::LargerBlockShm larger;
};
struct Segment {
  std::byte header[kPairBytes];  // offset 0 is no memory
  std::array<Part, kMembersMax> parts;
};
alignas(4096) inline Segment g_segment;

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

class Member final : public coll::Services, public copy::MemoryAccess {
 public:
  Member(uint32_t self, std::array<std::array<Mailbox, kMembersMax>, kMembersMax>& boxes, uint32_t polls)
      : self_(self), boxes_(boxes), polls_(polls) {}

  [[nodiscard]] std::byte* base() const override { return reinterpret_cast<std::byte*>(&g_segment); }
  [[nodiscard]] Offset allocate(uint64_t bytes) override {
    Part& part = g_segment.parts[self_];
    const void* const p = bytes == coll::kStagingBytes          ? static_cast<const void*>(part.staging)
                          : bytes == sizeof(coll::EdgesShm)     ? static_cast<const void*>(&part.edges)
                          : bytes == sizeof(coll::SlotBlockShm) ? static_cast<const void*>(&part.started)
                          : bytes == sizeof(coll::StagedBlockShm)
                              ? static_cast<const void*>(&part.staged)
                              : static_cast<const void*>(&part.blocks.at(blocks_++));
    return static_cast<Offset>(static_cast<const std::byte*>(p) - base());
  }
  [[nodiscard]] Offset allocate_spare(uint64_t) override {
    if (!spares) return kNoOffset;
    return static_cast<Offset>(reinterpret_cast<const std::byte*>(&g_segment.parts[self_].larger) - base());
  }
  [[nodiscard]] copy::MemoryAccess& memory() override { return *this; }
  void describe(const void* address, uint64_t bytes, uint64_t /*data*/, copy::Direction, bool,
                copy::RemoteBufferShm* out) override {
    data_write(out);
    *out = {};
    out->address = reinterpret_cast<uintptr_t>(address);
    out->bytes = bytes;
    out->region.region = mapped ? 1 : 0;
    out->set_span(edge_bytes, bytes - edge_bytes);
  }
  [[nodiscard]] uint64_t read(uint32_t, const copy::RemoteBufferShm& remote, uint64_t from, uint64_t n,
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
  [[nodiscard]] uint64_t write(uint32_t, const copy::RemoteBufferShm& remote, uint64_t from, uint64_t n,
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
  [[nodiscard]] bool visit(uint32_t, const copy::RemoteBufferShm& remote, uint64_t from, uint64_t n, copy::Visit look,
                           void* context) override {
    data_read(&remote);
    if (!mapped || !inside(remote, from, n)) return false;
    look(context, reinterpret_cast<const std::byte*>(remote.address) + from);
    return true;
  }
  [[nodiscard]] p2p::Request* send(uint32_t dest, uint64_t, int32_t tag, const copy::Buffer& data,
                                   p2p::SendMode) override {
    if (tag == coll::kFirstFreeTag)
      data_read(&g_segment.parts[dest].blocks[0].fallback.from);  // the answer to a fallback request
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
  Code finish(p2p::Request* request, uint64_t* bytes) override {
    const auto* const r = reinterpret_cast<const FakeRequest*>(request);
    *bytes = r->into.bytes;
    if (r->into.base != nullptr) std::memcpy(r->into.base, r->box->messages[r->index].data(), r->into.bytes);
    return Code::kOk;
  }
  void abandon(p2p::Request*) override { check(false, "every message comes"); }
  [[nodiscard]] uint64_t streamed_from(uint32_t) const override { return ~uint64_t{0}; }
  [[nodiscard]] const Atomic<uint32_t>* sleepers() const override { return nullptr; }
  void wake(uint32_t) override {}
  void wait(bool (*ready)(void*), void* context, p2p::Tell) override {
    for (bool is_ready = false; !is_ready;) {
      await([&] {
        const uint64_t before = writes();
        is_ready = ready(context);
        return is_ready || writes() != before;  // it may have answered a fallback request
      });
    }
  }
  [[nodiscard]] uint32_t polls() const override { return polls_; }
  [[nodiscard]] bool keeps_cpu_from_peer() override { return false; }
  void count_staged(uint64_t) override {}
  [[nodiscard]] node::Level level(uint32_t a, uint32_t b) const override {
    return a / 2 == b / 2 ? node::Level::kSharedL2 : node::Level::kOtherSocket;
  }
  [[nodiscard]] uint32_t copiers() const override { return 1; }
  [[nodiscard]] bool alive(uint32_t) override { return true; }

  bool spares = false;  ///< there is memory for a larger block
  bool mapped = true;
  uint64_t edge_bytes = 0;  ///< of each end of what is mapped

 private:
  static bool inside(const copy::RemoteBufferShm& remote, uint64_t from, uint64_t n) {
    return from >= remote.from() && from + n <= remote.end();
  }
  p2p::Request* request(FakeRequest r) {
    requests_.push_back(std::make_unique<FakeRequest>(std::move(r)));
    return reinterpret_cast<p2p::Request*>(requests_.back().get());
  }

  uint32_t self_;
  std::array<std::array<Mailbox, kMembersMax>, kMembersMax>& boxes_;
  uint32_t polls_;
  uint32_t blocks_ = 0;
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
  bool grown = false;    ///< ... and on the larger block
  bool reads_result = false;
  bool grouped = false;  ///< the result is on the control block of its group's leader
  uint32_t rounds = 0;   ///< of a staged reduction
  uint32_t step = 0;
  uint32_t edges_of = 0;  ///< the member whose edges this one reads or writes
  EdgeSteps kept{};
  EdgeSteps read{};
  EdgeSteps written{};
  EdgeSteps taken{};
};
inline std::array<Doing, kMembersMax> g_doing;
inline uint32_t g_members = 0;

inline const ControlBlockShm& control(uint32_t member) { return g_segment.parts[member].blocks[0]; }
inline const std::byte* payload(uint32_t member) {
  const Doing& d = g_doing[self()];
  if (d.grown) return g_segment.parts[member].larger.slots[d.seq % coll::kSlots].payload;
  return d.in_ring ? control(member).ring : control(member).slots[d.seq % coll::kFirstSlots].payload;
}
inline const std::byte* started_payload(uint32_t member) {
  return g_segment.parts[member].started.slots[g_doing[self()].seq % coll::kNonblockingSlots].payload;
}
inline void before_store(const void* where, uint64_t) {
  const coll::FallbackShm& fallback = g_segment.parts[self()].blocks[0].fallback;
  if (where == &fallback.word) data_write(&fallback.from);
}
template <typename Announce>
void announce_edges(const coll::EdgePairShm& edges, uint32_t mask, Announce announce) {
  if ((mask & 1) != 0) announce(edges.head);
  if ((mask & 2) != 0) announce(edges.tail);
}
inline const std::byte* staging_room(uint32_t member, uint32_t round, uint32_t slice) {
  return g_segment.parts[member].staging + (round % 2 * g_members + slice) * (coll::kStagingBytes / (2 * g_members));
}

/// Reads both operands, writes the result: words, the first and the last of huge elements.
inline void sum_word(const std::byte* a, const std::byte* b, std::byte* c) {
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
inline void put_value(std::byte* element, uint64_t value) {
  for (std::byte* p : {element, element + kHugeBytes - kWord}) {
    data_write(p);
    std::memcpy(p, &value, sizeof value);
  }
}
inline void check_value(const std::byte* element, uint64_t value) {
  for (const std::byte* p : {element, element + kHugeBytes - kWord}) {
    data_read(p);
    check(std::memcmp(p, &value, sizeof value) == 0, "the sum is right");
  }
}
inline const coll::Reduction kSmallSum{8, sum<8>, nullptr, nullptr, true};
inline const coll::Reduction kHugeSum{kHugeBytes, sum<kHugeBytes>, nullptr, nullptr, true};

class TeamScenario : public Scenario {
 public:
  explicit TeamScenario(uint32_t members, uint32_t polls = 0) : members_(members) {
    g_members = members;
    g_doing = {};
    set_store_hook(before_store);
    for (uint32_t i = 0; i < members; ++i) {
      for (ControlBlockShm& block : g_segment.parts[i].blocks) std::memset(static_cast<void*>(&block), 0, sizeof block);
      std::memset(static_cast<void*>(&g_segment.parts[i].started), 0, sizeof(coll::SlotBlockShm));
      std::memset(static_cast<void*>(&g_segment.parts[i].staged), 0, sizeof(coll::StagedBlockShm));
      std::memset(static_cast<void*>(&g_segment.parts[i].larger.slots), 0, sizeof g_segment.parts[i].larger.slots);
      services_.push_back(std::make_unique<Member>(i, boxes_, polls));
      pools_.push_back(std::make_unique<coll::ControlBlockPool>(*services_[i]));
    }
  }
  ~TeamScenario() override { set_store_hook(nullptr); }
  [[nodiscard]] uint32_t threads() const override { return members_; }
  void finish() override {
    for (uint32_t i = 0; i < members_; ++i) {
      ZH_CHECK_INVARIANT(control(i).broken_invariant(kTeam, members_, grown_ ? &g_segment.parts[i].larger : nullptr));
    }
  }

 protected:
  static constexpr uint64_t kTeam = 1;  ///< its context

  std::unique_ptr<Team> make_team(uint32_t self) {
    std::vector<uint32_t> all(members_);
    for (uint32_t i = 0; i < members_; ++i) all[i] = i;
    auto team = std::make_unique<Team>(*services_[self], *pools_[self], kTeam, all, self);
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

  /// Of each member, with whatever the execution before left there.
  void need_memory(uint64_t bytes) {
    for (uint32_t i = 0; i < members_; ++i) {
      for (std::vector<std::byte>* memory : {&in_[i], &out_[i]}) memory->resize(std::max(memory->size(), bytes));
    }
  }

  // Kept from one execution to the next: fresh pages would take a third of the time.
  inline static std::array<std::vector<std::byte>, kMembersMax> in_;
  inline static std::array<std::vector<std::byte>, kMembersMax> out_;
  bool grown_ = false;
  uint32_t members_;
  std::array<std::array<Mailbox, kMembersMax>, kMembersMax> boxes_ = {};
  std::vector<std::unique_ptr<Member>> services_;
  std::vector<std::unique_ptr<coll::ControlBlockPool>> pools_;
};

inline Options bounded(uint32_t preemptions = 2) {
  Options o;
  o.exhaustive = false;
  o.preemptions = preemptions;
  return o;
}

inline const Unneeded kBlocksServeOneTeam{"take release", "no control block is used again here"};
inline const Unneeded kBlockStaysOurs{"is_ours acquire", "no control block is used again here"};
inline const Unneeded kNoFallback{"answer_fallbacks acquire", "nobody requests a fallback here"};
inline const Unneeded kNextTellsEnd{"end release", "who contributes to the next collective has done the one before"};

/// Where the data lie: when a call has returned, nobody looks at this member's memory any more.
class LargeScenario final : public TeamScenario {
 public:
  /// `rounds`: of a staged reduction, where nothing is mapped; else 0.
  LargeScenario(uint32_t elements, uint32_t rounds, uint32_t calls, uint64_t edge_bytes = 0, bool in_place = false)
      : TeamScenario(2), elements_(elements), rounds_(rounds), calls_(calls), in_place_(in_place) {
    for (const auto& s : services_) {
      s->mapped = rounds == 0;
      s->edge_bytes = edge_bytes;
    }
    need_memory(elements * kHugeBytes);
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
};

}  // namespace zh::mc
