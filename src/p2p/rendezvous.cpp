// A transfer's begin and end: its description, the offer, the match, and who is left with what.
#include "p2p/rendezvous.h"

#include <algorithm>

#include "base/crash_point.h"
#include "p2p/eager.h"
#include "p2p/skew.h"

namespace zh::p2p {

// A program may start any number of sends that its receiver takes in another order, so the description of one must be
// had when nothing else is: short ones then, from the reserve and at last from the annex.
Offset Rendezvous::take_transfer() {
  if (free_transfers_.empty() && free_short_transfers_.empty()) sweep();
  for (std::vector<Offset>* list : {&free_transfers_, &free_short_transfers_}) {
    if (list->empty()) continue;
    const Offset offset = list->back();
    list->pop_back();
    return offset;
  }
  uint16_t window = kCellWindow;
  shm::Arena& arena = channels_.arena();
  Offset offset = channels_.may_grow(sizeof(TransferShm)) ? arena.allocate(sizeof(TransferShm)) : kNoOffset;
  if (offset == kNoOffset) {
    window = kShortWindow;
    offset = arena.allocate_reserve(TransferShm::size_bytes(window), channels_.first_rings_bytes());
    if (offset == kNoOffset) offset = channels_.annex().allocate(TransferShm::size_bytes(window));
  }
  if (offset != kNoOffset) at<TransferShm>(channels_.base(), offset)->window = window;
  return offset;
}

void Rendezvous::give_transfer(Offset offset) {
  const bool whole = at<TransferShm>(channels_.base(), offset)->window == kCellWindow;
  (whole ? free_transfers_ : free_short_transfers_).push_back(offset);
}

namespace {
Direct as_asked(Copier copier, Direct measured) {
  switch (copier) {
    case Copier::kReceive:
      return Direct::kReceiverAlone;
    case Copier::kWait:
      return Direct::kWaiter;
    case Copier::kLater:
      return Direct::kLater;
    case Copier::kBoth:
      break;
  }
  return measured;
}
}  // namespace

// Transfers that both ends have left can be used again.
void Rendezvous::sweep() {
  for (size_t i = 0; i < ended_.size();) {
    // L1 -> L0: the receiver's last access.
    if (at<TransferShm>(channels_.base(), ended_[i])->released.load_acquire() == 0) {
      ++i;
      continue;
    }
    ZH_CHECK_INVARIANT(at<TransferShm>(channels_.base(), ended_[i])->broken_invariant());
    give_transfer(ended_[i]);
    ended_[i] = ended_.back();
    ended_.pop_back();
  }
}

Direct Rendezvous::direct_for(const Request* r, const TransferShm& t) {
  const auto dest = static_cast<uint32_t>(r->peer);
  const Channel& peer = channels_[dest];
  const bool to_self = dest == channels_.self();
  const uint64_t n = r->message_bytes;
  const bool reachable = t.source.reachable();
  const uint64_t least = r->is_cold ? peer.choice.single_copy_min_cold : peer.choice.single_copy_min;
  const bool single = memory_.kernel(dest) && reachable && n >= least;
  Direct direct = Direct::kCells;
  if ((to_self && reachable) || t.source.mapped() || (single && n >= peer.choice.both_ends_min)) {
    direct = Direct::kBoth;
  } else if (single) {
    direct = peer.choice.sender_copies ? Direct::kSender : Direct::kReceiver;
  }
  if (direct != Direct::kCells && !to_self) direct = as_asked(channels_.config().ablations.copier, direct);
  if (direct != Direct::kCells && !to_self && channels_.config().skew != 0 && n <= kSkewBytesMax &&
      peer.part->state.skewed.load_relaxed() != 0) {
    direct = Direct::kCells;
    ++channels_.counters().skew_detours;
  }
  return direct;
}

Submitted Rendezvous::offer(Request* r) {
  Channel& peer = channels_[r->peer];
  shm::EnvelopeShm* slot = channels_.claim_slot(peer);
  if (slot == nullptr) return Submitted::kNoRoom;
  const Offset offset = take_transfer();
  if (offset == kNoOffset) return Submitted::kNoMemory;
  auto* t = at<TransferShm>(channels_.base(), offset);
  const uint64_t n = r->buffer.bytes;
  describe(r, r->peer, n, true, &t->source);
  t->sender = static_cast<uint16_t>(channels_.self());
  t->receiver = static_cast<uint16_t>(r->peer);
  t->state.store_relaxed(static_cast<uint32_t>(TransferState::kOffered));
  t->released.store_relaxed(0);
  t->claim.reset(t->source.from());
  t->pushed.store_relaxed(0);
  t->published.store_relaxed(0);
  t->pulled.store_relaxed(0);
  t->consumed.store_relaxed(0);
  t->returned.store_relaxed(static_cast<uint32_t>(Returned::kNothing));
  t->direct = static_cast<uint8_t>(direct_for(r, *t));
  // The edges of a mapped buffer follow the envelope at once, so that a receiver can take the rest alone.
  r->carry[0] = {0, t->source.from()};
  r->carry[1] = {t->source.end(), n - t->source.end()};
  channels_.counters().edge_bytes += r->carry_bytes();
  note_unpullable(r, *t);
  r->transfer = offset;
  r->stage = Stage::kTransfer;
  r->parked = sends_.size >= kSendsLookedAt;
  t->parked = r->parked ? 1 : 0;
  t->request = r->index;
  channels_.counters().parked += t->parked;
  address(slot, Kind::kTransfer, *r);
  slot->far.bytes = n;
  slot->far.where = offset;
  r->number = peer.out.write_pos() + 1;
  ZH_CRASH_POINT("transfer: slot filled");
  ZH_CHECK_INVARIANT(t->broken_invariant());
  channels_.publish(peer, slot);
  ZH_CRASH_POINT("transfer: offered");
  list_of(r).push_back(r);
  Channels::wake(peer);
  return Submitted::kYes;
}

void Rendezvous::begin(Request* r) {
  const TransferShm& t = transfer_of(r);
  advance_send(r, t.offered() == Direct::kWaiter || (t.offered() != Direct::kLater && pullable(t)));
}

void Rendezvous::join(Request* r, const MessageShm& m) {
  if (!channels_.node().open(m.far.where)) {
    requests_.fail(r, Code::kNoMemory);
    return;
  }
  auto* t = at<TransferShm>(channels_.base(), m.far.where);
  prefetch_for_write(&t->target);
  r->plain = false;
  r->transfer = m.far.where;
  r->message_bytes = m.bytes();
  r->number = m.number;
  r->began_ticks = channels_.begun_ticks();
  const TransferState how = r->stage == Stage::kPosted ? TransferState::kMatched : TransferState::kFound;
  r->stage = Stage::kTransfer;
  if (t->load_state() == TransferState::kOffered) {  // T0 -> T1
    requests_.drop_layout(r);
    describe(r, r->peer, std::min(r->message_bytes, r->buffer.bytes), true, &t->target);
    ZH_CRASH_POINT("transfer: target described");
    t->store_matched(how);  // T1 -> T0
    if (t->parked != 0) channels_[m.sender].part->state.matched.tell(t->request);
    Channels::wake(channels_[m.sender]);
  }
  recvs_.push_back(r);
  in_vain_ = false;  // for this one nobody has waited yet
  // What the sender may copy as well comes with a turn, once more of what is there is matched: each end then copies
  // others. Of a dead one what it has left is taken now.
  const Direct copiers = t->copiers();
  const bool dead = channels_[m.sender].dead;
  if (!dead && (copiers == Direct::kBoth || copiers == Direct::kSender || copiers == Direct::kWaiter)) return;
  advance_receive(r);
  if (!dead || r->stage != Stage::kTransfer) return;
  recvs_.remove(r);
  requests_.fail(r, Code::kPeerDead);
}

void Rendezvous::finish_send(Request* r) {
  const TransferShm& t = transfer_of(r);
  Counters& counters = channels_.counters();
  const uint64_t pulled = t.pulled.load_relaxed();
  if (r->moved_direct != 0 && pulled != 0) {
    ++counters.copies_by_both;
  } else if (r->moved_direct != 0) {
    ++counters.copies_by_sender;
  } else if (pulled != 0) {
    ++counters.copies_by_receiver;
  }
  Path path = r->path;
  if (pulled != 0 && r->moved_direct == 0) {
    path = t.sender == t.receiver ? Path::kSelf : t.source.mapped() ? Path::kMapped : kernel_path(t.receiver);
  }
  if (path == Path::kMapped) ++(r->moved_direct != 0 && pulled != 0 ? counters.mapped_by_both : counters.mapped_by_one);
  channels_.count_sent(static_cast<uint32_t>(r->peer), path, r->message_bytes);
  channels_.note(Event::Kind::kSent, path, t.receiver, *r, r->message_bytes, r->number, r->began_ticks);
  list_of(r).remove(r);
  ended_.push_back(r->transfer);
  requests_.complete(r);
}

void Rendezvous::finish_receive(Request* r) {
  TransferShm& t = transfer_of(r);
  const bool direct = r->moved_direct != 0 || t.pushed.load_relaxed() != 0;
  const Path path = !direct                                  ? Path::kCells
                    : t.sender == channels_.self()           ? Path::kSelf
                    : t.source.mapped() || t.target.mapped() ? Path::kMapped
                                                             : kernel_path(t.sender);
  channels_.counters().count_received(path, r->message_bytes);
  r->tag = r->result.tag;
  channels_.note(Event::Kind::kReceived, path, t.sender, *r, r->message_bytes, r->number, r->began_ticks);
  if (memory_.revoked(t.sender, t.source)) ++channels_.counters().revoked;
  recvs_.remove(r);
  ZH_CHECK_INVARIANT(t.broken_invariant());
  ZH_CRASH_POINT("transfer: not yet left");
  Channel& sender = channels_[uint32_t{t.sender}];
  sender.note_written(direct ? 0 : r->result.bytes);
  // L0 -> L1: the last access to the transfer.
  t.released.store_release(1);
  Channels::wake(sender);
  requests_.complete(r);
}

void Rendezvous::drop(Request* r) {
  const TransferShm& t = transfer_of(r);
  // P0 -> P1: own writes; the label pairs with put_cell().
  const uint32_t published = t.published.load_acquire();
  for (uint32_t i = 0; i < published; ++i) shm::release_block(channels_.base(), t.cells[i % t.window].block);
  list_of(r).remove(r);
  give_transfer(r->transfer);
}

// The description names the program's buffer. It may be changed as long as the receiver has not taken the message out
// of its queue, which only happens under its lock. What of it lies in cells stays there.
void Rendezvous::offer_copy(TransferShm* t, const Request& twin) {
  const uint64_t from = t->source.from();
  const uint64_t end = t->source.end();
  t->source.set_private(twin.own_copy, twin.message_bytes);
  t->source.set_span(from, end);
  // The kernel's module has not been told of the copy.
  if (memory_.lets_in(t->receiver) && !memory_.by_cma(t->receiver)) t->source.layout = copy::kHiddenLayout;
  const bool single = memory_.kernel(t->receiver) && t->source.reachable();
  t->direct = static_cast<uint8_t>(single ? Direct::kReceiver : Direct::kCells);
  t->request = twin.index;
  ZH_CHECK_INVARIANT(t->broken_invariant());
  ZH_CRASH_POINT("buffer: offer changed");
}

void Rendezvous::replace(Request* r, Request* twin) {
  twin->transfer = r->transfer;
  twin->parked = r->parked;
  twin->finished = r->finished;
  twin->number = r->number;
  twin->began_ticks = r->began_ticks;
  twin->carry[0] = r->carry[0];
  twin->carry[1] = r->carry[1];
  list_of(r).replace(r, twin);
  note_unpullable(twin, transfer_of(twin));
}

void Rendezvous::fail_dead() {
  for (RequestList* list : {&sends_, &parked_, &recvs_}) {
    list->for_each([&](Request* r) {
      if (!channels_[r->peer].dead) return;
      if (list == &recvs_) advance_receive(r);
      if (r->stage != Stage::kTransfer) return;
      list->remove(r);
      requests_.fail(r, Code::kPeerDead);
    });
  }
}

}  // namespace zh::p2p
