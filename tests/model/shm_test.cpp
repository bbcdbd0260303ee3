// The shipped structures of src/shm under the model checker: owner lock, envelope ring, bells, payload ring.
#include <gtest/gtest.h>

#include <cstring>

#include "base/atomic.h"
#include "base/invariant.h"
#include "checker.h"
#include "prove.h"
#include "shm/bell.h"
#include "shm/envelope_ring.h"
#include "shm/owner_lock.h"
#include "shm/payload_ring.h"

namespace zh::mc {
namespace {

using shm::EnvelopeConsumer;
using shm::EnvelopeProducer;
using shm::EnvelopeRingShm;
using shm::EnvelopeShm;
using shm::OwnerLockShm;

// --- Lock: mutual exclusion of three ranks, and what one holder wrote is seen by the next.

class LockScenario final : public Scenario {
 public:
  [[nodiscard]] uint32_t threads() const override { return 3; }
  void run(uint32_t thread) override {
    const int rounds = thread == 0 ? 2 : 1;
    for (int i = 0; i < rounds; ++i) {
      await([&] { return lock_.try_lock(thread); });
      data_write(&count_);
      check(lock_.holder() == thread + 1, "the word names the holder");
      ZH_CHECK_INVARIANT(lock_.broken_invariant(3));
      ++count_;
      lock_.unlock();
    }
  }
  void finish() override {
    check(count_ == 4, "every holder counted");
    ZH_CHECK_INVARIANT(lock_.broken_invariant(0));
  }

 private:
  OwnerLockShm lock_;
  uint32_t count_ = 0;
};

TEST(ModelShm, OwnerLockExcludes) {
  prove([] { return std::make_unique<LockScenario>(); }, 10);
}

// --- Ring: one producer that turns the consumer's queues when the ring is full, one owner. Positions wrap on the way.

struct SmallRing {
  alignas(kPairBytes) EnvelopeRingShm ring;
  EnvelopeShm slots[2];

  void reset(uint32_t start) {
    std::memset(static_cast<void*>(this), 0, sizeof *this);
    ring.capacity = 2;
    set(ring.consumed, start);
    // As a lap ago; what longer messages left in the second halves looks like what comes now.
    for (uint32_t p = start; p != start + 4; p += 2) {
      set(ring.slot_at(p)->seq, p + 1 - 4);
      set(ring.slot_at(p + 1)->seq, p + 2);
    }
  }
  // Initial values are put in place; the checker takes them from there.
  static void set(Atomic<uint32_t>& a, uint32_t v) { std::memcpy(static_cast<void*>(&a), &v, sizeof v); }
};
static_assert(offsetof(SmallRing, slots) == sizeof(EnvelopeRingShm));

enum class RingKind : uint8_t { kWholeLines, kHalfLines, kMoves };

class RingScenario : public Scenario {
 public:
  explicit RingScenario(RingKind kind)
      : kind_(kind), moves_(kind == RingKind::kMoves), messages_(kind == RingKind::kHalfLines ? 5 : 3) {
    first_.reset(0xfffffffeU);
    second_.reset(0xfffffffeU);
    producer_.attach(&first_.ring);
    const Offset start = 1;
    std::memcpy(static_cast<void*>(&in_), &start, sizeof start);
  }
  [[nodiscard]] uint32_t threads() const override { return 2; }

  void run(uint32_t thread) override {
    if (thread == 0) {
      produce();
    } else {
      own();
    }
  }
  void finish() override {
    check(next_ == messages_, "every envelope was consumed");
    ZH_CHECK_INVARIANT(first_.ring.broken_invariant());
    ZH_CHECK_INVARIANT(second_.ring.broken_invariant());
    ZH_CHECK_INVARIANT(producer_.broken_invariant());
  }

 private:
  // With half lines each two messages share one; the marker of a ring that moves finds a half that it does not fit in.
  void produce() {
    for (int32_t i = 0; i < messages_; ++i) {
      if (moves_ && i == 1) move();
      EnvelopeShm* slot = claim(kind_ == RingKind::kHalfLines);
      data_write(&slot->kind);
      slot->kind = 0;
      slot->source = i;
      producer_.publish(slot, kind_ == RingKind::kHalfLines || (moves_ && i == 0));
    }
    // The old ring may be used for anything once the consumer reads elsewhere.
    if (moves_ && in_.load_acquire() == 2) {
      for (EnvelopeShm& slot : first_.slots) data_write(&slot.kind);
    }
  }

