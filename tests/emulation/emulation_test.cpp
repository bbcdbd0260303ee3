// Small collectives of the shipped code with up to 192 ranks, on machines that are only described: that results and
// errors are those of members that all count together, and what a call costs beside trees of other libraries
// (docs/design/scale.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "coll/team/team_state.h"
#include "emulator.h"
#include "peers.h"
#include "world.h"

namespace zh::emulation {
namespace {

// Lines are medians of nviennot/core-to-core-latency, of the machines named; larger ones of these families are taken to
// have the same. Cores of a mesh are as far from each other as those of a socket. How long a reader keeps a shared line
// from the next one is assumed.
const Machine kEpyc{"EPYC, 8 cores a cache, 96 a socket (7R13's lines)", 8, 96, 23, 107, 197, 10};
const Machine kXeon{"Xeon, 56 cores a socket (8375C's lines)", 56, 56, 51, 51, 108, 10};
const Machine kGraviton{"Graviton3, 64 cores", 64, 64, 46, 46, 46, 10};
/// Groups are no blocks of ranks.
const Machine kTwelve{"12 cores a cache", 12, 24, 40, 100, 200, 10};

/// Looks at a flag before a member waits (Member).
constexpr uint32_t kInGroups = 2000;

/// Ranks with a team each.
class Teams {
 public:
  Teams(const Machine& machine, uint32_t ranks, uint32_t polls) : world_(machine), all_(ranks), polls_(polls) {}
  /// On each rank, in run().
  coll::Team& make(uint32_t self) {
    Rank& rank = all_[self];
    std::vector<uint32_t> members(all_.size());
    std::iota(members.begin(), members.end(), 0U);
    rank.services = std::make_unique<Member>(world_, self, polls_);
    rank.pool = std::make_unique<coll::ControlBlockPool>(*rank.services);
    rank.team = std::make_unique<coll::Team>(*rank.services, *rank.pool, 1, members, self);
    EXPECT_TRUE(rank.team->ready());
    return *rank.team;
  }

