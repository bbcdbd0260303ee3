// See shared_steps.h.
#include "coll/analysis/shared_steps.h"

#include <algorithm>

namespace zh::coll {
namespace {

bool gives_or_takes(StepKind kind) { return kind == StepKind::kGive || kind == StepKind::kTake; }

/// Of the ranks of one node.
class Matching {
 public:
  Matching(std::span<const Schedule> schedules, SharedSteps& out) : schedules_(schedules), out_(out) {}

  void match(std::span<const uint32_t> members) {
    std::vector<std::vector<uint32_t>> shared;
    for (const uint32_t rank : members) shared.push_back(shared_of(rank));
    for (size_t i = 1; i < members.size(); ++i) {
      if (shared[i].size() == shared[0].size()) continue;
      complain(members[i], "takes " + std::to_string(shared[i].size()) + " shared steps, rank " +
                               std::to_string(members[0]) + " of its node " + std::to_string(shared[0].size()));
      return;
    }
    for (size_t k = 0; k < shared[0].size() && out_.complaint.empty(); ++k) {
      SharedSteps::Group group;
      for (size_t i = 0; i < members.size(); ++i) {
        group.ends.push_back({members[i], shared[i][k]});
        out_.group_of[members[i]][shared[i][k]] = static_cast<uint32_t>(out_.groups.size());
      }
      find_root(group);
      out_.groups.push_back(std::move(group));
    }
  }

 private:
  [[nodiscard]] const Step& step_at(const StepOf& end) const { return schedules_[end.rank].steps[end.step]; }

  [[nodiscard]] std::vector<uint32_t> shared_of(uint32_t rank) const {
    std::vector<uint32_t> out;
    const std::vector<Step>& steps = schedules_[rank].steps;
    for (uint32_t i = 0; i < steps.size(); ++i) {
      if (steps[i].shared()) out.push_back(i);
    }
    return out;
  }

  void complain(uint32_t rank, const std::string& what) {
    out_.complaint = "rank " + std::to_string(rank) + " " + what;
  }

  void find_root(SharedSteps::Group& group) {
    const Step& first = step_at(group.ends[0]);
    group.root = first.tag;
    if (group.root >= group.ends.size() || group.root_end().rank != first.peer) {
      return complain(group.ends[0].rank, "shares a step with a rank that is not at that place of its node");
    }
    for (size_t i = 0; i < group.ends.size(); ++i) {
      const Step& step = step_at(group.ends[i]);
      const bool roots = step.kind == StepKind::kGive || step.kind == StepKind::kCollect;
      const bool fits = step.peer == first.peer && step.tag == first.tag && step.bytes == first.bytes &&
                        gives_or_takes(step.kind) == gives_or_takes(first.kind) && roots == (i == group.root);
      if (!fits) return complain(group.ends[i].rank, "takes another shared step than the first rank of its node");
    }
  }

  std::span<const Schedule> schedules_;
  SharedSteps& out_;
};

}  // namespace

SharedSteps match_shared(std::span<const Schedule> schedules, const Layout& layout) {
  SharedSteps out;
  for (const Schedule& schedule : schedules) out.group_of.emplace_back(schedule.steps.size(), kNoStep);
  Matching matching(schedules, out);
  for (uint32_t node = 0; node < layout.nodes() && out.complaint.empty(); ++node) matching.match(layout.members(node));
  return out;
}

}  // namespace zh::coll
