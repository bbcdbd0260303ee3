// Starting and declining, who is to be told, and what the heap counts.
#include "heap/heap.h"

#include "os/clock.h"

namespace zh::heap {

constinit Heap process_heap;

void Heap::start(const Surroundings& surroundings, bool huge_too) {
  around_ = surroundings;
  huge_too_ = huge_too;
  started_ns_ = os::now_ns();
  started_.store_relaxed(1);
}

void Heap::host_started() {
  if (around_.calls_intact != nullptr && !around_.calls_intact()) {
    decline("the MPI library overwrites the calls that manage memory");
  }
}

void Heap::decline(const char* why) {
  const char* nothing = nullptr;
  why_.cas_relaxed(nothing, why);
}

bool Heap::add_client(Client* client) {
  const Locked lock(mutex_);
  for (Client*& each : clients_) {
    if (each != nullptr) continue;
    each = client;
    return true;
  }
  return false;
}

void Heap::remove_client(Client* client) {
  const Locked lock(mutex_);
  for (Client*& each : clients_) {
    if (each == client) each = nullptr;
  }
}

void Heap::keep_peers_away(bool away) {
  for (Client* client : clients_) {
    if (client == nullptr) continue;
    if (away) {
      client->keep_peers_away();
    } else {
      client->let_peers_in();
    }
  }
}

// These pages are the system's again. Where they are wanted again it costs about as much as when they became shared.
void Heap::forget(Pages pages) {
  const uint64_t shared = table_.count(Bit::kShared, pages);
  if (shared != 0) pay_back_.returned(pages.first, pages.n, shared * price_.page_ns() / 4);
  if (frozen_.load_relaxed() != 0 && !table_.none(Bit::kFrozen, pages)) thaw();
  table_.for_each(Bit::kLeft, true, pages, [this](Pages run) { punch(run); });
  clear_bits(pages);
}

void Heap::clear_bits(Pages pages) {
  shared_pages_ -= table_.count(Bit::kShared, pages);
  left_pages_ -= table_.count(Bit::kLeft, pages);
  for (const Bit bit : {Bit::kShared, Bit::kGuarded, Bit::kReadable, Bit::kWiped, Bit::kHidden, Bit::kLeft}) {
    table_.clear(bit, pages);
  }
  held_pages_.store_release(shared_pages_ + left_pages_);  // HP0 -> HP1: the file's identity
}

Stats Heap::stats() const {
  const Locked lock(mutex_);
  Stats s = counts_;
  s.shared_bytes = shared_pages_ * kPage;
  s.kept_blocks = kept_.blocks();
  s.kept_bytes = kept_.bytes();
  s.first_uses = first_uses_.load_relaxed();
  s.saved_ns = pay_back_.saved_ns();
  s.spent_ns = pay_back_.spent_ns();
  return s;
}

}  // namespace zh::heap
