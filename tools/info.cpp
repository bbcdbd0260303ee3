// `zerohop info`: version, variables in force with their sources, the machine, and what is usable on it.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/options.h"
#include "coll/selection.h"
#include "commands.h"
#include "heap_facts.h"
#include "info_heap.h"
#include "node/machine.h"
#include "os/affinity.h"
#include "os/clock.h"
#include "os/peer_mem.h"
#include "os/probe.h"
#include "os/process.h"
#include "os/segment.h"
#include "tune/choice.h"
#include "tune/profile.h"

namespace zh::tools {
namespace {

using nlohmann::json;

struct Arguments {
  std::vector<std::string> options;
  bool as_json = false;
  bool markdown = false;
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
  const os::CpuSet allowed = os::allowed_cpus();
  json levels = json::object();
  std::vector<uint32_t> cpus;
  for (uint32_t c = 0; c < os::CpuSet::kMaxCpus && cpus.size() < 256; ++c) {
    if (allowed.has(c)) cpus.push_back(c);
  }
  for (size_t i = 0; i < cpus.size(); ++i) {
    for (size_t k = i + 1; k < cpus.size(); ++k) {
      os::CpuSet a, b;
      a.add(cpus[i]);
      b.add(cpus[k]);
      const char* level = node::to_string(machine.level(a, b));
      levels[level] = levels.value(level, 0) + 1;
    }
  }
  out["cpu_pairs_by_level"] = levels;
  return out;
}

json usable_of(const Options& options) {
  json out;
  const Status memfd = os::probe_memfd();
  out["memfd"] = {{"usable", memfd.ok()}, {"why_not", memfd.ok() ? "" : memfd.what()}};
  int cma = options.get_bool(Opt::kCma)
                ? os::probe_sibling_read(options.get_bool(Opt::kPtracer) && os::yama_scope() == 1)
                : -ECANCELED;
  out["cma"] = {{"usable", cma == 0},
                {"why_not", cma == 0                       ? ""
                            : !options.get_bool(Opt::kCma) ? "switched off by ZEROHOP_CMA"
                                                           : std::strerror(-cma)}};
  out["pidfd"] = {{"usable", os::probe_pidfd() == 0},
                  {"why_not", os::probe_pidfd() == 0 ? "" : std::strerror(-os::probe_pidfd())}};
  const std::string library = find_library();
  out["library"] = {{"usable", !library.empty()},
                    {"why_not", library.empty() ? "libzerohop.so is not beside this command" : ""}};
  return out;
}

json choice_of(const tune::PairChoice& c) {
  return {{"inline_max", c.inline_max},           {"eager_max", c.eager_max},
          {"single_copy_min", c.single_copy_min}, {"mapped_min", c.mapped_min},
          {"chunk_cells", c.chunk_cells},         {"both_ends_min", c.both_ends_min},
          {"sender_copies", c.sender_copies},     {"nontemporal_min", c.nontemporal_min},
          {"ring_bytes_max", c.ring_bytes_max}};
}

/// The kept profile of this machine and what it chooses for each class of distance.
json calibration_of(const Options& options) {
  const std::string folder = tune::cache_folder(options.get_text(Opt::kCache));
  const tune::MachineId machine = tune::this_machine();
  tune::Profile profile;
  const Status s = tune::load_profile(folder, machine, &profile);
  json out = {{"path", tune::profile_path(folder, machine)},
              {"present", s.ok()},
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
                              {"choice", choice_of(tune::choose(c.level, &profile))}});
  }
  return out;
}

/// The algorithms that were measured as the fastest under hosts of one ABI.
json collectives_of(const Options& options, const char* abi) {
  const std::string path = coll::selection_path(tune::cache_folder(options.get_text(Opt::kCache)), abi);
  coll::Selection selection;
  const Status s = selection.load(path);
  json out = {{"path", path}, {"present", s.ok()}, {"why_not", s.ok() ? "" : s.what()}, {"entries", json::array()}};
  for (const coll::Selection::Entry& e : selection.entries()) {
    out["entries"].push_back({{"collective", coll::name_of(e.collective)},
                              {"ranks", e.ranks},
                              {"several_nodes", e.several_nodes},
                              {"from_bytes", e.from_bytes},
                              {"algorithm", e.algorithm != nullptr ? e.algorithm->name : coll::kHostAlgorithm}});
  }
  return out;
}

void print_collectives(const json& c) {
  std::printf("\nAlgorithms of collectives: %s\n", c["path"].get<std::string>().c_str());
  if (!c["present"].get<bool>()) {
    std::printf("  %s: size and layout choose; `zerohop bench algorithms --save` measures\n",
                c["why_not"].get<std::string>().c_str());
  }
  for (const json& e : c["entries"]) {
    std::printf("  %-14s %4u ranks, %s, from %s on: %s\n", e["collective"].get<std::string>().c_str(),
                e["ranks"].get<unsigned>(), e["several_nodes"].get<bool>() ? "several nodes" : "one node",
                format_size(e["from_bytes"].get<uint64_t>()).c_str(), e["algorithm"].get<std::string>().c_str());
  }
}

