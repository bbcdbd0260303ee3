// Teams of ranks on a machine that is only described (emulator.h), and what a team needs of them: memory, and messages
// while it is set up. Used by emulation_test.cpp.
#pragma once

#include <sys/mman.h>

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "coll/team/control_block_pool.h"
#include "coll/team/services.h"
#include "coll/team/team.h"
#include "emulator.h"

namespace zh::emulation {

/// What all ranks share.
class World {
 public:
  explicit World(const Machine& machine)
      : machine_(machine),
        base_(static_cast<std::byte*>(
            ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    if (base_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~World() { ::munmap(base_, kBytes); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  struct Mailbox {
    std::deque<std::vector<std::byte>> messages;
    Atomic<uint32_t> sent{0};
    uint32_t received = 0;
  };

  [[nodiscard]] const Machine& machine() const { return machine_; }
  [[nodiscard]] std::byte* base() const { return base_; }
  Offset allocate(uint64_t bytes) {
    const Offset offset = used_;
    used_ += round_up(bytes, kPairBytes);
    return used_ <= kBytes ? offset : kNoOffset;
  }
  Mailbox& box(uint32_t from, uint32_t to, int32_t tag) { return boxes_[{from, to, tag}]; }

 private:
  static constexpr uint64_t kBytes = 256 << 20;
  const Machine& machine_;
  std::byte* base_;
  uint64_t used_ = kPairBytes;  // offset 0 is no memory
  std::map<std::tuple<uint32_t, uint32_t, int32_t>, Mailbox> boxes_;
};

class Member final : public coll::Services {
 public:
  /// `polls`: looks at a flag before wait(); 1: as where ranks outnumber processors, so that there are no groups.
  Member(World& world, uint32_t self, uint32_t polls) : world_(world), self_(self), polls_(polls) {}

  [[nodiscard]] std::byte* base() const override { return world_.base(); }
  [[nodiscard]] Offset allocate(uint64_t bytes) override { return world_.allocate(bytes); }
  [[nodiscard]] Offset allocate_spare(uint64_t bytes) override { return world_.allocate(bytes); }
  [[nodiscard]] copy::MemoryAccess& memory() override { throw std::logic_error("small collectives only"); }
  [[nodiscard]] p2p::Request* send(uint32_t dest, uint64_t, int32_t tag, const copy::Buffer& data,
                                   p2p::SendMode) override {
    World::Mailbox& box = world_.box(self_, dest, tag);
    box.messages.emplace_back(data.base, data.base + data.bytes);
    box.sent.fetch_add_acq_rel(1);
    return request({nullptr, 0, {}});
  }
  [[nodiscard]] p2p::Request* recv(uint32_t source, uint64_t, int32_t tag, const copy::Buffer& data) override {
    World::Mailbox& box = world_.box(source, self_, tag);
    return request({&box, box.received++, data});
  }
  [[nodiscard]] bool done(const p2p::Request* request) const override {
    const auto* const r = reinterpret_cast<const Message*>(request);
    return r->box == nullptr || r->box->sent.load_acquire() > r->index;
  }
  Code finish(p2p::Request* request, uint64_t* bytes) override {
    const auto* const r = reinterpret_cast<const Message*>(request);
    *bytes = r->into.bytes;
    if (r->box != nullptr) std::memcpy(r->into.base, r->box->messages[r->index].data(), r->into.bytes);
    return Code::kOk;
  }
  void abandon(p2p::Request*) override {}
  void wait(bool (*ready)(void*), void* context, p2p::Tell) override {
    emulation::wait([&] { return ready(context); });
  }
  [[nodiscard]] uint32_t polls() const override { return polls_; }
  [[nodiscard]] bool keeps_cpu_from_peer() override { return false; }
  [[nodiscard]] const Atomic<uint32_t>* sleepers() const override { return nullptr; }
  void wake(uint32_t) override {}
  void count_staged(uint64_t) override {}
  [[nodiscard]] uint64_t streamed_from(uint32_t) const override { return coll::kNeverStreamed; }
  [[nodiscard]] node::Level level(uint32_t a, uint32_t b) const override {
    const Machine& m = world_.machine();
    if (a / m.cores_per_cache == b / m.cores_per_cache) return node::Level::kSharedL3;
    return a / m.cores_per_socket == b / m.cores_per_socket ? node::Level::kSameSocket : node::Level::kOtherSocket;
  }
  [[nodiscard]] uint32_t copiers() const override { return 1; }
  [[nodiscard]] bool alive(uint32_t rank) override { return emulation::alive(rank); }

 private:
  struct Message {
    World::Mailbox* box;  ///< null: sent
    uint32_t index;
    copy::Buffer into;
  };
  p2p::Request* request(const Message& message) {
    requests_.push_back(std::make_unique<Message>(message));
    return reinterpret_cast<p2p::Request*>(requests_.back().get());
  }

  World& world_;
  uint32_t self_;
  uint32_t polls_;
  std::vector<std::unique_ptr<Message>> requests_;
};

}  // namespace zh::emulation