 private:
  struct Rank {
    std::unique_ptr<Member> services;
    std::unique_ptr<coll::ControlBlockPool> pool;
    std::unique_ptr<coll::Team> team;
  };
  World world_;
  std::vector<Rank> all_;
  uint32_t polls_;
};

template <typename T>
void add(const void* left, const void* right, void* out, size_t n) {
  touch(left, sizeof(T) * n);
  touch(right, sizeof(T) * n);
  const auto* const a = static_cast<const T*>(left);
  const auto* const b = static_cast<const T*>(right);
  std::transform(a, a + n, b, static_cast<T*>(out), std::plus<T>());
}
template <typename T>
const coll::Reduction kSum{sizeof(T), add<T>, nullptr, nullptr, true};

// --- What comes of calls

/// One call of all ranks.
struct Plan {
  enum class What { kAllreduce, kReduce, kBarrier, kBcast } what;
  uint32_t root;
  size_t elements;
  std::vector<std::vector<double>> values;  ///< by rank; one may have more or fewer than the others
  std::vector<bool> refuses;                ///< by rank
};

/// In some calls one rank gives another length than the others, or refuses and does not wait.
std::vector<Plan> plans(uint32_t ranks) {
  constexpr size_t kElements[] = {1, 3, 15, 32, 33, 200};
  constexpr Plan::What kWhat[] = {Plan::What::kAllreduce, Plan::What::kAllreduce, Plan::What::kReduce,
                                  Plan::What::kBarrier, Plan::What::kBcast};
  std::mt19937 random(ranks);
  std::vector<Plan> all;
  for (uint32_t call = 0; call < 60; ++call) {
    const size_t elements = kElements[random() % std::size(kElements)];
    Plan plan{kWhat[random() % std::size(kWhat)], static_cast<uint32_t>(random() % ranks), elements,
              std::vector<std::vector<double>>(ranks, std::vector<double>(elements)), std::vector<bool>(ranks)};
    const auto odd = static_cast<uint32_t>(random() % ranks);
    const auto how = random() % 6;
    if (plan.what <= Plan::What::kReduce && how < 2) plan.values[odd].resize(how == 0 ? elements + 1 : elements - 1);
    plan.refuses[odd] = plan.what <= Plan::What::kReduce && how == 2;
    for (std::vector<double>& of_rank : plan.values) {
      for (double& v : of_rank) v = std::uniform_real_distribution<double>(0, 1)(random);
    }
    all.push_back(std::move(plan));
  }
  return all;
}

/// From the right, in blocks of ranks if it is short (teams.md), whoever is near whom.
double folded(const Plan& in, size_t element) {
  const auto ranks = static_cast<uint32_t>(in.values.size());
  const bool in_blocks = ranks >= coll::kGroupedMembers && in.elements * sizeof(double) <= 256;
  const uint32_t block = in_blocks ? coll::kLargestGroup : ranks;
  double all = 0;
  for (uint32_t begin = (ranks - 1) / block * block, is_last = 1;; begin -= block, is_last = 0) {
    double part = 0;
    for (uint32_t r = std::min(begin + block, ranks); r-- > begin;) {
      const double mine = in.values[r][element];
      part = r + 1 == std::min(begin + block, ranks) ? mine : mine + part;
    }
    all = is_last != 0 ? part : part + all;
    if (begin == 0) return all;
  }
}

/// What a reduction returns on a rank with so many elements: by the first member whose contribution is another.
Code code_of_reduction(const Plan& in, size_t elements) {
  for (uint32_t r = 0; r < in.values.size(); ++r) {
    if (in.refuses[r]) return Code::kInvalid;
    if (in.values[r].size() != elements) return in.values[r].size() > elements ? Code::kTruncated : Code::kInvalid;
  }
  return Code::kOk;
}

/// One rank's part in a call.
void take_part(coll::Team& team, const Plan& plan, uint32_t self) {
  std::vector<double> mine = plan.values[self];
  std::vector<double> out(plan.elements + 1, -1);
  if (plan.refuses[self]) return team.refuse(plan.what == Plan::What::kAllreduce);
  if (plan.what == Plan::What::kBarrier) {
    EXPECT_EQ(team.barrier(), Code::kOk);
  } else if (plan.what == Plan::What::kBcast) {
    double* const data = self == plan.root ? mine.data() : out.data();
    const copy::Buffer buffer{reinterpret_cast<std::byte*>(data), plan.elements * sizeof(double), nullptr};
    EXPECT_EQ(team.bcast(buffer, plan.root), Code::kOk);
    EXPECT_TRUE(std::equal(data, data + plan.elements, plan.values[plan.root].begin()));
  } else {
    const bool rooted = plan.what == Plan::What::kReduce;
    const Code code = rooted ? team.reduce(mine.data(), out.data(), mine.size(), kSum<double>, plan.root)
                             : team.allreduce(mine.data(), out.data(), mine.size(), kSum<double>);
    const bool receives = !rooted || self == plan.root;
    EXPECT_EQ(code, receives ? code_of_reduction(plan, mine.size()) : Code::kOk);
    for (size_t i = 0; code == Code::kOk && receives && i < plan.elements; i += 7) {
      EXPECT_EQ(out[i], folded(plan, i)) << "element " << i;
    }
  }
}

TEST(Emulation, GroupsChangeNoOutcome) {
  for (const Machine* machine : {&kEpyc, &kXeon, &kTwelve}) {
    for (const uint32_t ranks : {15U, 16U, 67U, 192U}) {
      SCOPED_TRACE(machine->name + ", " + std::to_string(ranks) + " ranks");
      const std::vector<Plan> calls = plans(ranks);
      Teams teams(*machine, ranks, kInGroups);
      run(*machine, ranks, [&](uint32_t self) {
        coll::Team& team = teams.make(self);
        std::mt19937 skew(self * 7 + 1);
        for (const Plan& plan : calls) {
          spend(static_cast<double>(skew() % 1000));
          take_part(team, plan, self);
        }
      });
    }
  }
}

TEST(Emulation, NobodyWaitsLongForALateLeader) {
  constexpr uint32_t kRanks = 128;
  constexpr uint32_t kLate = 8;
  constexpr double kLateNs = 1e6;
  Teams teams(kEpyc, kRanks, kInGroups);
  run(kEpyc, kRanks, [&](uint32_t self) {
    coll::Team& team = teams.make(self);
    align();
    const double begin = now_ns();
    if (self == kLate) spend(kLateNs);
    uint64_t data = self;
    EXPECT_EQ(team.bcast({reinterpret_cast<std::byte*>(&data), sizeof data, nullptr}, 0), Code::kOk);
    EXPECT_EQ(data, 0U);
    if (self != kLate) {
      EXPECT_LT(now_ns() - begin, kLateNs / 10);
    }
  });
}

// --- Who dies

/// The next hit of this name but so many is a rank's last.
struct {
  std::string_view point;
  uint32_t hits_left = 0;
} g_fatal;

TEST(Emulation, DeathEndsCollectivesOfGroups) {
  constexpr uint32_t kRanks = 70;
  for (const char* point : {"team: contributed", "team: published", "team: last to arrive", "team: result handed on",
                            "team: not yet done"}) {
    for (const uint32_t hits : {0U, 3U, 200U}) {
      SCOPED_TRACE(point);
      Teams teams(kEpyc, kRanks, kInGroups);
      uint32_t told = 0;
      run(kEpyc, kRanks, [&](uint32_t self) {
        coll::Team& team = teams.make(self);
        align();
        if (self == 0) g_fatal = {point, hits};
        align();
        Code code = Code::kOk;
        for (uint32_t call = 0; code == Code::kOk && call < 2000; ++call) {
          uint64_t in = self;
          uint64_t out = 0;
          code = call % 2 == 0 ? team.allreduce(&in, &out, 1, kSum<uint64_t>)
                               : team.bcast({reinterpret_cast<std::byte*>(&in), sizeof in, nullptr}, call % kRanks);
        }
        EXPECT_EQ(code, Code::kPeerDead);
        EXPECT_EQ(team.barrier(), Code::kPeerDead);
        ++told;
      });
      EXPECT_EQ(told, kRanks - 1);
      g_fatal = {};
    }
  }
}

// --- What they cost

enum class Kind { kBarrier, kAllreduce, kReduce, kBcast };
using Call = std::function<void(uint32_t rank, uint32_t call)>;

/// Whether a member may leave before others have come.
bool is_rooted(Kind kind) { return kind == Kind::kReduce || kind == Kind::kBcast; }

/// ns of a call: of a barrier or an allreduce among others of its kind, each begun when the one before has returned; of
/// a reduction or a broadcast that all begin at once, until the last rank has returned.
double cost(const Machine& machine, uint32_t ranks, Kind kind, const std::function<Call(uint32_t rank)>& make) {
  constexpr uint32_t kWarm = 30;
  constexpr uint32_t kCalls = 10;
  double sum = 0;
  double begin = 0;
  run(machine, ranks, [&](uint32_t rank) {
    const Call call = make(rank);
    for (uint32_t i = 0; i < kWarm + kCalls; ++i) {
      if (i <= kWarm || is_rooted(kind)) {
        align();
        begin = now_ns();
      }
      call(rank, i);
      if (i + 1 < kWarm + kCalls && !is_rooted(kind)) continue;
      align();
      if (rank == 0 && i >= kWarm) sum += now_ns() - begin;
    }
  });
  return sum / kCalls;
}

double team_ns(const Machine& machine, uint32_t ranks, Kind kind, uint32_t polls) {
  Teams teams(machine, ranks, polls);
  return cost(machine, ranks, kind, [&](uint32_t self) -> Call {
    return [&team = teams.make(self), ranks, kind](uint32_t rank, uint32_t call) {
      const uint64_t in = uint64_t{call} * 1000 + rank;
      uint64_t out = rank == 0 ? call : 0;
      if (kind == Kind::kBarrier) {
        EXPECT_EQ(team.barrier(), Code::kOk);
      } else if (kind == Kind::kBcast) {
        EXPECT_EQ(team.bcast({reinterpret_cast<std::byte*>(&out), sizeof out, nullptr}, 0), Code::kOk);
        EXPECT_EQ(out, call);
      } else {
        const Code code = kind == Kind::kReduce ? team.reduce(&in, &out, 1, kSum<uint64_t>, 0)
                                                : team.allreduce(&in, &out, 1, kSum<uint64_t>);
        EXPECT_EQ(code, Code::kOk);
        if (kind == Kind::kReduce && rank != 0) return;
        EXPECT_EQ(out, uint64_t{call} * 1000 * ranks + uint64_t{ranks} * (ranks - 1) / 2);
      }
    };
  });
}

double tree_ns(const Machine& machine, uint32_t ranks, Kind kind, Tree tree) {
  return cost(machine, ranks, kind, [&](uint32_t) -> Call {
    return [&tree, ranks, kind](uint32_t self, uint32_t call) {
      if (kind == Kind::kBarrier) {
        tree.barrier(self);
      } else if (kind == Kind::kBcast) {
        EXPECT_EQ(tree.bcast(self, self == 0 ? call : 0), call);
      } else {
        const uint64_t sum = kind == Kind::kReduce ? tree.reduce(self, self) : tree.allreduce(self, self);
        if (kind == Kind::kAllreduce || self == 0) {
          EXPECT_EQ(sum, uint64_t{ranks} * (ranks - 1) / 2);
        }
      }
    };
  });
}

TEST(Emulation, SmallCollectivesCostWhatTreesDo) {
  constexpr std::pair<Kind, const char*> kKinds[] = {
      {Kind::kBarrier, "barrier"}, {Kind::kAllreduce, "allreduce"}, {Kind::kReduce, "reduce"}, {Kind::kBcast, "bcast"}};
  std::printf("| machine | ranks | 8 B | zerohop | xhc | xhc, by caches too | release_gather |\n");
  for (const auto& [machine, counts] :
       {std::pair<const Machine*, std::vector<uint32_t>>{&kEpyc, {16, 64, 96, 128, 192}},
        {&kXeon, {16, 64, 112}},
        {&kGraviton, {16, 64}}}) {
    for (const uint32_t ranks : counts) {
      for (const auto& [kind, name] : kKinds) {
        const double zerohop = team_ns(*machine, ranks, kind, kInGroups);
        const double xhc = tree_ns(*machine, ranks, kind, Tree::groups(ranks, {machine->cores_per_socket}));
        const double by_caches =
            tree_ns(*machine, ranks, kind, Tree::groups(ranks, {machine->cores_per_cache, machine->cores_per_socket}));
        const double kary = tree_ns(*machine, ranks, kind, Tree::kary(ranks, kind == Kind::kBcast ? 64 : 4));
        std::printf("| %s | %u | %s | %.0f | %.0f | %.0f | %.0f |\n", machine->name.c_str(), ranks, name, zerohop, xhc,
                    by_caches, kary);
        EXPECT_LE(zerohop, 1.15 * std::min(xhc, kary));
      }
    }
  }
}

}  // namespace
}  // namespace zh::emulation

namespace zh {
void crash_point(const char* name) {
  using emulation::g_fatal;
  if (g_fatal.point == name && g_fatal.hits_left-- == 0) {
    g_fatal = {};
    emulation::die();
  }
}
}  // namespace zh
