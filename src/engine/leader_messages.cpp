#include "engine/leader_messages.h"

#include <numeric>
#include <utility>

#include "coll/algorithms/algorithms.h"

namespace zh::engine {
namespace {

constexpr uint64_t kFew = 2048;  // bytes, as coll::default_algorithm() has it

std::shared_ptr<const coll::Layout> apart(size_t leaders) {
  std::vector<uint32_t> node(leaders);
  std::iota(node.begin(), node.end(), 0U);
  return std::make_shared<const coll::Layout>(node);
}

RankList list_of(std::vector<int32_t> ranks) {
  auto owner = std::make_shared<const std::vector<int32_t>>(std::move(ranks));
  return {*owner, owner};
}

/// No leader is on this one's node but itself.
RankList local_of(const Rank& rank, size_t leaders, uint32_t self) {
  std::vector<int32_t> local(leaders, -1);
  local[self] = static_cast<int32_t>(rank.node().self());
  return list_of(std::move(local));
}

/// Pieces of these bytes, one behind another.
std::vector<coll::Piece> in_a_row(std::span<const uint64_t> parts) {
  std::vector<coll::Piece> pieces;
  uint64_t at = 0;
  for (const uint64_t bytes : parts) {
    pieces.push_back({at, bytes});
    at += bytes;
  }
  return pieces;
}

}  // namespace

LeaderMessages::LeaderMessages(Rank& rank, uint64_t context, std::vector<int32_t> world, uint32_t self)
    : rank_(rank),
      layout_(apart(world.size())),
      self_(self),
      transport_(rank, *rank.internode(), context, local_of(rank, layout_->ranks(), self), list_of(std::move(world)),
                 self) {}

coll::Problem LeaderMessages::problem_of(coll::Collective collective, uint64_t count, uint64_t element_bytes) const {
  coll::Problem problem;
  problem.collective = collective;
  problem.self = self_;
  problem.count = count;
  problem.element_bytes = element_bytes;
  problem.layout = layout_;
  return problem;
}

Code LeaderMessages::run(const coll::Problem& problem, const char* algorithm, coll::Call call) {
  coll::Schedule schedule;
  if (const Status s = coll::build(problem, algorithm, &schedule); !s.ok()) return s.code();
  const auto plan = std::make_shared<const coll::Plan>(std::move(schedule));
  std::unique_ptr<coll::Run> run;
  if (const Status s = coll::Run::create(plan, transport_, &run); !s.ok()) return s.code();
  call.first_tag = coll::first_tag(calls_++);
  run->start(call);
  rank_.wait_until([&] {
    rank_.internode()->progress();
    return run->advance();
  });
  return run->code();
}

Code LeaderMessages::barrier() { return run(problem_of(coll::Collective::kBarrier, 0, 1), "dissemination", {}); }

Code LeaderMessages::bcast(void* data, uint64_t bytes, uint32_t root) {
  coll::Problem problem = problem_of(coll::Collective::kBcast, bytes, 1);
  problem.root = root;
  return run(problem, "binomial", {data, data, {}});
}

Code LeaderMessages::reduce(const void* in, void* out, uint64_t count, const coll::Reduction& how, uint32_t root) {
  coll::Problem problem = problem_of(coll::Collective::kReduce, count, how.element_bytes);
  problem.root = root;
  problem.commutative = how.commutative;
  problem.in_place = in == out && self_ == root;
  return run(problem, "binomial", {in, out, how});
}

Code LeaderMessages::allreduce(const void* in, void* out, uint64_t count, const coll::Reduction& how) {
  coll::Problem problem = problem_of(coll::Collective::kAllreduce, count, how.element_bytes);
  problem.commutative = how.commutative;
  problem.in_place = in == out;
  return run(problem, problem.bytes() > kFew ? "reduce-scatter-allgather" : "recursive-doubling", {in, out, how});
}

Code LeaderMessages::allgather(void* all, std::span<const uint64_t> parts) {
  coll::Problem problem = problem_of(coll::Collective::kAllgather, parts[self_], 1);
  problem.uniform = false;
  problem.in_place = true;
  problem.recv = in_a_row(parts);
  return run(problem, "ring", {nullptr, all, {}});
}

Code LeaderMessages::gather(const void* own, uint64_t bytes, void* all, std::span<const uint64_t> parts, bool even,
                            uint32_t root) {
  coll::Problem problem = problem_of(coll::Collective::kGather, bytes, 1);
  problem.root = root;
  problem.uniform = even;
  problem.in_place = self_ == root;  // from its place there
  if (!even) problem.recv = in_a_row(parts);
  return run(problem, even && bytes <= kFew ? "binomial" : "linear", {own, all, {}});
}

Code LeaderMessages::scatter(const void* all, std::span<const uint64_t> parts, void* own, uint64_t bytes, bool even,
                             uint32_t root) {
  coll::Problem problem = problem_of(coll::Collective::kScatter, bytes, 1);
  problem.root = root;
  problem.uniform = even;
  problem.in_place = self_ == root;
  if (!even) problem.send = in_a_row(parts);
  return run(problem, even && bytes <= kFew ? "binomial" : "linear", {all, own, {}});
}

Code LeaderMessages::alltoall(const void* in, void* out, std::span<const uint64_t> parts) {
  coll::Problem problem = problem_of(coll::Collective::kAlltoall, 0, 1);
  problem.uniform = false;
  problem.send = problem.recv = in_a_row(parts);
  return run(problem, "linear", {in, out, {}});
}

Code LeaderMessages::reduce_scatter(const void* in, void* out, std::span<const uint64_t> parts,
                                    const coll::Reduction& how) {
  coll::Problem problem = problem_of(coll::Collective::kReduceScatter, 0, how.element_bytes);
  problem.uniform = false;
  problem.send = in_a_row(parts);
  problem.commutative = how.commutative;
  problem.in_place = in == out;
  return run(problem, "pairwise", {in, out, how});
}

Code LeaderMessages::exscan(const void* in, void* out, uint64_t count, const coll::Reduction& how) {
  coll::Problem problem = problem_of(coll::Collective::kExscan, count, how.element_bytes);
  problem.commutative = how.commutative;
  return run(problem, "recursive-doubling", {in, out, how});
}

bool LeaderMessages::on_all(bool here) {
  uint64_t least = here ? 1 : 0;
  return allreduce(&least, &least, 1, coll::least_word()) == Code::kOk && least == 1;
}

}  // namespace zh::engine
