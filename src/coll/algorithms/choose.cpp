// See choose.h.
#include "coll/algorithms/choose.h"

#include "coll/algorithms/families.h"

namespace zh::coll {

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

bool host_leads_this(const Problem& p) {
  constexpr uint64_t kShortPiece = 8 << 10;  // bytes up to which leaders gain by fewer messages
  const HostLeads leads = default_leads(p);
  return leads == HostLeads::kAlways || (leads == HostLeads::kSometimes && p.bytes() <= kShortPiece);
}

}  // namespace

Choice choose(const Problem& p, const Facts& facts, const Precedence& precedence) {
  Choice choice;
  const StagingOrder order = named_order(p.collective, precedence);
  if (p.blocks && facts.team && (order != StagingOrder::kFree || no_algorithm_named(p.collective, precedence))) {
    const uint64_t pieces = p.collective == Collective::kReduceScatter ? p.ranks() : 1;
    choice.way = CollectiveWay::kTeam;
    choice.node = node_way(p.collective, p.bytes() * pieces, facts.node);
    if (choice.node == NodeWay::kLarge) choice.order = order;
    return choice;
  }
  // While its rank waits in a call of the host for somebody who waits for this collective (MPI standard 2.9), a thread
  // carries it on that calls neither the host, as messages between nodes need, nor the program.
  if (!p.blocks && (p.layout->nodes() > 1 || !facts.kernel)) return choice;
  if (goes_by_slots(p, facts, precedence)) {
    choice.way = CollectiveWay::kInSlots;
    return choice;
  }
  choice.schedule = precedence.choose(p);
  choice.way = choice.schedule.algorithm == nullptr ? CollectiveWay::kHost : CollectiveWay::kSchedule;
  const bool by_default = choice.way == CollectiveWay::kSchedule && choice.schedule.by == ChosenBy::kDefault;
  const bool may_pipeline = !p.blocks && no_algorithm_named(p.collective, precedence) && fits_staging(p);
  if (may_pipeline && by_default) choice.way = CollectiveWay::kStaged;
  return choice;
}

StagingOrder order_of(Collective collective, std::string_view algorithm) {
  if (collective != Collective::kAllreduce) return StagingOrder::kFree;
  if (algorithm == kShmemParallel) return StagingOrder::kParallel;
  return algorithm == kShmemCyclic ? StagingOrder::kCyclic : StagingOrder::kFree;
}

StagingOrder named_order(Collective collective, const Precedence& precedence) {
  const Algorithm* named = precedence.named_for(collective).value_or(nullptr);
  return named != nullptr ? order_of(collective, named->name) : StagingOrder::kFree;
}

// Gather and scatter are faster as messages of any length.
bool fits_staging(const Problem& p) {
  const bool many = p.ranks() > kMostNonblockingRanks;
  if (!p.uniform || p.ranks() < 2 || many || p.bytes() < kLeastStagedBytes) return false;
  switch (p.collective) {
    case Collective::kReduce:
    case Collective::kAllreduce:
    case Collective::kReduceScatter:
      return p.element_bytes <= kLeastRoomBytes;
    case Collective::kBcast:
      return p.bytes() <= kLargestStagedBcast;
    case Collective::kAllgather:
    case Collective::kAlltoall:
      return p.bytes() <= kLargestStagedPiece;
    default:
      return false;
  }
}

// Measured on 2 machines of namespaces, 2 processors, Intel MPI (docs/design/schedules.md).
HostLeads default_leads(const Problem& p) {
  constexpr uint32_t kDealingNode = 4;  // ranks: with 2 on each the parts are not worth the steps that deal them out
  if (!p.blocks || !spans_shared_nodes(p)) return HostLeads::kNever;
  bool leads = false;
  switch (p.collective) {
    case Collective::kBarrier:
    case Collective::kBcast:
    case Collective::kAllgather:
      leads = true;
      break;
    case Collective::kAllreduce:
      leads = leaders_fit(p);
      break;
    case Collective::kScatter:
    case Collective::kReduceScatter:
      leads = leaders_fit(p) && p.layout->smallest_node() >= kDealingNode;
      break;
    case Collective::kAlltoall:
      return leaders_fit(p) ? HostLeads::kSometimes : HostLeads::kNever;
    default:
      break;
  }
  return leads ? HostLeads::kAlways : HostLeads::kNever;
}

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

std::string_view default_algorithm(const Problem& p) {
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

StepSharing sharing(const Problem& p, HostLeads leads) {
  if (leads == HostLeads::kAlways) return StepSharing::kAlways;
  return leads == HostLeads::kSometimes || may_share(p) ? StepSharing::kIfAgreed : StepSharing::kNever;
}

bool wants_to_share(const Problem& p, HostLeads leads, const Precedence& precedence) {
  if (worth_sharing(p)) return true;
  const Algorithm* how = leads == HostLeads::kSometimes ? precedence.choose(p).algorithm : nullptr;
  return how != nullptr && how->name == kHostLeaders;
}

bool shares_steps(const Problem& p, const Precedence& precedence) {
  const HostLeads leads = precedence.host_leads(p);
  const StepSharing how = sharing(p, leads);
  return how == StepSharing::kAlways || (how == StepSharing::kIfAgreed && wants_to_share(p, leads, precedence));
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

}  // namespace zh::coll
