// `zerohop model choose`: which algorithm and which chunks a model takes for each collective on this machine, and the
// table by which jobs then choose where nothing was measured. Measures nothing itself.
#include "tools/model/choose_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/options.h"
#include "tools/cli/commands.h"
#include "tools/cli/text.h"
#include "tools/model/case.h"
#include "tools/model/choose.h"
#include "tools/model/crossing.h"
#include "tools/model/machine_tiles.h"
#include "tools/model/profile.h"
#include "tune/profile.h"

namespace zh::tools {
namespace {

using nlohmann::json;

constexpr const char* kChooseCommand = "model choose";
constexpr const char* kChooseHelp =
    "Walks all algorithms of each collective at the prices of mlog_nP+links, for one node and, with --nodes, for\n"
    "several, and writes the fastest by size. Vectors are cut into tiles that fit the caches of this machine, as the\n"
    "paper's section 7 has it: a quarter of L1, from the size of the larger tile on an eighth of L2. --save keeps the\n"
    "table: jobs of this machine obey it where no variable names an algorithm and nothing was measured by `zerohop\n"
    "bench algorithms --save`. It serves where a schedule does: communicators of several nodes, nonblocking and\n"
    "persistent calls of more than 512 bytes. Other calls on one node are served by a team.\n\n"
    "  zerohop tune --json here.json                    what messages cost here\n"
    "  zerohop model choose -p here.json                one node, 2, 4 and 8 ranks\n"
    "  zerohop model choose -p here.json -r 8,16 -n 2 --save\n"
    "  zerohop info --collective allreduce --size 1M    which one is in force, and why\n\n"
    "Ends with 0, or 2 if there is nothing to predict or the table cannot be kept.";

struct ModelChooseArguments {
  std::string profile;
  std::vector<uint32_t> ranks = {2, 4, 8};
  uint32_t nodes = 1;
  uint32_t processors = 0;  ///< 0: as the profile has it
  std::vector<std::string> abis{std::begin(coll::kAbis), std::end(coll::kAbis)};
  bool save = false;
  bool as_json = false;
};

int refuse_model_choose(const std::string& why) {
  fmt::print(stderr, "zerohop {}: {}\n", kChooseCommand, why);
  return 2;
}

/// What is predicted for one cluster.
struct Part {
  model::Cluster cluster;
  std::vector<std::pair<coll::Collective, Predicted>> collectives;
};

Part choose_part(const model::Cluster& cluster, const coll::Tiles& tiles, const model::Parameters& parameters) {
  Part part{cluster, {}};
  for (size_t i = 0; i < static_cast<size_t>(coll::Collective::kCount); ++i) {
    const auto collective = static_cast<coll::Collective>(i);
    part.collectives.emplace_back(collective, predicted_table(collective, cluster, tiles, parameters));
  }
  return part;
}

bool has_domains(const Part& part) {
  return std::ranges::any_of(part.collectives, [](const auto& of) {
    return std::ranges::any_of(of.second.entries, [](const auto& e) { return e.entry.algorithm->by_domains; });
  });
}

/// One node for all numbers of ranks, then several nodes if they are wanted. "" or why there is no such cluster.
std::string clusters_of(const ModelChooseArguments& a, const model::Parameters& parameters,
                        std::vector<model::Cluster>* out) {
  for (const uint32_t nodes : a.nodes > 1 ? std::vector{1U, a.nodes} : std::vector{1U}) {
    for (const uint32_t ranks : a.ranks) {
      ModelCase c;
      c.cluster = on_nodes_of(parameters, {.ranks = ranks, .nodes = nodes});
      if (std::string fault = fault_of(c); !fault.empty()) return fault;
      if (ranks > kManyWalks.ranks) return fmt::format("{} ranks at most, not {}", kManyWalks.ranks, ranks);
      out->push_back(c.cluster);
    }
  }
  return "";
}

json part_json(const Part& part) {
  json out = {{"ranks", part.cluster.ranks}, {"nodes", part.cluster.nodes}, {"collectives", json::array()}};
  for (const auto& [collective, predicted] : part.collectives) {
    json line = {{"collective", name_of(collective)}, {"entries", json::array()}, {"left_out", json::array()}};
    for (const auto& [entry, us] : predicted.entries) {
      line["entries"].push_back({{"from_bytes", entry.from_bytes},
                                 {"algorithm", entry.algorithm->name},
                                 {"chunk_bytes", entry.chunk_bytes ? json(*entry.chunk_bytes) : json(nullptr)},
                                 {"us", us}});
    }
    for (const auto& [algorithm, why] : predicted.left_out) {
      line["left_out"].push_back({{"algorithm", algorithm}, {"why", why}});
    }
    out["collectives"].push_back(std::move(line));
  }
  return out;
}

void print(const Part& part) {
  const model::Cluster& c = part.cluster;
  fmt::print("\n{} ranks on {}\n  {:<14} {:>9}  {:<24} {:>8} {:>12}\n", c.ranks,
             c.nodes == 1 ? "one node" : fmt::format("{} nodes", c.nodes), "", "from", "algorithm", "chunk",
             "µs there");
  for (const auto& [collective, predicted] : part.collectives) {
    std::string name(name_of(collective));
    for (const auto& [entry, us] : predicted.entries) {
      std::string chunk = "-";
      if (entry.chunk_bytes) chunk = *entry.chunk_bytes == 0 ? "whole" : format_size(*entry.chunk_bytes);
      fmt::print("  {:<14} {:>9}  {:<24} {:>8} {:>12.2f}\n", name, format_size(entry.from_bytes), entry.algorithm->name,
                 chunk, us);
      name.clear();
    }
    for (const auto& [algorithm, why] : predicted.left_out) {
      std::fputs(hanging(fmt::format("  {:<14} left out, {}: ", name, algorithm), why, output_columns()).c_str(),
                 stdout);
    }
  }
}

/// The table and a copy of its profile, by which `zerohop info` tells times. Paths that were written; none, with a word
/// on standard error, if one could not be.
std::vector<std::string> save_choices(const ModelChooseArguments& a, const Options& options,
                                      const std::vector<Part>& parts, const model::Parameters& parameters) {
  std::vector<std::string> paths;
  const std::string folder = tune::kept_folders(options).own;
  if (folder.empty()) {
    (void)refuse_model_choose("no folder to save in: set ZEROHOP_CACHE");
    return paths;
  }
  coll::Selection selection;
  for (const Part& part : parts) {
    for (const auto& [collective, predicted] : part.collectives) {
      for (const PredictedEntry& p : predicted.entries) selection.add(p.entry);
    }
  }
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const std::string text = selection.text(predicted_heading(parameters, a.profile, today()));
  for (const std::string& abi : a.abis) {
    const std::string profile = coll::model_profile_path(folder, abi);
    const std::string table = coll::model_selection_path(folder, abi);
    if (!write_file(profile, profile_json(parameters).dump(1) + "\n", kChooseCommand)) return {};
    if (!write_file(table, text, kChooseCommand)) return {};
    paths.push_back(table);
  }
  return paths;
}

void print_choices(const ModelChooseArguments& a, const model::Parameters& parameters, const coll::Tiles& tiles,
                   const std::vector<Part>& parts) {
  const size_t columns = output_columns();
  fmt::print("Fastest by the walk of {}, {} to {}\n{}", name_of(kComparisonModel), format_size(kComparedFrom),
             format_size(kComparedTo), hanging("profile " + parameters.name + ": ", parameters.about, columns));
  if (tiles != coll::Tiles{}) {
    fmt::print("tiles: {}; - where the algorithm does not cut\n", tiles_text(tiles));
  }
  for (const Part& part : parts) print(part);
  fmt::print("\n");
  if (!a.save) fmt::print("Nothing is kept: --save does that.\n");
}

int choose(const ModelChooseArguments& a) {
  std::string problem;
  std::optional<model::Parameters> parameters = find_profile(a.profile, &problem);
  if (!parameters) return refuse_model_choose(problem);
  if (a.processors > 0) parameters->processors_per_node = a.processors;
  std::vector<model::Cluster> clusters;
  problem = clusters_of(a, *parameters, &clusters);
  if (!problem.empty()) return refuse_model_choose(problem);
  Options options;
  options.read_environment(environ);
  std::vector<std::string> notes = {
      "A prediction, not a measurement: `zerohop bench algorithms` says whether the machine agrees, and what it saves "
      "counts more.",
      "It serves schedules: calls of several nodes, nonblocking and persistent ones of more than 512 bytes. Other "
      "calls on one node are served by a team."};
  const coll::Tiles tiles = tiles_here(options, &notes);
  std::vector<Part> parts;
  parts.reserve(clusters.size());
  for (const model::Cluster& cluster : clusters) parts.push_back(choose_part(cluster, tiles, *parameters));
  if (std::ranges::any_of(parts, has_domains)) {
    notes.emplace_back(
        "Lines of algorithms that end in -domains are for jobs whose ranks are bound to several sockets, memory nodes "
        "or caches, as the profile's chips are; the line behind each is for other jobs.");
  }
  std::vector<std::string> saved;
  if (a.save) saved = save_choices(a, options, parts, *parameters);
  if (a.save && saved.empty()) return 2;
  if (a.as_json) {
    json out = {{"profile", profile_origin_json(*parameters)},
                {"model", name_of(kComparisonModel)},
                {"tiles", {{"small_bytes", tiles.small}, {"large_bytes", tiles.large}}},
                {"notes", notes},
                {"saved", saved},
                {"tables", json::array()}};
    for (const Part& part : parts) out["tables"].push_back(part_json(part));
    std::printf("%s\n", out.dump(2, ' ', false, json::error_handler_t::replace).c_str());
    return 0;
  }
  print_choices(a, *parameters, tiles, parts);
  for (const std::string& path : saved) fmt::print("saved in {}\n", path);
  for (const std::string& note : notes) std::fputs(hanging("- ", note, output_columns()).c_str(), stdout);
  return 0;
}

}  // namespace

void add_model_choose_command(CLI::App* model) {
  auto a = std::make_shared<ModelChooseArguments>();
  CLI::App* command = model->add_subcommand("choose", "The table of the fastest algorithms, for jobs of this machine.");
  command->footer(kChooseHelp);
  command->add_option("-p,--profile", a->profile, "A file of `zerohop tune --json`, or a built-in profile")->required();
  command->add_option("-r,--ranks", a->ranks, "Comma list of ranks, each a multiple of the nodes")
      ->delimiter(',')
      ->check(CLI::Range(2U, kManyWalks.ranks))
      ->capture_default_str();
  command->add_option("-n,--nodes", a->nodes, "Also for so many nodes, on which ranks lie in blocks")
      ->check(CLI::Range(1U, kManyWalks.ranks))
      ->capture_default_str();
  command
      ->add_option("--processors", a->processors,
                   "Processors of a node, for which ranks wait if they are more; otherwise as the profile has them")
      ->check(CLI::Range(1U, model::kMostProcessors));
  command->add_flag("--save", a->save, "Keep the table: it takes the place of the one that was kept before");
  command
      ->add_option("--abi", a->abis,
                   "Comma list of the MPI libraries' binary interfaces to save it for; messages between nodes are "
                   "theirs, so name the one that the profile was measured with")
      ->delimiter(',')
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(coll::kAbis), std::end(coll::kAbis))))
      ->capture_default_str();
  command->add_flag("--json", a->as_json, "Print JSON");
  command->callback([a] { exit_code = choose(*a); });
}

}  // namespace zh::tools
