// See choice.h.
#include "tools/info/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/large_started.h"
#include "engine/small_started.h"
#include "tools/cli/json_file.h"
#include "tools/cli/text.h"
#include "tools/model/case.h"
#include "tools/model/crossing.h"
#include "tools/model/profile.h"
#include "tune/profile.h"

namespace zh::tools {
namespace {

using coll::AlgorithmChoice;
using coll::ChosenBy;
using nlohmann::json;

ModelCase asked_case(const ChoiceQuestion& question, uint32_t chips_per_node = 1) {
  ModelCase c;
  c.collective = question.collective;
  c.bytes = question.bytes;
  c.cluster = {question.ranks, question.nodes, chips_per_node, false};
  c.team = question.nodes > 1;
  return c;
}

coll::Problem choice_problem(const ChoiceQuestion& question, const ChoiceFacts& facts) {
  // As ranks lie that are bound: in blocks on the chips of the profile.
  const uint32_t chips = facts.profile ? facts.profile->chips_per_node : 1;
  coll::Problem problem = problem_of(asked_case(question, chips));
  problem.chunk_bytes = facts.chunk_bytes;
  return problem;
}

std::string algorithm_name(const coll::Algorithm* algorithm) {
  return std::string(algorithm != nullptr ? algorithm->name : coll::kHostAlgorithm);
}

/// What each source says, in their order; nothing where it has no word.
json sources_json(const coll::Problem& problem, const coll::Precedence& precedence) {
  json out = json::array();
  for (const ChosenBy by : {ChosenBy::kVariable, ChosenBy::kMeasured, ChosenBy::kModel, ChosenBy::kDefault}) {
    coll::Precedence alone;
    alone.chunk_set = precedence.chunk_set;
    if (by == ChosenBy::kVariable) alone.named = precedence.named;
    if (by == ChosenBy::kMeasured) alone.measured = precedence.measured;
    if (by == ChosenBy::kModel) alone.modelled = precedence.modelled;
    const AlgorithmChoice choice = alone.choose(problem);
    json line = {{"source", name_of(by)}, {"algorithm", nullptr}};
    if (choice.by == by) line["algorithm"] = algorithm_name(choice.algorithm);
    out.push_back(std::move(line));
  }
  return out;
}

struct Service {
  const char* blocking;
  const char* nonblocking;
};

Service service_of(const ChoiceQuestion& question, const ChoiceFacts& facts, const coll::Problem& problem,
                   const AlgorithmChoice& choice) {
  constexpr const char* kHost = "host";
  if (!facts.serves || question.nodes == question.ranks) return {kHost, kHost};
  const char* by_choice = choice.algorithm != nullptr ? "schedule" : kHost;
  if (question.nodes > 1) return {by_choice, kHost};
  if (facts.precedence.named[static_cast<size_t>(question.collective)]) return {by_choice, by_choice};
  if (engine::SmallStarted::fits(problem)) return {"team", "team"};
  const bool staged =
      choice.by == ChosenBy::kDefault && choice.algorithm != nullptr && engine::LargeStarted::fits(problem);
  return {"team", staged ? "team-if-apart" : by_choice};
}

/// Bytes of a chunk that the others would have in the place of the choice.
uint64_t chunk_of_others(const ChoiceQuestion& question, const ChoiceFacts& facts, const AlgorithmChoice& choice) {
  const bool tiled = choice.by == ChosenBy::kModel && !facts.precedence.chunk_set && facts.tiles != coll::Tiles{};
  return tiled ? facts.tiles.chunk_of(question.bytes) : choice.chunk_bytes;
}

json times_json(const ChoiceQuestion& question, const ChoiceFacts& facts, const AlgorithmChoice& choice) {
  json out = {{"known", facts.profile.has_value()},
              {"why_not", facts.profile ? "" : facts.no_profile},
              {"in_force_us", nullptr},
              {"other", nullptr},
              {"other_us", nullptr}};
  if (!facts.profile) return out;
  out["profile"] = facts.profile->name;
  out["model"] = name_of(kComparisonModel);
  ModelCase c = asked_case(question);
  c.cluster = on_nodes_of(*facts.profile, c.cluster);
  for (const coll::Algorithm& a : coll::algorithms(question.collective)) {
    const bool in_force = &a == choice.algorithm;
    if (a.by_domains && !in_force && !divides_node(c, *facts.profile)) continue;
    c.algorithm = a.name;
    c.chunk = in_force ? choice.chunk_bytes : chunk_of_others(question, facts, choice);
    std::string problem;
    const std::vector<coll::Schedule> schedules = schedules_of(c, kManyWalks, &problem);
    if (!problem.empty()) continue;
    const double us = walk_us(c, schedules, kComparisonModel, *facts.profile);
    if (in_force) {
      out["in_force_us"] = us;
    } else if (out["other_us"].is_null() || us < out["other_us"].get<double>()) {
      out["other"] = a.name;
      out["other_us"] = us;
    }
  }
  return out;
}

/// Why there is no profile, "" if there is.
std::string read_profile(const std::string& path, std::optional<model::Parameters>* out) {
  std::string problem;
  const json document = read_json(path, &problem);
  if (!problem.empty()) return "no profile of a model is kept here; `zerohop model choose --save` keeps one";
  if (!document.is_discarded()) *out = profile_from(document, &problem);
  if (!*out) return path + " is no profile: " + (problem.empty() ? "it is not JSON" : problem);
  return "";
}

const char* source_text(const std::string& source) {
  if (source == "variable") return "a variable";
  if (source == "measured") return "the table that was measured (`zerohop bench algorithms --save`)";
  if (source == "model") return "the table by a model (`zerohop model choose --save`)";
  return "the built-in default, by size and layout";
}

std::string sources_text(const json& answer) {
  std::string text;
  for (const json& s : answer["sources"]) {
    const std::string word = s["algorithm"].is_null() ? "no word" : s["algorithm"].get<std::string>();
    text += (text.empty() ? "" : ", ") + s["source"].get<std::string>() + ": " + word;
  }
  return text;
}

std::string serves_text(const json& answer) {
  const auto blocking = answer["blocking"].get<std::string>();
  const auto nonblocking = answer["nonblocking"].get<std::string>();
  const auto who = [](const std::string& by) {
    if (by == "team") return "a team, which reads no table";
    if (by == "team-if-apart") return "a team if ranks mostly share no cache, else a schedule by this algorithm";
    return by == "schedule" ? "a schedule by this algorithm" : "the host's own collective";
  };
  return fmt::format("blocking calls: {}; nonblocking and persistent ones: {}", who(blocking), who(nonblocking));
}

std::string times_text(const json& answer) {
  const json& times = answer["times"];
  const auto source = answer["source"].get<std::string>();
  const std::string head = source == "measured" ? "measured tables keep no times; " : "";
  if (!times["known"].get<bool>()) return head + times["why_not"].get<std::string>();
  const std::string by =
      fmt::format("by {} and profile {}: ", times["model"].get<std::string>(), times["profile"].get<std::string>());
  std::string other;
  if (!times["other_us"].is_null())
    other = fmt::format("{} {:.2f} µs", times["other"].get<std::string>(), times["other_us"].get<double>());
  if (times["in_force_us"].is_null()) {
    return head + by + "the algorithm in force has no price" + (other.empty() ? "" : "; the fastest is " + other);
  }
  const auto us = times["in_force_us"].get<double>();
  std::string text = fmt::format("{}{}{} {:.2f} µs", head, by, answer["algorithm"].get<std::string>(), us);
  if (other.empty()) return text;
  const double more = times["other_us"].get<double>() / us - 1;
  return text + fmt::format("; the fastest other is {}, {:.0f} % {}", other, 100 * (more < 0 ? -more : more),
                            more < 0 ? "less" : "more");
}

}  // namespace

std::string fault_of(const ChoiceQuestion& question) { return fault_of(asked_case(question)); }

ChoiceFacts facts_of(const Options& options, std::string_view abi, const coll::Tiles& tiles) {
  ChoiceFacts facts;
  facts.serves = options.get_bool(Opt::kEnable) && options.get_bool(Opt::kCollectives);
  facts.chunk_bytes = options.get_number(Opt::kChunk);
  facts.precedence.chunk_set = options.source(Opt::kChunk) != Source::kDefault;
  facts.tiles = tiles;
  facts.precedence.named = coll::read_names(options.get_text(Opt::kAlgorithm), &facts.complaints);
  const tune::KeptFolders folders = tune::kept_folders(options);
  for (const auto& [table, path] : {std::pair{&facts.precedence.measured, coll::selection_path(folders, abi)},
                                    std::pair{&facts.precedence.modelled, coll::model_selection_path(folders, abi)}}) {
    std::string why;
    if (table->load(path, &why).code() == Code::kInvalid) facts.complaints.push_back(why);
  }
  facts.no_profile = read_profile(coll::model_profile_path(folders, abi), &facts.profile);
  return facts;
}

json choice_json(const ChoiceQuestion& question, const ChoiceFacts& facts) {
  const coll::Problem problem = choice_problem(question, facts);
  const AlgorithmChoice choice = facts.precedence.choose(problem);
  const Service service = service_of(question, facts, problem, choice);
  return {{"algorithm", algorithm_name(choice.algorithm)},
          {"by_domains", choice.algorithm != nullptr && choice.algorithm->by_domains},
          {"chunk_bytes", choice.chunk_bytes},
          {"source", name_of(choice.by)},
          {"sources", sources_json(problem, facts.precedence)},
          {"blocking", service.blocking},
          {"nonblocking", service.nonblocking},
          {"times", times_json(question, facts, choice)},
          {"not_obeyed", facts.complaints}};
}

std::string choice_text(const ChoiceQuestion& question, const json& answers, size_t columns) {
  const std::string size =
      question.collective == coll::Collective::kBarrier ? "" : " of " + format_size(question.bytes);
  std::string text = fmt::format("{}{}, {} ranks on {}\n", coll::name_of(question.collective), size, question.ranks,
                                 question.nodes == 1 ? "one node" : fmt::format("{} nodes", question.nodes));
  std::vector<std::pair<std::string, const json*>> told;  // names, answer
  for (const auto& [abi, answer] : answers.items()) {
    const json& mine = answer;
    const auto alike = std::ranges::find_if(told, [&mine](const auto& t) { return *t.second == mine; });
    if (alike == told.end()) {
      told.emplace_back(abi, &mine);
    } else {
      alike->first += ", " + abi;
    }
  }
  for (const auto& [names, known] : told) {
    const json& a = *known;
    const auto chunk = a["chunk_bytes"].get<uint64_t>();
    text += "\n" + hanging("", "Under " + names, columns);
    text += hanging("  algorithm   ",
                    fmt::format("{}; where it cuts, {}{}", a["algorithm"].get<std::string>(),
                                chunk == 0 ? "whole" : "in chunks of " + format_size(chunk),
                                a["by_domains"].get<bool>() ? "; if ranks are bound to several sockets" : ""),
                    columns);
    text += hanging("  chosen by   ", source_text(a["source"].get<std::string>()), columns);
    text += hanging("  sources     ", sources_text(a), columns);
    text += hanging("  serves      ", serves_text(a), columns);
    text += hanging("  ahead by    ", times_text(a), columns);
    for (const json& c : a["not_obeyed"]) text += hanging("  ! ", c.get<std::string>(), columns);
  }
  return text;
}

}  // namespace zh::tools
