// See choice.h.
#include "tools/info/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "coll/algorithms/choose.h"
#include "tools/cli/text.h"
#include "tools/info/text.h"
#include "tools/model/case.h"
#include "tune/profile.h"

namespace zh::tools {
namespace {

using coll::AlgorithmChoice;
using coll::ChosenBy;
using nlohmann::json;

ModelCase asked_case(const ChoiceQuestion& question) {
  ModelCase c;
  c.collective = question.collective;
  c.bytes = question.bytes;
  c.cluster = {question.ranks, question.nodes, 1, false};
  c.team = question.nodes > 1;
  return c;
}

coll::Problem choice_problem(const ChoiceQuestion& question, const ChoiceFacts& facts) {
  coll::Problem problem = problem_of(asked_case(question));
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
  if (coll::fits_slots(problem)) return {"team", "team"};
  const bool staged = choice.by == ChosenBy::kDefault && choice.algorithm != nullptr && coll::fits_staging(problem);
  return {"team", staged ? "team-if-apart" : by_choice};
}

const char* source_text(const std::string& source) {
  if (source == "variable") return "a variable";
  if (source == "measured") return "the table that was measured (`zerohop bench algorithms --save`)";
  if (source == "model") return "the table by a model (`zerohop tune --model --save`)";
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

}  // namespace

std::string fault_of(const ChoiceQuestion& question) { return fault_of(asked_case(question)); }

ChoiceFacts facts_of(const Options& options, std::string_view abi) {
  ChoiceFacts facts;
  facts.serves = options.get_bool(Opt::kEnable) && options.get_bool(Opt::kCollectives);
  facts.chunk_bytes = options.get_number(Opt::kChunk);
  facts.precedence.chunk_set = options.source(Opt::kChunk) != Source::kDefault;
  facts.precedence.named = coll::read_names(options.get_text(Opt::kAlgorithm), &facts.complaints);
  const tune::KeptFolders folders = tune::kept_folders(options);
  for (const auto& [table, path] : {std::pair{&facts.precedence.measured, coll::selection_path(folders, abi)},
                                    std::pair{&facts.precedence.modelled, coll::model_selection_path(folders, abi)}}) {
    std::string why;
    if (table->load(path, &why).code() == Code::kInvalid) facts.complaints.push_back(why);
  }
  return facts;
}

json choice_json(const ChoiceQuestion& question, const ChoiceFacts& facts) {
  const coll::Problem problem = choice_problem(question, facts);
  const AlgorithmChoice choice = facts.precedence.choose(problem);
  const Service service = service_of(question, facts, problem, choice);
  return {{"algorithm", algorithm_name(choice.algorithm)},
          {"chunk_bytes", choice.chunk_bytes},
          {"source", name_of(choice.by)},
          {"sources", sources_json(problem, facts.precedence)},
          {"blocking", service.blocking},
          {"nonblocking", service.nonblocking},
          {"not_obeyed", facts.complaints}};
}

std::string choice_text(const ChoiceQuestion& question, const json& answers, size_t columns) {
  const std::string size =
      question.collective == coll::Collective::kBarrier ? "" : " of " + format_size(question.bytes);
  std::string text = fmt::format("{}{}, {} ranks on {}\n", coll::name_of(question.collective), size, question.ranks,
                                 question.nodes == 1 ? "one node" : fmt::format("{} nodes", question.nodes));
  for (const auto& [names, a] : told_once(answers)) {
    const auto chunk = a["chunk_bytes"].get<uint64_t>();
    text += "\n" + hanging("", "Under " + names, columns);
    text += hanging("  algorithm   ",
                    fmt::format("{}; where it cuts, {}", a["algorithm"].get<std::string>(),
                                chunk == 0 ? "whole" : "in chunks of " + format_size(chunk)),
                    columns);
    text += hanging("  chosen by   ", source_text(a["source"].get<std::string>()), columns);
    text += hanging("  sources     ", sources_text(a), columns);
    text += hanging("  serves      ", serves_text(a), columns);
    for (const json& c : a["not_obeyed"]) text += hanging("  ! ", c.get<std::string>(), columns);
  }
  return text;
}

}  // namespace zh::tools
