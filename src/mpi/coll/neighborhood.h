// Neighborhood: whose blocks a rank sends and receives in collectives of neighbourhoods, as the host tells of the
// communicator's topology (MPI standard 8.6). Asked for once by CommCollectives; refuses to know the calls.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "coll/types.h"
#include "mpi/handles/comm.h"
#include "mpi/shim.h"

namespace zh::mpi {

struct Neighborhood {
  /// The blocks that a call receives, or those that it sends.
  struct Side {
    int32_t blocks = 0;           ///< in the call's buffer or lists
    std::vector<int32_t> used;    ///< those of a neighbour; the others, of MPI_PROC_NULL, nobody looks at
    std::vector<uint32_t> ranks;  ///< whose they are, in the communicator
    std::vector<uint16_t> nth;    ///< of `ranks`, how many of the same are before; for a team
    /// Fills in `nth`, in O(n^2) of what a team serves.
    void number();
    [[nodiscard]] coll::Blocks of(const coll::Pieces& pieces) const { return {ranks, nth, pieces}; }
    void add(int rank);
  };
  Side sources;
  Side destinations;
  /// The same on all members. False: without a topology, or on a grid of which a periodic dimension has one or two
  /// places. There both neighbours are one rank, and which of its two blocks is the first differs by host and by call.
  bool served = false;
  /// Whether the members' team serves blocking calls, once they have agreed on it (neighbor_team_of()).
  std::optional<bool> by_team;
};

/// The team that serves blocking calls of a communicator; null if there is none. Synchronises at its first call.
[[nodiscard]] coll::Team* neighbor_team_of(CommInfo* comm);

/// Communicates nothing.
[[nodiscard]] Neighborhood ask_neighborhood(MPI_Comm comm);
/// The same, also of communicators that zerohop does not serve; asked for anew unless it is kept.
[[nodiscard]] Neighborhood neighborhood_of(MPI_Comm comm);

}  // namespace zh::mpi
