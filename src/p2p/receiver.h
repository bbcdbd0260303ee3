// A rank's receives and probes, and what becomes of what has arrived: the matcher finds, and this hands the message to
// its request. It refuses to wait.
#pragma once

#include <cstdint>
#include <span>

#include "p2p/channels.h"
#include "p2p/deaths.h"
#include "p2p/eager.h"
#include "p2p/matcher.h"
#include "p2p/rendezvous.h"
#include "p2p/requests.h"

namespace zh::p2p {

class Receiver {
 public:
  Receiver(Channels& channels, Requests& requests, Matcher& matcher, Eager& eager, Rendezvous& rendezvous)
      : channels_(channels),
        requests_(requests),
        matcher_(matcher),
        eager_(eager),
        rendezvous_(rendezvous),
        deaths_(channels.self(), channels.node().size()) {}

  /// Polls the ring of a receive's source, up to `polls` times; true once an envelope is there. Knows one source only.
  [[nodiscard]] bool await_front(const RecvArgs& args, uint32_t polls, copy::WriteAhead* ahead);
  /// What a receive that waits may ask for: as much of its buffer as the latest message of its source filled.
  [[nodiscard]] copy::WriteAhead write_ahead(int32_t peer, const copy::Buffer& buffer) const {
    if (peer < 0 || buffer.layout != nullptr) return {};
    return {buffer.base, std::min<uint64_t>(buffer.bytes, channels_[peer].written_bytes)};
  }
  [[nodiscard]] copy::WriteAhead write_ahead(const Request& request) const {
    if (request.is_send || request.stage != Stage::kPosted) return {};
    return write_ahead(request.peer, request.buffer);
  }
  void note_filled(const Request& request) {
    if (!request.is_send && request.stage == Stage::kDone) note_filled(request.peer, request.result.bytes);
  }
  /// A receive that has waited ended so: its source's messages may have become shorter.
  void note_filled(int32_t peer, uint64_t bytes) {
    if (peer >= 0 && bytes < channels_[peer].written_bytes) channels_[peer].note_written(bytes);
  }

  /// Starts a receive in the queue that peers see, if its message has not arrived; else that is received.
  [[nodiscard]] Request* irecv(const RecvArgs& args);
  /// Starts a receive that stays out of the shared queue: look() searches for it. For blocking receives.
  [[nodiscard]] Request* irecv_unposted(const RecvArgs& args);
  /// Searches for an unposted receive's message. Cheap when nothing has arrived.
  void look(Request* request);
  /// Moves an unposted receive to the shared queue, where it can be matched while its rank is away.
  void post(Request* request);
  /// The same of one that nobody looks for: it fails where it cannot be.
  void post_or_fail(Request* request);
  bool cancel(Request* request);

  /// True if there is a message, or kPeerDead to tell of (types.h).
  bool iprobe(const RecvArgs& args, Result* out);
  /// Null also with kPeerDead.
  [[nodiscard]] Message* improbe(const RecvArgs& args, Result* out);
  [[nodiscard]] Request* imrecv(Message* message, const copy::Buffer& buffer);

  /// Empties the rings (up to a budget each). True if anything moved.
  bool collect();

  /// See Deaths::name().
  void name_members(uint64_t context, std::span<const int32_t> members) { deaths_.name(context, members); }
  void forget_members(uint64_t context) { deaths_.forget(context); }
  void note_death(uint32_t peer) {
    deaths_.add(peer);
    matcher_.sources().note_death(peer);
  }
  /// This rank's queues are broken: its requests are told. True if that is news.
  bool note_broken();
  /// Receives that nothing can come for any more fail.
  void fail_lost();

 private:
  bool take_matched();
  [[gnu::noinline]] void run_taken();
  void deliver(Request* request, const MessageShm& message);
  /// Whether a receive for which nothing has come must not wait.
  [[nodiscard]] bool lost(int32_t peer, uint64_t context) const;
  bool tell_lost(const RecvArgs& args, Result* out);

  Channels& channels_;
  Requests& requests_;
  Matcher& matcher_;
  Eager& eager_;
  Rendezvous& rendezvous_;
  Deaths deaths_;
  bool broken_ = false;  ///< this rank's queues are, and its requests have been told
};

}  // namespace zh::p2p