  EnvelopeShm* claim(bool is_short) {
    const uint32_t spare = moves_ ? 1 : 0;
    const auto try_claim = [&] { return is_short ? producer_.claim_short(spare) : producer_.claim(spare); };
    EnvelopeShm* slot = try_claim();
    if (slot == nullptr) {
      // The receiver may be away: turn its queues.
      if (lock_.try_lock(0)) {
        drain();
        lock_.unlock();
      }
      await([&] { return (slot = try_claim()) != nullptr; });
    }
    return slot;
  }

  void move() {
    EnvelopeShm* marker = producer_.claim(0);
    check(marker != nullptr, "there is always a slot for the marker");
    data_write(&marker->kind);
    marker->kind = shm::kRingMoved;
    marker->far.where = 2;
    producer_.publish(marker);
    producer_.attach(&second_.ring);
  }

  // As Endpoint::drain() and drain_for(): under the lock.
  void drain() {
    Offset in = in_.load_relaxed();
    EnvelopeRingShm* ring = in == 1 ? &first_.ring : &second_.ring;
    EnvelopeConsumer consumer(ring);
    while (EnvelopeShm* slot = consumer.front()) {
      data_read(&slot->kind);
      if (slot->kind == shm::kRingMoved) {
        in = slot->far.where;
        in_.store_release(in);
        ring = &second_.ring;
        consumer = EnvelopeConsumer(ring);
        continue;
      }
      data_write(&next_);
      check(slot->source == next_, "envelopes come in order, each once");
      ++next_;
      consumer.consume(slot);
      ZH_CHECK_INVARIANT(ring->broken_invariant());
      if (next_ == messages_) all_.store_relaxed(1);
    }
  }

  void own() {
    for (;;) {
      bool all = false;
      await([&] {
        all = all_.load_relaxed() != 0;
        return all || EnvelopeConsumer::ready(in_.load_relaxed() == 1 ? &first_.ring : &second_.ring);
      });
      if (all) return;
      await([&] { return lock_.try_lock(1); });
      drain();
      lock_.unlock();
    }
  }

  RingKind kind_;
  bool moves_;
  int32_t messages_;
  OwnerLockShm lock_;
  SmallRing first_, second_;
  Atomic<uint64_t> in_;
  Atomic<uint32_t> all_;
  EnvelopeProducer producer_;
  int32_t next_ = 0;
};

TEST(ModelShm, EnvelopeRingWithTwoConsumers) {
  prove([] { return std::make_unique<RingScenario>(RingKind::kWholeLines); }, 100);
}

TEST(ModelShm, EnvelopesShareLines) {
  prove([] { return std::make_unique<RingScenario>(RingKind::kHalfLines); }, 100);
}

TEST(ModelShm, EnvelopeRingMovesToAnother) {
  // No slot is used twice here.
  prove([] { return std::make_unique<RingScenario>(RingKind::kMoves); }, 100,
        {{"consume release", "see EnvelopeRingWithTwoConsumers"},
         {"sees_room acquire", "see EnvelopeRingWithTwoConsumers"}});
}

// --- Bells: a receiver that looks only at rings whose sender has rung misses nothing, though senders leave a bell
// alone that still rings.

class BellScenario final : public Scenario {
 public:
  BellScenario(uint32_t senders, int32_t messages) : senders_(senders), messages_(messages) {
    for (uint32_t i = 0; i < senders_; ++i) {
      rings_[i].reset(0xfffffffeU);
      producers_[i].attach(&rings_[i].ring);
    }
  }
  [[nodiscard]] uint32_t threads() const override { return senders_ + 1; }

  void run(uint32_t thread) override {
    if (thread == senders_) {
      receive();
    } else {
      send(thread);
    }
  }
  void finish() override {
    for (uint32_t i = 0; i < senders_; ++i) check(next_[i] == messages_, "every envelope was consumed");
    ZH_CHECK_INVARIANT(bell_.broken_invariant(senders_));
  }

