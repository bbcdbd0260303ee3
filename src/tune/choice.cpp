// Built-in choices by distance, used while no measured profile is at hand.
#include "tune/choice.h"

#include "node/node.h"

namespace zh::tune {
namespace {

bool is_far(int level, float line_ns) {
  if (line_ns > 0) return line_ns > kFarLineNs;
  return level > static_cast<int>(node::Level::kSharedL2);
}

}  // namespace

PairChoice choose(int level, float line_ns, const Profile* profile) {
  (void)profile;
  PairChoice choice;
  if (is_far(level, line_ns)) choice.nontemporal_min = 2 << 10;
  return choice;
}

PairChoice paper_choice(int level) {
  PairChoice choice;
  const auto distance = static_cast<node::Level>(level);
  if (distance <= node::Level::kSharedL2) {
    choice.single_copy_min = 32 << 10;
  } else if (distance <= node::Level::kSameSocket) {
    choice.single_copy_min = 2 << 10;
  } else {
    choice.single_copy_min = 1 << 10;
  }
  choice.eager_max = static_cast<uint32_t>(choice.single_copy_min);
  return choice;
}

}  // namespace zh::tune
