// See neighborhood.h.
#include "mpi/coll/neighborhood.h"

#include <algorithm>

#include "coll/team/team.h"
#include "mpi/coll/collective_operation.h"
#include "mpi/coll/peers.h"
#include "mpi/handles/comm.h"

namespace zh::mpi {
namespace {

/// A list that the host fills in: never at a null address, which some refuse.
std::vector<int> room_for(int n) { return std::vector<int>(static_cast<size_t>(n) + 1); }

/// Of each dimension the neighbour below, then the one above (MPI standard 8.6). Returns whether they are two.
bool ask_grid(MPI_Comm comm, Neighborhood* out) {
  int dimensions = 0;
  host.Cartdim_get(comm, &dimensions);
  std::vector<int> extents = room_for(dimensions);
  std::vector<int> periods = room_for(dimensions);
  std::vector<int> own = room_for(dimensions);
  if (dimensions > 0) host.Cart_get(comm, dimensions, extents.data(), periods.data(), own.data());
  bool two = true;
  for (int i = 0; i < dimensions; ++i) {
    int below = MPI_PROC_NULL;
    int above = MPI_PROC_NULL;
    host.Cart_shift(comm, i, 1, &below, &above);
    for (const int neighbour : {below, above}) {
      out->sources.add(neighbour);
      out->destinations.add(neighbour);
    }
    const auto d = static_cast<size_t>(i);
    if (periods[d] != 0 && extents[d] <= 2) two = false;
  }
  return two;
}

void ask_graph(MPI_Comm comm, Neighborhood* out) {
  int self = 0;
  int n = 0;
  host.Comm_rank(comm, &self);
  host.Graph_neighbors_count(comm, self, &n);
  std::vector<int> ranks = room_for(n);
  host.Graph_neighbors(comm, self, n, ranks.data());
  for (int i = 0; i < n; ++i) {
    out->sources.add(ranks[static_cast<size_t>(i)]);
    out->destinations.add(ranks[static_cast<size_t>(i)]);
  }
}

void ask_distributed_graph(MPI_Comm comm, Neighborhood* out) {
  int n_in = 0;
  int n_out = 0;
  int weighted = 0;
  host.Dist_graph_neighbors_count(comm, &n_in, &n_out, &weighted);
  std::vector<int> in = room_for(n_in);
  std::vector<int> to = room_for(n_out);
  // Without weights: Intel MPI 2021.10 has none of a communicator's duplicate, and copies them all the same.
  host.Dist_graph_neighbors(comm, n_in, in.data(), host.unweighted, n_out, to.data(), host.unweighted);
  for (int i = 0; i < n_in; ++i) out->sources.add(in[static_cast<size_t>(i)]);
  for (int i = 0; i < n_out; ++i) out->destinations.add(to[static_cast<size_t>(i)]);
}

}  // namespace

void Neighborhood::Side::add(int rank) {
  if (rank != MPI_PROC_NULL) {
    used.push_back(blocks);
    ranks.push_back(static_cast<uint32_t>(rank));
  }
  ++blocks;
}

void Neighborhood::Side::number() {
  nth.clear();
  for (auto at = ranks.begin(); at != ranks.end(); ++at) {
    nth.push_back(static_cast<uint16_t>(std::count(ranks.begin(), at, *at)));
  }
}

Neighborhood ask_neighborhood(MPI_Comm comm) {
  Neighborhood found;
  int inter = 0;
  int kind = MPI_UNDEFINED;
  if (host.Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter != 0) return found;
  if (host.Topo_test(comm, &kind) != MPI_SUCCESS) return found;
  found.served = kind != MPI_UNDEFINED;
  if (kind == MPI_CART) found.served = ask_grid(comm, &found);
  if (kind == MPI_GRAPH) ask_graph(comm, &found);
  if (kind == MPI_DIST_GRAPH) ask_distributed_graph(comm, &found);
  return found;
}

coll::Team* neighbor_team_of(CommInfo* comm) {
  coll::Team* team = settled_team_of(comm);
  CommCollectives* collectives = team != nullptr ? collectives_of(comm) : nullptr;
  if (collectives == nullptr) return nullptr;
  Neighborhood& near = collectives->neighborhood();
  if (!near.served) return nullptr;
  if (!near.by_team.has_value()) {
    const size_t edges = std::max(near.sources.ranks.size(), near.destinations.ranks.size());
    near.by_team = team->agree_on_edges(static_cast<uint32_t>(edges));
    if (*near.by_team) {
      near.sources.number();
      near.destinations.number();
    }
  }
  return *near.by_team ? team : nullptr;
}

Neighborhood neighborhood_of(MPI_Comm comm) {
  const CommInfo* info = shim.rank != nullptr ? known(comm) : nullptr;
  return info != nullptr && info->collectives != nullptr ? info->collectives->neighborhood() : ask_neighborhood(comm);
}

}  // namespace zh::mpi