 private:
  void send(uint32_t self) {
    for (int32_t i = 0; i < messages_; ++i) {
      EnvelopeShm* slot = nullptr;
      await([&] { return (slot = producers_[self].claim(0)) != nullptr; });
      data_write(&slot->kind);
      slot->kind = 0;
      slot->source = i;
      producers_[self].publish(slot);
      bell_.ring(self);
    }
  }
  // As p2p::Sources: a ring is looked at until it is empty behind the take() of its bell.
  void receive() {
    const int32_t all = static_cast<int32_t>(senders_) * messages_;
    for (int32_t received = 0; received != all;) {
      uint64_t rung = 0;
      await([&] { return (rung = bell_.take()) != 0; });
      for (uint32_t i = 0; i < senders_; ++i) {
        if ((rung >> i & 1) == 0) continue;
        EnvelopeConsumer consumer(&rings_[i].ring);
        while (EnvelopeShm* slot = consumer.front()) {
          data_read(&slot->kind);
          check(slot->source == next_[i], "envelopes come in order, each once");
          ++next_[i];
          ++received;
          consumer.consume(slot);
        }
      }
    }
  }

  uint32_t senders_;
  int32_t messages_;
  SmallRing rings_[2];
  EnvelopeProducer producers_[2];
  shm::BellShm bell_;
  int32_t next_[2] = {};
};

TEST(ModelShm, ABellIsRungForEveryMessage) {
  prove([] { return std::make_unique<BellScenario>(1, 3); }, 50,
        {{"ring rmw", "nobody else has a bell in this word"}, {"take rmw", "nobody else has a bell in this word"}});
}

TEST(ModelShm, BellsShareAWord) {
  // No ring is looked at but behind a bell, whose fences say what the envelope's number says else.
  prove([] { return std::make_unique<BellScenario>(2, 1); }, 50,
        {{"publish release", "see ABellIsRungForEveryMessage"},
         {"published acquire", "see ABellIsRungForEveryMessage"},
         {"consume release", "no slot is used twice here"}});
}

// --- Payload ring: blocks of two sizes, freed by two readers in any order.

class PayloadScenario final : public Scenario {
 public:
  PayloadScenario() { check(ring_.attach(memory_, 0, sizeof memory_), "attached"); }
  [[nodiscard]] uint32_t threads() const override { return 3; }

  void run(uint32_t thread) override {
    if (thread == 0) {
      for (uint32_t i = 0; i < kBlocks; ++i) {
        await([&] { return ring_.allocate(bytes(i), &mail_[i].block); });
        for (uint64_t p = 0; p < bytes(i); p += kLineBytes) data_write(payload(i) + p);
        data_write(&mail_[i].block);
        *payload(i) = std::byte(i);
        mail_[i].full.store_release(1);
        ZH_CHECK_INVARIANT(ring_.broken_invariant());
      }
      await([&] { return ring_.idle(); });
      ZH_CHECK_INVARIANT(ring_.broken_invariant());
      return;
    }
    for (uint32_t i = thread - 1; i < kBlocks; i += 2) {
      await([&] { return mail_[i].full.load_acquire() != 0; });
      data_read(&mail_[i].block);
      for (uint64_t p = 0; p < bytes(i); p += kLineBytes) data_read(payload(i) + p);
      check(*payload(i) == std::byte(i), "the block holds its own message");
      shm::release_block(memory_, mail_[i].block);
    }
  }

 private:
  static constexpr uint32_t kBlocks = 4;
  static uint64_t bytes(uint32_t i) { return i % 2 == 0 ? 64 : 128; }
  std::byte* payload(uint32_t i) { return memory_ + mail_[i].block.payload; }

  struct Mail {
    Atomic<uint32_t> full;
    shm::BlockShm block;
  };
  alignas(kPairBytes) std::byte memory_[shm::ReleasedShm::kLeastBytes + 4 * kLineBytes] = {};
  shm::PayloadRing ring_;
  Mail mail_[kBlocks];
};

TEST(ModelShm, PayloadRingReusesOnlyWhatWasRead) {
  prove([] { return std::make_unique<PayloadScenario>(); }, 100);
}

}  // namespace
}  // namespace zh::mc
