// Collectives of neighbourhoods (MPI standard 8.6): what each hands to a schedule and to the host, as call_data.h has
// it of the others, and a blocking call to a team. Called by wrap_coll.cpp and wrap_coll_start.cpp.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "coll/algorithms/neighbor.h"
#include "coll/team/team.h"
#include "mpi/coll/collective_operation.h"
#include "mpi/coll/neighborhood.h"
#include "mpi/coll/peers.h"

namespace zh::mpi::calls {

/// The entries of a list that are of a neighbour.
template <typename T>
std::vector<T> picked(const T* list, const std::vector<int32_t>& used) {
  std::vector<T> out;
  out.reserve(used.size());
  for (const int32_t i : used) out.push_back(list[i]);
  return out;
}

// The blocks of the neighbours, judged. Those of MPI_PROC_NULL may be anything.

template <typename N>
int judge_blocks(const Data<N>& data, const Neighborhood::Side& side, MPI_Comm comm, std::vector<Elements>* out) {
  Elements first;
  ZH_STEP(judge(data, comm, &first));
  out->assign(side.used.size(), first);
  for (size_t i = 0; i < out->size(); ++i) {
    const auto at = reinterpret_cast<intptr_t>(first.buf) + side.used[i] * first.count * first.type->extent;
    (*out)[i].buf = reinterpret_cast<std::byte*>(at);
  }
  return kGoOn;
}
template <typename N>
int judge_blocks(const Listed<N>& list, const Neighborhood::Side& side, MPI_Comm comm, std::vector<Elements>* out) {
  const auto counts = picked(list.counts, side.used);
  const auto places = picked(list.places, side.used);
  out->resize(side.used.size());
  return judge(Listed<N>(list.buf, counts.data(), places.data(), list.type), static_cast<int32_t>(out->size()), comm,
               out->data());
}
template <typename N>
int judge_blocks(const TypedFar<N>& list, const Neighborhood::Side& side, MPI_Comm comm, std::vector<Elements>* out) {
  const auto counts = picked(list.counts, side.used);
  const auto places = picked(list.places, side.used);
  const auto types = picked(list.types, side.used);
  out->resize(side.used.size());
  return judge(TypedFar<N>(list.buf, counts.data(), places.data(), types.data(), list.root),
               static_cast<int32_t>(out->size()), comm, out->data());
}

/// A buffer with a block for each neighbour of one side. Without neighbours it may be anything.
template <typename Group>
int open_blocks(const Group& group, const Neighborhood::Side& side, MPI_Comm comm, HeldBuffer* out) {
  if (side.used.empty()) return kGoOn;
  std::vector<Elements> blocks;
  ZH_STEP(judge_blocks(group, side, comm, &blocks));
  return out->open(std::move(blocks));
}

/// The same for a team. Every place of the buffer, if all are of a neighbour.
template <typename Group>
int open_blocks(const Group& group, const Neighborhood::Side& side, const CommInfo& info, PeerBuffers* out) {
  if (side.used.empty()) return kGoOn;
  if (side.used.size() == static_cast<size_t>(side.blocks)) return out->open(group, info, side.used.size());
  std::vector<Elements> blocks;
  ZH_STEP(judge_blocks(group, side, info.handle, &blocks));
  return out->open(std::span<const Elements>(blocks), info);
}

/// What all of them begin with: who the neighbours are, and where what they send goes.
template <typename Group>
int open_received(const Group& recv, const CommInfo& info, CollectiveOperation& s) {
  const Neighborhood& near = info.collectives->neighborhood();
  if (!near.served) return leave_to_host("collectives of neighbours: no topology, or two neighbours that are one rank");
  s.problem.uniform = false;
  ZH_STEP(open_blocks(recv, near.sources, info.handle, &s.output));
  s.problem.recv = s.output.pieces();
  return kGoOn;
}

/// What all of them end with: what this rank gives to itself has to fit.
inline int expect_own(const CommInfo& info, const coll::Problem& problem) {
  const Neighborhood& near = info.collectives->neighborhood();
  bool fits = true;
  coll::each_own_edge(near.sources.ranks, near.destinations.ranks, problem.self, [&](uint32_t to, uint32_t from) {
    fits = fits && problem.send[to].bytes <= problem.recv[from].bytes;
  });
  return fits ? kGoOn : raise(info.handle, MPI_ERR_TRUNCATE);
}

/// By a team, once both buffers are open.
inline int exchange(const CommInfo& info, coll::Team& team, const coll::Pieces& given, PeerBuffers& taken) {
  const Neighborhood& near = info.collectives->neighborhood();
  return finish(team.neighbors(near.destinations.of(given), near.sources.of(taken.pieces())), info.handle, taken);
}

/// The same block to each neighbour.
template <typename N, template <typename> typename Group>
struct NeighborAllgatherTo {
  static constexpr auto kCollective = coll::Collective::kNeighbor;
  Data<N> send;
  Group<N> recv;
  MPI_Comm comm;
  [[nodiscard]] auto groups() const { return std::tie(send, recv); }

  int serve(const CommInfo& info, coll::Team& team) const {
    const Neighborhood& near = info.collectives->neighborhood();
    PeerBuffers in(Use::kReceive);
    OneBuffer out(Use::kSend);
    ZH_STEP(open_blocks(recv, near.sources, info, &in));
    if (!near.destinations.ranks.empty()) {
      Elements mine;
      ZH_STEP(judge(send, comm, &mine));
      ZH_STEP(out.open(mine, comm));
    }
    return exchange(info, team, {out.view(), 0, nullptr}, in);
  }

  int prepare(const CommInfo& info, CollectiveOperation& s) const {
    ZH_STEP(open_received(recv, info, s));
    const size_t edges = info.collectives->neighborhood().destinations.ranks.size();
    if (edges == 0) return kGoOn;
    Elements mine;
    ZH_STEP(judge(send, comm, &mine));
    ZH_STEP(s.input.open(mine, comm));
    s.problem.send.assign(edges, {0, mine.bytes()});
    return expect_own(info, s.problem);
  }
};

/// A block of its own to each neighbour.
template <typename N, template <typename> typename Group>
struct NeighborAlltoallOf {
  static constexpr auto kCollective = coll::Collective::kNeighbor;
  Group<N> send;
  Group<N> recv;
  MPI_Comm comm;
  [[nodiscard]] auto groups() const { return std::tie(send, recv); }

  int serve(const CommInfo& info, coll::Team& team) const {
    const Neighborhood& near = info.collectives->neighborhood();
    PeerBuffers in(Use::kReceive);
    PeerBuffers out(Use::kSend);
    ZH_STEP(open_blocks(recv, near.sources, info, &in));
    ZH_STEP(open_blocks(send, near.destinations, info, &out));
    return exchange(info, team, out.pieces(), in);
  }

  int prepare(const CommInfo& info, CollectiveOperation& s) const {
    ZH_STEP(open_received(recv, info, s));
    ZH_STEP(open_blocks(send, info.collectives->neighborhood().destinations, comm, &s.input));
    s.problem.send = s.input.pieces();
    return expect_own(info, s.problem);
  }
};

template <typename N>
using Neighbor_allgather = NeighborAllgatherTo<N, Data>;
template <typename N>
using Neighbor_allgatherv = NeighborAllgatherTo<N, Listed>;
template <typename N>
using Neighbor_alltoall = NeighborAlltoallOf<N, Data>;
template <typename N>
using Neighbor_alltoallv = NeighborAlltoallOf<N, Listed>;
template <typename N>
using Neighbor_alltoallw = NeighborAlltoallOf<N, TypedFar>;

}  // namespace zh::mpi::calls
