// A shared heap for tests: private memory, of which the whole pages inside a message move into one memfd when messages
// use them again, as in the real one; a simple allocator, and forks that only pretend. What a peer reads or writes of a
// page that was not shared is lost, so a test sees it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

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
  explicit FakeHeap(uint64_t bytes) : bytes_(bytes), used_pages_(bytes / kPage), shared_pages_(bytes / kPage) {
    EXPECT_TRUE(os::make_memfd("zerohop-test-heap", bytes, &fd_).ok());
    base_ = os::map_lazy(bytes);
    EXPECT_NE(base_, nullptr);
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
    heap::SharedPlace place;
    (void)publish(p, n, {}, &place);
    EXPECT_EQ(publish(p, n, {}, &place), heap::Sharing::kMapped);
    publications = 0;
  }

  /// What a fork does to the parent, and to a child that `copying` makes; it runs while no peer may touch this
  /// process's memory.
  template <typename Copying>
  void pretend_fork(Copying&& copying) {
    const std::lock_guard lock(mutex_);
    const pid_t parent = getpid();
    for (heap::Client* client : clients_) client->keep_peers_away();
    copying();
    // A child that copying() made must not open what is its parent's.
    for (heap::Client* client : clients_) getpid() == parent ? client->let_peers_in() : client->in_child();
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
  [[nodiscard]] heap::Sharing publish(const void* address, size_t n, const heap::BufferUse& use,
                                      heap::SharedPlace* place) override {
    const std::lock_guard lock(mutex_);
    ++publications;
    if (!find(address, n, place)) return heap::Sharing::kNot;
    if (all_shared(*place)) return heap::Sharing::kMapped;
    if (!use.exclusive) return heap::Sharing::kNot;
    bool first = false;
    for (uint64_t k = first_page(*place); k < end_page(*place); ++k) {
      first = first || !used_pages_[k];
      used_pages_[k] = true;
    }
    if (first) return heap::Sharing::kLater;
    for (uint64_t k = first_page(*place); k < end_page(*place); ++k) share(k);
    return heap::Sharing::kMapped;
  }
  [[nodiscard]] int descriptor(uint32_t region) const override { return region == 1 ? fd_.get() : -1; }
  void host_started() override {}
  void decline(const char* why) override { why_ = why; }
  [[nodiscard]] const char* declined() const override { return why_; }
  bool add_client(heap::Client* client) override {
    const std::lock_guard lock(mutex_);
    if (clients_.size() == max_clients) return false;
    clients_.push_back(client);
    return true;
  }
  void remove_client(heap::Client* client) override {
    const std::lock_guard lock(mutex_);
    std::erase(clients_, client);
  }
  [[nodiscard]] heap::Stats stats() const override { return {.shared_bytes = next_}; }

  uint64_t publications = 0;
  size_t max_clients = 4;
  bool whole = false;  ///< buffers are mapped with their edges

 private:
  bool find(const void* address, size_t n, heap::SharedPlace* place) const {
    const auto offset = static_cast<uint64_t>(static_cast<const std::byte*>(address) - base_);
    if (address < base_ || offset + n > next_) return false;
    const uint64_t first = (offset + kPage - 1) / kPage * kPage;
    const uint64_t end = (offset + n) / kPage * kPage;
    *place = {1, generation_, offset, whole ? 0 : first - offset, whole ? n : end - offset};
    return whole || first < end;
  }
  static uint64_t first_page(const heap::SharedPlace& place) { return (place.offset + place.from) / kPage; }
  static uint64_t end_page(const heap::SharedPlace& place) { return (place.offset + place.end + kPage - 1) / kPage; }
  [[nodiscard]] bool all_shared(const heap::SharedPlace& place) const {
    for (uint64_t k = first_page(place); k < end_page(place); ++k) {
      if (!shared_pages_[k]) return false;
    }
    return true;
  }
  void share(uint64_t page) {
    if (shared_pages_[page]) return;
    const uint64_t offset = page * kPage;
    EXPECT_EQ(pwrite(fd_.get(), base_ + offset, kPage, static_cast<off_t>(offset)), static_cast<ssize_t>(kPage));
    EXPECT_TRUE(os::map_file_at(base_ + offset, kPage, fd_.get(), offset, false));
    os::populate(base_ + offset, kPage);
    shared_pages_[page] = true;
  }

  static constexpr uint64_t kPage = 4096;
  uint64_t bytes_;
  uint64_t next_ = 0;
  std::byte* base_ = nullptr;
  os::Descriptor fd_;
  uint32_t generation_ = 0;
  std::vector<bool> used_pages_;
  std::vector<bool> shared_pages_;
  std::map<uint64_t, std::vector<std::byte*>> free_;
  std::map<std::byte*, uint64_t> live_;
  std::vector<heap::Client*> clients_;
  mutable std::mutex mutex_;
  const char* why_ = nullptr;
};

}  // namespace zh::test
