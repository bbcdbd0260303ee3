// Members that run out of memory in a collective: they say so, whoever waits for them learns of it, whoever has no
// error has the right result, and the team works on.
// label more-ranks: TeamsShortOfMemory[.].*/processes_[58]_
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "copy/layout.h"
#include "support/short_memory.h"
#include "team_support.h"

namespace zh::test {
namespace {

class TeamsShortOfMemory : public Teams {
 protected:
  /// One collective, and what this member must have where it had no error.
  struct Act {
    const char* name;
    bool needs;  ///< every member needs memory for its part
    std::function<Code(Member&)> call;
    std::function<void(Member&)> check;
  };
};

constexpr uint64_t kMemoryCount = 20'011;

TEST_P(TeamsShortOfMemory, OthersAreTold) {
  // Every second number: whoever offers such memory has to pack it.
  const copy::OwnedLayout layout = copy::make_layout({{0, 8}}, 16);
  const auto spread = [&](uint64_t* p, uint64_t n) {
    return copy::Buffer{reinterpret_cast<std::byte*>(p), n * 8, layout.get()};
  };
  uint64_t* in = nullptr;
  uint64_t* out = nullptr;
  const auto expect = [&](uint64_t step, const std::function<uint64_t(uint64_t)>& of) {
    for (uint64_t i = 0; i < kMemoryCount; ++i) ASSERT_EQ(out[i * step], of(i)) << i;
  };
  const auto even_spread = [&](uint64_t* p) { return Pieces{spread(p, kMemoryCount), 2 * kMemoryCount * 8, nullptr}; };
  const bool more_than_two = GetParam().ranks > 2;  // else messages bring the pieces
  const Act acts[] = {
      {"bcast", false, [&](Member& m) { return m.team.bcast(spread(m.self == 0 ? in : out, kMemoryCount), 0); },
       [&](Member& m) {
         if (m.self != 0) expect(2, [&](uint64_t i) { return value(m.call, 0, 2 * i); });
       }},
      {"gather", false, [&](Member& m) { return m.team.gather(spread(in, kMemoryCount), even_spread(out), 0, true); },
       [&](Member& m) {
         if (m.self == 0) expect(2, [&](uint64_t i) { return value(m.call, 0, 2 * i); });
       }},
      {"scatter", false, [&](Member& m) { return m.team.scatter(even_spread(in), bytes(out, kMemoryCount), 0, true); },
       [&](Member& m) { expect(1, [&](uint64_t i) { return value(m.call, 0, 2 * (m.self * kMemoryCount + i)); }); }},
      {"allgather", more_than_two,
       [&](Member& m) { return m.team.allgather(spread(in, kMemoryCount), even_spread(out)); },
       [&](Member& m) { expect(2, [&](uint64_t i) { return value(m.call, 0, 2 * i); }); }},
      {"alltoall", more_than_two, [&](Member& m) { return m.team.alltoall(even_spread(in), even_spread(out), true); },
       [&](Member& m) { expect(2, [&](uint64_t i) { return value(m.call, 0, 2 * (m.self * kMemoryCount + i)); }); }},
      {"reduce", false, [&](Member& m) { return m.team.reduce(in, out, kMemoryCount, m.compositions(), 0); },
       [&](Member& m) {
         if (m.self == 0) expect(1, [&](uint64_t i) { return m.composed(0, m.size - 1, i); });
       }},
      {"allreduce", true, [&](Member& m) { return m.team.allreduce(in, out, kMemoryCount, m.compositions()); },
       [&](Member& m) { expect(1, [&](uint64_t i) { return m.composed(0, m.size - 1, i); }); }},
      {"exscan", false, [&](Member& m) { return m.team.scan(in, out, kMemoryCount, m.compositions(), true); },
       [&](Member& m) {
         if (m.self != 0) expect(1, [&](uint64_t i) { return m.composed(0, m.self - 1, i); });
       }},
  };
  for (const Act& act : acts) {
    for (const bool first : {true, false}) {
      SCOPED_TRACE(std::string(act.name) + (first ? ", the first" : ", the last") + " has no memory");
      run([&](Member& m) {
        const bool victim = m.self == (first ? 0 : m.size - 1);
        // Later calls would find the memory that earlier ones have left.
        for (int times = 0; times < 3; ++times) {
          ++m.call;
          in = m.input(2 * kMemoryCount * m.size);
          out = m.memory(2 * kMemoryCount * m.size);
          Code code = Code::kOk;
          {
            const ShortMemory out_of(victim && times == 0 ? 1 : ~uint64_t{0});
            code = act.call(m);
          }
          const Code told = victim ? Code::kNoMemory : Code::kInvalid;
          if (times != 0) {
            ASSERT_EQ(code, Code::kOk);
          } else if (act.needs) {
            EXPECT_EQ(code, told);
          } else {
            EXPECT_TRUE(code == told || code == Code::kOk) << static_cast<int>(code);
          }
          if (code == Code::kOk) act.check(m);
          m.give_back();
        }
        ASSERT_EQ(m.team.barrier(), Code::kOk);
      });
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Some, TeamsShortOfMemory,
                         ::testing::Values(TeamCase{World::kProcesses, 2, Memory::kKernel},
                                           TeamCase{World::kProcesses, 3, Memory::kKernel},
                                           TeamCase{World::kProcesses, 5, Memory::kMessages},
                                           TeamCase{World::kProcesses, 3, Memory::kMapped}),
                         team_case_name);

}  // namespace
}  // namespace zh::test
