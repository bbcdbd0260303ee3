// Collectives of neighbourhoods. Nothing here needs to know what other ranks send each other.
#include "coll/algorithms/neighbor.h"

#include <algorithm>

#include "coll/algorithms/families.h"

namespace zh::coll {
namespace {

constexpr size_t kNeighborsUnderWay = 16;  // sends at a time: more only crowd queues and cells

/// Everything at once, as far as the cap on sends lets it. Receives have none: then each rank takes what any neighbour
/// sends next, and no circle of neighbours waits for ever. Pieces without bytes are messages, too: what one end calls
/// empty the other may not, which is an error, but need not be a wait without end.
void neighbor_linear(Builder& b, const Problem& p) {
  for (uint32_t i = 0; i < p.sources.size(); ++i) {
    if (p.sources[i] == p.self) continue;
    const Range to = p.recv_piece(i);
    if (to.bytes > 0) {
      b.receive(p.sources[i], to);
    } else {
      b.await(p.sources[i]);
    }
  }
  std::vector<uint32_t> sent;
  for (uint32_t i = 0; i < p.destinations.size(); ++i) {
    if (p.destinations[i] == p.self) continue;
    const Range from = p.send_piece(i);
    const uint32_t before = sent.size() < kNeighborsUnderWay ? kNoStep : sent[sent.size() - kNeighborsUnderWay];
    sent.push_back(from.bytes > 0 ? b.send(p.destinations[i], from, {before}) : b.signal(p.destinations[i], {before}));
  }
  each_own_edge(p.sources, p.destinations, p.self, [&](uint32_t to, uint32_t from) {
    const Range given = p.send_piece(to);
    const Range taken = p.recv_piece(from);
    const uint64_t bytes = std::min(given.bytes, taken.bytes);
    b.copy(given.part(0, bytes), taken.part(0, bytes));
  });
}

constexpr Algorithm kNeighborAlgorithms[] = {
    {"linear", "every rank with its neighbours, 16 sends at a time", "MPI standard 8.6", always, neighbor_linear},
};

}  // namespace

std::span<const Algorithm> neighbor_algorithms() { return kNeighborAlgorithms; }

}  // namespace zh::coll
