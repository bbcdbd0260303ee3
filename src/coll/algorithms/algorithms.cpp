// See algorithms.h. Also what becomes of a schedule when the call is made in place.
#include "coll/algorithms/algorithms.h"

#include <algorithm>
#include <new>

#include "base/shm_types.h"
#include "coll/algorithms/families.h"
#include "coll/schedule/builder.h"

namespace zh::coll {
namespace {

/// The output stands for the input where it holds this rank's piece (gather, allgather), or the input for the output
/// (scatter): algorithms touch that piece by one copy and by reading it, and never write it otherwise.
void rename_own_piece(Schedule& schedule, const Problem& p) {
  const bool scatter = p.collective == Collective::kScatter;
  const Place gone = scatter ? Place::kOutput : Place::kInput;
  const Place kept = scatter ? Place::kInput : Place::kOutput;
  const uint64_t shift = scatter ? p.send_piece(p.self).at : p.recv_piece(p.self).at;
  for (Step& step : schedule.steps) {
    if (step.reads() && step.from == gone) {
      step.from = kept;
      step.from_at += shift;
    }
    if (step.writes() && step.to == gone) {
      step.to = kept;
      step.to_at += shift;
    }
    if (step.kind == StepKind::kCopy && step.from == step.to && step.from_at == step.to_at) step.bytes = 0;
  }
}

/// Everything else works from a copy that is made first.
void copy_input_first(Schedule& schedule, uint64_t bytes) {
  const bool read = std::any_of(schedule.steps.begin(), schedule.steps.end(),
                                [](const Step& s) { return s.reads() && s.from == Place::kInput; });
  if (bytes == 0 || !read) return;
  const uint64_t input = round_up(schedule.scratch_bytes, kLineBytes);
  schedule.scratch_bytes = input + bytes;
  for (Step& step : schedule.steps) {
    if (step.reads() && step.from == Place::kInput) {
      step.from = Place::kScratch;
      step.from_at += input;
    }
  }
  for (uint32_t& wait : schedule.waits) ++wait;
  // The first steps wait for the copy, and all others for them.
  for (Step& step : schedule.steps) {
    if (step.n_waits != 0) continue;
    step.first_wait = static_cast<uint32_t>(schedule.waits.size());
    step.n_waits = 1;
    schedule.waits.push_back(0);
  }
  Step copy;
  copy.from = Place::kOutput;
  copy.to = Place::kScratch;
  copy.to_at = input;
  copy.bytes = bytes;
  schedule.steps.insert(schedule.steps.begin(), copy);
}

void make_in_place(Schedule& schedule, const Problem& p) {
  switch (p.collective) {
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kAllgather:
      return rename_own_piece(schedule, p);
    case Collective::kReduce:
    case Collective::kAllreduce:
    case Collective::kReduceScatter:
    case Collective::kScan:
    case Collective::kExscan:
    case Collective::kAlltoall:
      return copy_input_first(schedule, p.output_bytes());
    case Collective::kBarrier:
    case Collective::kBcast:
    case Collective::kCount:
    case Collective::kNeighbor:
      return;
  }
}

}  // namespace

std::span<const Algorithm> algorithms(Collective collective) {
  switch (collective) {
    case Collective::kBarrier:
      return barrier_algorithms();
    case Collective::kBcast:
      return bcast_algorithms();
    case Collective::kReduce:
      return reduce_algorithms();
    case Collective::kAllreduce:
      return allreduce_algorithms();
    case Collective::kReduceScatter:
      return reduce_scatter_algorithms();
    case Collective::kScan:
      return scan_algorithms();
    case Collective::kExscan:
      return exscan_algorithms();
    case Collective::kGather:
      return gather_algorithms();
    case Collective::kScatter:
      return scatter_algorithms();
    case Collective::kAllgather:
      return allgather_algorithms();
    case Collective::kAlltoall:
      return alltoall_algorithms();
    case Collective::kNeighbor:
      return neighbor_algorithms();
    case Collective::kCount:
      break;
  }
  return {};
}

const Algorithm* algorithm(Collective collective, std::string_view name) {
  for (const Algorithm& a : algorithms(collective)) {
    if (a.name == name) return &a;
  }
  return nullptr;
}

const Algorithm* algorithm_called(Collective collective, std::string_view name) {
  const Algorithm* found = algorithm(collective, name);
  if (found != nullptr) return found;
  for (const Algorithm& a : algorithms(collective)) {
    const bool ends =
        a.name.size() > name.size() && a.name.ends_with(name) && a.name[a.name.size() - name.size() - 1] == '-';
    if (!ends) continue;
    if (found != nullptr) return nullptr;
    found = &a;
  }
  return found;
}

Status build(const Problem& problem, std::string_view name, Schedule* out) {
  const Algorithm* how = algorithm(problem.collective, name);
  if (how == nullptr) return {Code::kInvalid, "no algorithm of this name"};
  if (!how->fits(problem)) return {Code::kNotSupported, "the algorithm does not fit the operation or its pieces"};
  try {
    Builder builder(problem.ranks());
    how->tell(builder, problem);
    *out = builder.finish();
    if (problem.in_place) make_in_place(*out, problem);
  } catch (const std::bad_alloc&) {
    return {Code::kNoMemory, "memory for a schedule"};
  }
  return kOk;
}

Status build(std::span<const Problem> problems, std::string_view name, std::vector<Schedule>* out) {
  out->assign(problems.size(), {});
  for (size_t rank = 0; rank < problems.size(); ++rank) {
    if (Status s = build(problems[rank], name, &(*out)[rank]); !s.ok()) return s;
  }
  return kOk;
}

bool may_share(const Problem& p) {
  constexpr uint32_t kLeastRanks = 4;  // see worth_sharing()
  const bool scatters = p.collective == Collective::kReduceScatter && p.layout->consecutive();
  const bool gains = p.collective == Collective::kBcast || p.collective == Collective::kAllreduce ||
                     p.collective == Collective::kAllgather || scatters;
  return p.blocks && gains && p.uniform && p.layout->nodes() > 1 && p.layout->smallest_node() >= kLeastRanks;
}

bool worth_sharing(const Problem& p) {
  // Measured on 2 machines of namespaces, 2 processors: with 4 ranks on each, 64 KiB, a broadcast takes 70 us instead
  // of 97, an allreduce 153 instead of 260, an allgather 355 instead of 752; with 2 an allreduce of 1 MiB takes twice
  // as long, and short broadcasts, which nobody waits for, twice or thrice. Reductions to a root gain nothing.
  constexpr uint64_t kLeastBytes = 16 << 10;
  const uint64_t pieces = p.collective == Collective::kReduceScatter ? p.ranks() : 1;
  return may_share(p) && p.bytes() * pieces >= kLeastBytes;
}

namespace {

bool leaders_fit(const Problem& p) {
  const Algorithm* how = algorithm(p.collective, kHostLeaders);
  return how != nullptr && how->fits(p);
}

/// A chain through all ranks then has as few messages between nodes as any algorithm, and few others.
bool crosses_few_nodes(const Problem& p) {
  constexpr uint32_t kFewNodes = 4, kFewRanks = 32;
  return p.layout->consecutive() && p.layout->nodes() <= kFewNodes && p.ranks() <= kFewRanks;
}

bool spans_shared_nodes(const Problem& p) { return p.layout->nodes() > 1 && p.layout->nodes() < p.ranks(); }

}  // namespace

// Measured on 2 machines of namespaces, 2 processors, Intel MPI (docs/design/schedules.md).
bool host_leads(const Problem& p) {
  constexpr uint32_t kDealingNode = 4;  // ranks: with 2 on each the parts are not worth the steps that deal them out
  if (!p.blocks || !spans_shared_nodes(p)) return false;
  switch (p.collective) {
    case Collective::kBarrier:
    case Collective::kBcast:
    case Collective::kAllgather:
      return true;
    case Collective::kAllreduce:
      return leaders_fit(p);
    case Collective::kScatter:
    case Collective::kReduceScatter:
      return leaders_fit(p) && p.layout->smallest_node() >= kDealingNode;
    default:
      return false;
  }
}

bool host_leads_short(const Problem& p) {
  return p.blocks && spans_shared_nodes(p) && p.collective == Collective::kAlltoall && leaders_fit(p);
}

namespace {

/// Whether choose() says kHostLeaders.
bool host_leads_this(const Problem& p) {
  constexpr uint64_t kShortPiece = 8 << 10;  // bytes up to which leaders gain by fewer messages
  return host_leads(p) || (host_leads_short(p) && p.bytes() <= kShortPiece);
}

}  // namespace

bool host_serves(const Problem& p) {
  if (!p.blocks || p.layout->nodes() == 1 || host_leads_this(p)) return false;
  switch (p.collective) {
    case Collective::kGather:
      return p.uniform;
    case Collective::kScatter:
    case Collective::kReduceScatter:
    case Collective::kAlltoall:
      return true;
    default:
      return false;
  }
}

std::string_view choose(const Problem& p) {
  if (host_leads_this(p)) return kHostLeaders;
  // Small: few messages. Large: few bytes, pipelined. The limits are those of MPICH where the papers name none.
  constexpr uint64_t kSmall = 2048;
  constexpr uint64_t kLarge = 128 << 10;
  const bool several_nodes = spans_shared_nodes(p);
  const uint64_t bytes = p.bytes();
  // Of two ranks that share a node, measured: one exchange of the whole vector is as fast up to here, halves after it.
  constexpr uint64_t kWholeOfTwo = 16 << 10;
  const bool two = p.ranks() == 2 && p.layout->nodes() == 1;
  switch (p.collective) {
    case Collective::kBarrier:
      return several_nodes ? "hierarchical" : "dissemination";
    case Collective::kBcast:
      if (bytes > kLarge && p.ranks() > 2) return several_nodes ? "leader-ring" : "scatter-ring-allgather";
      return several_nodes ? "hierarchical" : "binomial";
    case Collective::kReduce:
      if (two && bytes > kLarge) return "linear";
      return several_nodes && if_nodes_in_order(p) ? "hierarchical" : "binomial";
    case Collective::kAllreduce:
      if (two && bytes <= kWholeOfTwo) return "recursive-doubling";
      if (two && p.commutative) return "ring";
      if (!if_nodes_in_order(p)) return bytes > kSmall ? "reduce-scatter-allgather" : "recursive-doubling";
      if (several_nodes) return bytes > kSmall && !worth_sharing(p) ? "shmem-parallel" : "hierarchical";
      return bytes > kSmall ? "reduce-scatter-allgather" : "recursive-doubling";
    case Collective::kReduceScatter:
      return "pairwise";
    case Collective::kScan:
    case Collective::kExscan:
      if (several_nodes && crosses_few_nodes(p)) return "linear";
      return p.chunk_bytes > 0 && bytes > kLarge ? "linear" : "recursive-doubling";
    case Collective::kGather:
    case Collective::kScatter:
      return p.uniform && bytes <= kSmall ? "binomial" : "linear";
    case Collective::kAllgather:
      if (!p.uniform) return several_nodes ? "leader-ring" : "ring";
      if (bytes <= kSmall) return "recursive-doubling";
      return several_nodes ? "leader-ring" : "ring";
    case Collective::kAlltoall:
      if (p.uniform && bytes <= 64 && p.ranks() >= 8) return "bruck";
      return p.uniform && bytes > kLarge ? "pairwise" : "linear";
    case Collective::kNeighbor:
      return "linear";
    case Collective::kCount:
      break;
  }
  return "";
}

}  // namespace zh::coll
