// The matching queues against a naive list: random posts, arrivals, cancels, probes with all wildcards, by several
// ranks that take the lock in turn. After every step both must name the same entry. The lists lie in shared memory as
// well, under the same lock.
// label one-thread: QueuesFuzz[.]OneRank
// label processes: QueuesFuzz[.].*Processes
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "os/yield.h"
#include "p2p/queues.h"
#include "stress_support.h"

namespace zh::test {
namespace {

using p2p::kAnySource;
using p2p::kAnyTag;
using p2p::kNoRef;
using p2p::kPrivateRef;
using p2p::MessageShm;
using p2p::PostedShm;
using p2p::Queues;
using p2p::QueuesShm;
using p2p::Ref;

constexpr uint32_t kEntries = 600;  // of each kind in shared memory
constexpr uint32_t kPrivate = 40;   // of each kind in the owner's
constexpr uint32_t kMost = kEntries + kPrivate;
constexpr uint64_t kTurnsPerWalk = 64;  // of the lock
constexpr uint32_t kPostedUnits = sizeof(PostedShm) / kLineBytes;
constexpr uint32_t kMessageUnits = p2p::kMessageBytes / kLineBytes;

struct Triple {
  uint64_t context;
  int32_t source;
  int32_t tag;
  [[nodiscard]] bool accepts(const Triple& m) const {
    return context == m.context && (source == kAnySource || source == m.source) && (tag == kAnyTag || tag == m.tag);
  }
};

/// The oracle's list: entries in order.
/// Writers / Readers: the holder of the queues' lock. Invariant: n <= kMost. Wrap: none. Crash: the test ends.
struct ListShm {
  struct Item {
    Ref ref;
    Triple triple;
    Offset transfer;
  };
  uint32_t n;
  Item items[kMost];

  void append(const Item& item) { items[n++] = item; }
  void erase(uint32_t i) {
    for (--n; i < n; ++i) items[i] = items[i + 1];
  }
};

/// Writers / Readers: the holder of the queues' lock; `failed` anyone. Invariant: as the members'. Wrap: none.
/// Crash: the test ends.
struct FuzzShm {
  alignas(kPairBytes) QueuesShm queues;
  ListShm posted;
  ListShm unexpected;
  ListShm matched;
  Ref free_posted[kEntries];
  uint32_t free_posted_count;
  uint64_t next_transfer;
  uint64_t steps;
  uint64_t matches;
  Atomic<uint32_t> failed;
  alignas(kLineBytes) std::byte posted_memory[kEntries * kPostedUnits * kLineBytes];
  alignas(kLineBytes) std::byte message_memory[kEntries * kMessageUnits * kLineBytes];
};
constexpr Offset kFuzzAt = 4096;  // position 0 is "none"

class Fuzz {
 public:
  Fuzz(std::byte* base, uint32_t self, uint64_t seed)
      : shm_(*at<FuzzShm>(base, kFuzzAt)), self_(self), queues_(base, &shm_.queues, nullptr), rng_(seed * 131 + self) {
    if (self != 0) return;
    private_.resize(1 + kPrivate * (kPostedUnits + kMessageUnits));
    queues_.set_private_base(private_[0].bytes);
    Ref next = 1;
    for (uint32_t i = 0; i < kPrivate; ++i, next += kPostedUnits) free_private_posted_.push_back(next | kPrivateRef);
    for (uint32_t i = 0; i < kPrivate; ++i, next += kMessageUnits) free_private_messages_.push_back(next | kPrivateRef);
  }

  static void make(std::byte* base) {
    auto& f = *at<FuzzShm>(base, kFuzzAt);
    Queues q(base, &f.queues, nullptr);
    const auto ref = [&](const std::byte* p) { return static_cast<Ref>(static_cast<uint64_t>(p - base) / kLineBytes); };
    for (uint32_t i = 0; i < kEntries; ++i) {
      f.free_posted[f.free_posted_count++] = ref(f.posted_memory + i * kPostedUnits * kLineBytes);
      q.give_free_message(ref(f.message_memory + i * kMessageUnits * kLineBytes));
    }
    f.next_transfer = 1;
  }

