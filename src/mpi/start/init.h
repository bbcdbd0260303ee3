// Beginning and end of zerohop in a process.
#pragma once

namespace zh::copy {
class RegionOwner;
}

namespace zh::p2p {
struct AccountShm;
}

namespace zh::mpi {

/// From now on every function that the host has goes straight to it: there is nothing to serve in this process.
void leave_to_host();

/// From now on each function's calls and time are counted there, by function_number(); null: no longer, before the
/// memory goes.
void time_functions(p2p::AccountShm* account);

/// Memory that peers can map, or null while (or where) there is none.
copy::RegionOwner* mappable_memory();

}  // namespace zh::mpi
