// Whoever hands over what is broken ends there, with the text of what should have held: so a survivor of this folder's
// tests cannot go on with it. This program is built with these checks, whatever the kind of build.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "p2p/part.h"
#include "p2p/queues.h"
#include "p2p/transfer.h"
#include "shm/access.h"
#include "shm/envelope_ring.h"
#include "shm/payload_ring.h"

namespace zh::test {
namespace {

TEST(HandOverDeathTest, AnEnvelope) {
  struct {
    alignas(kPairBytes) shm::EnvelopeRingShm ring;
    shm::EnvelopeShm slots[4];
  } memory;
  std::memset(static_cast<void*>(&memory), 0, sizeof memory);
  memory.ring.capacity = 4;
  shm::EnvelopeProducer producer;
  producer.attach(&memory.ring);
  EXPECT_DEATH(shm::EnvelopeConsumer(&memory.ring).consume(memory.slots), "only a published envelope is consumed");
  shm::EnvelopeShm* slot = producer.claim();
  memory.ring.consumed.store_relaxed(6);
  EXPECT_DEATH(producer.publish(slot), "consumed <= produced <= consumed");
}

TEST(HandOverDeathTest, ABlock) {
  alignas(kPairBytes) std::byte memory[shm::ReleasedShm::kLeastBytes + 4 * kLineBytes] = {};
  shm::PayloadRing ring;
  ASSERT_TRUE(ring.attach(memory, 0, sizeof memory));
  shm::BlockShm block;
  ASSERT_TRUE(ring.allocate(1, &block));
  shm::release_block(memory, block);
  EXPECT_DEATH(shm::release_block(memory, block), "a block is freed once");
}

TEST(HandOverDeathTest, AnAccess) {
  shm::AccessShm words[2] = {};
  shm::open_access(words[1]);
  EXPECT_DEATH(
      {
        const shm::Access access(words[0], words[1], 1, words[1].epoch.load_relaxed());
        shm::open_access(words[1]);
      },
      "nobody opens memory anew");
}

TEST(HandOverDeathTest, TheQueues) {
  struct alignas(kLineBytes) Unit {
    std::byte bytes[kLineBytes];
  };
  std::vector<Unit> memory(16);
  auto shm = std::make_unique<p2p::QueuesShm>();
  p2p::Queues queues(memory[0].bytes, shm.get(), nullptr);
  EXPECT_DEATH(shm->lock.unlock(), "only the holder");
  queues.posted(1)->source = queues.posted(1)->tag = 0;
  ++shm->posted_count[1];
  EXPECT_DEATH(queues.post(1), "posted_total counts");
  --shm->posted_count[1];
  queues.post(1);
  ++shm->posted_count[1];
  EXPECT_DEATH(queues.unpost(1), "posted_total counts");
}

TEST(HandOverDeathTest, ATransfer) {
  auto transfer = std::make_unique<p2p::TransferShm>();
  transfer->window = p2p::kShortWindow;
  transfer->store_matched();
  EXPECT_DEATH(transfer->store_matched(), "a transfer is matched once");
}

TEST(HandOverDeathTest, ACall) {
  auto calls = std::make_unique<p2p::CallsShm>();
  calls->entries[3].context.store_relaxed(4);
  EXPECT_DEATH(calls->announce(1, 1, 7), "an entry's context and number choose its place");
}

}  // namespace
}  // namespace zh::test