  /// Whole runs of the lock; ends early when any rank has failed.
  void run(uint64_t steps) {
    for (uint64_t i = 0; i < steps;) {
      if (!lock()) return;
      // Entries in the owner's private memory: only the owner may work here. For the others that is no turn.
      const bool works = self_ == 0 || shm_.queues.private_entries == 0;
      if (works) {
        const uint64_t burst = 1 + rng_() % 8;
        // The mix changes slowly, so that queues grow long and drain again.
        phase_ = (shm_.steps / 4000) % 4;
        for (uint64_t k = 0; k < burst && wrong_.empty(); ++k) step();
        if (rng_() % 16 == 0) drop_private();
        if (wrong_.empty()) check_counts();
        if (i++ % kTurnsPerWalk == 0) expect_whole();
      }
      if (!wrong_.empty()) shm_.failed.store_relaxed(1);
      shm_.queues.lock.unlock();
      if (!works || rng_() % 32 == 0) os::yield_cpu();
      ASSERT_EQ(wrong_, "") << "rank " << self_ << ", step " << shm_.steps;
    }
    if (self_ != 0 || !lock()) return;
    drop_private();
    shm_.queues.lock.unlock();
    ASSERT_EQ(wrong_, "") << "when the owner had done its turns";
  }

  /// Empties the queues in order, by the owner alone.
  void drain() {
    while (wrong_.empty() && shm_.posted.n != 0) arrive(concrete(shm_.posted.items[rng_() % shm_.posted.n].triple));
    while (wrong_.empty() && shm_.unexpected.n != 0) {
      const Triple t = shm_.unexpected.items[rng_() % shm_.unexpected.n].triple;
      receive({t.context, rng_() % 2 == 0 ? kAnySource : t.source, rng_() % 2 == 0 ? kAnyTag : t.tag});
    }
    take_matched();
    check_counts();
    expect_whole();
    ASSERT_EQ(wrong_, "");
    ASSERT_EQ(shm_.queues.private_entries, 0u);
    for (const p2p::BinShm& bin : shm_.queues.posted) ASSERT_EQ(bin.head, kNoRef);
    for (const p2p::BinShm& bin : shm_.queues.unexpected) ASSERT_TRUE(bin.head == kNoRef && bin.tail == kNoRef);
  }

 private:
  /// False when a rank has failed.
  bool lock() {
    while (shm_.failed.load_relaxed() == 0) {
      if (shm_.queues.lock.try_lock(self_)) return true;
      os::yield_cpu();
    }
    return false;
  }
  void expect(bool ok, const char* what) {
    if (!ok && wrong_.empty()) wrong_ = what;
  }
  /// All lists as they lie in memory; what is in them is compared step by step.
  void expect_whole() {
    const char* const broken = queues_.broken_invariant();
    expect(broken == nullptr, broken);
  }

  Triple random_message() {
    return {rng_() % 3 * 0x9e3779b97f4a7c15U, static_cast<int32_t>(rng_() % 4), static_cast<int32_t>(rng_() % 5)};
  }
  Triple random_filter() {
    Triple t = random_message();
    if (rng_() % 3 == 0) t.source = kAnySource;
    if (rng_() % 3 == 0) t.tag = kAnyTag;
    return t;
  }
  Triple concrete(Triple t) {
    if (t.source == kAnySource) t.source = static_cast<int32_t>(rng_() % 4);
    if (t.tag == kAnyTag) t.tag = static_cast<int32_t>(rng_() % 5);
    return t;
  }

  void step() {
    ++shm_.steps;
    const uint64_t dice = rng_() % 100;
    const uint64_t receives = phase_ == 0 ? 60 : phase_ == 2 ? 20 : 40;  // of the first 80
    if (dice < receives) {
      receive(random_filter());
    } else if (dice < 80) {
      arrive(random_message());
    } else if (dice < 86) {
      cancel_receive();
    } else if (dice < 92) {
      cancel_send();
    } else if (dice < 98) {
      probe();
    } else {
      take_matched();
    }
  }

  [[nodiscard]] static uint32_t first_message_for(const ListShm& list, const Triple& filter) {
    uint32_t i = 0;
    while (i < list.n && !filter.accepts(list.items[i].triple)) ++i;
    return i;
  }
  [[nodiscard]] static uint32_t first_receive_for(const ListShm& list, const Triple& message) {
    uint32_t i = 0;
    while (i < list.n && !list.items[i].triple.accepts(message)) ++i;
    return i;
  }
  [[nodiscard]] static Ref ref_at(const ListShm& list, uint32_t i) { return i < list.n ? list.items[i].ref : kNoRef; }

