// A blocking receive: it polls the ring of its source, looks for its message by itself for a while, outside the shared
// queue, and only then goes into it. Called by engine::Rank, which lends the waiting.
#pragma once

#include <cstdint>

#include "p2p/short_path.h"
#include "p2p/types.h"

namespace zh::p2p {

/// `Waiter`: turn() gives everything a turn; pause() also waits as the policy says; looks_for_long() tells whether a
/// processor is to spare for it now, and has_company(peer) whether the peer that is waited for was last seen on it.
/// kNoMemory when there is none for a request.
template <typename Waiter>
Result receive_blocking(Endpoint& endpoint, const RecvArgs& args, Waiter& waiter) {
  constexpr uint32_t kPollsPerLook = 32;    // of one ring, before anything else is looked at
  constexpr uint32_t kLooksUnposted = 256;  // before the receive goes into the shared queue
  constexpr uint32_t kTurnEvery = 16;       // ... of which every so many also serve everybody else
  Receiver& receives = endpoint.receives();
  Request* r = receives.irecv_unposted(args);
  if (r == nullptr) return {.code = Code::kNoMemory};
  receives.look(r);
  if (r->done.load_relaxed() == 0) {
    bool patient = waiter.looks_for_long();
    copy::WriteAhead ahead = receives.write_ahead(args.peer, args.buffer);
    for (uint32_t i = 0; i < (patient ? kLooksUnposted : kTurnEvery) && r->stage == Stage::kUnposted; ++i) {
      // A peer may be waiting for this end to copy; the others can wait a little longer.
      if (!patient) {
        waiter.pause();
      } else if (i % kTurnEvery == 0 || endpoint.sending()) {
        waiter.turn();
      } else if (i % kTurnEvery == 1 && waiter.has_company(args.peer)) {
        patient = false;
      }
      Result quick;
      if (receives.await_front(args, patient ? kPollsPerLook : 1, &ahead) && endpoint.recv_short<true>(args, &quick)) {
        endpoint.release(r);
        receives.note_filled(args.peer, quick.bytes);
        return quick;
      }
      receives.look(r);
    }
  }
  while (r->done.load_relaxed() == 0) {
    if (r->stage == Stage::kUnposted) receives.post(r);
    waiter.pause();
    if (r->stage == Stage::kUnposted) receives.look(r);
  }
  const Result result = r->result;
  receives.note_filled(args.peer, result.bytes);
  endpoint.release(r);
  return result;
}

}  // namespace zh::p2p
