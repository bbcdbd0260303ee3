#include "p2p/endpoint.h"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

namespace zh::p2p {

Status Endpoint::open(node::Node& node, const EndpointConfig& config, std::unique_ptr<Endpoint>* out) {
  std::unique_ptr<Endpoint> endpoint(new (std::nothrow) Endpoint(node, config));
  if (!endpoint) return {Code::kNoMemory, "out of memory"};
  if (Status s = endpoint->init(); !s.ok()) return s;
  *out = std::move(endpoint);
  return kOk;
}

Status Endpoint::init() {
  if (!requests_.usable()) return {Code::kNoMemory, "out of memory"};
  if (Status s = channels_.open(); !s.ok()) return s;
  std::vector<shm::AccessShm*> words;
  for (const Channel& peer : channels_) words.push_back(&peer.part->access);
  memory_.attach(std::move(words));
  memory_.set_gain(tune::kTeamGain);
  if (channels_.config().heap != nullptr) memory_.open();
  for (uint32_t i = 0; i < channels_.size(); ++i) {
    all_by_kernel_ = all_by_kernel_ && memory_.kernel(i) && !memory_.lets_in(static_cast<int32_t>(i));
  }
  all_by_kernel_ = all_by_kernel_ || channels_.size() == 1;
  if (!all_by_kernel_ || memory_.lets_in(kAnyPeer)) leave_short_receives();
  return matcher_.open();
}

void Endpoint::set_choices(uint32_t peer, const tune::PairChoice& near, const tune::PairChoice& far, bool is_far) {
  channels_.set_choices(peer, near, far, is_far);
  plain_receives_ = std::min({plain_receives_, near.mapped.least, far.mapped.least});
}

bool Endpoint::cancel(Request* r) {
  if (r->stage == Stage::kDone) return false;
  if (!r->is_send) return receiver_.cancel(r);
  // Nobody else turns this rank's own queues.
  if (r->peer == static_cast<int32_t>(channels_.self())) receiver_.collect();
  return r->stage != Stage::kDone && sender_.cancel(r);
}

void Endpoint::take_back_sends() {
  requests_.for_each([this](Request* r) {
    if (r->is_send && (r->stage == Stage::kQueued || r->stage == Stage::kTransfer)) cancel(r);
  });
}

bool Endpoint::reap() {
  bool any = false;
  for (uint32_t i = 0; i < channels_.size(); ++i) {
    Channel& peer = channels_[i];
    if (i == channels_.self() || peer.dead) continue;
    // A peer whose queues were broken by another's death lives, but nothing can be sent to it any more.
    QueuesShm& guard = *peer.guard;
    const bool ended = !channels_.node().alive(i);
    if (!ended && guard.broken.load_relaxed() == 0) continue;
    peer.dead = any = true;
    leave_short_receives();
    ZH_CHECK_INVARIANT(peer.part->broken_invariant(channels_.size()));
    receiver_.note_death(i);
    if (ended) memory_.forget(i);
    const bool own_lock = !channels_.config().ablations.coarse_lock;
    if (ended && own_lock && guard.lock.holder() != 0) guard.broken.store_relaxed(1);
  }
  // Queues whose lock a dead rank holds are broken for good.
  for (const Channel& peer : channels_) (void)matcher_.broken_for_good(*peer.guard);
  if (receiver_.note_broken()) any = true;
  if (!any) return false;
  rendezvous_.fail_dead();
  sender_.fail_dead();
  receiver_.fail_lost();
  return true;
}

void Endpoint::MemoryNotes::kernel_copy_ended(uint32_t owner, const Status& why, uint64_t moved, uint64_t bytes) {
  if (Trace* trace = channels_.trace()) trace->ended_early(owner, why, moved, bytes);
}

void Endpoint::MemoryNotes::cannot_map(uint32_t owner) {
  if (Trace* trace = channels_.trace()) trace->cannot_map(owner);
}

void Endpoint::MemoryNotes::accessed(copy::Reach reach, uint32_t owner, uint64_t bytes) {
  Counters& counters = channels_.counters();
  Tally& by_kernel = channels_.node().module_member(owner) != 0 ? counters.collective_module : counters.collective_cma;
  (reach == copy::Reach::kMapped ? counters.collective_mapped : by_kernel).add(bytes);
}

}  // namespace zh::p2p
