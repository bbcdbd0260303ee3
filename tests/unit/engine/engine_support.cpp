#include "engine_support.h"

#include <cstdlib>
#include <vector>

#include "os/affinity.h"
#include "os/clock.h"
#include "os/process.h"
#include "os/yield.h"

namespace zh::node {

struct NodeTestAccess {
  static std::byte*& base(Node& node) { return node.base_; }
};

}  // namespace zh::node

namespace zh::test {

EngineRank::~EngineRank() {
  rank.reset();
  if (node != nullptr && shares_base) node::NodeTestAccess::base(*node) = own_base;
}

uint64_t storm_seed() {
  const char* given = std::getenv("ZH_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : os::random_token() % 1'000'000'000;
  std::printf("seed %llu (repeat with ZH_TEST_SEED)\n", static_cast<unsigned long long>(seed));
  return seed;
}

void compute(uint64_t ns) {
  const uint64_t end = os::now_ns() + ns;
  while (os::now_ns() < end) os::yield_cpu();
}

uint64_t stat(const engine::Rank& rank, const std::string& key) {
  const std::string json = rank.stats_json();
  const size_t at = json.find("\"" + key + "\":");
  return at == std::string::npos ? ~uint64_t{0} : std::strtoull(json.c_str() + at + key.size() + 3, nullptr, 10);
}

EngineRank make_rank(node::Bootstrap& world, const StormConfig& config) {
  EngineRank r;
  node::JoinConfig nodes;
  nodes.rank_bytes = config.rank_bytes;
  nodes.annex_bytes = config.annex_bytes;
  nodes.measure_line = false;
  nodes.cma = config.cma;
  nodes.node_ranks = config.node_ranks;
  nodes.topology_file = config.topology;
  nodes.module_use = config.module_use;
  if (config.modules != nullptr) nodes.open_module = [&](auto* out) { return config.modules->open(out); };
  const Status joined = node::Node::join(world, nodes, &r.node);
  EXPECT_TRUE(joined.ok()) << joined.what();
  if (!joined.ok()) return {};
  if (config.world == World::kThreads) {
    r.shares_base = true;
    std::byte*& base = node::NodeTestAccess::base(*r.node);
    std::vector<std::byte*> bases(static_cast<size_t>(world.size()));
    if (!world.allgather(&base, sizeof base, bases.data()).ok()) return {};
    if (r.node->self() != 0) r.own_base = base;
    base = bases[static_cast<size_t>(r.node->world_rank(0))];
  }
  engine::Config engine;
  engine.cma = config.cma;
  engine.copiers = config.copiers;
  engine.calibrate = false;
  if (!config.streams) engine.profile = "papers";
  engine.single_copy_min = config.single_copy_min;
  engine.polled_senders = config.polled_senders;
  engine.skew = config.skew;
  engine.ablations = config.ablations;
  engine.lines = config.lines;
  engine.wait = config.wait;
  engine.log = config.log;
  engine.timeline = config.timeline;
  engine.heap = config.heap;
  engine.regions = config.regions;
  const Status made = engine::Rank::create(*r.node, world, engine, &r.rank);
  EXPECT_TRUE(made.ok()) << made.what();
  if (!made.ok()) return r;
  if (config.threads) r.rank->enable_threads();
  return r;
}

void run_engine(int n, const StormConfig& config, const EngineBody& body) {
  run_ranks(config.world, n, [&](TestBootstrap& world) {
    EngineRank r = make_rank(world, config);
    ASSERT_NE(r.rank, nullptr);
    body(world, r, r.node->self());
    if (::testing::Test::HasFatalFailure()) return;
    ASSERT_TRUE(world.barrier().ok());
  });
}

StormConfig config_in(World world, bool cma) {
  StormConfig config;
  config.world = world;
  config.cma = cma;
  return config;
}

SendArgs message_to(uint32_t dest, uint32_t self, int32_t tag, const void* data, uint64_t bytes, p2p::SendMode mode) {
  SendArgs a;
  a.dest = dest;
  a.source = static_cast<int32_t>(self);
  a.tag = tag;
  a.context = 7;
  a.data = {static_cast<std::byte*>(const_cast<void*>(data)), bytes, nullptr};
  a.mode = mode;
  return a;
}

RecvArgs message_from(int32_t source, int32_t tag, void* data, uint64_t bytes) {
  RecvArgs a;
  a.peer = a.source = source;
  a.tag = tag;
  a.context = 7;
  a.buffer = {static_cast<std::byte*>(data), bytes, nullptr};
  return a;
}

Result finish(Rank& rank, Request* request) {
  rank.wait(request);
  const Result result = rank.result(request);
  rank.release(request);
  return result;
}

void finish(Rank& rank, std::span<Request* const> requests) {
  for (Request* request : requests) finish(rank, request);
}

void stay_on(uint32_t nth) {
  const os::CpuSet allowed = os::allowed_cpus();
  os::CpuSet one;
  for (uint32_t cpu = 0; cpu < os::CpuSet::kMaxCpus; ++cpu) {
    if (allowed.has(cpu) && nth-- == 0) {
      one.add(cpu);
      break;
    }
  }
  ASSERT_EQ(os::bind_to(one), 0);
}

}  // namespace zh::test
