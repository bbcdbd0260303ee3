// Random layouts beside a naive oracle: the position of every single byte of an element, written out.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "copy/layout.h"

namespace zh::copy::test {

struct Sample {
  std::vector<Block> blocks;
  int64_t extent = 0;
  std::vector<int64_t> bytes;  ///< offset of each packed byte of one element, in order

  /// Where packed byte `k` of the message lies, from the buffer's base.
  [[nodiscard]] int64_t position(uint64_t k) const {
    return static_cast<int64_t>(k / bytes.size()) * extent + bytes[k % bytes.size()];
  }
};

/// Elements never overlap themselves or each other, so that a scatter has one right answer.
Sample random_sample(std::mt19937_64& random);

}  // namespace zh::copy::test
