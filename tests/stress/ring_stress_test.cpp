// Lock, envelope rings and payload rings under more ranks than cores: every rank sends to every other, whoever holds a
// receiver's lock empties its rings, rings move to larger ones on the way, positions wrap. Every envelope arrives once,
// in order, whole.
// label processes: (Ring|Lock)Stress[.].*Processes
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "os/yield.h"
#include "shm/envelope_ring.h"
#include "shm/owner_lock.h"
#include "shm/payload_ring.h"
#include "stress_support.h"

namespace zh::test {
namespace {

using shm::EnvelopeConsumer;
using shm::EnvelopeProducer;
using shm::EnvelopeRingShm;
using shm::EnvelopeShm;
using shm::OwnerLockShm;

constexpr uint32_t kRanksMax = 8;
constexpr uint64_t kFirst = 4096;  // position 0 is "none"

// --- Lock

/// Writers / Readers: the holder of `lock`. Invariant: a == b outside of the lock. Wrap: none. Crash: the test ends.
struct CountersShm {
  alignas(kPairBytes) OwnerLockShm lock;
  alignas(kPairBytes) uint64_t a;
  alignas(kPairBytes) uint64_t b;
};

void lock_stress(World kind, int ranks, uint64_t rounds) {
  const SharedMemory memory(kFirst + sizeof(CountersShm));
  run_ranks(
      kind, ranks,
      [&](TestBootstrap& world) {
        auto& c = *at<CountersShm>(memory.view(kind), kFirst);
        const auto self = static_cast<uint32_t>(world.rank());
        uint64_t wrong = 0;
        for (uint64_t i = 0; i < rounds; ++i) {
          while (!c.lock.try_lock(self)) os::yield_cpu();
          wrong += c.lock.holder() != self + 1 || c.a != c.b ? 1 : 0;  // goes on, so that nobody waits for the lock
          wrong += c.lock.broken_invariant(static_cast<uint32_t>(ranks)) != nullptr ? 1 : 0;
          ++c.a;
          if (i % 64 == 0) os::yield_cpu();  // the holder loses its core
          ++c.b;
          c.lock.unlock();
        }
        EXPECT_EQ(wrong, 0u) << "two held the lock";
      },
      stress_options());
  const auto& c = *at<CountersShm>(memory.base(), kFirst);
  EXPECT_EQ(c.a, rounds * static_cast<uint64_t>(ranks));
  EXPECT_EQ(c.b, c.a);
  EXPECT_EQ(c.lock.holder(), 0u);
}

TEST(LockStress, Threads) { lock_stress(World::kThreads, 4, 500'000 * stress_factor()); }
TEST(LockStress, TwoProcesses) { lock_stress(World::kProcesses, 2, 1'000'000 * stress_factor()); }
TEST(LockStress, EightProcesses) { lock_stress(World::kProcesses, 8, 400'000 * stress_factor()); }

// --- Rings

constexpr uint32_t kSmallSlots = 8;
constexpr uint32_t kLargeSlots = 32;
constexpr uint64_t kRingTurnsPerWalk = 16;
constexpr uint64_t kPayloadBytes = shm::ReleasedShm::kLeastBytes + (16 << 10);

/// One directed pair. Writers: sender (rings, payload), the holder of the receiver's lock (`in`, `received`).
/// Readers: both. Invariant: `received` envelopes have been consumed. Wrap: none. Crash: the test ends.
struct PairShm {
  alignas(kPairBytes) EnvelopeRingShm small;
  EnvelopeShm small_slots[kSmallSlots];
  alignas(kPairBytes) EnvelopeRingShm large;
  EnvelopeShm large_slots[kLargeSlots];
  alignas(kPairBytes) Atomic<uint64_t> in;  ///< the ring that is read now
  uint64_t received;
  alignas(kPairBytes) std::byte payload[kPayloadBytes];
};

/// Writers / Readers: as the members'. Invariant: as the members'. Wrap: none. Crash: the test ends.
struct RingsShm {
  struct alignas(kPairBytes) Receiver {
    OwnerLockShm lock;
    Atomic<uint64_t> received;  ///< of all its envelopes, changed under the lock
    uint64_t by_others;         ///< of these, consumed by another rank
  };
  Receiver receivers[kRanksMax];
  Atomic<uint32_t> failed;
  PairShm pairs[kRanksMax][kRanksMax];  ///< [receiver][sender]
};

class RingRank {
 public:
  RingRank(std::byte* base, uint32_t self, uint32_t ranks, uint64_t messages, uint64_t seed)
      : base_(base),
        shm_(*at<RingsShm>(base, kFirst)),
        self_(self),
        ranks_(ranks),
        messages_(messages),
        rng_(seed * 131 + self),
        out_(ranks) {
    for (uint32_t d = 0; d < ranks; ++d) {
      PairShm& p = shm_.pairs[d][self];
      // Positions wrap after a few envelopes.
      reset(p.small, p.small_slots, kSmallSlots, 0xfffffff0U);
      reset(p.large, p.large_slots, kLargeSlots, 0xffffffe0U);
      out_[d].producer.attach(&p.small);
      if (!out_[d].payload.attach(base_, offset_of(p.payload), kPayloadBytes)) std::abort();
      p.in.store_release(offset_of(&p.small));  // A0 -> A1: the rings before their offset
    }
  }

  void run() {
    const uint64_t all = messages_ * ranks_;
    uint64_t sent = 0;
    while (sent < all || shm_.receivers[self_].received.load_relaxed() < all) {
      bool moved = false;
      for (uint64_t burst = rng_() % 8; burst != 0 && sent < all; --burst) {
        const auto dest = static_cast<uint32_t>(rng_() % ranks_);
        if (out_[dest].sent == messages_) continue;
        if (send(dest)) {
          ++sent;
          moved = true;
        } else {
          moved = progress(dest) || moved;  // full: turn the receiver's queues
        }
      }
      if (rng_() % 4 != 0 || sent == all) moved = progress(self_) || moved;
      if (::testing::Test::HasFatalFailure()) shm_.failed.store_relaxed(1);
      if (shm_.failed.load_relaxed() != 0) return;
      if (!moved) os::yield_cpu();
    }
    for (Out& o : out_) {
      // The receiver has freed every block before it counted the envelope, and the count is of the same lock.
      while (!o.payload.idle()) os::yield_cpu();
    }
  }

 private:
  struct Out {
    EnvelopeProducer producer;
    shm::PayloadRing payload;
    uint64_t sent = 0;
    bool moved = false;
  };

  template <typename T>
  [[nodiscard]] Offset offset_of(const T* p) const {
    return static_cast<Offset>(reinterpret_cast<const std::byte*>(p) - base_);
  }
  static void reset(EnvelopeRingShm& ring, EnvelopeShm* slots, uint32_t capacity, uint32_t start) {
    ring.capacity = capacity;
    ring.consumed.store_relaxed(start);
    for (uint32_t p = start; p != start + 2 * capacity; p += 2) {
      slots[p / 2 % capacity].seq.store_relaxed(p + 1 - 2 * capacity);
    }
  }
  static std::byte content(uint32_t from, uint64_t number, uint64_t k) {
    return static_cast<std::byte>(from * 37 + number * 11 + k * 3 + (k >> 8));
  }
  static bool holds(const std::byte* p, uint64_t n, uint32_t from, uint64_t number) {
    for (uint64_t k = 0; k < n; ++k) {
      if (p[k] != content(from, number, k)) return false;
    }
    return true;
  }

  bool send(uint32_t dest) {
    Out& o = out_[dest];
    if (!o.moved && o.sent == messages_ / 2) {
      // On in the larger ring; claim() has kept a slot for the marker.
      EnvelopeShm* marker = o.producer.claim(0);
      if (marker == nullptr) return false;
      PairShm& p = shm_.pairs[dest][self_];
      marker->kind = shm::kRingMoved;
      marker->far.where = offset_of(&p.large);
      o.producer.publish(marker);
      o.producer.attach(&p.large);
      o.moved = true;
    }
    const bool is_short = rng_() % 2 == 0;
    EnvelopeShm* slot = is_short ? o.producer.claim_short() : o.producer.claim();
    if (slot == nullptr) return false;
    if (is_short || rng_() % 2 == 0) {
      slot->kind = 0;
      slot->inline_bytes = static_cast<uint8_t>(rng_() % ((is_short ? shm::kHalfLinePayload : shm::kInlineBytes) + 1));
      for (uint64_t k = 0; k < slot->inline_bytes; ++k) slot->payload[k] = content(self_, o.sent, k);
    } else {
      const uint64_t n = rng_() % 3000;
      shm::BlockShm block;
      if (!o.payload.allocate(n, &block)) return false;
      for (uint64_t k = 0; k < n; ++k) base_[block.payload + k] = content(self_, o.sent, k);
      slot->kind = 1;
      slot->far.bytes = n;
      slot->far.block = block;
    }
    slot->source = static_cast<int32_t>(self_);
    slot->context = o.sent;
    o.producer.publish(slot, is_short && rng_() % 4 != 0);
    ++o.sent;
    if (o.sent % kRingTurnsPerWalk == 0) {
      EXPECT_STREQ(o.producer.broken_invariant(), nullptr);
      EXPECT_STREQ(o.payload.broken_invariant(), nullptr);
    }
    return true;
  }

  /// Empties the rings of `receiver` for a while, whoever that is.
  bool progress(uint32_t receiver) {
    RingsShm::Receiver& r = shm_.receivers[receiver];
    if (!r.lock.try_lock(self_)) return false;
    uint64_t taken = 0;
    for (uint32_t s = 0; s < ranks_; ++s) taken += drain(shm_.pairs[receiver][s], s);
    if (receiver != self_) r.by_others += taken;
    r.received.store_relaxed(r.received.load_relaxed() + taken);
    r.lock.unlock();
    return taken != 0;
  }

  uint64_t drain(PairShm& p, uint32_t sender) {
    const Offset in = p.in.load_acquire();  // A1 -> A0
    if (in == kNoOffset) return 0;
    auto* ring = at<EnvelopeRingShm>(base_, in);
    if (++drains_ % kRingTurnsPerWalk == 0) {
      EXPECT_STREQ(ring->broken_invariant(), nullptr);
    }
    uint64_t taken = 0;
    EnvelopeConsumer consumer(ring);
    while (taken < 32) {
      EnvelopeShm* slot = consumer.front();
      if (slot == nullptr) break;
      if (slot->kind == shm::kRingMoved) {
        const Offset next = slot->far.where;
        p.in.store_release(next);  // A0 -> A1
        consumer = EnvelopeConsumer(at<EnvelopeRingShm>(base_, next));
        continue;
      }
      EXPECT_EQ(slot->source, static_cast<int32_t>(sender));
      EXPECT_EQ(slot->context, p.received) << "overtaken, lost or twice";
      if (slot->kind == 0) {
        EXPECT_TRUE(holds(slot->payload, slot->inline_bytes, sender, p.received));
      } else {
        EXPECT_TRUE(holds(base_ + slot->far.block.payload, slot->far.bytes, sender, p.received));
        shm::release_block(base_, slot->far.block);
      }
      consumer.consume(slot);
      ++p.received;
      ++taken;
      if (::testing::Test::HasFailure()) {
        shm_.failed.store_relaxed(1);
        break;
      }
    }
    return taken;
  }

  std::byte* base_;
  RingsShm& shm_;
  uint32_t self_;
  uint32_t ranks_;
  uint64_t messages_;
  std::mt19937_64 rng_;
  std::vector<Out> out_;
  uint64_t drains_ = 0;
};

void ring_stress(World kind, int ranks, uint64_t messages) {
  const uint64_t seed = stress_seed();
  const SharedMemory memory(kFirst + sizeof(RingsShm));
  run_ranks(
      kind, ranks,
      [&](TestBootstrap& world) {
        auto rank = std::make_unique<RingRank>(memory.view(kind), static_cast<uint32_t>(world.rank()),
                                               static_cast<uint32_t>(ranks), messages, seed);
        rank->run();
      },
      stress_options());
  const auto& shm = *at<RingsShm>(memory.base(), kFirst);
  uint64_t by_others = 0;
  for (int d = 0; d < ranks; ++d) {
    by_others += shm.receivers[d].by_others;
    for (int s = 0; s < ranks; ++s) {
      EXPECT_EQ(shm.pairs[d][s].received, messages) << d << " from " << s;
      EXPECT_STREQ(at<EnvelopeRingShm>(memory.base(), shm.pairs[d][s].in.load_relaxed())->broken_invariant(), nullptr);
    }
  }
  std::printf("%llu envelopes, %llu of them taken by another rank than their receiver\n",
              static_cast<unsigned long long>(messages * static_cast<uint64_t>(ranks * ranks)),
              static_cast<unsigned long long>(by_others));
  EXPECT_GT(by_others, 0u) << "nobody turned another's queues";
}

TEST(RingStress, Threads) { ring_stress(World::kThreads, 4, 20'000 * stress_factor()); }
TEST(RingStress, TwoProcesses) { ring_stress(World::kProcesses, 2, 80'000 * stress_factor()); }
TEST(RingStress, FourProcesses) { ring_stress(World::kProcesses, 4, 20'000 * stress_factor()); }
TEST(RingStress, EightProcesses) { ring_stress(World::kProcesses, 8, 6'000 * stress_factor()); }

}  // namespace
}  // namespace zh::test
