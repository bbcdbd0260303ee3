// See machine_tiles.h.
#include "tools/model/machine_tiles.h"

#include <fmt/format.h>

#include "node/machine.h"

namespace zh::tools {

coll::Tiles tiles_here(const Options& options, std::vector<std::string>* notes) {
  node::Machine machine;
  const Status s = machine.load(options.get_text(Opt::kTopology));
  coll::Tiles tiles;
  if (s.ok()) tiles = coll::tiles_for(machine.summary().l1d_bytes, machine.summary().l2_bytes);
  if (tiles == coll::Tiles{}) {
    notes->push_back(fmt::format("The sizes of the caches are not known{}{}: chunks are those of ZEROHOP_CHUNK.",
                                 s.ok() ? "" : ", ", s.what()));
  }
  return tiles;
}

std::string tiles_text(const coll::Tiles& tiles) {
  const auto size = [](uint64_t bytes) { return bytes == 0 ? "none" : format_size(bytes); };
  return fmt::format("{} of L1, {} of L2", size(tiles.small), size(tiles.large));
}

}  // namespace zh::tools