  void receive(const Triple& filter) {
    const uint32_t i = first_message_for(shm_.unexpected, filter);
    const Ref found = queues_.match_unexpected(filter.context, filter.source, filter.tag);
    expect(found == ref_at(shm_.unexpected, i), "a receive takes the earliest message that it accepts");
    if (!wrong_.empty()) return;
    if (found != kNoRef) {
      expect(queues_.message(found)->far.where == shm_.unexpected.items[i].transfer, "the message's content");
      drop_message(i);
      ++shm_.matches;
      return;
    }
    const Ref ref = new_posted();
    if (ref == kNoRef) return;
    PostedShm* p = queues_.posted(ref);
    p->context = filter.context;
    p->source = filter.source;
    p->tag = filter.tag;
    queues_.post(ref);
    shm_.posted.append({ref, filter, kNoOffset});
  }

  void arrive(const Triple& message) {
    const uint32_t i = first_receive_for(shm_.posted, message);
    const Ref found = queues_.match_posted(message.context, message.source, message.tag);
    expect(found == ref_at(shm_.posted, i), "a message goes to the earliest receive that accepts it");
    if (!wrong_.empty()) return;
    if (found != kNoRef) {
      const ListShm::Item item = shm_.posted.items[i];
      queues_.unpost(found);
      shm_.posted.erase(i);
      ++shm_.matches;
      if (rng_() % 2 == 0 && (found & kPrivateRef) == 0) {
        queues_.push_matched(found);
        shm_.matched.append(item);
      } else {
        free_posted(found);
      }
      return;
    }
    const Ref ref = new_message();
    if (ref == kNoRef) return;
    MessageShm* m = queues_.message(ref);
    m->context = message.context;
    m->source = message.source;
    m->tag = message.tag;
    m->kind = p2p::Kind::kTransfer;
    m->far.where = shm_.next_transfer++;
    queues_.add_unexpected(ref);
    shm_.unexpected.append({ref, message, m->far.where});
  }

  void cancel_receive() {
    if (shm_.posted.n == 0) return;
    const auto i = static_cast<uint32_t>(rng_() % shm_.posted.n);
    const Ref ref = shm_.posted.items[i].ref;
    queues_.unpost(ref);
    shm_.posted.erase(i);
    free_posted(ref);
  }

  void cancel_send() {
    if (shm_.unexpected.n == 0) return;
    const auto i = static_cast<uint32_t>(rng_() % shm_.unexpected.n);
    const ListShm::Item& item = shm_.unexpected.items[i];
    const Triple& t = item.triple;
    expect(queues_.find_transfer(t.context, t.source, t.tag, item.transfer) == item.ref, "a send finds its message");
    expect(queues_.find_transfer(t.context, t.source, t.tag, shm_.next_transfer) == kNoRef, "no message, none found");
    if (wrong_.empty()) drop_message(i);
  }

  void probe() {
    const Triple filter = random_filter();
    expect(queues_.match_unexpected(filter.context, filter.source, filter.tag) ==
               ref_at(shm_.unexpected, first_message_for(shm_.unexpected, filter)),
           "a probe sees the earliest message");
    const Triple message = random_message();
    expect(queues_.match_posted(message.context, message.source, message.tag) ==
               ref_at(shm_.posted, first_receive_for(shm_.posted, message)),
           "the earliest receive");
  }

  void take_matched() {
    uint32_t i = 0;
    for (Ref ref = queues_.take_matched(); ref != kNoRef && wrong_.empty(); ++i) {
      const Ref next = queues_.posted(ref)->link.next;
      expect(ref == ref_at(shm_.matched, i), "matched receives in the order of matching");
      free_posted(ref);
      ref = next;
    }
    expect(i == shm_.matched.n, "all matched receives");
    shm_.matched.n = 0;
  }

  void check_counts() {
    const QueuesShm& q = shm_.queues;
    expect(q.posted_total.load_relaxed() == shm_.posted.n, "posted_total");
    expect(q.unexpected_count.load_relaxed() == shm_.unexpected.n, "unexpected_count");
    expect(q.unexpected_high.load_relaxed() >= shm_.unexpected.n, "unexpected_high");
    uint32_t classes = 0;
    for (const uint32_t n : q.posted_count) classes += n;
    expect(classes == (q.posted_sorted != 0 ? shm_.posted.n : 0), "posted_count");
    uint32_t inside = 0;
    for (uint32_t i = 0; i < shm_.posted.n; ++i) inside += (shm_.posted.items[i].ref & kPrivateRef) != 0 ? 1 : 0;
    for (uint32_t i = 0; i < shm_.unexpected.n; ++i)
      inside += (shm_.unexpected.items[i].ref & kPrivateRef) != 0 ? 1 : 0;
    expect(q.private_entries == inside, "private_entries");
  }

