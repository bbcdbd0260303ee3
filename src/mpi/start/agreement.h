// What all ranks of a job must hold alike, and how they come to it.
#pragma once

#include <cstdint>

#include "mpi/start/bootstrap.h"
#include "mpi/start/settings.h"

namespace zh::mpi {

/// One line on standard error, by rank 0 alone.
void say_once(int rank, const char* what, const char* why);

/// What must hold for all ranks alike, lest they do a collective in different ways.
struct JobTerms {
  bool ready;
  bool devices;  ///< messages may lie in memory that only the host's library reaches
  bool collectives;
  AlgorithmNumbers algorithms;
  uint64_t chunk_bytes;
  bool chunk_set;
  bool statistics;  ///< of rank 0
};

/// Collective. Sets what the shim does from now on. Null, or why everything stays with the host.
const char* agree_on_terms(HostBootstrap& world, const JobTerms& mine);

/// Gives rank 0's tables of algorithms, measured and by a model, to all.
void share_selections(HostBootstrap& world, const Options& options);

}  // namespace zh::mpi
