// A rank's teams.
#include "coll/team.h"

#include "engine/rank.h"

namespace zh::engine {

std::unique_ptr<coll::Team> Rank::make_team(uint64_t, std::vector<uint32_t>, uint32_t) { return nullptr; }

}  // namespace zh::engine
