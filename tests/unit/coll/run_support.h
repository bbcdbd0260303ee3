// What running schedules needs: a network in memory that delivers in any order, operations, and the results that the
// MPI standard defines, computed plainly. Used by run_test.cpp and by the engine's test of schedules.
#pragma once

#include <barrier>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "coll/schedule/problem.h"
#include "coll/schedule/run.h"

namespace zh::test {

/// Messages between the ranks of one process, without threads. Some sends complete at once, the others when they are
/// received; matched messages arrive when deliver() picks them.
class Network {
 public:
  Network(uint32_t ranks, uint64_t seed);
  [[nodiscard]] coll::Transport& of(uint32_t rank) { return ranks_[rank]; }
  /// Lets one matched message arrive; false if there is none.
  bool deliver();
  /// There is no memory for the n-th start of a message from now on.
  void fail_after(int messages) { fail_in_ = messages; }
  /// Messages to and from that rank end with kPeerDead from now on.
  void kill(uint32_t rank) { dead_ = rank; }
  /// Ranks can ask those of their node alone from now on; before, all.
  void set_nodes(std::shared_ptr<const coll::Layout> layout) { layout_ = std::move(layout); }
  /// Ranks may disagree on the lengths of messages from now on.
  void let_lengths_differ() { lengths_may_differ_ = true; }
  /// Messages that nobody tested or abandoned.
  [[nodiscard]] size_t open() const { return open_; }

 private:
  struct Message {
    uint32_t source, dest;
    int32_t tag;
    const void* from = nullptr;
    void* to = nullptr;
    uint64_t from_bytes = 0, to_bytes = 0;
    std::vector<std::byte> kept;  ///< eager: the sender's copy
    bool sent = false, received = false, arrived = false;
    bool taken_back = false;  ///< by its sender: it does not arrive
  };
  class Endpoint final : public coll::Transport {
   public:
    Endpoint(Network& network, uint32_t rank) : network_(network), rank_(rank) {}
    Code send(uint32_t rank, int32_t tag, const void* data, uint64_t bytes, void** handle) override;
    Code receive(uint32_t rank, int32_t tag, void* data, uint64_t bytes, void** handle) override;
    bool test(void* handle, Code* code) override;
    void abandon(void* handle) override;
    void announce(uint64_t number, uint32_t digest) override { announced_[number] = digest; }
    void give_up(uint64_t number, int32_t first_tag) override;
    [[nodiscard]] bool contradicted(uint64_t number, uint32_t digest) const override;
    [[nodiscard]] bool bereft() const override;

   private:
    [[nodiscard]] bool is_far(uint32_t rank) const;
    [[nodiscard]] bool is_dead(uint32_t rank) const { return network_.dead_ == rank && !is_far(rank); }
    Network& network_;
    uint32_t rank_;
    std::map<uint64_t, uint32_t> announced_;
    std::set<uint64_t> given_up_;
    std::set<int32_t> let_go_;  ///< first tags
  };

  /// The oldest message that lacks the end asked for, or a new one.
  Message& find(uint32_t source, uint32_t dest, int32_t tag, bool sender);
  bool fails() { return fail_in_ > 0 && --fail_in_ == 0; }

  std::deque<Endpoint> ranks_;
  std::deque<Message> messages_;
  std::vector<Message*> matched_;
  std::mt19937_64 rng_;
  int fail_in_ = 0;
  uint32_t dead_ = ~0U;
  bool death_told_ = false;
  std::shared_ptr<const coll::Layout> layout_;
  bool lengths_may_differ_ = false;
  size_t open_ = 0;
};

/// Steps of leaders, each of which is a thread: none leaves before all have come and their data have been moved.
class Meeting {
 public:
  explicit Meeting(uint32_t leaders);
  [[nodiscard]] coll::LeaderSteps& of(uint32_t leader) { return ends_[leader]; }
  /// The call of that leader fails from now on.
  void fail(uint32_t leader) { failing_ = leader; }

 private:
  struct Brought {
    const void* in = nullptr;
    std::span<const uint64_t> parts;  ///< of `in`, where it has any
  };
  class End final : public coll::LeaderSteps {
   public:
    End(Meeting& meeting, uint32_t self) : meeting_(meeting), self_(self) {}
    Code barrier() override;
    Code bcast(void* data, uint64_t bytes, uint32_t root) override;
    Code reduce(const void* in, void* out, uint64_t count, const coll::Reduction& how, uint32_t root) override;
    Code allreduce(const void* in, void* out, uint64_t count, const coll::Reduction& how) override;
    Code allgather(void* all, std::span<const uint64_t> parts) override;
    Code gather(const void* own, uint64_t bytes, void* all, std::span<const uint64_t> parts, bool even,
                uint32_t root) override;
    Code scatter(const void* all, std::span<const uint64_t> parts, void* own, uint64_t bytes, bool even,
                 uint32_t root) override;
    Code alltoall(const void* in, void* out, std::span<const uint64_t> parts) override;
    Code reduce_scatter(const void* in, void* out, std::span<const uint64_t> parts,
                        const coll::Reduction& how) override;
    Code exscan(const void* in, void* out, uint64_t count, const coll::Reduction& how) override;

   private:
    /// Waits until all have brought something.
    void bring(const void* in, std::span<const uint64_t> parts = {});
    /// in of the first op ... op in of the one before `end`, and no one's buffers are in use afterwards.
    std::vector<std::byte> combined(uint64_t count, const coll::Reduction& how, size_t end);
    /// Bytes before one's part.
    static uint64_t before(std::span<const uint64_t> parts, size_t i);
    Code leave();
    Meeting& meeting_;
    uint32_t self_;
  };

  std::deque<End> ends_;
  std::vector<Brought> brought_;
  std::barrier<> all_;
  uint32_t failing_ = ~0U;
};

/// Multiplies 2x2 matrices of uint32 modulo 2^32: associative, exact, and not commutative.
[[nodiscard]] coll::Reduction matrix_product();
/// Adds doubles: commutative, but every bracketing gives other bits.
[[nodiscard]] coll::Reduction double_sum();
/// Adds uint32.
[[nodiscard]] coll::Reduction int_sum();

/// The output that `rank` must end with, given what all ranks' inputs hold and what its output held before.
[[nodiscard]] std::vector<std::byte> expected_output(const std::vector<coll::Problem>& problems, uint32_t rank,
                                                     const std::vector<std::vector<std::byte>>& inputs,
                                                     const coll::Reduction& how, std::vector<std::byte> before);

}  // namespace zh::test
