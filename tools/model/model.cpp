// `zerohop model`: what a collective would cost on a machine that is given by its parameters, by the models of the
// mlog_nP paper. Measures nothing and needs no machine of that size.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/options.h"
#include "coll/algorithms/algorithms.h"
#include "model/closed_forms.h"
#include "model/profiles.h"
#include "tools/cli/commands.h"
#include "tools/cli/inputs.h"
#include "tools/cli/text.h"
#include "tools/model/case.h"
#include "tools/model/choose_command.h"
#include "tools/model/compare_command.h"
#include "tools/model/crossing.h"
#include "tools/model/judge_command.h"
#include "tools/model/papers_command.h"
#include "tools/model/picture.h"
#include "tools/model/profile.h"

namespace zh::tools {
namespace {

using coll::Collective;
using model::Model;
using model::Parameters;
using nlohmann::json;

/// What predict and crossover are asked alike.
struct ModelArguments {
  std::string collective;
  std::string profile = "gigabit-like";
  uint32_t chips = 0;       ///< 0: as the profile has it
  uint32_t processors = 0;  ///< the same
  bool no_walk = false;
  bool as_json = false;
  std::string svg;  ///< where crossover draws; "": nowhere
  ModelCase wanted;
};

int refuse_model(const std::string& why) {
  fmt::print(stderr, "zerohop model: {}\n", why);
  return 2;
}

/// Fills in what follows from the other arguments. Nothing, with why, if they do not go together.
std::optional<Parameters> settle_model(ModelArguments* a, std::string* problem) {
  a->wanted.collective = coll::collective_named(a->collective);
  if (a->wanted.collective == Collective::kCount && !a->collective.empty()) {
    *problem = "no collective '" + a->collective + "'; `zerohop schedule --list` names them";
    return std::nullopt;
  }
  std::optional<Parameters> parameters = find_profile(a->profile, problem);
  if (!parameters) return std::nullopt;
  if (a->chips > 0) parameters->chips_per_node = a->chips;
  if (a->processors > 0) parameters->processors_per_node = a->processors;
  a->wanted.cluster = on_nodes_of(*parameters, a->wanted.cluster);
  *problem = fault_of(a->wanted);
  return problem->empty() ? parameters : std::nullopt;
}

std::string cluster_text(const ModelCase& c) {
  const auto many = [](uint32_t n, const char* what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); };
  return fmt::format("{} on {} of {}{}", many(c.cluster.ranks, "rank"), many(c.cluster.nodes, "node"),
                     many(c.cluster.chips_per_node, "chip"), c.cluster.cyclic ? ", dealt out in turn" : "") +
         (c.cluster.processors_per_node > 0 ? ", " + many(c.cluster.processors_per_node, "processor") + " each" : "") +
         (c.team ? ", sharing by teams" : "");
}

json cluster_json(const ModelArguments& a, const Parameters& p) {
  const ModelCase& c = a.wanted;
  return {{"ranks", c.cluster.ranks},
          {"nodes", c.cluster.nodes},
          {"chips_per_node", c.cluster.chips_per_node},
          {"processors_per_node", c.cluster.processors_per_node},
          {"cyclic", c.cluster.cyclic},
          {"team", c.team},
          {"root", c.root},
          {"stride", c.stride},
          {"chunk_bytes", c.chunk},
          {"profile", profile_origin_json(p)}};
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) std::fputs(hanging("- ", note, output_columns()).c_str(), stdout);
}

struct PredictedRow {
  Model model = Model::kLog3P;
  std::optional<model::Prediction> form;
  std::optional<double> walk_us;
};

void print_prediction(const ModelArguments& a, const Parameters& p, const std::vector<PredictedRow>& rows,
                      const std::vector<std::string>& notes) {
  const ModelCase& c = a.wanted;
  const model::MessageShape shape{static_cast<double>(c.bytes), c.stride};
  std::string title = fmt::format("{} by {}: {}", a.collective, c.algorithm, cluster_text(c));
  title += fmt::format(", {}", format_size(c.bytes));
  if (c.stride > 0) title += fmt::format(" at stride {}", c.stride);
  if (c.chunk > 0) title += fmt::format(" in chunks of {}", format_size(c.chunk));
  if (coll::has_root(c.collective)) title += fmt::format(", root {}", c.root);
  const size_t columns = output_columns();
  fmt::print("{}\n{}\n", wrapped(title, 0, 2, columns), hanging("profile " + p.name + ": ", p.about, columns));
  fmt::print("{:<13} {:>14} {:>14}   {}\n", "µs", "closed form", "walk", "the form is");
  for (const PredictedRow& row : rows) {
    const std::string form = row.form ? fmt::format("{:.2f}", row.form->us) : "-";
    const std::string walk = row.walk_us ? fmt::format("{:.2f}", *row.walk_us) : "-";
    fmt::print("{:<13} {:>14} {:>14}   {}\n", name_of(row.model), form, walk,
               row.form ? row.form->equation : "not in the paper");
  }
  const model::CostByLevel us = message_us(Model::kMlogNP, p, shape);
  const std::string message =
      fmt::format("{:.2f} µs on a chip, {:.2f} between chips, {:.2f} between nodes", us[0], us[1], us[2]);
  fmt::print("\n{}", hanging("one message of that size: ", message, columns));
  print_notes(notes);
}

