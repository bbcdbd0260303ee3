// Beginning and end of zerohop in a process.
#pragma once

namespace zh::copy {
class RegionOwner;
}

namespace zh::mpi {

/// Memory that peers can map, or null while (or where) there is none.
copy::RegionOwner* mappable_memory();

}  // namespace zh::mpi
