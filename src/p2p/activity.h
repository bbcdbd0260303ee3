// What a rank is in and for whom it waits, for whoever looks at a running job from outside (`zerohop top`). Told by the
// engine once a wait has lasted, so that calls that do not wait cost nothing. Refuses to know what a call's number
// means.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

#include "base/atomic.h"
#include "base/function_ref.h"
#include "base/shm_types.h"
#include "p2p/types.h"

namespace zh::p2p {

struct Activity {
  enum class Waits : uint8_t {
    kNot,         ///< the rank computes, or is in a call that does not wait
    kInHost,      ///< in a call of the host, for what only the host knows
    kUntold,      ///< for what nobody has told
    kForMessage,  ///< a receive or a probe: until the message comes
    kForReceive,  ///< a send: until the receiver takes the message
    kForMembers,  ///< a collective: until these members have come, or have done their part
  };
  static constexpr uint32_t kPeers = 6;

  Waits waits = Waits::kNot;
  bool any = false;       ///< one of the peers, or of the requests, is enough
  uint16_t call = 0;      ///< number of the function, of the layer above; 0: none
  uint32_t requests = 0;  ///< that the call waits for
  int32_t tag = kAnyTag;
  uint32_t peers_told = 0;  ///< entries of `peers` that hold one
  uint64_t bytes = 0;       ///< of the message, as far as this end knows: a receive's buffer, a send's message
  uint64_t context = 0;
  uint64_t began_ns = 0;                ///< CLOCK_MONOTONIC, when the wait began
  uint64_t still_ns = 0;                ///< ... and since when nothing has moved here
  std::array<int32_t, kPeers> peers{};  ///< ranks of the world; with `any` and none told: every member of `context`
  std::array<char, 24> comm{};          ///< the communicator's name; "": it has none. Cut off, and then without a 0

  /// `rank`: of the world.
  void add_peer(int32_t rank) {
    const auto end = peers.begin() + peers_told;
    if (peers_told < kPeers && std::find(peers.begin(), end, rank) == end) peers[peers_told++] = rank;
  }
  void set_comm(std::string_view name) { name.copy(comm.data(), comm.size()); }
  [[nodiscard]] std::string_view comm_name() const {
    return {comm.data(), static_cast<size_t>(std::find(comm.begin(), comm.end(), '\0') - comm.begin())};
  }
};

/// Tells what a wait is for: all but its times and the communicator's name. Called by whoever waits, without any lock.
using Tell = FunctionRef<void(Activity*)>;

/// Writers: the owner, one thread at a time. Readers: any process, at any time.
/// Invariant: where `version` reads the same even number before and after `words`, they are one Activity.
/// `host_call` is apart, as it is set at each call of the host: its number, 0 outside; and so are polls.
/// Wrap: a reader that sleeps through 2^31 waits takes half of one for whole. Crash: what the rank was in when it died.
struct ActivityShm {
  static constexpr size_t kWords = sizeof(Activity) / sizeof(uint64_t);
  alignas(kPairBytes) Atomic<uint32_t> version;
  Atomic<uint32_t> host_call;
  Atomic<uint64_t> host_ticks;   ///< when that began, in the owner's ticks
  Atomic<uint64_t> polled_ns;    ///< CLOCK_MONOTONIC, when the program last polled in vain (one of some dozen polls)
  Atomic<uint64_t> polls_ns;     ///< ... and since when none of its polls has moved anything
  Atomic<uint64_t> poll_gap_ns;  ///< ... between the latest two of those that tell; 0: there was but one
  Atomic<uint64_t> words[kWords];

  void tell(const Activity& now) {
    const auto told = std::bit_cast<std::array<uint64_t, kWords>>(now);
    const uint32_t before = version.load_relaxed();
    version.store_relaxed(before + 1);
    for (size_t i = 0; i < kWords; ++i) words[i].store_release(told[i]);  // AC0 -> AC1: the odd version
    version.store_release(before + 2);                                    // AC2 -> AC3: the words
  }
  void polled(uint64_t since_ns, uint64_t now_ns) {
    polls_ns.store_relaxed(since_ns);
    poll_gap_ns.store_relaxed(since_ns == now_ns ? 0 : now_ns - polled_ns.load_relaxed());
    polled_ns.store_relaxed(now_ns);
  }
  void enter_host(uint16_t function, uint64_t now_ticks) {
    host_ticks.store_relaxed(now_ticks);
    host_call.store_release(function);  // AC4 -> AC5: since when
  }
  void leave_host() { host_call.store_relaxed(0); }
  /// Number of the host's function that the owner is in, and since when by its ticks; 0: in none.
  [[nodiscard]] uint32_t host_function(uint64_t* since_ticks) const {
    const uint32_t function = host_call.load_acquire();  // AC5 <- AC4
    *since_ticks = host_ticks.load_relaxed();
    return function;
  }
  /// False while it changes.
  [[nodiscard]] bool read(Activity* out) const {
    const uint32_t before = version.load_acquire();  // AC3 <- AC2
    std::array<uint64_t, kWords> seen;
    for (size_t i = 0; i < kWords; ++i) seen[i] = words[i].load_acquire();  // AC1 <- AC0
    if (before % 2 != 0 || version.load_relaxed() != before) return false;
    *out = std::bit_cast<Activity>(seen);
    return true;
  }
};
static_assert(kShmSafe<ActivityShm> && sizeof(Activity) % sizeof(uint64_t) == 0);

}  // namespace zh::p2p
