// The cooperative copy under the model checker: the shipped loops of src/p2p/transfer.cpp (advance_send, advance_recv,
// pull, push, put_cell, join_transfer, sweep_transfers) and of send.cpp (start_transfer), compiled unchanged, two ranks
// as two threads, at the smallest sizes. Each case shows that every byte is moved once, by whichever end; that both
// ends end once; that what they then own is theirs alone; and that a transfer is used again only when both have left
// it. Together they show that none of the loops' acquires and releases can be spared.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "checker.h"
#include "transfer_world.h"

namespace zh::mc {
namespace {

struct Case {
  const char* name;
  TransferSetup setup;
  Options options;
  uint64_t min_executions;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

Options bounded(uint32_t preemptions, uint32_t stale_reads) {
  Options o;
  o.exhaustive = false;
  o.preemptions = preemptions;
  o.stale_reads = stale_reads;
  return o;
}

constexpr uint64_t kChunk = 16 << 10;       // the smallest when both ends copy through the kernel
constexpr uint64_t kMappedChunk = 4 << 10;  // ... and mapped

// Buffers that are mapped but for their first and last bytes.
void add_edges(std::vector<Case>* all) {
  TransferSetup pulled;
  pulled.source_mapped = true;
  pulled.source_edges[0] = pulled.source_edges[1] = 1;
  pulled.bytes = 4 * kUnitBytes;
  pulled.single_bytes = pulled.cell_bytes = 2 * kUnitBytes;
  TransferSetup pushed;
  pushed.sender_cma = pushed.sender_copies = true;  // waits for its receive
  pushed.target_mapped = true;
  pushed.target_edges[0] = pushed.target_edges[1] = 1;
  pushed.bytes = 4 * kUnitBytes;
  pushed.single_bytes = 2 * kUnitBytes;
  pushed.cell_bytes = 2 * kUnitBytes;
  TransferSetup both;
  both.source_mapped = both.target_mapped = true;
  both.source_edges[0] = both.target_edges[1] = 1;
  both.bytes = 2 * kMappedChunk + kUnitBytes;
  both.single_bytes = kMappedChunk;
  both.cell_bytes = 2 * kUnitBytes;

  all->push_back({"SourceEdgesInOneCell", pulled, {}, 1000});
  TransferSetup s = pulled;
  s.cell_bytes = kUnitBytes;
  s.ring_units = 1;
  all->push_back({"SourceEdgesWaitForABlock", s, bounded(2, 1), 1000});
  s = pulled;
  s.capacity = 2 * kUnitBytes;
  all->push_back({"SourceEdgesOfATruncatedMessage", s, bounded(2, 1), 1000});
  s = pulled;
  s.bytes = 3 * kUnitBytes;
  s.forking = 0;
  all->push_back({"SenderWithEdgesForks", s, bounded(2, 1), 1000});
  all->push_back({"TargetEdgesInTwoPushes", pushed, {}, 80});
  s = pushed;
  s.single_bytes = 4 * kUnitBytes;
  all->push_back({"TargetEdgesInOneCell", s, {}, 30});
  s.cell_bytes = kUnitBytes;
  s.ring_units = 1;
  all->push_back({"TargetEdgesInTwoCells", s, bounded(2, 1), 500});
  s.sender_cma = false;
  s.source_mapped = true;
  s.bytes = 2 * kMappedChunk;
  s.single_bytes = 2 * kMappedChunk;
  s.failing_map = 0;
  all->push_back({"EdgesAreCarriedWithWhatCouldNotBeMapped", s, bounded(2, 0), 1000});
  s = pushed;
  s.capacity = 3 * kUnitBytes;
  all->push_back({"TargetEdgesOfATruncatedMessage", s, bounded(2, 1), 500});
  s = pushed;
  s.forking = 1;
  all->push_back({"ReceiverWithEdgesForks", s, bounded(2, 0), 500});
  all->push_back({"BothHaveEdges", both, bounded(2, 1), 1000});
  s = both;
  s.source_edges[1] = s.target_edges[0] = 1;
  s.bytes = 2 * kMappedChunk + 2 * kUnitBytes;
  all->push_back({"BothHaveTheSameEdges", s, bounded(2, 0), 1000});
  s = both;
  s.forking = 1;
  all->push_back({"ReceiverForksBothHaveEdges", s, bounded(2, 0), 1000});
}

// One end alone copies all of it, as a design says that is not the library's own.
void add_copiers(std::vector<Case>* all) {
  TransferSetup s;
  s.sender_cma = s.receiver_cma = true;
  s.copier = p2p::Copier::kReceive;
  all->push_back({"ReceiverAlonePulls", s, {}, 100});
  s.copier = p2p::Copier::kWait;
  all->push_back({"WhoWaitsFirstCopies", s, {}, 100});
  s.failing_pull = s.failing_push = 0;
  all->push_back({"WhoWaitsFirstFails", s, bounded(2, 1), 100});
  s.failing_pull = s.failing_push = -1;
  s.copier = p2p::Copier::kLater;
  all->push_back({"LaterSenderPushes", s, {}, 30});
  s.found = true;
  all->push_back({"LaterReceiverPulls", s, {}, 100});
  s.receiver_cma = false;
  all->push_back({"LaterReceiverAsksForCells", s, bounded(2, 1), 100});
}

std::vector<Case> cases() {
  std::vector<Case> all;
  TransferSetup pulls;
  pulls.sender_cma = pulls.receiver_cma = true;
  TransferSetup both = pulls;
  both.both_ends = true;
  both.single_bytes = kChunk;
  both.cell_bytes = kChunk / 2;
  both.ring_units = kChunk / kUnitBytes;
  TransferSetup s;

  all.push_back({"ReceiverPulls", pulls, {}, 1000});
  TransferSetup pushes = pulls;
  pushes.sender_copies = true;
  pushes.bytes = 5 * kUnitBytes;  // the receiver only watches, so each chunk adds few interleavings
  all.push_back({"SenderPushes", pushes, {}, 900});
  s = pushes;
  s.bytes = s.single_bytes = 4 * kUnitBytes;
  s.failing_push = 0;
  all.push_back({"FailedPushOfTheOneCopierIsDoneThroughCells", s, {}, 500});
  s = pulls;
  s.bytes = 3 * kUnitBytes;
  s.capacity = kUnitBytes;
  all.push_back({"TruncatedMessageMovesWhatFits", s, {}, 1000});
  s = both;
  s.bytes = kChunk + 64;
  all.push_back({"BothEndsCopy", s, {}, 1000});
  s.bytes = 2 * kChunk + 64;
  all.push_back({"BothEndsCopyThreeChunks", s, bounded(2, 1), 1000});
  s = both;
  s.bytes = kChunk;
  s.failing_push = 0;
  all.push_back({"FailedPushIsDoneThroughCells", s, {}, 1000});
  s = pulls;
  s.bytes = s.single_bytes = 2 * kUnitBytes;
  s.failing_pull = 0;
  all.push_back({"FailedPullIsDoneThroughCells", s, {}, 1000});
  s = {};
  s.sender_cma = true;
  s.bytes = kUnitBytes;
  all.push_back({"ReceiverAsksForCells", s, {}, 1000});
  s = {};
  s.bytes = kUnitBytes;
  s.messages = 2;
  all.push_back({"UsedAgainWhenReleased", s, bounded(2, 1), 1000});
  s = {};
  s.ring_units = 1;  // the second cell waits for the first one's block
  all.push_back({"ThroughCells", s, {}, 1000});
  // Too large to exhaust.
  s = {};
  s.bytes = (p2p::kCellWindow + 1) * kUnitBytes;
  s.ring_units = p2p::kCellWindow + 1;
  all.push_back({"WindowOfCellsIsFull", s, bounded(1, 0), 500});
  s.window = p2p::kShortWindow;
  s.bytes = (p2p::kShortWindow + 1) * kUnitBytes;
  s.ring_units = p2p::kShortWindow + 1;
  all.push_back({"ShortWindowOfCellsIsFull", s, bounded(1, 1), 500});
  s = both;
  s.bytes = 3 * kChunk;
  s.failing_pull = s.failing_push = 1;
  all.push_back({"BothWaysFail", s, bounded(2, 1), 1000});
  // A process forks: what is told of its memory before goes another way, and nobody is inside meanwhile.
  s = {};
  s.bytes = s.single_bytes = kUnitBytes;
  s.source_mapped = true;
  s.forking = 0;
  all.push_back({"SenderForksReceiverPulls", s, bounded(2, 1), 1000});
  s.source_mapped = false;
  s.target_mapped = true;
  s.forking = 1;
  all.push_back({"ReceiverForksSenderPushes", s, bounded(2, 1), 1000});
  s = both;
  s.bytes = 3 * kMappedChunk;
  s.single_bytes = kMappedChunk;
  s.source_mapped = s.target_mapped = true;
  s.forking = 0;
  all.push_back({"SenderForksBothCopy", s, bounded(2, 0), 1000});
  s.forking = 1;
  all.push_back({"ReceiverForksBothCopy", s, bounded(2, 0), 1000});
  // The sender may copy as soon as it has offered, while the receiver comes.
  s = {};
  s.source_mapped = true;
  s.lagging = true;
  s.bytes = 2 * kUnitBytes;
  all.push_back({"SenderThatDoesNotWaitForItsReceiver", s, {}, 1000});
  s.target_mapped = true;
  s.bytes = 3 * kMappedChunk;
  s.single_bytes = s.cell_bytes = kMappedChunk;
  s.ring_units = kMappedChunk / kUnitBytes;
  all.push_back({"BothCopyAndTheSenderDoesNotWait", s, bounded(2, 1), 1000});
  s = {};
  s.source_mapped = s.lagging = true;
  s.source_edges[0] = s.source_edges[1] = 1;
  s.bytes = 4 * kUnitBytes;
  s.cell_bytes = 2 * kUnitBytes;
  s.ring_units = 4;
  all.push_back({"SenderWithEdgesDoesNotWait", s, bounded(2, 1), 1000});
  s.source_edges[0] = s.source_edges[1] = 0;
  s.bytes = 2 * kUnitBytes;
  s.forking = 0;
  all.push_back({"SenderForksAndDoesNotWait", s, bounded(2, 1), 1000});
  add_edges(&all);
  add_copiers(&all);
  return all;
}

Report run(const Case& c, const Options& options) {
  return explore(options, [&] { return std::make_unique<TransferScenario>(c.setup); });
}

class ModelTransfer : public ::testing::TestWithParam<Case> {};

TEST_P(ModelTransfer, Holds) {
  const Case& c = GetParam();
  const Report r = run(c, c.options);
  std::printf("%s: %llu executions, %llu cut short, at most %llu steps%s\n", c.name,
              static_cast<unsigned long long>(r.executions), static_cast<unsigned long long>(r.pruned),
              static_cast<unsigned long long>(r.longest), c.options.exhaustive ? "" : ", bounded");
  ASSERT_TRUE(r.ok) << r.failure;
  ASSERT_TRUE(r.complete) << "the space was not searched to the end";
  EXPECT_GE(r.executions, c.min_executions);
}
INSTANTIATE_TEST_SUITE_P(All, ModelTransfer, ::testing::ValuesIn(cases()),
                         [](const auto& c) { return std::string(c.param.name); });

// Every acquire and release of the loops, and the claim's read-modify-write, is weakened once; a case must fail.
TEST(ModelTransferMutants, AreFound) {
  const std::vector<Case> all = cases();
  std::map<std::string, std::vector<const Case*>> sites;
  for (const Case& c : all) {
    Options few = c.options;
    few.max_executions = 2000;
    for (const std::string& site : run(c, few).sites) {
      const std::string file = site.substr(0, site.find(':'));
      if (file == "transfer.h" || file == "rendezvous.cpp" || file.ends_with("_transfer.cpp"))
        sites[site].push_back(&c);
    }
  }
  EXPECT_GE(sites.size(), 14u) << "orders of the loops that no case meets";
  for (const auto& [site, met_by] : sites) {
    const bool rmw = site.size() > 4 && site.substr(site.size() - 4) == " rmw";
    std::string found;
    for (const double seconds : {0.3, 3.0}) {
      for (const Case* c : met_by) {
        Options o = c->options;
        o.mutation = {rmw ? Mutation::Kind::kTorn : Mutation::Kind::kRelaxed, site};
        o.max_seconds = seconds;
        if (found.empty() && !run(*c, o).ok) found = c->name;
      }
    }
    std::printf("%s: %s\n", site.c_str(), found.empty() ? "NOT FOUND" : found.c_str());
    EXPECT_FALSE(found.empty()) << "mutant not found: " << site << (rmw ? " torn" : " relaxed");
  }
}

}  // namespace
}  // namespace zh::mc
