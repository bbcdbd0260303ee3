// A rank as its teams see it; private to this folder.
#pragma once

#include "coll/team/services.h"
#include "engine/state.h"

namespace zh::engine {

class Rank::TeamServices final : public coll::Services {
 public:
  explicit TeamServices(Rank& rank) : rank_(rank) {}
  [[nodiscard]] std::byte* base() const override;
  [[nodiscard]] Offset allocate(uint64_t bytes) override;
  [[nodiscard]] Offset allocate_spare(uint64_t bytes) override;
  [[nodiscard]] copy::MemoryAccess& memory() override;
  [[nodiscard]] p2p::Request* send(uint32_t dest, uint64_t context, int32_t tag, const copy::Buffer& data,
                                   p2p::SendMode mode) override;
  [[nodiscard]] p2p::Request* recv(uint32_t source, uint64_t context, int32_t tag, const copy::Buffer& data) override;
  [[nodiscard]] bool done(const p2p::Request* request) const override;
  Code finish(p2p::Request* request, uint64_t* bytes) override;
  void abandon(p2p::Request* request) override;
  void wait(bool (*ready)(void*), void* context) override;
  [[nodiscard]] uint32_t polls() const override;
  [[nodiscard]] bool keeps_cpu_from_peer() override;
  [[nodiscard]] const Atomic<uint32_t>* sleepers() const override;
  void wake(uint32_t rank) override;
  void count_staged(uint64_t bytes) override;
  [[nodiscard]] uint64_t streamed_from(uint32_t rank) const override;
  [[nodiscard]] uint32_t copiers() const override;
  [[nodiscard]] bool alive(uint32_t rank) override;

 private:
  [[nodiscard]] Offset allocate(uint64_t bytes, bool in_own_part, uint64_t* count);

  Rank& rank_;
  uint64_t needed_ = 0;  ///< bytes that allocate() has given; teams keep them
  uint64_t spare_ = 0;   ///< ... and allocate_spare()
};

}  // namespace zh::engine
