// See schedule_support.h.
#include "schedule_support.h"

#include <algorithm>

namespace zh::test {

using coll::Collective;
using coll::Layout;
using coll::Problem;

namespace {

/// Bytes that ranks `from` and `to` have for each other, as calls in place need it: many different ones, some 0.
uint64_t piece_bytes(uint32_t from, uint32_t to, const Problem& p) {
  return (p.count == 0 ? 0 : ((from + 1) * (to + 1) * 3 + from + to + p.count) % (2 * p.count + 1)) * p.element_bytes;
}

/// Lays pieces of these sizes out with gaps, in descending order of ranks so that places do not follow ranks.
std::vector<coll::Piece> lay_out(const std::vector<uint64_t>& bytes, uint64_t gap) {
  std::vector<coll::Piece> pieces(bytes.size());
  uint64_t at = gap;
  for (size_t i = bytes.size(); i-- > 0;) {
    pieces[i] = {at, bytes[i]};
    at += bytes[i] + gap;
  }
  return pieces;
}

}  // namespace

std::shared_ptr<const Layout> blocks_of(uint32_t ranks, uint32_t nodes) {
  std::vector<uint32_t> node(ranks);
  for (uint32_t r = 0; r < ranks; ++r) node[r] = r * nodes / ranks;
  return std::make_shared<const Layout>(node);
}

std::vector<std::shared_ptr<const Layout>> layouts(uint32_t ranks) {
  std::vector<std::vector<uint32_t>> seen;
  std::vector<std::shared_ptr<const Layout>> all;
  const auto add = [&](auto&& node_of) {
    std::vector<uint32_t> node(ranks);
    for (uint32_t r = 0; r < ranks; ++r) node[r] = node_of(r);
    auto layout = std::make_shared<const Layout>(node);
    for (uint32_t r = 0; r < ranks; ++r) node[r] = layout->node_of(r);
    if (std::find(seen.begin(), seen.end(), node) != seen.end()) return;
    seen.push_back(node);
    all.push_back(layout);
  };
  add([](uint32_t) { return 0u; });
  for (uint32_t nodes = 2; nodes <= 4; ++nodes) {
    add([&](uint32_t r) { return r * nodes / ranks; });
    add([&](uint32_t r) { return r % nodes; });
  }
  add([](uint32_t r) { return r == 0 ? 0u : r < 4 ? 1u : 2u; });
  add([](uint32_t r) { return r * r % 5; });
  return all;
}

bool has_lists(Collective collective) {
  return collective == Collective::kGather || collective == Collective::kScatter ||
         collective == Collective::kAllgather || collective == Collective::kAlltoall ||
         collective == Collective::kReduceScatter;
}

std::vector<Problem> make_problems(const Problem& problem, bool uniform) {
  std::vector<Problem> all = coll::for_all_ranks(problem);
  if (uniform || !has_lists(problem.collective)) return all;
  for (Problem& p : all) {
    p.uniform = false;
    std::vector<uint64_t> send;
    std::vector<uint64_t> recv;
    for (uint32_t r = 0; r < p.ranks(); ++r) {
      const bool alltoall = p.collective == Collective::kAlltoall;
      send.push_back(piece_bytes(alltoall ? p.self : 0, r, p));
      recv.push_back(piece_bytes(alltoall ? r : 0, alltoall ? p.self : r, p));
    }
    // Displacements are a rank's own business.
    const uint64_t gap = p.element_bytes * (p.self % 3);
    if (p.collective == Collective::kAlltoall) {
      p.send = lay_out(send, gap);
      p.recv = lay_out(recv, p.element_bytes);
    } else if (p.collective == Collective::kReduceScatter) {
      uint64_t at = 0;
      for (const uint64_t bytes : send) {
        p.send.push_back({at, bytes});
        at += bytes;
      }
    } else if (p.collective == Collective::kAllgather) {
      p.recv = lay_out(recv, gap);
    } else {
      p.count = recv[p.self] / p.element_bytes;
      if (p.self != p.root) continue;
      (p.collective == Collective::kGather ? p.recv : p.send) = lay_out(recv, gap);
    }
  }
  return all;
}

std::vector<Problem> in_place(std::vector<Problem> problems) {
  for (Problem& p : problems) {
    const bool root_only = coll::has_root(p.collective);
    const bool possible = p.collective != Collective::kBarrier && p.collective != Collective::kBcast;
    p.in_place = possible && (!root_only || p.self == p.root);
  }
  return problems;
}

std::vector<Problem> with_teams(std::vector<Problem> problems, bool some) {
  for (Problem& p : problems) {
    p.blocks = true;
    p.team = !some || p.layout->node_of(p.self) % 2 == 0;
  }
  return problems;
}

std::vector<Collective> all_collectives() {
  std::vector<Collective> all;
  for (size_t c = 0; c < static_cast<size_t>(Collective::kCount); ++c) all.push_back(static_cast<Collective>(c));
  return all;
}

coll::Problem planted_problem(coll::Collective collective) {
  coll::Problem problem{.collective = collective, .count = 21, .element_bytes = 4, .chunk_bytes = 16};
  problem.layout = blocks_of(7, 3);
  problem.root = 2;
  problem.commutative = false;
  return problem;
}

std::string text(const Problem& p, std::string_view algorithm) {
  std::string out = std::string(name_of(p.collective)) + " " + std::string(algorithm) + ", root " +
                    std::to_string(p.root) + ", count " + std::to_string(p.count) + ", chunks of " +
                    std::to_string(p.chunk_bytes) + (p.uniform ? "" : ", lists") + (p.in_place ? ", in place" : "") +
                    (p.commutative ? "" : ", in rank order") + (p.team ? ", teams" : "") + ", nodes";
  for (uint32_t r = 0; r < p.ranks(); ++r) out += " " + std::to_string(p.layout->node_of(r));
  return out;
}

}  // namespace zh::test
