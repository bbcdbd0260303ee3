// What lasts from MPI_Init to MPI_Finalize.
#pragma once

#include <memory>

#include "base/options.h"
#include "copy/regions.h"
#include "engine/rank.h"
#include "mpi/start/bootstrap.h"
#include "mpi/start/pump.h"
#include "mpi/start/statistics.h"
#include "node/node.h"

namespace zh::mpi {

/// Everything with the lifetime of the job. Never destroyed by the loader: the order of destructors at exit is not
/// ours.
struct Job {
  std::unique_ptr<HostBootstrap> world;
  std::unique_ptr<node::Node> node;
  std::unique_ptr<copy::RegionOwner> regions;
  std::unique_ptr<engine::Rank> rank;
  Pump pump;
  Options options;
  Statistics statistics;
  bool ends_with_self = false;
};
/// Null before MPI_Init, where everything stays with the host, and in forked children.
extern Job* job;

}  // namespace zh::mpi