json prediction_json(const ModelArguments& a, const Parameters& p, const std::vector<PredictedRow>& rows,
                     const std::vector<std::string>& notes) {
  json out = cluster_json(a, p);
  out["collective"] = a.collective;
  out["algorithm"] = a.wanted.algorithm;
  out["bytes"] = a.wanted.bytes;
  out["notes"] = notes;
  const model::MessageShape shape{static_cast<double>(a.wanted.bytes), a.wanted.stride};
  const model::CostByLevel us = message_us(Model::kMlogNP, p, shape);
  for (size_t i = 0; i < model::kLevels; ++i) {
    out["message_us"][std::string(name_of(model::kAllLevels[i]))] = us[i];
  }
  for (const PredictedRow& row : rows) {
    json line = {
        {"model", name_of(row.model)}, {"closed_form_us", nullptr}, {"equation", nullptr}, {"walk_us", nullptr}};
    if (row.form) line["closed_form_us"] = row.form->us;
    if (row.form) line["equation"] = row.form->equation;
    if (row.walk_us) line["walk_us"] = *row.walk_us;
    out["predictions"].push_back(std::move(line));
  }
  return out;
}

int predict(ModelArguments a) {
  std::string problem;
  const std::optional<Parameters> parameters = settle_model(&a, &problem);
  if (!parameters) return refuse_model(problem);
  ModelCase& c = a.wanted;
  if (c.algorithm.empty()) c.algorithm = coll::choose(problem_of(c));
  if (coll::algorithm(c.collective, c.algorithm) == nullptr) {
    return refuse_model(
        fmt::format("no algorithm '{}'; `zerohop schedule --list {}` names them", c.algorithm, a.collective));
  }
  std::vector<coll::Schedule> schedules;
  if (!a.no_walk) schedules = schedules_of(c, kOneWalk, &problem);
  const bool walks = !a.no_walk && problem.empty();
  std::vector<PredictedRow> rows;
  const model::MessageShape shape{static_cast<double>(c.bytes), c.stride};
  for (const Model m : model::kAllModels) {
    PredictedRow& row = rows.emplace_back(PredictedRow{m, {}, {}});
    if (c.collective == Collective::kBcast) {
      row.form = closed_form(m, *parameters, {c.algorithm, c.cluster, c.root, shape, c.chunk});
    }
    if (walks) row.walk_us = walk_us(c, schedules, m, *parameters);
  }
  std::vector<std::string> notes = notes_on(c, *parameters);
  if (!problem.empty()) notes.insert(notes.begin(), "No walk: " + problem + ".");
  if (!walks && !rows[0].form) {
    const std::string no_form = fmt::format("the paper has no closed form of {} by {}", a.collective, c.algorithm);
    return refuse_model(a.no_walk ? no_form + ": leave --no-walk out" : no_form + ", and no walk: " + problem);
  }
  if (a.as_json) {
    std::printf("%s\n", prediction_json(a, *parameters, rows, notes).dump(2).c_str());
  } else {
    print_prediction(a, *parameters, rows, notes);
  }
  return 0;
}

void print_crossing(const Crossing& crossing) {
  fmt::print("\n{}\n", name_of(crossing.collective));
  for (const Takeover& t : crossing.takeovers) {
    fmt::print("  {:>10}  {:<26} {:>14.2f}\n", format_size(t.from_bytes), t.algorithm, t.us);
  }
  for (const auto& [algorithm, why] : crossing.left_out) {
    std::fputs(hanging(fmt::format("  {:>10}  {}: ", "left out", algorithm), why, output_columns()).c_str(), stdout);
  }
}

json crossing_json(const Crossing& crossing) {
  json out = {{"collective", name_of(crossing.collective)}, {"takeovers", json::array()}, {"left_out", json::array()}};
  for (const Takeover& t : crossing.takeovers) {
    out["takeovers"].push_back({{"from_bytes", t.from_bytes}, {"algorithm", t.algorithm}, {"us", t.us}});
  }
  for (const auto& [algorithm, why] : crossing.left_out) {
    out["left_out"].push_back({{"algorithm", algorithm}, {"why", why}});
  }
  return out;
}

