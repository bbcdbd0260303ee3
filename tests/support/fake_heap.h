// A shared heap for tests: one memfd, a simple allocator, and forks that only pretend. Its rules are those of the real
// one: a page is published from its second use on, and has memory then.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "heap/shared_heap.h"
#include "os/segment.h"
#include "os/vm.h"

namespace zh::test {

class FakeHeap final : public heap::SharedHeap {
 public:
  explicit FakeHeap(uint64_t bytes) : bytes_(bytes), used_pages_(bytes / kPage) {
    EXPECT_TRUE(os::make_memfd("zerohop-test-heap", bytes, &fd_).ok());
    EXPECT_TRUE(os::map_shared(fd_.get(), bytes, &base_).ok());
    generation_ = os::file_generation(fd_.get());
  }
  ~FakeHeap() { os::unmap(base_, bytes_); }
  FakeHeap(const FakeHeap&) = delete;
  FakeHeap& operator=(const FakeHeap&) = delete;

  /// Whole pages; null when there are none left.
  [[nodiscard]] std::byte* take(uint64_t n) {
    const uint64_t bytes = std::bit_ceil(n < kPage ? kPage : n);
    auto& free = free_[bytes];
    std::byte* p = nullptr;
    if (!free.empty()) {
      p = free.back();
      free.pop_back();
    } else if (next_ + bytes <= bytes_) {
      p = base_ + next_;
      next_ += bytes;
    }
    if (p != nullptr) live_[p] = bytes;
    return p;
  }
  void give_back(std::byte* p) {
    const auto it = live_.find(p);
    ASSERT_NE(it, live_.end());
    free_[it->second].push_back(p);
    live_.erase(it);
  }
  /// As two messages would.
  void use_twice(const std::byte* p, uint64_t n) {
    heap::Place place;
    (void)publish(p, n, &place);
    EXPECT_TRUE(publish(p, n, &place));
    publications = 0;
  }

  /// What a fork does to the parent; `copying` runs while no peer may touch this process's memory.
  template <typename Copying>
  void pretend_fork(Copying&& copying) {
    const std::lock_guard lock(mutex_);
    for (heap::ForkClient* client : clients_) client->before_fork();
    copying();
    for (heap::ForkClient* client : clients_) client->after_fork_in_parent();
  }
  /// The same, with all memory overwritten and restored while it is closed: what a peer reads or writes then is wrong.
  void pretend_fork_and_scribble() {
    pretend_fork([this] {
      std::vector<std::byte> kept;
      for (const auto& [p, bytes] : live_) kept.insert(kept.end(), p, p + bytes);
      for (const auto& [p, bytes] : live_) std::memset(p, 0xa5, bytes);
      const std::byte* from = kept.data();
      for (const auto& [p, bytes] : live_) {
        std::memcpy(p, from, bytes);
        from += bytes;
      }
    });
  }
  /// In a process that was really forked.
  void say_child() {
    for (heap::ForkClient* client : clients_) client->after_fork_in_child();
  }

  [[nodiscard]] bool locate(const void* address, size_t n, heap::Place* place) const override {
    const auto offset = static_cast<uint64_t>(static_cast<const std::byte*>(address) - base_);
    if (address < base_ || offset + n > next_) return false;
    *place = {1, generation_, offset};
    return true;
  }
  [[nodiscard]] bool publish(const void* address, size_t n, heap::Place* place) override {
    const std::lock_guard lock(mutex_);
    ++publications;
    if (!locate(address, n, place)) return false;
    bool first = false;
    for (uint64_t k = place->offset / kPage; k * kPage < place->offset + n; ++k) {
      first = first || !used_pages_[k];
      used_pages_[k] = true;
    }
    if (!first) os::populate(base_ + place->offset / kPage * kPage, place->offset % kPage + n);
    return !first;
  }
  [[nodiscard]] int descriptor(uint32_t region) const override { return region == 1 ? fd_.get() : -1; }
  void host_started() override {}
  void decline(const char* why) override { why_ = why; }
  [[nodiscard]] const char* declined() const override { return why_; }
  bool add_fork_client(heap::ForkClient* client) override {
    const std::lock_guard lock(mutex_);
    if (clients_.size() == max_clients) return false;
    clients_.push_back(client);
    return true;
  }
  void remove_fork_client(heap::ForkClient* client) override {
    const std::lock_guard lock(mutex_);
    std::erase(clients_, client);
  }
  [[nodiscard]] heap::Stats stats() const override { return {.live_bytes = next_}; }

  uint64_t publications = 0;
  size_t max_clients = 4;

 private:
  static constexpr uint64_t kPage = 4096;
  uint64_t bytes_;
  uint64_t next_ = 0;
  std::byte* base_ = nullptr;
  os::Descriptor fd_;
  uint32_t generation_ = 0;
  std::vector<bool> used_pages_;
  std::map<uint64_t, std::vector<std::byte*>> free_;
  std::map<std::byte*, uint64_t> live_;
  std::vector<heap::ForkClient*> clients_;
  std::mutex mutex_;
  const char* why_ = nullptr;
};

}  // namespace zh::test