void print_text(const json& info) {
  std::printf("zerohop %s\n\nVariables (ZEROHOP_...)                      from          meaning\n", ZH_VERSION);
  for (const json& v : info["variables"]) {
    const std::string name = v["name"].get<std::string>().substr(std::strlen("ZEROHOP_"));
    const std::string value = v["value"].get<std::string>();
    std::printf("  %-14s = %-24s  %-12s  %s\n", name.c_str(), value.empty() ? "(empty)" : value.c_str(),
                v["source"].get<std::string>().c_str(), v["meaning"].get<std::string>().c_str());
  }
  for (const json& c : info["complaints"]) std::printf("  ! %s\n", c.get<std::string>().c_str());
  const json& m = info["machine"];
  std::printf("\nMachine\n");
  if (m.contains("error")) {
    std::printf("  %s\n", m["error"].get<std::string>().c_str());
  } else {
    std::printf("  %s\n  %u CPUs, %u cores, %u L2 of %llu KiB, %u L3 of %llu KiB, %u memory nodes, %u sockets\n",
                m["cpu_model"].get<std::string>().c_str(), m["cpus"].get<unsigned>(), m["cores"].get<unsigned>(),
                m["l2_caches"].get<unsigned>(), static_cast<unsigned long long>(m["l2_bytes"].get<uint64_t>() >> 10),
                m["l3_caches"].get<unsigned>(), static_cast<unsigned long long>(m["l3_bytes"].get<uint64_t>() >> 10),
                m["numa_nodes"].get<unsigned>(), m["sockets"].get<unsigned>());
    std::printf("  this process may use CPUs %s", m["allowed_cpus"].get<std::string>().c_str());
    if (!m["cgroup_cpus"].is_null()) std::printf(", %.1f CPUs' time by its cgroup", m["cgroup_cpus"].get<double>());
    std::printf("\n");
    for (const auto& [level, pairs] : m["cpu_pairs_by_level"].items()) {
      std::printf("  %-13s %u pairs of CPUs (by hwloc; corrected at MPI_Init by the measured line time)\n",
                  level.c_str(), pairs.get<unsigned>());
    }
  }
  std::printf("\nUsable here\n");
  for (const auto& [name, what] : info["usable"].items()) {
    const std::string why_not = what["why_not"];
    std::printf("  %-8s %s%s%s\n", name.c_str(), what["usable"].get<bool>() ? "yes" : "no", why_not.empty() ? "" : ": ",
                why_not.c_str());
  }
  print_heap_section(info["heap"]);
  const json& c = info["calibration"];
  std::printf("\nCalibration: %s\n", c["path"].get<std::string>().c_str());
  if (!c["present"].get<bool>()) {
    std::printf("  %s; a job's first MPI_Init on a machine measures it (ZEROHOP_LOG=info shows each pair's choices)\n",
                c["why_not"].get<std::string>().c_str());
  }
  for (const json& d : c["classes"]) {
    const json& choice = d["choice"];
    std::printf("  %s\n", d["standing"].get<std::string>().c_str());
    std::printf("  %-13s line %.0f ns: inline to %s, one block to %s, cells to %s, then one copy; mapped from %s\n", "",
                d["line_ns"].get<double>(), format_size(choice["inline_max"].get<uint64_t>()).c_str(),
                format_size(choice["eager_max"].get<uint64_t>()).c_str(),
                format_size(choice["single_copy_min"].get<uint64_t>()).c_str(),
                format_size(choice["mapped_min"].get<uint64_t>()).c_str());
  }
  for (const json& table : info["collectives"]) print_collectives(table);
}

int info(const Arguments& arguments) {
  if (arguments.markdown) {
    std::fputs(options_markdown().c_str(), stdout);
    return 0;
  }
  // Behind a launcher one rank answers for all.
  if (launched_rank() != 0) return 0;
  Options options;
  bool wrong = false;
  for (const std::string& text : arguments.options) {
    const size_t equal = std::min(text.find('='), text.size());
    const std::string value = equal < text.size() ? text.substr(equal + 1) : "";
    wrong = !options.set(text.substr(0, equal), value, Source::kCommandLine).ok() || wrong;
  }
  options.read_environment(environ);
  json collectives = json::object();
  for (const char* abi : {"mpich", "ompi", "abi"}) collectives[abi] = collectives_of(options, abi);
  const json out = {{"version", ZH_VERSION},
                    {"variables", variables_of(options)},
                    {"complaints", options.complaints()},
                    {"machine", machine_of(options)},
                    {"usable", usable_of(options)},
                    {"heap", heap_section(look_at_heap(options))},
                    {"calibration", calibration_of(options)},
                    {"collectives", std::move(collectives)}};
  if (arguments.as_json) {
    std::printf("%s\n", out.dump(2).c_str());
  } else {
    print_text(out);
  }
  return wrong ? 2 : 0;
}

}  // namespace

void add_info_command(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("info", "Variables in force and their sources, the machine, what is usable on it.");
  command->add_option("-o,--option", arguments->options, "NAME=VALUE as for `zerohop run`, to see its effect")
      ->type_size(1)
      ->allow_extra_args(false);
  command->add_flag("--json", arguments->as_json, "Print JSON");
  command->add_flag("--variables-markdown", arguments->markdown,
                    "Print the table of all variables (docs/variables.md)");
  command->callback([arguments] { exit_code = info(*arguments); });
}

}  // namespace zh::tools