int crossover(ModelArguments a) {
  std::string problem;
  const std::optional<Parameters> parameters = settle_model(&a, &problem);
  if (!parameters) return refuse_model(problem);
  ModelCase c = a.wanted;
  std::vector<Crossing> crossings;
  for (size_t i = 0; i < static_cast<size_t>(Collective::kCount); ++i) {
    const auto collective = static_cast<Collective>(i);
    if (!a.collective.empty() && collective != a.wanted.collective) continue;
    c.collective = collective;
    crossings.push_back(crossing_of(c, *parameters, [&c](uint64_t) { return c.chunk; }));
  }
  if (std::all_of(crossings.begin(), crossings.end(), [](const Crossing& x) { return x.takeovers.empty(); })) {
    return refuse_model(crossings[0].left_out.begin()->second);
  }
  c.bytes = kComparedTo;
  const std::vector<std::string> notes = notes_on(c, *parameters);
  const std::string title = fmt::format("Fastest by the walk of {}: {}, {} to {}", name_of(kComparisonModel),
                                        cluster_text(c), format_size(kComparedFrom), format_size(kComparedTo));
  if (!a.svg.empty()) {
    std::vector<CrossoverBar> bars;
    for (const Crossing& x : crossings) bars.push_back({std::string(name_of(x.collective)), x.takeovers});
    if (!write_file(a.svg, crossover_svg(title + ", profile " + parameters->name, bars, kComparedFrom, kComparedTo),
                    "model crossover"))
      return 2;
  }
  if (a.as_json) {
    json out = cluster_json(a, *parameters);
    out["model"] = name_of(kComparisonModel);
    out["from_bytes"] = kComparedFrom;
    out["to_bytes"] = kComparedTo;
    out["notes"] = notes;
    for (const Crossing& crossing : crossings) out["collectives"].push_back(crossing_json(crossing));
    std::printf("%s\n", out.dump(2).c_str());
    return 0;
  }
  const size_t columns = output_columns();
  fmt::print("{}\n{}\n", wrapped(title, 0, 2, columns),
             hanging("profile " + parameters->name + ": ", parameters->about, columns));
  fmt::print("  {:>10}  {:<26} {:>14}\n", "from", "algorithm", "µs there");
  for (const Crossing& crossing : crossings) print_crossing(crossing);
  fmt::print("\n");
  print_notes(notes);
  return 0;
}

int show_profile(const std::string& name, bool as_json) {
  if (name.empty() && !as_json) {
    for (const Parameters& p : model::built_in_profiles()) {
      std::fputs(hanging(fmt::format("{:<20} ", p.name), p.about, output_columns()).c_str(), stdout);
    }
    return 0;
  }
  json out = json::array();
  if (name.empty()) {
    for (const Parameters& p : model::built_in_profiles()) out.push_back(profile_json(p));
  } else {
    std::string problem;
    const std::optional<Parameters> parameters = find_profile(name, &problem);
    if (!parameters) return refuse_model(problem);
    out = profile_json(*parameters);
  }
  std::printf("%s\n", out.dump(2).c_str());
  return 0;
}

/// The options that predict and crossover share.
void add_cluster_options(CLI::App* command, const std::shared_ptr<ModelArguments>& a) {
  ModelCase& c = a->wanted;
  command->add_option("-r,--ranks", c.cluster.ranks, "Ranks, a multiple of the nodes")
      ->check(CLI::Range(1u, kMostModelRanks))
      ->capture_default_str();
  command->add_option("-n,--nodes", c.cluster.nodes, "Nodes; ranks lie on them in blocks")
      ->check(CLI::Range(1u, kMostModelRanks))
      ->capture_default_str();
  command->add_flag("--cyclic", c.cluster.cyclic, "Ranks are dealt out to the nodes in turn, not in blocks");
  command->add_flag("--team", c.team,
                    "The ranks of a node share by their team, as in blocking calls of several nodes; closed forms "
                    "know messages alone");
  command
      ->add_option("--chips,--sockets", a->chips,
                   "Chips (CMPs) of a node; otherwise as the profile has them. Of one node, algorithms that end in "
                   "-domains have a leader for each")
      ->check(CLI::Range(1u, 1024u));
  command
      ->add_option("--processors", a->processors,
                   "Processors of a node, for which ranks wait in the walk if they are more; otherwise as the profile "
                   "has them, if it does")
      ->check(CLI::Range(1u, model::kMostProcessors));
  command->add_option("--root", c.root, "Root rank")->capture_default_str();
  command->add_option("-d,--stride", c.stride, "Bytes from one element's start to the next one's; 0: contiguous")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  command->add_option("-c,--chunk", c.chunk, "Bytes of a chunk, for algorithms that cut; 0: do not cut")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  command->add_option("-p,--profile", a->profile, "A built-in profile, or a file (see zerohop model profile)")
      ->capture_default_str();
  command->add_flag("--json", a->as_json, "Print JSON");
}

