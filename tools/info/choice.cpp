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
  c.blocks = question.nodes > 1;
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

/// What serves a call of one kind, as coll::choose() says.
coll::Choice service_of(const ChoiceQuestion& question, const ChoiceFacts& facts, coll::Problem problem, bool blocks) {
  if (!facts.serves || question.nodes == question.ranks) return {};
  problem.blocks = blocks;
  return coll::choose(problem, {question.nodes == 1, true, {question.ranks, false, true}}, facts.precedence);
}

const char* word_of(coll::CollectiveWay way) {
  constexpr const char* kWords[] = {"host", "team", "team", "team-if-apart", "schedule"};
  return kWords[static_cast<size_t>(way)];
}

/// Null unless a team serves it.
json node_word_of(const coll::Choice& choice) {
  constexpr const char* kWords[] = {"control blocks", "messages", "single copy"};
  if (choice.way != coll::CollectiveWay::kTeam) return nullptr;
  if (choice.order != coll::StagingOrder::kFree) return "staging areas";
  return kWords[static_cast<size_t>(choice.node)];
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
  const auto who = [&answer](const std::string& by) -> std::string {
    const json& way = answer["team_way"];
    if (by == "team" && way.is_string()) return "a team by " + way.get<std::string>() + ", which reads no table";
    if (by == "team") return "a team, which reads no table";
    if (by == "team-if-apart") return "a team if ranks mostly share no cache, else a schedule by this algorithm";
    return by == "schedule" ? "a schedule by this algorithm" : "the host's own collective";
  };
  const std::string other = nonblocking == "team" ? "slots in shared memory" : who(nonblocking);
  return fmt::format("blocking calls: {}; nonblocking and persistent ones: {}", who(blocking), other);
}

}  // namespace

std::string fault_of(const ChoiceQuestion& question) { return fault_of(asked_case(question)); }

ChoiceFacts facts_of(const Options& options, std::string_view abi) {
  ChoiceFacts facts;
  facts.serves = options.get_bool(Opt::kEnable) && options.get_bool(Opt::kCollectives);
  facts.chunk_bytes = options.get_number(Opt::kChunk);
  facts.precedence.chunk_set = options.source(Opt::kChunk) != Source::kDefault;
  facts.precedence.named = coll::read_names(options.get_text(Opt::kAlgorithm), &facts.complaints);
  if (facts.precedence.chunk_set) coll::find_uncut(facts.precedence.named, facts.chunk_bytes, &facts.complaints);
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
  const coll::Choice blocking = service_of(question, facts, problem, true);
  return {{"algorithm", algorithm_name(choice.algorithm)},
          {"chunk_bytes", choice.chunk_bytes},
          {"cuts", choice.algorithm != nullptr && coll::cuts(*choice.algorithm)},
          {"source", name_of(choice.by)},
          {"sources", sources_json(problem, facts.precedence)},
          {"blocking", word_of(blocking.way)},
          {"team_way", node_word_of(blocking)},
          {"nonblocking", word_of(service_of(question, facts, problem, false).way)},
          {"not_obeyed", facts.complaints}};
}

std::string choice_text(const ChoiceQuestion& question, const json& answers, size_t columns) {
  const std::string size = question.collective == coll::Collective::kBarrier ? "" : " of " + size_text(question.bytes);
  std::string text = fmt::format("{}{}, {} ranks on {}\n", coll::name_of(question.collective), size, question.ranks,
                                 question.nodes == 1 ? "one node" : fmt::format("{} nodes", question.nodes));
  for (const auto& [names, a] : told_once(answers)) {
    const auto chunk = a["chunk_bytes"].get<uint64_t>();
    text += "\n" + hanging("", "Under " + names, columns);
    text += hanging("  algorithm   ",
                    a["algorithm"].get<std::string>() + (!a["cuts"].get<bool>() ? "; it does not cut"
                                                         : chunk == 0           ? "; whole"
                                                                                : "; in chunks of " + size_text(chunk)),
                    columns);
    text += hanging("  chosen by   ", source_text(a["source"].get<std::string>()), columns);
    text += hanging("  sources     ", sources_text(a), columns);
    text += hanging("  serves      ", serves_text(a), columns);
    for (const json& c : a["not_obeyed"]) text += hanging("  ! ", c.get<std::string>(), columns);
  }
  text += "\n" + hanging("",
                         "A team shares memory on its node; a schedule is a list of steps, which `zerohop schedule` "
                         "shows (docs/glossary.md).",
                         columns);
  return text;
}

}  // namespace zh::tools