  void drop_message(uint32_t i) {
    const Ref ref = shm_.unexpected.items[i].ref;
    queues_.remove_unexpected(ref);
    shm_.unexpected.erase(i);
    if ((ref & kPrivateRef) != 0) {
      free_private_messages_.push_back(ref);
    } else {
      queues_.give_free_message(ref);
    }
  }

  // So that the others get their turn again.
  void drop_private() {
    if (shm_.queues.private_entries == 0) return;
    for (uint32_t i = shm_.posted.n; i-- != 0;) {
      const Ref ref = shm_.posted.items[i].ref;
      if ((ref & kPrivateRef) == 0) continue;
      queues_.unpost(ref);
      shm_.posted.erase(i);
      free_posted(ref);
    }
    for (uint32_t i = shm_.unexpected.n; i-- != 0;) {
      if ((shm_.unexpected.items[i].ref & kPrivateRef) != 0) drop_message(i);
    }
  }

  // Now and then, and when shared memory is used up, the owner takes its own.
  Ref new_posted() {
    const bool own = self_ == 0 && !free_private_posted_.empty() && (shm_.free_posted_count == 0 || rng_() % 400 == 0);
    if (own) return take(free_private_posted_);
    return shm_.free_posted_count != 0 ? shm_.free_posted[--shm_.free_posted_count] : kNoRef;
  }
  Ref new_message() {
    if (self_ == 0 && !free_private_messages_.empty() && rng_() % 400 == 0) return take(free_private_messages_);
    const Ref ref = queues_.take_free_message();
    return ref == kNoRef && !free_private_messages_.empty() ? take(free_private_messages_) : ref;
  }
  void free_posted(Ref ref) {
    if ((ref & kPrivateRef) != 0) {
      free_private_posted_.push_back(ref);
    } else {
      shm_.free_posted[shm_.free_posted_count++] = ref;
    }
  }
  static Ref take(std::vector<Ref>& from) {
    const Ref ref = from.back();
    from.pop_back();
    return ref;
  }

  struct alignas(kLineBytes) Unit {
    std::byte bytes[kLineBytes];
  };
  FuzzShm& shm_;
  uint32_t self_;
  Queues queues_;
  std::mt19937_64 rng_;
  uint64_t phase_ = 0;
  std::string wrong_;
  std::vector<Unit> private_;
  std::vector<Ref> free_private_posted_;
  std::vector<Ref> free_private_messages_;
};

void fuzz(World kind, int ranks, uint64_t steps) {
  const uint64_t seed = stress_seed();
  const SharedMemory memory(kFuzzAt + sizeof(FuzzShm));
  Fuzz::make(memory.base());
  run_ranks(
      kind, ranks,
      [&](TestBootstrap& world) {
        Fuzz f(memory.view(kind), static_cast<uint32_t>(world.rank()), seed);
        f.run(steps);
        if (::testing::Test::HasFatalFailure() || !world.barrier().ok()) return;
        if (world.rank() == 0) f.drain();
      },
      stress_options());
  const auto& shm = *at<FuzzShm>(memory.base(), kFuzzAt);
  std::printf("%llu steps, %llu matches, at most %u unexpected\n", static_cast<unsigned long long>(shm.steps),
              static_cast<unsigned long long>(shm.matches), shm.queues.unexpected_high.load_relaxed());
  EXPECT_GT(shm.steps, steps * static_cast<uint64_t>(ranks)) << "most ranks never had their turn";
  EXPECT_GT(shm.matches, shm.steps / 10) << "a fuzz that hardly matches proves little";
  EXPECT_GT(shm.queues.unexpected_high.load_relaxed(), 100u) << "the queues were never long";
}

TEST(QueuesFuzz, OneRank) { fuzz(World::kThreads, 1, 200'000 * stress_factor()); }
TEST(QueuesFuzz, FourThreads) { fuzz(World::kThreads, 4, 60'000 * stress_factor()); }
TEST(QueuesFuzz, FourProcesses) { fuzz(World::kProcesses, 4, 60'000 * stress_factor()); }
TEST(QueuesFuzz, EightProcesses) { fuzz(World::kProcesses, 8, 40'000 * stress_factor()); }

}  // namespace
}  // namespace zh::test
