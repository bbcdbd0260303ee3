// A parameter set whose costs are easy to reckon with. Used by the *_test.cpp files here and by tests of the walk.
#pragma once

#include "model/parameters.h"

namespace zh::test {

/// Of a message of 500 bytes at stride 8, one end costs o + l = 2 + 1 µs on a chip, 3 + 1.5 between chips and 4 + 2
/// between nodes; the network costs 15. So T is 6, 9 and 27.
inline model::Parameters round_parameters() {
  using model::CostTable;
  using model::StridedCosts;
  const auto latency = [](double us) {
    return StridedCosts{{{8, CostTable{{{0, 0}, {1000, us}}}}, {16, CostTable{{{0, 0}, {1000, 2 * us}}}}}};
  };
  model::Parameters p;
  p.name = "round";
  p.chips_per_node = 2;
  p.has_inter_chip = true;
  p.levels = {{{{{{0, 1}, {1000, 3}}}, latency(2), {}, {}, {}},
               {{{{0, 1.5}, {1000, 4.5}}}, latency(3), {}, {}, {}},
               {{{{0, 2}, {1000, 6}}}, latency(4), {{{0, 10}, {1000, 20}}}, {{{0, 6}, {1000, 10}}}, {}}}};
  return p;
}

}  // namespace zh::test
