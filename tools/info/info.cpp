// `zerohop info`: version, MPI, what is usable on the machine and chosen, and variables in force with their sources.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/options.h"
#include "coll/algorithms/selection.h"
#include "node/machine.h"
#include "os/affinity.h"
#include "os/clock.h"
#include "os/peer_mem.h"
#include "os/probe.h"
#include "os/process.h"
#include "os/segment.h"
#include "tools/bench/level_pairs.h"
#include "tools/cli/commands.h"
#include "tools/cli/text.h"
#include "tools/doctor/doctor.h"
#include "tools/info/choice.h"
#include "tools/info/text.h"
#include "tools/model/case.h"
#include "tune/choice.h"
#include "tune/profile.h"

namespace zh::tools {
namespace {

using nlohmann::json;

struct InfoArguments {
  std::vector<std::string> options;
  bool as_json = false;
  bool variables = false;
  bool markdown = false;
  std::string collective;  ///< the question of one call, if there is one
  uint64_t size = 64 << 10;
  uint32_t ranks = 0;  ///< 0: as many as there are CPUs
  uint32_t nodes = 1;
};

json variables_of(const Options& options) {
  json list = json::array();
  for (size_t i = 0; i < option_table().size(); ++i) {
    const OptionSpec& spec = option_table()[i];
    const Opt option = static_cast<Opt>(i);
    list.push_back({{"name", spec.name},
                    {"value", options.get_text(option)},
                    {"source", to_string(options.source(option))},
                    {"default", spec.default_value},
                    {"meaning", spec.help}});
  }
  return list;
}

json machine_of(const Options& options) {
  node::Machine machine;
  json out;
  const Status s = machine.load(options.get_text(Opt::kTopology));
  if (!s.ok()) {
    out["error"] = s.what();
    return out;
  }
  const node::Machine::Summary& m = machine.summary();
  const os::Cgroup cgroup = os::find_cgroup();
  const os::MemoryLimit memory = os::cgroup_memory(cgroup);
  const double quota = os::cgroup_cpu_quota(cgroup);
  out = {{"cpu_model", m.cpu_model},
         {"identity", machine.identity()},
         {"hwloc", node::Machine::has_hwloc()},
         {"cpus", m.cpus},
         {"cores", m.cores},
         {"l2_caches", m.l2},
         {"l2_bytes", m.l2_bytes},
         {"l3_caches", m.l3},
         {"l3_bytes", m.l3_bytes},
         {"numa_nodes", m.numa_nodes},
         {"sockets", m.packages},
         {"allowed_cpus", os::allowed_cpus().to_string()},
         {"cgroup_cpus", quota > 0 ? json(quota) : json(nullptr)},
         {"cgroup_memory_bytes", memory.limit_bytes != os::kUnlimited ? json(memory.limit_bytes) : json(nullptr)},
         {"ticks_per_us", os::ticks_per_us()},
         {"steady_ticks", os::ticks_are_steady()}};
  // Levels between the CPUs this process may use, as pairs of single CPUs.
  json levels = json::object();
  std::vector<uint32_t> cpus = numbers_of(os::allowed_cpus());
  cpus.resize(std::min<size_t>(cpus.size(), 256));
  for (size_t i = 0; i < cpus.size(); ++i) {
    for (size_t k = i + 1; k < cpus.size(); ++k) {
      const char* level = node::to_string(machine.level(only(cpus[i]), only(cpus[k])));
      levels[level] = levels.value(level, 0) + 1;
    }
  }
  out["cpu_pairs_by_level"] = levels;
  return out;
}

json usable_of(const Options& options) {
  const auto entry = [](const std::string& why_not) { return json{{"usable", why_not.empty()}, {"why_not", why_not}}; };
  const auto told = [](int error) { return error == 0 ? std::string() : std::strerror(-error); };
  const Status memfd = os::probe_memfd();
  const Status module = os::probe_copy_module();
  const bool asks_yama = options.get_bool(Opt::kPtracer) && os::yama_scope() == 1;
  return {{"memfd", entry(memfd.ok() ? "" : memfd.what())},
          {"cma", entry(options.get_bool(Opt::kCma) ? told(os::probe_sibling_read(asks_yama))
                                                    : "switched off by ZEROHOP_CMA")},
          {"ko", entry(options.is(Opt::kKernel, "0") ? "switched off by ZEROHOP_KERNEL" : module.text())},
          {"pidfd", entry(told(os::probe_pidfd()))},
          {"library", entry(find_library().empty() ? "libzerohop.so is not beside this command" : "")}};
}

json heap_section(const HeapFacts& facts) {
  return {{"setting", facts.setting},
          {"used", facts.used},
          {"why", facts.why},
          {"huge_pages_stay_private", facts.huge_pages_stay},
          {"page_bytes", facts.page_bytes},
          {"overcommit_memory", facts.overcommit},
          {"private_huge_pages", facts.private_huge_pages},
          {"shared_huge_pages", facts.shared_huge_pages},
          {"peers_open_files", {{"usable", facts.sibling_file == 0}, {"errno", -facts.sibling_file}}},
          {"memory_in_advance", {{"usable", facts.populate == 0}, {"errno", -facts.populate}}},
          {"pagemap", facts.pagemap}};
}

json choice_of(const tune::PairChoice& c) {
  return {{"inline_max", c.inline_max},           {"eager_max", c.eager_max},
          {"single_copy_min", c.single_copy_min}, {"mapped_min", c.mapped.least},
          {"chunk_cells", c.chunk_cells},         {"both_ends_min", c.both_ends_min},
          {"sender_copies", c.sender_copies},     {"nontemporal_min", c.nontemporal_min},
          {"ring_bytes_max", c.ring_bytes_max}};
}

/// The kept profile of this machine and what is chosen for each class of distance: by it, or by ZEROHOP_PROFILE.
json calibration_of(const Options& options) {
  const tune::KeptFolders folders = tune::kept_folders(options);
  const tune::MachineId machine = tune::this_machine();
  tune::Profile profile;
  const Status s = tune::load_profile(folders, machine, &profile);
  tune::Profile named;
  const bool used = options.is(Opt::kProfile, "auto") || !tune::named_profile(options.get_text(Opt::kProfile), &named);
  json out = {{"path", tune::profile_path(folders, machine)},
              {"present", s.ok()},
              {"used", used},
              {"why_not", s.ok() ? "" : s.what()},
              {"classes", json::array()}};
  for (uint32_t i = 0; i < profile.n_classes; ++i) {
    const tune::DistanceClass& c = profile.classes[i];
    out["classes"].push_back({{"level", node::to_string(static_cast<node::Level>(c.level))},
                              {"line_ns", c.line_ns},
                              {"jobs", c.jobs},
                              {"attempts", c.attempts},
                              {"in_force", c.jobs >= tune::kConfirmed},
                              {"standing", tune::standing(c)},
                              {"age_s", std::max<int64_t>(0, os::seconds_since_1970() - c.measured_at)},
                              {"choice", choice_of(tune::choose(c.level, used ? &profile : &named))}});
  }
  return out;
}

/// A kept table of algorithms, under hosts of one ABI.
json table_of(const std::string& path) {
  coll::Selection selection;
  std::string why;
  const Status s = selection.load(path, &why);
  if (!s.ok() && why.empty()) why = s.what();
  json out = {{"path", path}, {"present", s.ok()}, {"why_not", why}, {"entries", json::array()}};
  for (const coll::Selection::Entry& e : selection.entries()) {
    out["entries"].push_back({{"collective", coll::name_of(e.collective)},
                              {"ranks", e.ranks},
                              {"several_nodes", e.several_nodes},
                              {"from_bytes", e.from_bytes},
                              {"algorithm", e.algorithm != nullptr ? e.algorithm->name : coll::kHostAlgorithm},
                              {"chunk_bytes", e.chunk_bytes ? json(*e.chunk_bytes) : json(nullptr)}});
  }
  return out;
}

/// Which algorithm serves one call.
int answer(const InfoArguments& arguments, const Options& options) {
  ChoiceQuestion question;
  question.collective = coll::collective_named(arguments.collective);
  if (question.collective == coll::Collective::kCount) return refuse("info", no_collective(arguments.collective));
  node::Machine machine;
  (void)machine.load(options.get_text(Opt::kTopology));
  question.bytes = question.collective == coll::Collective::kBarrier ? 0 : arguments.size;
  question.ranks = arguments.ranks > 0 ? arguments.ranks : std::max(2U, machine.summary().cpus);
  question.nodes = arguments.nodes;
  if (const std::string fault = fault_of(question); !fault.empty()) return refuse("info", fault);
  json answers = json::object();
  for (const std::string_view abi : coll::kAbis)
    answers[std::string(abi)] = choice_json(question, facts_of(options, abi));
  const json out = {{"collective", arguments.collective},
                    {"bytes", question.bytes},
                    {"ranks", question.ranks},
                    {"nodes", question.nodes},
                    {"under", answers}};
  if (arguments.as_json) {
    std::printf("%s\n", out.dump(2, ' ', false, json::error_handler_t::replace).c_str());
  } else {
    std::fputs(choice_text(question, answers, output_columns()).c_str(), stdout);
  }
  return 0;
}

int info(const InfoArguments& arguments) {
  if (arguments.markdown) {
    std::fputs(options_markdown().c_str(), stdout);
    return 0;
  }
  // Behind a launcher one rank answers for all.
  if (launched_rank() != 0) return 0;
  Options options;
  for (const std::string& text : arguments.options) {
    const size_t equal = std::min(text.find('='), text.size());
    const std::string value = equal < text.size() ? text.substr(equal + 1) : "";
    (void)options.set(text.substr(0, equal), value, Source::kCommandLine);
  }
  options.read_environment(environ);
  std::vector<std::string> complaints = options.complaints();
  (void)coll::read_names(options.get_text(Opt::kAlgorithm), &complaints);
  const int code = complaints.empty() ? 0 : 2;
  if (!arguments.collective.empty()) {
    for (const std::string& complaint : options.complaints()) (void)refuse("info", complaint);
    return std::max(code, answer(arguments, options));
  }
  const tune::KeptFolders folders = tune::kept_folders(options);
  json collectives = json::object();
  json modelled = json::object();
  for (const std::string_view abi : coll::kAbis) {
    collectives[std::string(abi)] = table_of(coll::selection_path(folders, abi));
    modelled[std::string(abi)] = table_of(coll::model_selection_path(folders, abi));
  }
  json out = {{"version", ZH_VERSION},
              {"variables", variables_of(options)},
              {"complaints", complaints},
              {"machine", machine_of(options)},
              {"usable", usable_of(options)},
              {"heap", heap_section(look_at_heap(options))},
              {"calibration", calibration_of(options)},
              {"collectives", std::move(collectives)},
              {"collectives_by_model", std::move(modelled)}};
  if (arguments.as_json) {
    std::printf("%s\n", out.dump(2, ' ', false, json::error_handler_t::replace).c_str());
  } else {
    out["mpi"] = check_mpi(look_for_mpi(), false).finding;
    std::fputs(info_text(out, output_columns(), arguments.variables).c_str(), stdout);
  }
  return code;
}

}  // namespace

void add_info_command(CLI::App& app) {
  auto arguments = std::make_shared<InfoArguments>();
  CLI::App* command =
      app.add_subcommand("info", "MPI, what is usable on this machine and chosen, and variables in force.");
  command->add_option("-o,--option", arguments->options, "NAME=VALUE as for `zerohop run`, to see its effect")
      ->type_size(1)
      ->allow_extra_args(false);
  command->footer(
      "With --collective it says instead which algorithm is in force for such a call, and which source said so (a "
      "variable, the measured table, the table by a model, or the default). `zerohop schedule --profile` prices "
      "it.\n\n"
      "  zerohop info\n"
      "  zerohop info --collective allreduce --size 1M --ranks 8\n"
      "  zerohop info --collective bcast --size 64K --ranks 16 --nodes 4 --json\n\n"
      "Ends with 0, or 2 if a value or the question is wrong.");
  CLI::Option* collective =
      command->add_option("--collective", arguments->collective, "bcast, allreduce, ... (see zerohop schedule --list)");
  command->add_option("--size", arguments->size, "Bytes of the vector, or of one rank's piece")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(uint64_t{0}, kMostModelBytes))
      ->needs(collective)
      ->capture_default_str();
  command
      ->add_option("-r,--ranks", arguments->ranks, "Ranks in all, a multiple of the nodes; otherwise as many as CPUs")
      ->check(CLI::Range(2U, kOneWalk.ranks))
      ->needs(collective);
  command->add_option("--nodes", arguments->nodes, "Nodes on which they lie in blocks")
      ->check(CLI::Range(1U, kOneWalk.ranks))
      ->needs(collective)
      ->capture_default_str();
  command->add_flag("--variables", arguments->variables, "All variables and settings, and where each comes from");
  command->add_flag("--json", arguments->as_json, "Print JSON");
  command->add_flag("--variables-markdown", arguments->markdown,
                    "Print the table of all variables (docs/user/variables.md)");
  command->callback([arguments] { exit_code = info(*arguments); });
}

}  // namespace zh::tools
