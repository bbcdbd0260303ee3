// Collectives that move data whose pieces are alike, and MPI_Allgather in both kinds. Whoever gives says in its slot
// how, and how much; whoever takes goes by that, and not by the length that it expects itself: so members who disagree
// on a length find out, and nobody waits for what does not come. A member returns when nobody reads or writes its
// memory any more.
#include <algorithm>

#include "coll/team/team_state.h"

namespace zh::coll {

// --- Giving

Code Team::State::give(const copy::Buffer& send, bool copied) {
  if (!copied) {
    const std::byte* const source = contiguous(send);
    return source == nullptr ? decline() : offer(source, send.bytes, nullptr, 0);
  }
  if (const Code code = contribute(send, false); code != Code::kOk) return code;
  publish();
  return Code::kOk;
}

Code Team::State::give_pieces(const Pieces& send, bool copied) {
  const uint64_t n = send.first.bytes;
  if (!copied) {
    uint64_t stride = 0;
    const std::byte* const source = contiguous(send, &stride);
    return source == nullptr ? decline() : offer(source, stride * (size - 1) + n, nullptr, 0, stride, n);
  }
  std::byte* out = nullptr;
  if (const Code code = claim(n * size, false, &out); code != Code::kOk) return code;
  for (uint32_t i = 0; i < size; ++i) {
    if (i != self) gather_bytes(out + i * n, send[i], n, store_of(n));
  }
  publish();
  return Code::kOk;
}

Code Team::State::end_given() {
  const ContributionWay way = slot(self).way;
  end();
  if (way != ContributionWay::kMemory && way != ContributionWay::kMemoryTable) return Code::kOk;
  const Code code = await_done();
  packed.shrink();
  return code;
}

// --- Messages: both ends copy, and where ranks outnumber CPUs a sender need not wait for its receiver.

Code Team::State::start_message(uint32_t member, const copy::Buffer& data, p2p::Request** out) {
  ContributionShm* mine = nullptr;
  if (const Code code = own_slot(&mine); code != Code::kOk) return code;
  *out = services.send(members[member], context, message_tag(), data, p2p::SendMode::kStandard);
  if (*out == nullptr) return decline();
  mine->way = ContributionWay::kMessage;
  mine->bytes = data.bytes;
  publish();
  return Code::kOk;
}

p2p::Request* Team::State::start_receive(uint32_t member, const copy::Buffer& recv) {
  return services.recv(members[member], context, message_tag(), recv);
}

Code Team::State::await_taken(uint32_t member, p2p::Request* message) {
  const ContributionShm& theirs = slot(member);
  auto settled = [&] {
    // CS1 <- CS0
    return services.done(message) || (theirs.seq.load_acquire() == seq && theirs.way == ContributionWay::kNothing);
  };
  if (const Code code = turn_until(settled, member); code != Code::kOk) return code;
  if (services.done(message)) return finish(message, 0);
  services.abandon(message);
  return Code::kOk;
}

Code Team::State::await_message(uint32_t member, p2p::Request* message, uint64_t room, bool* came) {
  if (message == nullptr) return Code::kNoMemory;
  const ContributionShm& theirs = slot(member);
  auto settled = [&] {
    // CS1 <- CS0
    return services.done(message) || (theirs.seq.load_acquire() == seq && theirs.way != ContributionWay::kMessage);
  };
  if (const Code code = turn_until(settled, member); code != Code::kOk) return code;
  *came = services.done(message);
  if (*came) return finish(message, room);
  services.abandon(message);
  return Code::kOk;
}

// --- Taking

Code Team::State::take(uint32_t member, const copy::Buffer& recv, uint32_t k, uint32_t pieces) {
  const Code code = await(member);
  return code == Code::kOk ? take_arrived(member, recv, k, pieces) : code;
}

Code Team::State::take_arrived(uint32_t member, const copy::Buffer& recv, uint32_t k, uint32_t pieces) {
  const ContributionShm& theirs = slot(member);
  switch (theirs.way) {
    case ContributionWay::kInline:
    case ContributionWay::kRing: {
      const uint64_t bytes = theirs.bytes == recv.bytes * pieces ? recv.bytes : theirs.bytes / pieces;
      scatter_bytes(recv, contents(member) + k * bytes, fit(bytes, recv.bytes));
      return Code::kOk;
    }
    case ContributionWay::kMemory: {
      const uint64_t n = fit(theirs.bytes, recv.bytes);
      return n == 0 ? Code::kOk : read_into(member, k * theirs.stride, n, recv);
    }
    case ContributionWay::kMessage:
      return transfer(member, start_receive(member, recv), recv.bytes);
    default:
      fail(theirs.way == ContributionWay::kWritten && theirs.bytes > recv.bytes ? Code::kTruncated : Code::kInvalid);
      return Code::kOk;
  }
}

// A message is asked for before its sender is there, so that both copy.
Code Team::State::take_from_root(uint32_t root, const copy::Buffer& recv, uint32_t k, uint32_t pieces, bool message) {
  if (size == 2 && message) {
    bool came = false;
    const Code code = await_message(root, start_receive(root, recv), recv.bytes, &came);
    if (code == Code::kNoMemory) return decline();  // the root waits until its message is taken
    if (code != Code::kOk || came) return code;
  } else if (const Code code = await(root); code != Code::kOk) {
    return code;
  }
  return take_arrived_at_once(root, recv, k, pieces);
}

Code Team::State::take_arrived_at_once(uint32_t root, const copy::Buffer& recv, uint32_t k, uint32_t pieces) {
  const ContributionShm& theirs = slot(root);
  if (theirs.way != ContributionWay::kMemory) return take_arrived(root, recv, k, pieces);
  return throttled(root, theirs.source, [&] { return take_arrived(root, recv, k, pieces); });
}

Code Team::State::take_relayed(uint32_t root, const copy::Buffer& recv) {
  uint32_t from = root;
  const Code code = await_relayed(root, &from);
  return code == Code::kOk ? take_arrived_at_once(from, recv, 0, 1) : code;
}

Code Team::State::await_relayed(uint32_t root, uint32_t* from) {
  *from = root;
  if (leaders.empty() || leaders[self] == leaders[root]) return await(root);
  const uint32_t leader = leaders[self];
  if (self != leader) {
    uint32_t looks = 0;
    auto has_come = [&] {
      // CS1 <- CS0
      if (slot(leader).seq.load_acquire() == seq) {
        if (slot(leader).way != ContributionWay::kWithRoot) *from = leader;
        return true;
      }
      return ++looks % kLooksPerRoot == 0 && slot(root).seq.load_acquire() == seq;  // CS1 <- CS0
    };
    return wait(has_come, root);
  }
  if (const Code code = await(root); code != Code::kOk) return code;
  ContributionShm* mine = nullptr;
  if (const Code code = own_slot(&mine); code != Code::kOk) return code;
  const ContributionShm& theirs = slot(root);
  mine->way = theirs.way == ContributionWay::kInline ? theirs.way : ContributionWay::kWithRoot;
  mine->bytes = theirs.bytes;
  if (mine->way == ContributionWay::kInline) std::memcpy(mine->payload, theirs.payload, mine->bytes);
  publish();
  return Code::kOk;
}

// --- The collectives

Code Team::State::even_bcast(const copy::Buffer& data, uint32_t root) {
  if (const Code code = begin(); code != Code::kOk) return code;
  const NodeWay way = node_way(Collective::kBcast, data.bytes, facts);
  if (self != root) {
    const Code code =
        size >= kRelayedMembers ? take_relayed(root, data) : take_from_root(root, data, 0, 1, way == NodeWay::kMessage);
    if (code == Code::kOk) end();
    return code;
  }
  if (way != NodeWay::kMessage) {
    const Code code = give(data, way == NodeWay::kSmall);
    return code == Code::kOk ? end_given() : code;
  }
  p2p::Request* message = nullptr;
  if (const Code code = start_message(1 - self, data, &message); code != Code::kOk) return code;
  const Code code = await_taken(1 - self, message);
  end();
  return code;
}

Code Team::State::even_gather(const copy::Buffer& send, const Pieces& recv, uint32_t root) {
  if (const Code code = begin(); code != Code::kOk) return code;
  const NodeWay way = node_way(Collective::kGather, self == root ? recv.first.bytes : send.bytes, facts);
  if (self != root) return give_to_root(send, root, way);
  if (way == NodeWay::kLarge) return gather_by_writing(send, recv);
  // Messages are asked for before they come, so that both ends copy.
  for (uint32_t i = 0; i < size; ++i) {
    pieces_under_way[i] = way == NodeWay::kMessage && i != self ? start_receive(i, recv[i]) : nullptr;
  }
  copy_own(recv[self], send);  // while others copy
  bool waited_for = false;
  for (uint32_t i = 0; i < size; ++i) {
    if (i == self) continue;
    bool came = false;
    if (pieces_under_way[i] != nullptr) {
      const Code code = await_message(i, pieces_under_way[i], recv.first.bytes, &came);
      if (code != Code::kOk) return code;
    }
    if (came) continue;
    const Code code = take(i, recv[i], 0, 1);
    if (code == Code::kNoMemory) fail(code);
    if (code != Code::kOk && code != Code::kNoMemory) return code;
    if (i == (self == 0 ? 1 : 0)) ask_for_slots(1);
    waited_for = waited_for || code == Code::kNoMemory || slot(i).way == ContributionWay::kWritten;
  }
  if (waited_for) {
    if (const Code code = contribute_nothing(); code != Code::kOk) return code;
  }
  all_arrived();
  end();
  return Code::kOk;
}

// What is large goes into the root's memory, once that says where. A root without room for it says nothing, and finds
// the length in this rank's slot.
Code Team::State::give_to_root(const copy::Buffer& send, uint32_t root, NodeWay way) {
  if (way == NodeWay::kSmall) {
    const Code code = give(send, true);
    if (code == Code::kOk) end();
    return code;
  }
  if (way == NodeWay::kMessage) {
    p2p::Request* message = nullptr;
    if (const Code code = start_message(root, send, &message); code != Code::kOk) return code;
    const Code code = await_taken(root, message);
    end();
    return code;
  }
  const std::byte* const source = contiguous(send);
  if (source == nullptr) return decline();
  ContributionShm* mine = nullptr;
  if (const Code code = own_slot(&mine); code != Code::kOk) return code;
  mine->way = ContributionWay::kWritten;
  mine->bytes = send.bytes;
  publish();
  if (const Code code = await(root); code != Code::kOk) return code;
  const ContributionShm& theirs = slot(root);
  if (theirs.way == ContributionWay::kMemory) {
    const uint64_t n = std::min(send.bytes, theirs.bytes);
    const Code code = throttled(root, theirs.target, [&] { return write(root, self * theirs.stride, n, source); });
    if (code != Code::kOk) return code;
  }
  end();
  return Code::kOk;
}

// The members write, all at once, into the root's buffer.
Code Team::State::gather_by_writing(const copy::Buffer& send, const Pieces& recv) {
  const uint64_t n = recv.first.bytes;
  const bool direct = recv.first.layout == nullptr && recv.stride >= static_cast<int64_t>(n);
  std::byte* const target = direct ? recv.first.base : packed.get(n * size);
  const uint64_t stride = direct ? static_cast<uint64_t>(recv.stride) : n;
  if (target == nullptr) return decline();
  if (const Code code = offer(nullptr, 0, target, stride * (size - 1) + n, stride, n); code != Code::kOk) return code;
  copy_own(recv[self], send);
  Code code = await_done();
  for (uint32_t i = 0; i < size && code == Code::kOk; ++i) {
    if (i == self) continue;
    if (slot(i).way != ContributionWay::kWritten) {
      code = take_arrived(i, recv[i], 0, 1);
      continue;
    }
    const uint64_t came = fit(slot(i).bytes, n);
    take_edges(i * stride, came);
    if (!direct) scatter_bytes(recv[i], target + i * stride, came);
  }
  end();
  packed.shrink();
  return code;
}

Code Team::State::even_scatter(const Pieces& send, const copy::Buffer& recv, uint32_t root) {
  if (const Code code = begin(); code != Code::kOk) return code;
  const NodeWay way = node_way(Collective::kScatter, self == root ? send.first.bytes : recv.bytes, facts);
  if (self != root) {
    const Code code = take_from_root(root, recv, self, size, way == NodeWay::kMessage);
    if (code == Code::kOk) end();
    return code;
  }
  if (way == NodeWay::kMessage) return scatter_by_messages(send, recv);
  if (const Code code = give_pieces(send, way == NodeWay::kSmall); code != Code::kOk) return code;
  copy_own(recv, send[self]);
  return end_given();
}

Code Team::State::scatter_by_messages(const Pieces& send, const copy::Buffer& recv) {
  ContributionShm* mine = nullptr;
  if (const Code code = own_slot(&mine); code != Code::kOk) return code;
  bool whole = true;
  for (uint32_t i = 0; i < size; ++i) {
    pieces_under_way[i] = nullptr;
    if (i == self || !whole) continue;
    pieces_under_way[i] = services.send(members[i], context, message_tag(), send[i], p2p::SendMode::kStandard);
    whole = pieces_under_way[i] != nullptr;
  }
  if (!whole) {
    for (p2p::Request* const message : pieces_under_way) {
      if (message != nullptr) services.abandon(message);
    }
    return decline();
  }
  mine->way = ContributionWay::kMessage;
  mine->bytes = send.first.bytes;
  publish();
  copy_own(recv, send[self]);  // while others copy
  for (uint32_t i = 0; i < size; ++i) {
    if (pieces_under_way[i] == nullptr) continue;
    if (const Code code = await_taken(i, pieces_under_way[i]); code != Code::kOk) return code;
  }
  end();
  return Code::kOk;
}

Code Team::State::gather_all(const copy::Buffer& send, const Pieces& recv) {
  if (const Code code = begin(); code != Code::kOk) return code;
  const NodeWay way = node_way(Collective::kAllgather, send.bytes, facts);
  if (way == NodeWay::kMessage) {
    copy_own(recv[self], send);
    return exchange(send, recv[1 - self], 0, 1);
  }
  if (const Code code = give(send, way == NodeWay::kSmall); code != Code::kOk) return code;
  copy_own(recv[self], send);
  return take_from_others([&](uint32_t i) { return take(i, recv[i], 0, 1); });
}

// Both pieces are under way at once. A member that means another length may contribute in another way, and is taken
// from in that.
Code Team::State::exchange(const copy::Buffer& send, const copy::Buffer& recv, uint32_t k, uint32_t pieces) {
  const uint32_t other = 1 - self;
  p2p::Request* const theirs = start_receive(other, recv);
  if (theirs == nullptr) return decline();
  p2p::Request* mine = nullptr;
  if (const Code code = start_message(other, send, &mine); code != Code::kOk) {
    services.abandon(theirs);
    return code;
  }
  bool came = false;
  Code code = await_message(other, theirs, recv.bytes, &came);
  if (code == Code::kOk && !came) code = take_arrived(other, recv, k, pieces);
  if (code != Code::kOk) return code;
  all_arrived();
  code = await_taken(other, mine);
  end();
  return code;
}

// Pairwise: in step k everyone reads from the member k places on, so that no memory has two readers at once for long.
Code Team::State::even_alltoall(const Pieces& send, const Pieces& recv) {
  if (const Code code = begin(); code != Code::kOk) return code;
  const NodeWay way = node_way(Collective::kAlltoall, send.first.bytes, facts);
  if (way == NodeWay::kMessage) {
    copy_own(recv[self], send[self]);
    return exchange(send[1 - self], recv[1 - self], self, size);
  }
  if (const Code code = give_pieces(send, way == NodeWay::kSmall); code != Code::kOk) return code;
  copy_own(recv[self], send[self]);
  return take_from_others([&](uint32_t i) { return take(i, recv[i], self, size); });
}

}  // namespace zh::coll