void add_predict(CLI::App* parent) {
  auto a = std::make_shared<ModelArguments>();
  CLI::App* command = parent->add_subcommand("predict", "What a collective costs, by four models side by side.");
  command->footer(
      "For each model the closed form of the paper, where it has one (bcast by linear, binomial and hierarchical),\n"
      "and the time of a walk along the steps that zerohop itself would run, at the model's prices. log3P knows one\n"
      "level, 2log{2,3}P two, mlog_nP three. With links, the messages of a node share its link; the paper has no such\n"
      "model. Sizes may be written 64K or 1M; a walk has 131072 ranks at most.\n\n"
      "  zerohop model predict bcast -a binomial --ranks 64 --nodes 8 --size 4K --stride 64\n"
      "  zerohop model predict allreduce --size 1M            what zerohop would choose\n"
      "  zerohop model predict bcast -a binomial -r 128000 -n 1000 --size 1K\n\n"
      "Ends with 0, or 2 if there is nothing to predict.");
  command->add_option("collective", a->collective, "bcast, allreduce, ... (see zerohop schedule --list)")->required();
  command->add_option("-a,--algorithm", a->wanted.algorithm, "By name (see there); otherwise zerohop's choice");
  command->add_option("-s,--size", a->wanted.bytes, "Bytes of the vector, or of one rank's piece")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(uint64_t{0}, kMostModelBytes))
      ->capture_default_str();
  add_cluster_options(command, a);
  command->add_flag("--no-walk", a->no_walk, "Closed forms alone");
  command->callback([a] { exit_code = predict(*a); });
}

void add_crossover(CLI::App* parent) {
  auto a = std::make_shared<ModelArguments>();
  CLI::App* command = parent->add_subcommand("crossover", "From which size on which algorithm is fastest.");
  command->footer(
      "Walks the schedules of all algorithms from 8 B to 4 MiB at the prices of mlog_nP+links and shows where another\n"
      "one takes over. Place and time are the model's: whether a machine agrees is for `zerohop bench algorithms` to "
      "say. All\n"
      "collectives take a second at 64 ranks, a minute at 512.\n\n"
      "  zerohop model crossover --ranks 64 --nodes 8\n"
      "  zerohop model crossover allgather -r 64 -n 8 -p infiniband-ddr-like --json\n"
      "  zerohop model crossover -r 64 -n 8 --svg crossover.svg    a bar for each collective\n\n"
      "Ends with 0, or 2 if there is nothing to predict.");
  command->add_option("collective", a->collective, "One alone (see zerohop schedule --list); otherwise all");
  add_cluster_options(command, a);
  command->add_option("--svg", a->svg, "Draw it, to this file")->check(&wrong_output);
  command->callback([a] { exit_code = crossover(*a); });
}

void add_profile(CLI::App* parent) {
  struct Wanted {
    std::string name;
    bool as_json = false;
  };
  auto a = std::make_shared<Wanted>();
  CLI::App* command = parent->add_subcommand("profile", "The profiles that are built in; one as JSON to start from.");
  command->footer(
      "A profile holds the parameters of a machine: for each level of communication tables of microseconds by bytes.\n"
      "\"sources\" says where its figures come from. Most figures of the built-in ones are assumed.\n\n"
      "  zerohop model profile                           their names\n"
      "  zerohop model profile gigabit-like > mine.json  a copy to change\n"
      "  zerohop model predict bcast --profile mine.json");
  command->add_option("name", a->name, "A built-in profile, or a file, which is checked");
  command->add_flag("--json", a->as_json, "Print JSON, without a name of all of them");
  command->callback([a] { exit_code = show_profile(a->name, a->as_json); });
}

}  // namespace

void add_model_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("model", "What collectives would cost on a machine, by the models of the mlog_nP paper.");
  command->require_subcommand(1);
  command->footer(
      "A prediction needs no machine and measures nothing: it is as good as the profile that it is made from.\n\n"
      "  zerohop model predict bcast -a binomial --ranks 64 --nodes 8 --size 4K\n"
      "  zerohop model crossover --ranks 64 --nodes 8\n"
      "  zerohop model choose --profile here.json --save\n"
      "  zerohop model compare measured.json --profile here.json\n"
      "  zerohop model judge measured.json --profile here.json");
  add_predict(command);
  add_crossover(command);
  add_model_choose_command(command);
  add_model_papers_command(command);
  add_model_compare_command(command);
  add_model_judge_command(command);
  add_profile(command);
}

}  // namespace zh::tools
