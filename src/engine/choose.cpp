// Which ways this rank takes towards each peer: from the machine's calibration, else built in, then as the user says.
#include "engine/state.h"

namespace zh::engine {

Status Rank::choose(node::Bootstrap& /*world*/) {
  State& s = *state_;
  for (uint32_t i = 0; i < node_.size(); ++i) {
    const auto level = node_.level(node_.self(), i);
    tune::PairChoice c = tune::choose(static_cast<int>(level), node_.line_ns(i), nullptr);
    if (s.config.single_copy_min != 0) {
      c.single_copy_min = s.config.single_copy_min;
      if (c.eager_max >= c.single_copy_min) c.eager_max = static_cast<uint32_t>(c.single_copy_min) - 1;
      if (c.inline_max > c.eager_max) c.inline_max = c.eager_max;
    }
    s.endpoint->set_choice(i, c);
  }
  return kOk;
}

}  // namespace zh::engine
