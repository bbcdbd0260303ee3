// Random layouts beside a naive oracle: the position of every single byte of an element, written out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
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

/// Irregular blocks, vectors, planes, reversed orders, negative offsets and extents. Elements never overlap themselves
/// or each other, so that a scatter has one right answer.
inline Sample random_sample(std::mt19937_64& random) {
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  const int64_t lengths[] = {1, 2, 3, 4, 7, 8, 12, 16, 17, 24, 32, 48, 100, 256, 257, 1000, 1024, 5000};
  Sample sample;
  int64_t end = pick(0, 3) == 0 ? pick(-4000, 4000) : 0;
  const int64_t begin = end;
  const int64_t parts = pick(1, 4);
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t len = lengths[pick(0, static_cast<int64_t>(std::size(lengths)) - 1)];
    const int64_t rows = pick(0, 2) == 0 ? pick(1, 5) : 1;
    const int64_t columns = pick(0, 1) == 0 ? pick(1, 9) : 1;
    const int64_t gap = pick(0, 2) == 0 ? 0 : pick(1, 40);
    const int64_t row_gap = pick(0, 200);
    for (int64_t j = 0; j < rows; ++j) {
      for (int64_t i = 0; i < columns; ++i) {
        sample.blocks.push_back({end, static_cast<uint64_t>(len)});
        end += len + gap;
      }
      end += row_gap;
    }
    if (pick(0, 4) == 0) sample.blocks.push_back({end + 7, 0});
  }
  if (pick(0, 3) == 0) std::reverse(sample.blocks.begin(), sample.blocks.end());
  if (pick(0, 5) == 0) std::shuffle(sample.blocks.begin(), sample.blocks.end(), random);
  int64_t low = begin;
  int64_t high = begin;
  for (const Block& block : sample.blocks) {
    low = std::min(low, block.offset);
    high = std::max(high, block.offset + static_cast<int64_t>(block.len_bytes));
    for (uint64_t k = 0; k < block.len_bytes; ++k) sample.bytes.push_back(block.offset + static_cast<int64_t>(k));
  }
  sample.extent = high - low + (pick(0, 1) == 0 ? 0 : pick(1, 100));
  if (pick(0, 4) == 0) sample.extent = -sample.extent;
  return sample;
}

}  // namespace zh::copy::test
