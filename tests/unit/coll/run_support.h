// What running schedules needs: a network in memory that delivers in any order, operations, and the results that the
// MPI standard defines, computed plainly. Used by the tests of runs.
#pragma once

#include <gtest/gtest.h>

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
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "coll/algorithms/algorithms.h"
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

using Bytes = std::vector<std::byte>;
[[nodiscard]] Bytes random_bytes(std::mt19937_64& rng, uint64_t n, bool doubles = false);

/// All ranks of one collective in this process.
class Ranks {
 public:
  /// `pools`: one for each, or null.
  Ranks(std::vector<coll::Problem> problems, const coll::Algorithm& algorithm, const coll::Reduction& how,
        uint64_t seed, std::vector<coll::ScratchPool>* pools = nullptr)
      : problems_(std::move(problems)),
        how_(how),
        rng_(seed),
        pools_(pools),
        network(problems_[0].ranks(), seed + 1),
        meeting(problems_[0].layout->nodes()),
        runs(problems_.size()) {
    for (const coll::Problem& p : problems_) replace(p.self, algorithm);
  }

  /// Fills the buffers and starts all ranks.
  void start(bool doubles, int32_t first_tag) {
    inputs.clear();
    outputs.clear();
    before.clear();
    for (size_t r = 0; r < runs.size(); ++r) {
      inputs.push_back(random_bytes(rng_, problems_[r].input_bytes(), doubles));
      outputs.push_back(random_bytes(rng_, problems_[r].output_bytes(), doubles));
      before.push_back(outputs[r]);
      const bool exact = coll::reduces(problems_[r].collective);
      const uint32_t node = problems_[r].layout->node_of(static_cast<uint32_t>(r));
      coll::Call call{inputs[r].data(), outputs[r].data(), how_, first_tag, exact, nullptr, &meeting.of(node)};
      if (r == empty_handed) {
        call.input = call.output = nullptr;
        call.empty_handed = true;
      }
      runs[r]->start(call);
    }
  }

  /// `rank` takes another way than the others.
  void replace(uint32_t rank, const coll::Algorithm& algorithm) {
    coll::Schedule schedule;
    ASSERT_TRUE(coll::build(problems_[rank], algorithm.name, &schedule).ok());
    replace(rank, std::move(schedule));
  }
  void replace(uint32_t rank, coll::Schedule schedule) {
    coll::ScratchPool* const pool = pools_ != nullptr ? &(*pools_)[rank] : nullptr;
    const auto plan = std::make_shared<coll::Plan>(std::move(schedule));
    ASSERT_TRUE(coll::Run::create(plan, network.of(rank), &runs[rank], pool).ok());
  }
  void announce(uint64_t number) {
    for (const coll::Problem& p : problems_) network.of(p.self).announce(number, coll::digest(p));
  }
  /// Ends the runs of ranks that stand still and see that they wait in vain, and tells of those that gave up. Whoever
  /// has ended and sees a death does so as in its next call.
  void look_around(uint64_t number) {
    for (const coll::Problem& p : problems_) {
      coll::Run& run = *runs[p.self];
      coll::Transport& transport = network.of(p.self);
      const bool bereft = transport.bereft();
      if (!run.advance() && (bereft || transport.contradicted(number, coll::digest(p)))) {
        run.fail(bereft ? Code::kPeerDead : Code::kInvalid);
      }
      if (run.advance() && (run.gave_up() || bereft)) transport.give_up(run.gave_up() ? number : number + 1, 0);
    }
  }
  /// finish() of ranks that look around.
  bool end(uint64_t number) {
    for (int times = 0; times < 10; ++times) {
      if (finish(3'000)) return true;
      look_around(number);
    }
    return false;
  }
  /// That rank has died before it did anything of the call.
  void kill(uint32_t rank) {
    network.kill(rank);
    replace(rank, coll::Schedule{});
  }
  /// Whoever of the others has no error has the right result.
  void expect_right_or_told(uint32_t but, const std::string& what) const {
    for (uint32_t r = 0; r < runs.size(); ++r) {
      if (r == but || runs[r]->code() != Code::kOk) continue;
      EXPECT_EQ(outputs[r], expected_output(problems_, r, inputs, how_, before[r])) << "rank " << r << " of " << what;
    }
  }

  /// Turns ranks and network in any order until all have ended. False if that takes too long.
  bool finish(uint64_t most_turns = 1'000'000) {
    size_t ended = 0;
    for (uint64_t turn = 0; ended < runs.size() && turn < most_turns; ++turn) {
      if (rng_() % 3 != 0) network.deliver();
      if (turn % 8 != 0) {
        runs[rng_() % runs.size()]->advance();
        continue;
      }
      ended = 0;
      for (const std::unique_ptr<coll::Run>& run : runs) ended += run->advance() ? 1 : 0;
      let_leaders_meet();
    }
    return ended == runs.size();
  }

 private:
  /// Where all leaders have come to a step of theirs, each takes it as a thread.
  void let_leaders_meet() {
    std::vector<coll::Run*> come;
    for (const std::unique_ptr<coll::Run>& run : runs) {
      if (run->shared_is_next()) come.push_back(run.get());
    }
    if (come.size() != problems_[0].layout->nodes()) return;
    std::vector<std::jthread> threads;
    for (coll::Run* run : come) threads.emplace_back([run] { run->share(); });
  }

  std::vector<coll::Problem> problems_;
  coll::Reduction how_;
  std::mt19937_64 rng_;
  std::vector<coll::ScratchPool>* pools_;

 public:
  Network network;
  Meeting meeting;
  std::vector<std::unique_ptr<coll::Run>> runs;
  std::vector<Bytes> inputs, outputs, before;
  uint32_t empty_handed = ~0U;
};

}  // namespace zh::test
