// See problem.h.
#include "coll/schedule/problem.h"

#include <algorithm>
#include <array>
#include <map>

namespace zh::coll {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(Collective::kCount)> kNames = {
    "barrier", "bcast",  "reduce",  "allreduce", "reduce_scatter", "scan",
    "exscan",  "gather", "scatter", "allgather", "alltoall"};

uint64_t end_of(const std::vector<Piece>& pieces) {
  uint64_t end = 0;
  for (const Piece& piece : pieces) end = std::max(end, piece.at + piece.bytes);
  return end;
}

}  // namespace

std::string_view name_of(Collective collective) {
  return collective == Collective::kNeighbor ? "neighbor" : kNames[static_cast<size_t>(collective)];
}

Collective collective_named(std::string_view name) {
  return static_cast<Collective>(std::find(kNames.begin(), kNames.end(), name) - kNames.begin());
}

bool reduces(Collective collective) {
  return collective == Collective::kReduce || collective == Collective::kAllreduce ||
         collective == Collective::kReduceScatter || collective == Collective::kScan ||
         collective == Collective::kExscan;
}

bool has_root(Collective collective) {
  return collective == Collective::kBcast || collective == Collective::kReduce || collective == Collective::kGather ||
         collective == Collective::kScatter;
}

Layout::Layout(std::span<const uint32_t> node_of_rank) {
  std::map<uint32_t, uint32_t> number;
  std::vector<std::vector<uint32_t>> by_node;
  for (uint32_t rank = 0; rank < node_of_rank.size(); ++rank) {
    const auto [known, is_new] = number.try_emplace(node_of_rank[rank], static_cast<uint32_t>(by_node.size()));
    if (is_new) by_node.emplace_back();
    node_of_.push_back(known->second);
    by_node[known->second].push_back(rank);
    everybody_.push_back(rank);
  }
  first_.push_back(0);
  smallest_ = ranks();
  for (const std::vector<uint32_t>& members : by_node) {
    members_.insert(members_.end(), members.begin(), members.end());
    first_.push_back(static_cast<uint32_t>(members_.size()));
    smallest_ = std::min(smallest_, static_cast<uint32_t>(members.size()));
  }
  consecutive_ = std::is_sorted(members_.begin(), members_.end());
}

std::shared_ptr<const Layout> Layout::one_node(uint32_t ranks) {
  return std::make_shared<const Layout>(std::vector<uint32_t>(ranks, 0));
}

Range Problem::send_piece(uint32_t rank) const {
  const bool listed = !uniform && rank < send.size();
  if (collective == Collective::kAlltoall && in_place)
    return {Place::kInput, recv_piece(rank).at, recv_piece(rank).bytes};
  if (collective == Collective::kGather || collective == Collective::kAllgather) {
    const bool known = collective == Collective::kAllgather && !uniform;
    return {Place::kInput, 0, known ? recv[self].bytes : bytes()};
  }
  return listed ? Range{Place::kInput, send[rank].at, send[rank].bytes} : Range{Place::kInput, rank * bytes(), bytes()};
}

Range Problem::recv_piece(uint32_t rank) const {
  const bool listed = !uniform && rank < recv.size();
  if (collective == Collective::kScatter) return {Place::kOutput, 0, bytes()};
  if (collective == Collective::kReduceScatter) return {Place::kOutput, 0, send_piece(self).bytes};
  return listed ? Range{Place::kOutput, recv[rank].at, recv[rank].bytes}
                : Range{Place::kOutput, rank * bytes(), bytes()};
}

uint64_t Problem::input_bytes() const {
  switch (collective) {
    case Collective::kBarrier:
    case Collective::kCount:
      return 0;
    case Collective::kBcast:
      return self == root ? bytes() : 0;
    case Collective::kReduce:
    case Collective::kAllreduce:
    case Collective::kScan:
    case Collective::kExscan:
      return in_place ? 0 : bytes();
    case Collective::kGather:
    case Collective::kAllgather:
      return in_place ? 0 : send_piece(0).bytes;
    case Collective::kScatter:
      if (self != root) return 0;
      return uniform ? ranks() * bytes() : end_of(send);
    case Collective::kReduceScatter:
    case Collective::kAlltoall:
      if (in_place) return 0;
      return uniform ? ranks() * bytes() : end_of(send);
    case Collective::kNeighbor:
      return end_of(send);
  }
  return 0;
}

uint64_t Problem::output_bytes() const {
  switch (collective) {
    case Collective::kBarrier:
    case Collective::kCount:
      return 0;
    case Collective::kBcast:
      return self == root ? 0 : bytes();
    case Collective::kReduce:
      return self == root ? bytes() : 0;
    case Collective::kAllreduce:
    case Collective::kScan:
    case Collective::kExscan:
      return bytes();
    case Collective::kGather:
      if (self != root) return 0;
      return uniform ? ranks() * bytes() : end_of(recv);
    case Collective::kScatter:
      return in_place ? 0 : bytes();
    case Collective::kAllgather:
    case Collective::kAlltoall:
      return uniform ? ranks() * bytes() : end_of(recv);
    case Collective::kReduceScatter:
      if (!in_place) return send_piece(self).bytes;
      return uniform ? ranks() * bytes() : end_of(send);
    case Collective::kNeighbor:
      return end_of(recv);
  }
  return 0;
}

uint32_t digest(const Problem& problem) {
  uint64_t length = 0;
  if (problem.uniform) {
    length = problem.bytes();
  } else if (problem.collective == Collective::kReduceScatter) {
    for (const Piece& piece : problem.send) length += piece.bytes;
  } else if (problem.collective == Collective::kAllgather) {
    for (const Piece& piece : problem.recv) length += piece.bytes;
  }
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15U;
  uint64_t hash = static_cast<uint64_t>(problem.collective) * kOdd;
  for (const uint64_t word : {uint64_t{problem.root}, length}) hash = (hash ^ (hash >> 32) ^ word) * kOdd;
  constexpr int kBits = 24;
  return static_cast<uint32_t>(hash >> (64 - kBits)) | 1;
}

std::vector<Problem> for_all_ranks(const Problem& problem) {
  std::vector<Problem> all(problem.ranks(), problem);
  for (uint32_t rank = 0; rank < all.size(); ++rank) all[rank].self = rank;
  return all;
}

}  // namespace zh::coll
