// Reductions of large inputs that are not all mapped: contributions and results go through staging areas in shared
// memory, piece by piece (staged_slices.h), so that nothing passes through the kernel.
#include "coll/team/staged_slices.h"

#include <algorithm>

#include "coll/team/team_state.h"

namespace zh::coll {

// Where members share no cache, what each pushes past its own is there sooner than what the others fetch out of it.
bool Team::State::stages(uint32_t first, uint32_t last) const {
  uint32_t apart = 0;
  for (uint32_t i = 0; i < size; ++i) {
    if (!slot(i).source.mapped()) return true;
    if (first <= i && i < last && !slot(i).target.mapped()) return true;
    apart += slot(i).apart;
  }
  return 2 * apart > size;
}

Code Team::State::staged_reduce(const std::byte* in, std::byte* out, std::byte* slice_out, const Reduction& how,
                                StagingOrder order, bool* served) {
  *served = false;
  const uint64_t room = kStagingHalf / size / kLineBytes * kLineBytes;
  StagedSlices rounds_of{size,
                         self,
                         room,
                         room / how.element_bytes * how.element_bytes,
                         streamed,
                         [this](uint32_t i) { return slices[i]; },
                         [this](uint32_t i) { return at<std::byte>(services.base(), slot(i).staging); }};
  if (rounds_of.piece == 0) return Code::kOk;
  rounds_of.order = order;
  uint64_t longest = 0;
  for (uint32_t i = 0; i < size; ++i) longest = std::max(longest, slices[i + 1] - slices[i]);
  const uint64_t rounds = (longest + rounds_of.piece - 1) / rounds_of.piece;

  std::byte* const acc = chunk.get(rounds_of.piece);
  const Offset area = acc != nullptr ? pool.take_staging() : kNoOffset;
  slot(self).staging = area;
  const uint64_t steps = rounds + (slice_out == nullptr ? 2 : 1);
  bool everyone = true;
  for (uint64_t step = 0; step < steps; ++step) {
    for (uint32_t k = 1; k < size && step != 0; ++k) {
      if (const Code code = await_step(after_self(k), step); code != Code::kOk) return code;
    }
    if (step == 1) {
      for (uint32_t i = 0; i < size; ++i) everyone = everyone && slot(i).staging != kNoOffset;
      if (!everyone) break;
    }
    if (step < rounds && area != kNoOffset) rounds_of.put_for_others(step, in);
    if (step >= 2 && out != nullptr) rounds_of.take(step - 2, out);
    if (step >= 1 && step <= rounds) {
      rounds_of.combine(step - 1, in, out, slice_out, acc, [&](uint64_t n, std::byte* to, const auto& operand) {
        fold(0, size - 1, n, to, how, operand);
      });
    }
    ZH_CRASH_POINT("team: step of a staged reduction");
    reach_step(step + 1);
  }
  if (!everyone) {  // nobody looks into any area
    if (area != kNoOffset) pool.give_staging(area);
    return Code::kOk;
  }
  *served = true;
  services.count_staged(slices[size]);
  end();
  const Code code = await_done();
  if (code == Code::kOk) pool.give_staging(area);
  return code;
}

}  // namespace zh::coll
