// The host's point-to-point as what carries the engine's messages between nodes. Made by init.cpp.
#pragma once

#include <memory>

#include "engine/carrier.h"
#include "mpi/entry/host.h"

namespace zh::mpi {

/// `world`: a duplicate of MPI_COMM_WORLD that outlives the carrier, which makes another one for its messages.
/// Collective over it, and so is the carrier's end.
std::unique_ptr<engine::Carrier> make_carrier(MPI_Comm world);

}  // namespace zh::mpi
