// See tune.h.
#include "tools/tune/tune.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/options.h"
#include "node/machine.h"
#include "tools/bench/report.h"
#include "tools/cli/commands.h"
#include "tools/cli/text.h"
#include "tools/model/case.h"
#include "tools/model/choose.h"
#include "tools/model/profile.h"
#include "tune/profile.h"

namespace zh::tools {
namespace {

using nlohmann::json;

/// The tiles that fit the caches of this machine, as its topology has them; none, with a note, where they are unknown.
coll::Tiles tiles_here(const Options& options, std::vector<std::string>* notes) {
  node::Machine machine;
  const Status s = machine.load(options.get_text(Opt::kTopology));
  coll::Tiles tiles;
  if (s.ok()) tiles = coll::tiles_for(machine.summary().l1d_bytes, machine.summary().l2_bytes);
  if (tiles == coll::Tiles{}) {
    notes->push_back(fmt::format("The sizes of the caches are not known{}{}: chunks are the usual ones.",
                                 s.ok() ? "" : ", ", s.what()));
  }
  return tiles;
}

/// "8K of L1, 128K of L2".
std::string tiles_text(const coll::Tiles& tiles) {
  const auto size = [](uint64_t bytes) { return bytes == 0 ? "none" : format_size(bytes); };
  return fmt::format("{} of L1, {} of L2", size(tiles.small), size(tiles.large));
}

/// What is predicted for one cluster.
struct Part {
  model::Cluster cluster;
  std::vector<std::pair<coll::Collective, Predicted>> collectives;
};

/// One node for all numbers of ranks, then several nodes if they are wanted. "" or why there is no such cluster.
std::string clusters_of(const ChooseOptions& o, const model::Parameters& parameters, std::vector<Part>* out) {
  for (const uint32_t nodes : o.nodes > 1 ? std::vector{1U, o.nodes} : std::vector{1U}) {
    for (const uint32_t ranks : o.ranks) {
      ModelCase c;
      c.cluster = on_nodes_of(parameters, {.ranks = ranks, .nodes = nodes});
      if (std::string fault = fault_of(c); !fault.empty()) return fault;
      if (ranks > kManyWalks.ranks) return fmt::format("{} ranks at most, not {}", kManyWalks.ranks, ranks);
      out->push_back({c.cluster, {}});
    }
  }
  return "";
}

json part_json(const Part& part) {
  json out = {{"ranks", part.cluster.ranks}, {"nodes", part.cluster.nodes}, {"collectives", json::array()}};
  for (const auto& [collective, predicted] : part.collectives) {
    json line = {{"collective", name_of(collective)}, {"entries", json::array()}, {"left_out", json::object()}};
    for (const auto& [entry, us, beyond] : predicted.entries) {
      line["entries"].push_back({{"from_bytes", entry.from_bytes},
                                 {"algorithm", entry.algorithm->name},
                                 {"chunk_bytes", entry.chunk_bytes ? json(*entry.chunk_bytes) : json(nullptr)},
                                 {"us", us},
                                 {"beyond_tables", beyond}});
    }
    for (const auto& [algorithm, why] : predicted.left_out) line["left_out"][std::string(algorithm)] = why;
    out["collectives"].push_back(std::move(line));
  }
  return out;
}

void print(const Part& part) {
  const model::Cluster& c = part.cluster;
  Table table({"  collective", "algorithm", "from", "chunk", "µs there"}, 2);
  std::string left_out;
  for (const auto& [collective, predicted] : part.collectives) {
    for (const auto& [entry, us, beyond] : predicted.entries) {
      std::string chunk = "-";
      if (entry.chunk_bytes) chunk = *entry.chunk_bytes == 0 ? "whole" : format_size(*entry.chunk_bytes);
      table.add({"  " + std::string(name_of(collective)), std::string(entry.algorithm->name),
                 format_size(entry.from_bytes), chunk, number_text(us) + (beyond ? " >" : "")});
    }
    for (const auto& [algorithm, why] : predicted.left_out)
      left_out += hanging(fmt::format("  left out: {} by {}: ", name_of(collective), algorithm), why, output_columns());
  }
  fmt::print("\n{} ranks on {}\n{}{}", c.ranks, c.nodes == 1 ? "one node" : fmt::format("{} nodes", c.nodes),
             table.text(), left_out);
}

/// Paths of the table that were written; none, with a word on standard error, if one could not be.
std::vector<std::string> save_choices(const ChooseOptions& o, const std::string& folder, const std::vector<Part>& parts,
                                      const model::Parameters& parameters) {
  if (folder.empty()) (void)refuse("tune --model", "no folder to save in: set ZEROHOP_CACHE");
  if (folder.empty()) return {};
  coll::Selection selection;
  for (const Part& part : parts) {
    for (const auto& [collective, predicted] : part.collectives) {
      for (const PredictedEntry& p : predicted.entries) selection.add(p.entry);
    }
  }
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const std::string text = selection.text(predicted_heading(parameters, o.profile, today()));
  std::vector<std::string> paths;
  for (const std::string& abi : o.abis) {
    paths.push_back(coll::model_selection_path(folder, abi));
    if (!write_file(paths.back(), text, "tune --model")) return {};
  }
  return paths;
}

}  // namespace

int choose_by_model(const ChooseOptions& o) {
  std::string problem;
  std::optional<model::Parameters> parameters = find_profile(o.profile, &problem);
  if (!parameters) return refuse("tune --model", problem);
  if (o.processors > 0) parameters->processors_per_node = o.processors;
  std::vector<Part> parts;
  problem = clusters_of(o, *parameters, &parts);
  if (!problem.empty()) return refuse("tune --model", problem);
  Options options;
  options.read_environment(environ);
  std::vector<std::string> notes = {
      "A prediction, not a measurement: `zerohop bench algorithms` says whether the machine agrees, and what it saves "
      "counts more.",
      "It serves schedules: calls of several nodes, nonblocking and persistent ones of more than 512 bytes. Other "
      "calls on one node share memory."};
  const coll::Tiles tiles = tiles_here(options, &notes);
  for (Part& part : parts) {
    for (size_t i = 0; i < static_cast<size_t>(coll::Collective::kCount); ++i) {
      const auto collective = static_cast<coll::Collective>(i);
      part.collectives.emplace_back(collective, predicted_table(collective, part.cluster, tiles, *parameters));
    }
  }
  std::vector<std::string> saved;
  if (o.save) saved = save_choices(o, tune::kept_folders(options).own, parts, *parameters);
  if (o.save && saved.empty()) return 2;
  if (o.as_json) {
    json out = {{"profile", profile_origin_json(*parameters)},
                {"model", name_of(kComparisonModel)},
                {"tiles", {{"small_bytes", tiles.small}, {"large_bytes", tiles.large}}},
                {"notes", notes},
                {"saved", saved},
                {"tables", json::array()}};
    for (const Part& part : parts) out["tables"].push_back(part_json(part));
    fmt::print("{}\n", out.dump(2, ' ', false, json::error_handler_t::replace));
    return 0;
  }
  const size_t columns = output_columns();
  fmt::print("Fastest by the walk of {}, {} to {}\n{}", name_of(kComparisonModel), format_size(kComparedFrom),
             format_size(kComparedTo), hanging("profile " + parameters->name + ": ", parameters->about, columns));
  if (tiles != coll::Tiles{}) fmt::print("tiles: {}; - where the algorithm does not cut\n", tiles_text(tiles));
  fmt::print("> beyond the profile's tables\n");
  for (const Part& part : parts) print(part);
  fmt::print("\n{}", o.save ? "" : "Nothing is kept: --save does that.\n");
  for (const std::string& path : saved) fmt::print("saved in {}\n", path);
  for (const std::string& note : notes) fmt::print("{}", hanging("- ", note, columns));
  return 0;
}

}  // namespace zh::tools
