// See figures.h. CC: "MPI Collectives on Modern Multicore Clusters" (CCGrid 2008); ML: the mlog_nP paper; LiMIC:
// "LiMIC: Support for High-Performance MPI Intra-Node Communication on Linux Cluster" (ICPP 2005).
#include "tools/bench/figures.h"

#include <algorithm>

namespace zh::tools {
namespace {

constexpr FigureLayout kTwoByFour[] = {{2, 2}, {4, 2}};
constexpr FigureLayout kFourByFour[] = {{4, 4}};
constexpr FigureLayout kTwoByEight[] = {{2, 8}};
constexpr FigureLayout kMoreCores[] = {{4, 1}, {4, 2}, {4, 4}, {4, 8}};
constexpr FigureLayout kOneNode[] = {{1, 8}};

constexpr FigureWay kAsIs[] = {{}};
constexpr FigureWay kBlocksAndInTurn[] = {{"blocks", false, ""}, {"in turn", true, ""}};
constexpr FigureWay kSocketWays[] = {{"block", false, "block"}, {"cyclic", false, "cyclic"}};

constexpr FigureAlgorithm kItself[] = {{}};
constexpr FigureAlgorithm kBroadcasts[] = {{}, {"scatter-ring-allgather", ""}, {"leader-ring", ""}};
constexpr FigureAlgorithm kGathers[] = {{}, {"ring", ""}, {"leader-ring", ""}};
constexpr FigureAlgorithm kSmallTiles[] = {
    {}, {"binomial", "0"}, {"binomial", "4K"}, {"binomial", "8K"}, {"binomial", "16K"}, {"binomial", "64K"}};
constexpr FigureAlgorithm kLargeTiles[] = {{},
                                           {"binomial", "0"},
                                           {"binomial", "8K"},
                                           {"binomial", "64K"},
                                           {"binomial", "512K"},
                                           {"binomial", "1M"},
                                           {"binomial", "2M"}};
constexpr FigureAlgorithm kHierarchical[] = {{}, {"hierarchical", "8K"}, {"hierarchical", "1M"}};

constexpr std::string_view kNetwork =
    "nodes are namespaces of this machine that share its processors, and TCP stands for the paper's network: only "
    "ratios say something";

constexpr Figure kBenchFigures[] = {
    {.id = "limic-12",
     .source = "LiMIC paper, figure 12",
     .shows = "MPI_Alltoall of small messages, two processes on two and on four nodes",
     .here = "the same jobs; sizes are this command's, for the paper's text names 64 KiB alone",
     .not_here = kNetwork,
     .collective = "alltoall",
     .sizes = "8,64,256,1K,4K",
     .layouts = kTwoByFour,
     .ways = kAsIs,
     .algorithms = kItself},
    {.id = "limic-13",
     .source = "LiMIC paper, figure 13",
     .shows = "the same, of large messages; 24 % less time at 64 KiB on two nodes",
     .here = "the same jobs",
     .not_here = kNetwork,
     .collective = "alltoall",
     .sizes = "16K,64K,256K,1M",
     .layouts = kTwoByFour,
     .ways = kAsIs,
     .algorithms = kItself},
    {.id = "cc-5a",
     .source = "multicore collectives paper, figure 5 (a)",
     .shows = "MPI_Bcast on 64 nodes of 4 ranks: scatter and ring over all ranks, dealt out in blocks and in turn, and "
              "a ring over leaders; up to 1.78 times as fast",
     .here = "4 nodes of 4 ranks: the host, zerohop by itself, and both algorithms by zerohop",
     .not_here = kNetwork,
     .collective = "bcast",
     .sizes = "16K,64K,256K,1M",
     .layouts = kFourByFour,
     .ways = kBlocksAndInTurn,
     .algorithms = kBroadcasts},
    {.id = "cc-5b",
     .source = "multicore collectives paper, figure 5 (b)",
     .shows = "as cc-5a with 8 ranks on each of 64 nodes; up to 1.90 times as fast",
     .here = "2 nodes of 8 ranks",
     .not_here = kNetwork,
     .collective = "bcast",
     .sizes = "16K,64K,256K,1M",
     .layouts = kTwoByEight,
     .ways = kBlocksAndInTurn,
     .algorithms = kBroadcasts},
    {.id = "cc-5c",
     .source = "multicore collectives paper, figure 5 (c)",
     .shows = "MPI_Bcast on 4 nodes of 1 to 8 ranks, whose neighbors share a socket's cache (block) or do not (cyclic)",
     .here =
         "the same jobs, where there are more ranks than processors pinned block or cyclic; sizes are this command's",
     .not_here = "block and cyclic differ only on a machine of several sockets or caches. Nodes are namespaces that "
                 "share its processors",
     .collective = "bcast",
     .sizes = "4K,64K",
     .layouts = kMoreCores,
     .ways = kSocketWays,
     .algorithms = kItself},
    {.id = "cc-7",
     .source = "multicore collectives paper, figure 7",
     .shows = "MPI_Allgather on 64 nodes of 8 ranks, over all ranks and by a ring of leaders; up to 4 times as fast",
     .here = "2 nodes of 8 ranks: the host, zerohop by itself, a ring over all ranks and one of leaders by zerohop",
     .not_here = kNetwork,
     .collective = "allgather",
     .sizes = "1K,4K,16K,64K",
     .layouts = kTwoByEight,
     .ways = kAsIs,
     .algorithms = kGathers},
    {.id = "ml-6",
     .source = "mlog_nP paper, figure 6",
     .shows = "a broadcast among 8 processes of one node, cut into tiles, below 512 KiB; tiles of 8 KiB are the best",
     .here = "the same: a binomial tree of zerohop's, whole (/0) and in tiles, beside the host and zerohop by itself",
     .not_here =
         "with fewer than 8 processors the ranks wait for each other's turn, which hides what tiles gain in caches",
     .collective = "bcast",
     .sizes = "8K,16K,32K,64K,128K,256K",
     .layouts = kOneNode,
     .ways = kAsIs,
     .algorithms = kSmallTiles},
    {.id = "ml-7",
     .source = "mlog_nP paper, figure 7",
     .shows = "the same from 1 MiB on; tiles of 1 MiB are the best",
     .here = "the same",
     .not_here = "as for ml-6",
     .collective = "bcast",
     .sizes = "1M,2M,4M,8M",
     .layouts = kOneNode,
     .ways = kAsIs,
     .algorithms = kLargeTiles},
    {.id = "ml-8",
     .source = "mlog_nP paper, figure 8",
     .shows = "MPI_Bcast from any root, 8 nodes of 8 ranks: MPICH2's, and hierarchical in tiles; 16.8 to 24.7 % less "
              "time",
     .here =
         "2 nodes of 8 ranks, the root moves on: the host, zerohop by itself, and hierarchical in the paper's tiles",
     .not_here = kNetwork,
     .collective = "bcast",
     .sizes = "8K,64K,1M,8M",
     .layouts = kTwoByEight,
     .ways = kAsIs,
     .algorithms = kHierarchical,
     .any_root = true},
};

constexpr FigureElsewhere kElsewhere[] = {
    {"LiMIC 8 and 9", "zerohop bench p2p --only breakdown"},
    {"LiMIC 10 and 11", "zerohop bench p2p --only latency,bandwidth"},
    {"CC 6 (a) and (b)", "zerohop bench algorithms --only allreduce --ranks 8"},
    {"CC 8", "zerohop bench matmul"},
    {"ML 2 to 4", "zerohop bench shapes, then zerohop model compare"},
    {"CC 5 to 7, ML 8", "zerohop model papers: whole clusters, by models"},
    {"hybrid paper 5", "zerohop bench p2p --only skew"},
};

}  // namespace

std::span<const Figure> figures() { return kBenchFigures; }

const Figure* figure_named(std::string_view id) {
  const auto found = std::ranges::find(kBenchFigures, id, &Figure::id);
  return found == std::end(kBenchFigures) ? nullptr : found;
}

std::span<const FigureElsewhere> figures_elsewhere() { return kElsewhere; }

}  // namespace zh::tools
