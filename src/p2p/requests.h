// A rank's requests: made, ended, freed; and what the open ones ask of this rank. It refuses to know how messages move.
#pragma once

#include <cstdint>

#include "os/room.h"
#include "p2p/request.h"
#include "shm/arena.h"

namespace zh::p2p {

class Requests : public RequestTable {
 public:
  /// `arena`: where published layouts lie.
  explicit Requests(shm::Arena& arena);
  ~Requests();
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  /// A receive that is not queued; null when out of memory.
  [[nodiscard]] Request* make_receive(const RecvArgs& args) {
    Request* r = take();
    if (r != nullptr) r->begin_receive(args);
    return r;
  }
  /// Null: it takes memory to make one. Else take_first() takes it, to be begun.
  [[nodiscard]] Request* first_free() const { return free_; }
  void take_first() { free_ = free_->next; }
  /// A send that is not in any list yet, counted as pending; null when out of memory.
  [[nodiscard]] Request* make_send();
  /// Nothing to be done, but something to be kept by; null when out of memory.
  [[nodiscard]] Request* make_empty();
  /// Stands for every send that completed at once; never freed, and not plain. Only if usable().
  [[nodiscard]] Request* sent() const { return at(0); }
  /// Else there was no memory for it.
  [[nodiscard]] bool usable() const { return size() != 0; }
  template <typename Visit>
  void for_each(Visit&& visit) {
    for (uint32_t i = 0; i < size(); ++i) visit(at(i));
  }

  [[gnu::always_inline]] void complete(Request* request) {
    if (!request->plain) [[unlikely]]
      return complete_rest(request);
    end(request);
  }
  /// Ends a request that cannot succeed; it is in no list and no queue any more.
  void fail(Request* request, Code code) {
    request->result.code = code;
    complete(request);
  }
  void release(Request* request) {
    if (!request->plain) [[unlikely]]
      return release_rest(request);
    free(request);
  }
  void detach(Request* request);
  /// The published description of its layout is needed no longer.
  void drop_layout(Request* request);

  /// `request`'s bytes cannot be fetched by their receiver alone, or they can.
  void set_unpullable(Request* request, bool unpullable) {
    if (unpullable != request->unpullable) unpullable_ += unpullable ? 1 : -1;
    request->unpullable = unpullable;
    request->plain = false;
  }
  /// No peer can fill this receive.
  void hide(Request* request) {
    if (!request->hidden) ++hidden_;
    request->hidden = true;
    request->plain = false;
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
  static constexpr uint32_t kSlabs = kMost / kSlab;

  [[nodiscard]] Request* take() {
    if (free_ == nullptr && !add_slab()) [[unlikely]]
      return nullptr;
    Request* r = free_;
    free_ = r->next;
    return r;
  }
  [[gnu::noinline]] bool add_slab();
  [[gnu::noinline]] void end_rest(Request* request);
  [[gnu::noinline]] void complete_rest(Request* request) {
    end_rest(request);
    end(request);
    if (request->detached) release(request);
  }
  [[gnu::noinline]] void release_rest(Request* request) {
    if (request->index == 0) return;  // sent()
    request->clear();
    free(request);
  }
  [[gnu::always_inline]] void free(Request* request) {
    request->stage = Stage::kFree;
    request->next = free_;
    free_ = request;
  }
  [[gnu::always_inline]] void end(Request* request) {
    request->stage = Stage::kDone;
    // D0 -> D1: result and buffer are complete before done.
    request->done.store_release(1);
    count_ended();
  }
  void count_ended() {
    ended_.store_release(ended_.load_relaxed() + 1);  // D2 -> D3: counted after it is done
  }

  shm::Arena& arena_;
  os::PrivateRoom room_;  ///< of slabs_: addresses for all of them
  Request* free_ = nullptr;
  uint64_t pending_sends_ = 0;
  uint64_t unpullable_ = 0;
  uint64_t hidden_ = 0;
  uint64_t buffered_bytes_ = 0;
  Atomic<uint64_t> ended_{0};
};

}  // namespace zh::p2p
