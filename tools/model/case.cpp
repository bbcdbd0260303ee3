// See case.h.
#include "tools/model/case.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <memory>

#include "base/options.h"
#include "coll/algorithms/choose.h"
#include "coll/analysis/walk.h"
#include "model/pricing.h"
#include "tools/cli/command_line.h"

namespace zh::tools {

std::string no_collective(const std::string& name) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < static_cast<uint32_t>(coll::Collective::kCount); ++i)
    names.emplace_back(coll::name_of(static_cast<coll::Collective>(i)));
  return (name.empty() ? "which collective?" : "no collective '" + name + "';" + nearest(name, names)) +
         " `zerohop schedule --list` names them";
}

std::string fault_of(const ModelCase& c) {
  if (c.cluster.ranks % c.cluster.nodes != 0) {
    return fmt::format("{} ranks do not go into {} nodes alike, as the models take them: a multiple of {}, please",
                       c.cluster.ranks, c.cluster.nodes, c.cluster.nodes);
  }
  if (c.root >= c.cluster.ranks) return fmt::format("there is no rank {}", c.root);
  return "";
}

bool job_shares(const coll::Problem& problem, std::string_view algorithm) {
  coll::Precedence told;
  const coll::Algorithm* how = coll::algorithm(problem.collective, algorithm);
  if (how != nullptr) told.named[static_cast<size_t>(problem.collective)] = how;
  if (!problem.blocks) return false;
  const bool by_team =
      problem.layout->nodes() == 1 && coll::order_of(problem.collective, algorithm) != coll::StagingOrder::kFree;
  return by_team || coll::shares_steps(problem, told);
}

coll::Problem problem_of(const ModelCase& c) {
  std::vector<uint32_t> node_of(c.cluster.ranks);
  for (uint32_t rank = 0; rank < c.cluster.ranks; ++rank) node_of[rank] = c.cluster.node_of(rank);
  coll::Problem problem;
  problem.collective = c.collective;
  problem.root = c.root;
  problem.element_bytes = c.bytes % 8 == 0 ? 8 : 1;
  problem.count = c.bytes / problem.element_bytes;
  problem.chunk_bytes = c.chunk;
  problem.blocks = c.blocks;
  problem.layout = std::make_shared<const coll::Layout>(node_of);
  problem.team = job_shares(problem, c.algorithm);
  return problem;
}

std::vector<coll::Schedule> schedules_of(const ModelCase& c, const WalkLimits& limits, std::string* problem) {
  problem->clear();
  std::vector<coll::Schedule> out;
  if (c.cluster.ranks > limits.ranks) {
    *problem = fmt::format("a walk has {} ranks at most, not {}; closed forms have no such limit", limits.ranks,
                           c.cluster.ranks);
    return out;
  }
  coll::Problem mine = problem_of(c);
  uint64_t steps = 0;
  for (; mine.self < c.cluster.ranks && problem->empty(); ++mine.self) {
    if (const Status s = coll::build(mine, c.algorithm, &out.emplace_back()); !s.ok()) *problem = s.what();
    steps += out.back().steps.size();
    if (steps > limits.steps) {
      *problem = fmt::format("the schedules of {} ranks have more than {} steps: fewer ranks, please, or larger chunks",
                             c.cluster.ranks, limits.steps);
    }
  }
  if (!problem->empty()) out.clear();
  return out;
}

double walk_us(const ModelCase& c, const std::vector<coll::Schedule>& schedules, model::Model model,
               const model::Parameters& parameters) {
  return coll::walk(schedules, model::Pricing(model, parameters, c.cluster, c.stride)).end;
}

bool beyond_tables(const ModelCase& c, const std::vector<coll::Schedule>& schedules,
                   const model::Parameters& parameters) {
  uint64_t most = 0;
  for (const coll::Schedule& schedule : schedules) {
    for (const coll::Step& step : schedule.steps) most = std::max(most, schedule.total(step));
  }
  return static_cast<double>(most) > parameters.last_bytes(c.stride, c.cluster.nodes > 1);
}

std::vector<std::string> notes_on(const ModelCase& c, const std::vector<coll::Schedule>& schedules,
                                  const model::Parameters& parameters) {
  std::vector<std::string> notes;
  if (beyond_tables(c, schedules, parameters)) {
    const double last = parameters.last_bytes(c.stride, c.cluster.nodes > 1);
    notes.push_back(fmt::format("The profile's tables end at {}; larger messages lie on the continued lines.",
                                format_size(static_cast<uint64_t>(last))));
  }
  if (c.collective == coll::Collective::kBcast && !std::has_single_bit(c.cluster.ranks)) {
    notes.push_back("The closed forms take a power of two of ranks; here they round the steps of a tree up.");
  }
  if (c.algorithm == "hierarchical" && c.chunk > 0 && c.chunk < c.bytes && c.cluster.nodes > 1)
    notes.push_back("The closed form cuts the message inside nodes alone (equation 9), the walk's between nodes too.");
  if (coll::reduces(c.collective)) notes.push_back("The models have no price for combining; the walk takes a copy's.");
  notes.push_back(
      "Only mlog_nP+links lets the messages of a node share its link, and the readers of a shared step its memory. No "
      "model knows other contention, or handshakes.");
  return notes;
}

}  // namespace zh::tools
