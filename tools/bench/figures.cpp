// See figures.h. cc: "MPI Collectives on Modern Multicore Clusters" (CCGrid 2008); ml: the mlog_nP paper; limic:
// "LiMIC: Support for High-Performance MPI Intra-Node Communication on Linux Cluster" (ICPP 2005).
#include "tools/bench/figures.h"

#include <algorithm>

namespace zh::tools {
namespace {

constexpr FigureLayout kTwoByFour[] = {{2, 2}, {4, 2}};
constexpr FigureLayout kFourByFour[] = {{4, 4}};
constexpr FigureLayout kTwoByEight[] = {{2, 8}};
constexpr FigureLayout kMoreCores[] = {{4, 1}, {4, 2}, {4, 4}, {4, 8}};
constexpr FigureLayout kPair[] = {{1, 2}};
constexpr FigureLayout kPairAndEight[] = {{1, 2}, {1, 8}};

constexpr FigureWay kAsIs[] = {{}};
constexpr FigureWay kBlocksAndInTurn[] = {{"blocks", false, ""}, {"in turn", true, ""}};
constexpr FigureWay kSocketWays[] = {{"block", false, "block"}, {"cyclic", false, "cyclic"}};

constexpr FigureAlgorithm kItself[] = {{}};
constexpr FigureAlgorithm kBroadcasts[] = {{}, {"scatter-ring-allgather", ""}, {"leader-ring", ""}};
constexpr FigureAlgorithm kGathers[] = {{}, {"ring", ""}, {"leader-ring", ""}};
constexpr FigureAlgorithm kHierarchical[] = {{}, {"hierarchical", "8K"}, {"hierarchical", "1M"}};

constexpr Figure kBenchFigures[] = {
    {"limic-12", "LiMIC paper, figure 12",
     "MPI_Alltoall of small messages, two processes on two and on four nodes; sizes are this command's, for the "
     "paper's "
     "text names 64 KiB alone",
     "alltoall", "8,64,256,1K,4K", kTwoByFour, kAsIs, kItself},
    {"limic-13", "LiMIC paper, figure 13", "the same, of large messages; 24 % less time at 64 KiB on two nodes",
     "alltoall", "16K,64K,256K,1M", kTwoByFour, kAsIs, kItself},
    {"cc-5a", "multicore collectives paper, figure 5 (a)",
     "MPI_Bcast on 64 nodes of 4 ranks: scatter and ring over all ranks, dealt out in blocks and in turn, and a ring "
     "over leaders; up to 1.78 times as fast. Here 4 nodes: the host, zerohop by itself, and both by zerohop",
     "bcast", "16K,64K,256K,1M", kFourByFour, kBlocksAndInTurn, kBroadcasts},
    {"cc-5b", "multicore collectives paper, figure 5 (b)",
     "as cc-5a with 8 ranks on each of 64 nodes; up to 1.90 times as fast. Here 2 nodes", "bcast", "16K,64K,256K,1M",
     kTwoByEight, kBlocksAndInTurn, kBroadcasts},
    {"cc-5c", "multicore collectives paper, figure 5 (c)",
     "MPI_Bcast on 4 nodes of 1 to 8 ranks, whose neighbors share a socket's cache (block) or do not (cyclic); the two "
     "differ only on a machine of several sockets or caches",
     "bcast", "4K,64K", kMoreCores, kSocketWays, kItself},
    {"cc-7", "multicore collectives paper, figure 7",
     "MPI_Allgather on 64 nodes of 8 ranks, over all ranks and by a ring of leaders; up to 4 times as fast. Here 2 "
     "nodes",
     "allgather", "1K,4K,16K,64K", kTwoByEight, kAsIs, kGathers},
    {"cc-8", "multicore collectives paper, figure 8",
     "C = A B, square matrices of doubles by blocks of rows: each multiplication gathers B with one MPI_Allgather, "
     "which "
     "is all it communicates. Two rows for each order: the whole, and comm_us, the time in MPI_Allgather, both of the "
     "slowest rank. Every result is verified",
     "", "16,32,64,128,256,512", kPairAndEight, kAsIs, kItself, false, FigureTelling::kMatmul},
    {"ml-2", "mlog_nP paper, figures 2 to 4",
     "broadcasts of 1, 4 and 16 KiB of elements of 4 bytes at strides of 8, 64 and 512, made of MPI_Send and MPI_Recv: "
     "the root sends to all in turn (linear), or ranks pass on (binomial). `zerohop model report` sets the models "
     "beside "
     "them. Between machines: --layout 2x1",
     "linear_bcast,binomial_bcast", "1K,4K,16K", kPair, kAsIs, kItself, false, FigureTelling::kShapes},
    {"ml-8", "mlog_nP paper, figure 8",
     "MPI_Bcast from any root, 8 nodes of 8 ranks: MPICH2's, and hierarchical in tiles; 16.8 to 24.7 % less time. Here "
     "2 "
     "nodes: the host, zerohop by itself, and hierarchical in the paper's tiles",
     "bcast", "8K,64K,1M,8M", kTwoByEight, kAsIs, kHierarchical, true},
};

}  // namespace

std::span<const Figure> figures() { return kBenchFigures; }

const Figure* figure_named(std::string_view id) {
  const auto found = std::ranges::find(kBenchFigures, id, &Figure::id);
  return found == std::end(kBenchFigures) ? nullptr : found;
}

}  // namespace zh::tools
