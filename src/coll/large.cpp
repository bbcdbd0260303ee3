// Collectives of large contributions: every member says where its memory is, and the bytes are moved once, by whoever
// needs them or has them. A member returns when nobody reads or writes its memory any more.
#include <algorithm>

#include "coll/team_state.h"

namespace zh::coll {

// Two members are a message's two ends, and both of them copy.
Code Team::State::large_bcast(const copy::Buffer& data, uint32_t root) {
  if (const Code code = begin(); code != Code::kOk) return code;
  if (size == 2) {
    const Code code = transfer(self == root ? start_send(1 - self, data) : start_recv(root, data));
    end();
    return code;
  }
  if (self == root) {
    const std::byte* const source = contiguous(data);
    if (source == nullptr) return Code::kNoMemory;
    if (const Code code = offer(source, data.bytes, nullptr, 0); code != Code::kOk) return code;
    end();
    const Code code = await_done();
    packed.shrink();
    return code;
  }
  if (const Code code = await(root); code != Code::kOk) return code;
  const Code code = throttled(root, slot(root).source, [&] { return read_into(root, 0, data.bytes, data); });
  if (code == Code::kOk) end();
  return code;
}

// The members write, all at once, into the root's buffer.
Code Team::State::large_gather(const copy::Buffer& send, const Pieces& recv, uint32_t root) {
  if (const Code code = begin(); code != Code::kOk) return code;
  if (size == 2) {
    p2p::Request* const message = self == root ? start_recv(1 - self, recv[1 - self]) : start_send(root, send);
    if (self == root) copy_own(recv[self], send);  // while the other end copies
    const Code code = transfer(message);
    end();
    return code;
  }
  const uint64_t n = send.bytes;
  if (self != root) {
    if (const Code code = await(root); code != Code::kOk) return code;
    const std::byte* const source = contiguous(send);
    if (source == nullptr) return Code::kNoMemory;
    const SlotShm& theirs = slot(root);
    const Code code = throttled(root, theirs.target, [&] { return write(root, self * theirs.stride, n, source); });
    if (code == Code::kOk) end();
    return code;
  }
  const bool direct = recv.first.layout == nullptr && recv.stride >= static_cast<int64_t>(n);
  std::byte* const target = direct ? recv.first.base : packed.get(n * size);
  const uint64_t stride = direct ? static_cast<uint64_t>(recv.stride) : n;
  if (target == nullptr) return Code::kNoMemory;
  const uint64_t extent = stride * (size - 1) + n;
  if (const Code code = offer(nullptr, 0, target, extent, stride, stride != n); code != Code::kOk) return code;
  copy_own(recv[self], send);
  end();
  const Code code = await_done();
  for (uint32_t i = 0; i < size && code == Code::kOk; ++i) {
    if (i == self) continue;
    take_edges(i * stride, n);
    if (!direct) scatter_bytes(recv[i], target + i * stride, n);
  }
  packed.shrink();
  return code;
}

Code Team::State::large_scatter(const Pieces& send, const copy::Buffer& recv, uint32_t root) {
  if (const Code code = begin(); code != Code::kOk) return code;
  if (size == 2) {
    p2p::Request* const message = self == root ? start_send(1 - self, send[1 - self]) : start_recv(root, recv);
    if (self == root) copy_own(recv, send[self]);  // while the other end copies
    const Code code = transfer(message);
    end();
    return code;
  }
  if (self == root) {
    uint64_t stride = 0;
    const std::byte* const source = contiguous(send, &stride);
    if (source == nullptr) return Code::kNoMemory;
    const uint64_t extent = stride * (size - 1) + send.first.bytes;
    const bool gaps = stride != send.first.bytes;
    if (const Code code = offer(source, extent, nullptr, 0, stride, gaps); code != Code::kOk) return code;
    copy_own(recv, send[self]);
    end();
    const Code code = await_done();
    packed.shrink();
    return code;
  }
  if (const Code code = await(root); code != Code::kOk) return code;
  const SlotShm& theirs = slot(root);
  const Code code =
      throttled(root, theirs.source, [&] { return read_into(root, self * theirs.stride, recv.bytes, recv); });
  if (code == Code::kOk) end();
  return code;
}

Code Team::State::large_allgather(const copy::Buffer& send, const Pieces& recv) {
  if (const Code code = begin(); code != Code::kOk) return code;
  const std::byte* const source = contiguous(send);
  if (source == nullptr) return Code::kNoMemory;
  if (const Code code = offer(source, send.bytes, nullptr, 0); code != Code::kOk) return code;
  copy_own(recv[self], send);
  for (uint32_t k = 1; k < size; ++k) {
    const uint32_t i = after_self(k);
    if (const Code code = await(i); code != Code::kOk) return code;
    if (const Code code = read_into(i, 0, send.bytes, recv[i]); code != Code::kOk) return code;
  }
  end();
  const Code code = await_done();
  packed.shrink();
  return code;
}

// Pairwise: in step k everyone reads from the member k places on, so that no memory has two readers at once for long.
Code Team::State::large_alltoall(const Pieces& send, const Pieces& recv) {
  if (const Code code = begin(); code != Code::kOk) return code;
  const uint64_t n = send.first.bytes;
  uint64_t stride = 0;
  const std::byte* const source = contiguous(send, &stride);
  if (source == nullptr) return Code::kNoMemory;
  const uint64_t extent = stride * (size - 1) + n;
  if (const Code code = offer(source, extent, nullptr, 0, stride, stride != n); code != Code::kOk) return code;
  copy_own(recv[self], send[self]);
  for (uint32_t k = 1; k < size; ++k) {
    const uint32_t i = after_self(k);
    if (const Code code = await(i); code != Code::kOk) return code;
    if (const Code code = read_into(i, self * slot(i).stride, n, recv[i]); code != Code::kOk) return code;
  }
  end();
  const Code code = await_done();
  packed.shrink();
  return code;
}

}  // namespace zh::coll
