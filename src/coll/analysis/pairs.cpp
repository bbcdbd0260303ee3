// See pairs.h.
#include "coll/analysis/pairs.h"

#include <algorithm>
#include <tuple>

namespace zh::coll {
namespace {

struct End {
  uint32_t source, dest, tag;
  uint32_t step;
  uint64_t bytes;
  [[nodiscard]] auto key() const { return std::tie(source, dest, tag); }
};

std::string text(const End& end) {
  return "from rank " + std::to_string(end.source) + " to rank " + std::to_string(end.dest) + " with tag " +
         std::to_string(end.tag);
}

std::string link(const std::vector<End>& sends, const std::vector<End>& receives, Pairs& pairs) {
  for (size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
    const bool lone_receive = i >= sends.size() || (i < receives.size() && receives[i].key() < sends[i].key());
    if (lone_receive) return "nobody sends the message " + text(receives[i]);
    if (i >= receives.size() || sends[i].key() < receives[i].key()) {
      return "nobody receives the message " + text(sends[i]);
    }
    if (sends[i].bytes != receives[i].bytes) {
      return "the message " + text(sends[i]) + " has " + std::to_string(sends[i].bytes) + " bytes, its receive " +
             std::to_string(receives[i].bytes);
    }
    pairs.partner[sends[i].source][sends[i].step] = receives[i].step;
    pairs.partner[sends[i].dest][receives[i].step] = sends[i].step;
  }
  return "";
}

}  // namespace

Pairs pair_messages(std::span<const Schedule> schedules) {
  Pairs pairs;
  std::vector<End> sends;
  std::vector<End> receives;
  for (uint32_t rank = 0; rank < schedules.size(); ++rank) {
    const std::vector<Step>& steps = schedules[rank].steps;
    pairs.partner.emplace_back(steps.size(), kNoStep);
    for (uint32_t i = 0; i < steps.size(); ++i) {
      const Step& step = steps[i];
      if (!step.message()) continue;
      if (step.peer >= schedules.size() || step.peer == rank || step.tag >= kTags) {
        pairs.complaint = "rank " + std::to_string(rank) + ", step " + std::to_string(i) + ": no such peer or tag";
        return pairs;
      }
      if (step.kind == StepKind::kSend) {
        sends.push_back({rank, step.peer, step.tag, i, step.bytes});
      } else {
        receives.push_back({step.peer, rank, step.tag, i, step.bytes});
      }
    }
  }
  const auto before = [](const End& a, const End& b) { return a.key() < b.key(); };
  std::stable_sort(sends.begin(), sends.end(), before);
  std::stable_sort(receives.begin(), receives.end(), before);
  pairs.complaint = link(sends, receives, pairs);
  return pairs;
}

}  // namespace zh::coll
