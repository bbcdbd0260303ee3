// Profilers (MPI standard 15.2) that stand behind libzerohop.so among the loaded objects: linked with the program, or
// preloaded after it. Without it the program's calls would be theirs, so they stay theirs, and zerohop serves what the
// profilers pass on as PMPI_. Called by resolve.cpp; knows no MPI type and allocates nothing.
#pragma once

namespace zh::mpi {

/// For each of `names` the address of a profiler's MPI_name, or null: the call is zerohop's or the host's. Returns
/// null, or the file of a profiler of which nobody can tell that it calls zerohop and not the host.
const char* find_profilers(const char* const* names, unsigned n, void* host, void** entries);

}  // namespace zh::mpi
