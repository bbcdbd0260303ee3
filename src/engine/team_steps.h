// The shared steps of a schedule (coll/schedule/run.h) by a node's team.
#pragma once

#include "coll/schedule/run.h"
#include "coll/team/team.h"
#include "simd/reduce.h"

namespace zh::engine {

class TeamSteps final : public coll::NodeSteps {
 public:
  explicit TeamSteps(coll::Team& team) : team_(team) {}

  /// Whether all take the call for the same (coll::digest()). The same answer for all; waits for them.
  [[nodiscard]] bool agree(uint32_t digest) {
    const uint64_t mine[2] = {digest, ~uint64_t{digest}};
    uint64_t least[2] = {};
    coll::Reduction how;
    how.element_bytes = sizeof(uint64_t);
    how.kernel = simd::kernel(simd::Op::kMin, simd::Type::kUint64);
    return team_.allreduce(mine, least, 2, how) == Code::kOk && least[0] == ~least[1];
  }

  /// In place of agree(), for a rank that will not share: those that ask learn so. Waits for nobody.
  void pass() { team_.refuse(true); }

  Code meet() override { return team_.barrier(); }
  Code give(const void* data, uint64_t bytes, uint32_t root) override {
    return bcast(const_cast<void*>(data), bytes, root);
  }
  Code take(void* data, uint64_t bytes, uint32_t root) override {
    const Code code = bcast(data, bytes, root);
    return code == Code::kOk && team_.fell_short() ? Code::kInvalid : code;
  }
  Code reduce(const void* in, void* out, uint64_t count, const coll::Reduction& how, uint32_t root) override {
    return team_.reduce(in, out, count, how, root);
  }

 private:
  Code bcast(void* data, uint64_t bytes, uint32_t root) {
    return team_.bcast({static_cast<std::byte*>(data), bytes, nullptr}, root);
  }
  coll::Team& team_;
};

}  // namespace zh::engine
