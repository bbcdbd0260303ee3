// See papers.h.
#include "tools/model/papers.h"

#include <algorithm>
#include <iterator>

#include "model/profiles.h"

namespace zh::tools {
namespace {

using coll::Collective;
using model::Model;

constexpr uint64_t operator""_K(unsigned long long n) { return n << 10; }
constexpr uint64_t operator""_M(unsigned long long n) { return n << 20; }

constexpr uint64_t kLarge[] = {64_K, 1_M};
constexpr uint64_t kPieces[] = {1_K, 4_K, 16_K};
constexpr uint64_t kTiled[] = {8_K, 64_K, 1_M, 8_M};

uint64_t whole(uint64_t) { return 0; }
uint64_t of_64k(uint64_t) { return 64_K; }
/// The mlog_nP paper's, section 7.3: to fit the L1 or the shared L2 cache.
uint64_t to_fit_caches(uint64_t bytes) { return bytes < 512_K ? 8_K : 1_M; }

constexpr std::string_view kRingInBlocks =
    "the ring over all ranks crosses each link once, as the ring of leaders does, and its parts are smaller.";
constexpr std::string_view kNoMemory = "the models give each rank's copies all of the memory, which the paper's share.";
constexpr std::string_view kAsPlaced =
    "messages over all ranks wait for each other at the ends and links of a node, where a team copies at once; how "
    "ranks "
    "lay at the paper's greatest gain is not told.";
constexpr std::string_view kTiles =
    "from 64 KiB on, the ring over all ranks crosses each link once, in parts, where the tree sends all; and what "
    "tiles "
    "gain is in caches, which no model knows.";

constexpr PaperFigure kPaperFigures[] = {
    {.id = "CC 5 (a)",
     .title = "MPI_Bcast, scatter and ring over all ranks before, over leaders after",
     .collective = Collective::kBcast,
     .nodes = 64,
     .ranks_per_node = 4,
     .sizes = kLarge,
     .before = {"", 0, "scatter-ring-allgather"},
     .after = "leader-ring",
     .chunk = of_64k,
     .says = "up to 1.78",
     .gain = 1.78,
     .less = {kRingInBlocks, kRingInBlocks},
     .more = kAsPlaced},
    {.id = "CC 5 (b)",
     .title = "as CC 5 (a), with 8 ranks on a node",
     .collective = Collective::kBcast,
     .nodes = 64,
     .ranks_per_node = 8,
     .sizes = kLarge,
     .before = {"", 0, "scatter-ring-allgather"},
     .after = "leader-ring",
     .chunk = of_64k,
     .says = "up to 1.90",
     .gain = 1.90,
     .less = {kRingInBlocks, kRingInBlocks},
     .more = kAsPlaced},
    {.id = "CC 6 (b)",
     .title = "MPI_Allreduce in a node, one reducer before, all ranks after",
     .collective = Collective::kAllreduce,
     .nodes = 1,
     .ranks_per_node = 8,
     .sizes = kLarge,
     .before = {"", 0, "single-reducer"},
     .after = "shmem-cyclic",
     .chunk = whole,
     .says = "1.47 to 1.49 (32 to 33 % less)",
     .gain = 1 / (1 - 0.33),
     .less = {kNoMemory, kNoMemory},
     .more = kNoMemory},
    {.id = "CC 6 (b) on nodes",
     .title = "the same between nodes, one reducer of each node before; the paper measured one node",
     .collective = Collective::kAllreduce,
     .nodes = 64,
     .ranks_per_node = 8,
     .sizes = kLarge,
     .before = {"", 0, "hierarchical"},
     .after = "shmem-cyclic",
     .chunk = whole,
     .says = "1.47 to 1.49 (32 to 33 % less)",
     .gain = 1 / (1 - 0.33),
     .less = {kNoMemory, kNoMemory},
     .more = kNoMemory},
    {.id = "CC 7",
     .title = "MPI_Allgather, recursive doubling or ring (16 KiB) over all ranks before, ring of leaders after",
     .collective = Collective::kAllgather,
     .nodes = 64,
     .ranks_per_node = 8,
     .sizes = kPieces,
     .before = {"recursive-doubling", 16_K, "ring"},
     .after = "leader-ring",
     .chunk = whole,
     .says = "up to 4",
     .gain = 4,
     .less = {kRingInBlocks, kRingInBlocks},
     .more = kAsPlaced},
    {.id = "ML 8",
     .title = "MPI_Bcast from any root, tree (8 KiB) or scatter and ring before, hierarchical in tiles after",
     .collective = Collective::kBcast,
     .nodes = 8,
     .ranks_per_node = 8,
     .sizes = kTiled,
     .before = {"binomial", 12_K, "scatter-ring-allgather"},
     .after = "hierarchical",
     .chunk = to_fit_caches,
     .any_root = true,
     .says = "1.20 to 1.33 (16.8 to 24.7 % less)",
     .gain = 1 / (1 - 0.247),
     .least_gain = 1 / (1 - 0.168),
     .less = {kTiles, kTiles},
     .more = kAsPlaced},
};

void add_part(BeforeAndAfter* sum, const BeforeAndAfter& part) {
  sum->before_us += part.before_us;
  sum->after_us += part.after_us;
}

std::vector<uint32_t> roots_of(const PaperFigure& figure, bool cyclic) {
  std::vector<uint32_t> roots{0};
  // Nodes are alike, so the places in one stand for all ranks.
  for (uint32_t place = 1; figure.any_root && place < figure.ranks_per_node; ++place) {
    roots.push_back(cyclic ? place * figure.nodes : place);
  }
  return roots;
}

/// Adds the figure's times at one size to the point of each row.
void add_size(const PaperFigure& figure, uint64_t bytes, bool cyclic, std::span<PaperRow> rows) {
  const std::vector<uint32_t> roots = roots_of(figure, cyclic);
  for (PaperRow& row : rows) row.points.push_back({bytes, {}, {}});
  const auto profiles = model::built_in_profiles();
  for (const uint32_t root : roots) {
    ModelCase c;
    c.collective = figure.collective;
    c.root = root;
    c.bytes = bytes;
    c.cluster = {figure.nodes * figure.ranks_per_node, figure.nodes, 1, cyclic};
    ModelCase after = c;
    c.algorithm = figure.before.at(bytes);
    after.algorithm = figure.after;
    after.team = figure.nodes > 1;  // the papers' share a buffer
    after.chunk = figure.chunk(bytes);
    std::string problem;
    const std::vector<coll::Schedule> old_way = schedules_of(c, kOneWalk, &problem);
    const std::vector<coll::Schedule> new_way = schedules_of(after, kOneWalk, &problem);
    for (size_t i = 0; i < profiles.size(); ++i) {
      c.cluster.chips_per_node = after.cluster.chips_per_node = profiles[i].chips_per_node;
      const auto both = [&](Model m) {
        return BeforeAndAfter{walk_us(c, old_way, m, profiles[i]) / static_cast<double>(roots.size()),
                              walk_us(after, new_way, m, profiles[i]) / static_cast<double>(roots.size())};
      };
      add_part(&rows[i].points.back().linked, both(Model::kLinked));
      add_part(&rows[i].points.back().unlinked, both(Model::kMlogNP));
    }
  }
}

}  // namespace

std::span<const PaperFigure> paper_figures() { return kPaperFigures; }

namespace {

double gain_of(const PaperPoint& point) { return point.linked.gain(); }
double part_of_gain(double gain, double part) { return 1 + (gain - 1) * part; }

}  // namespace

const PaperPoint& PaperRow::best() const { return *std::ranges::max_element(points, {}, gain_of); }

const PaperPoint& PaperRow::worst() const { return *std::ranges::min_element(points, {}, gain_of); }

bool PaperRow::shown() const {
  const bool everywhere = figure->least_gain == 0 || gain_of(worst()) >= part_of_gain(figure->least_gain, 0.5);
  return everywhere && gain_of(best()) >= part_of_gain(figure->gain, 0.5);
}

std::string_view PaperRow::why() const {
  if (!shown()) return figure->less[cyclic ? 1 : 0];
  return gain_of(best()) > part_of_gain(figure->gain, 1.5) ? figure->more : "";
}

std::vector<PaperRow> rows_of(const PaperFigure& figure) {
  std::vector<PaperRow> out;
  for (const bool cyclic : {false, true}) {
    std::vector<PaperRow> rows;
    for (const model::Parameters& p : model::built_in_profiles()) rows.push_back({&figure, p.name, cyclic, {}});
    for (const uint64_t bytes : figure.sizes) add_size(figure, bytes, cyclic, rows);
    out.insert(out.end(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
  }
  return out;
}

}  // namespace zh::tools
