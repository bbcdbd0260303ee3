// What models predict: a collective on a cluster, its closed forms and the walk of its schedule. Called by the commands
// that predict; refuses to know how results are shown.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coll/schedule/problem.h"
#include "coll/schedule/schedule.h"
#include "model/cluster.h"
#include "model/parameters.h"

namespace zh::tools {

/// More than that is not walked: a rank's schedule takes time by the number of ranks, and some 130 bytes by each step.
struct WalkLimits {
  uint32_t ranks;
  uint64_t steps;
};
/// Of one walk.
constexpr WalkLimits kOneWalk = {131'072, 16'000'000};
/// Of each of the hundreds that a comparison of all algorithms at all sizes takes.
constexpr WalkLimits kManyWalks = {4096, 2'000'000};
constexpr uint64_t kMostModelBytes = uint64_t{1} << 30;

struct ModelCase {
  coll::Collective collective = coll::Collective::kBcast;
  std::string algorithm;
  model::Cluster cluster{64, 8, 1};  ///< the paper's 64 ranks on 8 nodes
  uint32_t root = 0;
  uint64_t bytes = 1024;  ///< of the vector, or of one rank's piece
  uint64_t stride = 0;
  uint64_t chunk = 0;
  bool blocks = false;  ///< a blocking call: the ranks of a node share by their team where those of jobs do
};

/// What to tell of a name that no collective has.
[[nodiscard]] std::string no_collective(const std::string& name);

/// Why there is no such cluster or root, "" if there is.
[[nodiscard]] std::string fault_of(const ModelCase& c);

/// The problem of rank 0, as a job has it that is told to take this algorithm; without one its own choice. Elements are
/// of 8 bytes where that goes.
[[nodiscard]] coll::Problem problem_of(const ModelCase& c);

/// Whether the ranks of a node share by their team in a job's call that is told to take this algorithm; "": none.
[[nodiscard]] bool job_shares(const coll::Problem& problem, std::string_view algorithm);

/// The schedules of all ranks. Empty if there are none or they are too many: `*problem` says why.
[[nodiscard]] std::vector<coll::Schedule> schedules_of(const ModelCase& c, const WalkLimits& limits,
                                                       std::string* problem);

/// When the last rank is done, µs.
[[nodiscard]] double walk_us(const ModelCase& c, const std::vector<coll::Schedule>& schedules, model::Model model,
                             const model::Parameters& parameters);

/// Whether the steps move more at once than the profile's tables reach, so that their costs are continued lines.
[[nodiscard]] bool beyond_tables(const ModelCase& c, const std::vector<coll::Schedule>& schedules,
                                 const model::Parameters& parameters);

/// What a reader has to know of a prediction with these parameters: figures beyond their tables, what models leave out.
[[nodiscard]] std::vector<std::string> notes_on(const ModelCase& c, const std::vector<coll::Schedule>& schedules,
                                                const model::Parameters& parameters);

}  // namespace zh::tools
