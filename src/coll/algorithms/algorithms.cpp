// See algorithms.h. Also what becomes of a schedule when the call is made in place.
#include "coll/algorithms/algorithms.h"

#include <algorithm>
#include <iterator>
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
  const Step copy{.from = Place::kOutput, .to = Place::kScratch, .to_at = input, .bytes = bytes};
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
  using Family = std::span<const Algorithm> (*)();
  static constexpr Family kFamilies[] = {barrier_algorithms,   bcast_algorithms,          reduce_algorithms,
                                         allreduce_algorithms, reduce_scatter_algorithms, scan_algorithms,
                                         exscan_algorithms,    gather_algorithms,         scatter_algorithms,
                                         allgather_algorithms, alltoall_algorithms};
  static_assert(std::size(kFamilies) == static_cast<size_t>(Collective::kCount));
  if (collective == Collective::kNeighbor) return neighbor_algorithms();
  if (collective == Collective::kCount) return {};
  return kFamilies[static_cast<size_t>(collective)]();
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

bool cuts(const Algorithm& algorithm) { return algorithm.cuts({.blocks = true}); }

uint64_t chunk_in_force(const Problem& problem, const Algorithm& algorithm) {
  return algorithm.cuts(problem) ? piece_bytes(problem, problem.bytes()) : 0;
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

}  // namespace zh::coll
