// See shared_steps.h.
#include "coll/analysis/shared_steps.h"

#include <algorithm>

namespace zh::coll {
namespace {

/// The kind of the root's step in a group of which one step has this kind.
StepKind kind_of_root(StepKind kind) {
  switch (kind) {
    case StepKind::kBcastLeaf:
      return StepKind::kBcastRoot;
    case StepKind::kReduceLeaf:
      return StepKind::kReduceRoot;
    case StepKind::kGatherLeaf:
      return StepKind::kGatherRoot;
    case StepKind::kScatterLeaf:
      return StepKind::kScatterRoot;
    default:
      return kind;
  }
}

/// Whether Step::even says something.
bool may_be_even(StepKind kind) { return kind >= StepKind::kGatherLeaf && kind <= StepKind::kScatterLeaf; }

/// Whether all ends have steps of one kind.
bool is_alike(StepKind kind) { return kind >= StepKind::kBarrier; }

/// Of the ranks of one node, or of the leaders of all.
class Matching {
 public:
  Matching(std::span<const Schedule> schedules, bool leaders, SharedSteps& out)
      : schedules_(schedules), leaders_(leaders), whose_(leaders ? " among leaders" : " of its node"), out_(out) {}

  void match(std::span<const uint32_t> members) {
    std::vector<std::vector<uint32_t>> shared;
    for (const uint32_t rank : members) shared.push_back(shared_of(rank));
    for (size_t i = 1; i < members.size(); ++i) {
      if (shared[i].size() == shared[0].size()) continue;
      complain(members[i], "takes " + std::to_string(shared[i].size()) + " shared steps, rank " +
                               std::to_string(members[0]) + whose_ + " " + std::to_string(shared[0].size()));
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
      if (steps[i].shared() && steps[i].of_leaders == leaders_) out.push_back(i);
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
      return complain(group.ends[0].rank, "shares a step with a rank that is not at that place" + whose_);
    }
    const Step& root = step_at(group.root_end());
    for (size_t i = 0; i < group.ends.size(); ++i) {
      const Step& step = step_at(group.ends[i]);
      const bool roots = is_alike(step.kind) || kind_of_root(step.kind) == step.kind;
      const bool fits = step.peer == first.peer && step.tag == first.tag && step.even == first.even &&
                        kind_of_root(step.kind) == root.kind && roots == (is_alike(root.kind) || i == group.root) &&
                        bytes_fit(group, i) && is_in_place(group, i);
      if (!fits) return complain(group.ends[i].rank, "takes another shared step than the first rank" + whose_);
    }
  }

  [[nodiscard]] bool bytes_fit(const SharedSteps::Group& group, size_t i) const {
    const Step& root = step_at(group.root_end());
    const Step& step = step_at(group.ends[i]);
    if (root.n_parts == 0) return step.bytes == root.bytes && step.n_parts == 0;
    if (root.kind == StepKind::kAlltoall) return parts_face_each_other(group, i);
    const std::span<const uint64_t> parts = schedules_[group.root_end().rank].parts_of(root);
    const std::span<const uint64_t> theirs = schedules_[group.ends[i].rank].parts_of(step);
    const bool knows = step.kind == root.kind;  // the sizes of all parts
    const bool even = !may_be_even(step.kind) || !step.even || step.bytes == root.bytes;
    return parts.size() == group.ends.size() && step.bytes == parts[i] && even &&
           (knows ? std::equal(parts.begin(), parts.end(), theirs.begin(), theirs.end()) : theirs.empty());
  }

  /// Whether the own part lies where it belongs among those of all, where the step leaves it there.
  [[nodiscard]] bool is_in_place(const SharedSteps::Group& group, size_t i) const {
    const Step& step = step_at(group.ends[i]);
    const bool stays = step.kind == StepKind::kAllgather || (step.kind == StepKind::kGatherRoot && step.of_leaders);
    if (!stays) return true;
    uint64_t at = step.to_at;
    for (size_t k = 0; k < i; ++k) at += schedules_[group.ends[i].rank].parts_of(step)[k];
    return step.bytes == 0 || (step.from == step.to && step.from_at == at);
  }

  /// What one has for another, that one expects of it.
  [[nodiscard]] bool parts_face_each_other(const SharedSteps::Group& group, size_t i) const {
    const auto parts_at = [&](size_t k) { return schedules_[group.ends[k].rank].parts_of(step_at(group.ends[k])); };
    const std::span<const uint64_t> mine = parts_at(i);
    if (mine.size() != group.ends.size() || step_at(group.ends[i]).bytes != mine[i]) return false;
    for (size_t k = 0; k < i; ++k) {
      if (parts_at(k)[i] != mine[k]) return false;
    }
    return true;
  }

  std::span<const Schedule> schedules_;
  bool leaders_;
  std::string whose_;
  SharedSteps& out_;
};

/// "" if no other ranks than leaders take steps of theirs.
std::string check_leaders(std::span<const Schedule> schedules, const Layout& layout) {
  for (uint32_t rank = 0; rank < schedules.size(); ++rank) {
    if (layout.members(layout.node_of(rank))[0] == rank) continue;
    const std::vector<Step>& steps = schedules[rank].steps;
    const bool leads = std::any_of(steps.begin(), steps.end(), [](const Step& s) { return s.of_leaders; });
    if (leads) return "rank " + std::to_string(rank) + " takes a step of leaders, and leads no node";
  }
  return "";
}

}  // namespace

SharedSteps match_shared(std::span<const Schedule> schedules, const Layout& layout) {
  SharedSteps out;
  for (const Schedule& schedule : schedules) out.group_of.emplace_back(schedule.steps.size(), kNoStep);
  out.complaint = check_leaders(schedules, layout);
  Matching inside(schedules, false, out);
  for (uint32_t node = 0; node < layout.nodes() && out.complaint.empty(); ++node) inside.match(layout.members(node));
  std::vector<uint32_t> leaders;
  for (uint32_t node = 0; node < layout.nodes(); ++node) leaders.push_back(layout.members(node)[0]);
  if (out.complaint.empty()) Matching(schedules, true, out).match(leaders);
  return out;
}

}  // namespace zh::coll
