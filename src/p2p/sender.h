// A rank's sends: at once, as transfers, or waiting in order for room; and what a sender does for a receiver that does
// not take its messages. It refuses to wait.
#pragma once

#include <cstdint>
#include <vector>

#include "p2p/channels.h"
#include "p2p/eager.h"
#include "p2p/matcher.h"
#include "p2p/recent_buffers.h"
#include "p2p/rendezvous.h"
#include "p2p/requests.h"

namespace zh::p2p {

class Sender {
 public:
  Sender(Channels& channels, Requests& requests, copy::PeerMemory& memory, Matcher& matcher, Eager& eager,
         Rendezvous& rendezvous)
      : channels_(channels),
        requests_(requests),
        memory_(memory),
        matcher_(matcher),
        eager_(eager),
        rendezvous_(rendezvous) {}

  /// Sends at once if the message fits beside its envelope or into a free block; false if it did not (nothing
  /// happened).
  [[nodiscard]] bool send_now(const SendArgs& args);
  /// Starts what send_now() did not send; null when out of memory. `waits`: the caller does nothing else until it is
  /// sent, so this end may go along while the receiver reads.
  [[nodiscard]] Request* start(const SendArgs& args, bool waits = false);
  /// Both, the second if need be.
  [[nodiscard]] Request* isend(const SendArgs& args) { return send_now(args) ? requests_.sent() : start(args); }
  /// False if the message has been matched.
  bool cancel(Request* send);

  [[nodiscard]] bool waiting() const { return !queued_peers_.empty(); }
  /// Sends that wait for room enter their rings. True if any did.
  bool advance_queued();
  /// Requests that wait for room towards peers that have ended fail.
  void fail_dead();

  /// buffering.cpp: see Endpoint::help_peers().
  void help(bool in_vain);

 private:
  [[nodiscard]] Request* make(const SendArgs& args);
  Submitted submit(Request* send, bool waits = false);
  [[nodiscard]] bool has_cold_buffer(const Request* send);
  /// Up to which size a send goes through the ring.
  [[nodiscard]] uint64_t most_eager(const Request* send, bool waits) const;
  bool submit_queued(Channel& peer);
  void wait_in_queue(Request* send, bool first);

  void progress_receivers(const RequestList& sends);
  void help_offered(const RequestList& sends, bool in_vain);
  void help_queued(bool in_vain);
  [[nodiscard]] bool may_buffer(const Request* send) const;
  [[nodiscard]] Request* stand_in(Request* send);
  void buffer_queued(RequestList& list);
  void buffer_offered(Request* send);

  Channels& channels_;
  Requests& requests_;
  copy::PeerMemory& memory_;
  Matcher& matcher_;
  Eager& eager_;
  Rendezvous& rendezvous_;
  RecentBuffers recent_;
  std::vector<uint32_t> queued_peers_;  ///< to which sends wait for room
  uint64_t helped_ = 0;                 ///< calls of help()
};

}  // namespace zh::p2p
