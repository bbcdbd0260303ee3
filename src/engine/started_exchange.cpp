// See started_exchange.h.
#include "engine/started_exchange.h"

#include <tuple>
#include <utility>

namespace zh::engine {

namespace {

using coll::Collective;

/// Whose contributions rank `self` takes.
std::pair<uint32_t, uint32_t> givers_of(const coll::Problem& p) {
  const std::pair<uint32_t, uint32_t> nobody{0, 0};
  switch (p.collective) {
    case Collective::kBcast:
      return p.self == p.root ? nobody : std::pair{p.root, p.root + 1};
    case Collective::kScatter:
      return p.in_place ? nobody : std::pair{p.root, p.root + 1};
    case Collective::kReduce:
    case Collective::kGather:
      return p.self == p.root ? std::pair{0U, p.ranks()} : nobody;
    case Collective::kScan:
      return {0, p.self + 1};
    case Collective::kExscan:
      return {0, p.self};
    default:
      return {0, p.ranks()};
  }
}

/// Where the contribution of rank `self` lies.
const void* given(const coll::Problem& p, const coll::Call& buffers) {
  if (!p.in_place || p.collective == Collective::kScatter) return buffers.input;
  // In place the own piece is among the others'.
  const bool gathers = p.collective == Collective::kGather || p.collective == Collective::kAllgather;
  return static_cast<const std::byte*>(buffers.output) + (gathers ? p.self * p.bytes() : 0);
}

}  // namespace

coll::Exchange exchange_of(const coll::Problem& p, uint64_t number, const coll::Call& buffers) {
  coll::Exchange call;
  call.number = number;
  call.gives = (p.collective != Collective::kBcast && p.collective != Collective::kScatter) || p.self == p.root;
  if (call.gives) call.give = given(p, buffers);
  std::tie(call.first, call.end) = givers_of(p);
  call.pieces = pieces_of(p);
  call.piece = call.pieces == 1 ? 0 : p.self;
  call.bytes = p.bytes();
  call.out = buffers.output;
  if (coll::reduces(p.collective)) call.how = buffers.how;
  return call;
}

}  // namespace zh::engine
