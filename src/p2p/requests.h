// A rank's requests: made, ended, freed; and what the open ones ask of this rank. It refuses to know how messages move.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "p2p/request.h"
#include "shm/arena.h"

namespace zh::p2p {

class Requests {
 public:
  /// `arena`: where published layouts lie.
  explicit Requests(shm::Arena& arena);
  ~Requests();
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  /// Null when out of memory.
  [[nodiscard]] Request* make();
  /// A send that is not in any list yet, counted as pending; null when out of memory.
  [[nodiscard]] Request* make_send();
  /// Stands for every send that completed at once; never freed.
  [[nodiscard]] Request* sent() { return &sent_; }
  [[nodiscard]] Request* at(uint32_t index) const { return &slabs_[index / kSlab][index % kSlab]; }
  /// How many there are, free ones included: at() takes less.
  [[nodiscard]] uint32_t made() const { return made_; }
  template <typename Visit>
  void for_each(Visit&& visit) {
    for (auto& slab : slabs_) {
      for (Request* r = slab.get(); r != slab.get() + kSlab; ++r) visit(r);
    }
  }

  void complete(Request* request);
  /// Ends a request that cannot succeed; it is in no list and no queue any more.
  void fail(Request* request, Code code) {
    request->result.code = code;
    complete(request);
  }
  void release(Request* request);
  void detach(Request* request);
  /// The published description of its layout is needed no longer.
  void drop_layout(Request* request);

  /// `request`'s bytes cannot be fetched by their receiver alone, or they can.
  void set_unpullable(Request* request, bool unpullable) {
    if (unpullable != request->unpullable) unpullable_ += unpullable ? 1 : -1;
    request->unpullable = unpullable;
  }
  /// No peer can fill this receive.
  void hide(Request* request) {
    if (!request->hidden) ++hidden_;
    request->hidden = true;
  }
  /// `request` owns `copy`, `bytes` long, from now on.
  void give_copy(Request* request, std::byte* copy, uint64_t bytes) {
    request->own_copy = copy;
    buffered_bytes_ += buffered_cost(bytes);
  }

  /// Sends whose bytes are still needed from this rank's memory.
  [[nodiscard]] uint64_t pending_sends() const { return pending_sends_; }
  /// Transfers whose bytes no peer can fetch by itself.
  [[nodiscard]] uint64_t unpullable() const { return unpullable_; }
  /// Receives that no peer can fill, because their layout is too long to publish.
  [[nodiscard]] uint64_t hidden() const { return hidden_; }
  /// Of sends that stand in for the program's.
  [[nodiscard]] uint64_t buffered_bytes() const { return buffered_bytes_; }
  /// How many have been completed or given up so far. While it stays what it was, who pended then pends still.
  [[nodiscard]] uint64_t ended() const {
    return ended_.load_acquire();  // D3 -> D2: what has been counted is seen done
  }
  [[nodiscard]] static constexpr uint64_t buffered_cost(uint64_t bytes) { return bytes + sizeof(Request); }

 private:
  static constexpr uint32_t kSlab = 256;

  void count_ended() {
    ended_.store_release(ended_.load_relaxed() + 1);  // D2 -> D3: counted after it is done
  }

  shm::Arena& arena_;
  std::vector<std::unique_ptr<Request[]>> slabs_;
  Request* free_ = nullptr;
  Request sent_;
  uint32_t made_ = 0;
  uint64_t pending_sends_ = 0;
  uint64_t unpullable_ = 0;
  uint64_t hidden_ = 0;
  uint64_t buffered_bytes_ = 0;
  Atomic<uint64_t> ended_{0};
};

}  // namespace zh::p2p
