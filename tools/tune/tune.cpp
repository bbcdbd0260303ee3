// `zerohop tune`: what is known of this machine's copy costs, how to have it measured again, and the measuring of what
// messages cost.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/options.h"
#include "tools/cli/commands.h"
#include "tools/cli/inputs.h"
#include "tools/cli/text.h"
#include "tools/tune/measure.h"
#include "tune/profile.h"

namespace zh::tools {
namespace {

struct TuneArguments {
  bool renew = false;
  MeasureOptions measure;
};

int renew(const Options& options, const tune::KeptFolders& folders) {
  const std::string path = tune::profile_path(folders.own, tune::this_machine());
  const bool removed = std::remove(path.c_str()) == 0;
  if (!removed && errno != ENOENT) {
    std::fprintf(stderr, "zerohop tune: cannot remove %s: %s\n", path.c_str(), std::strerror(errno));
    return 1;
  }
  std::printf("%s: %s\n", removed ? "Forgotten" : "Nothing was kept", path.c_str());
  if (const std::string left = tune::profile_path(folders, tune::this_machine()); left != path) {
    std::printf("The site's is in force: %s\n", left.c_str());
    return 0;
  }
  std::puts(!options.is(Opt::kProfile, "builtin") ? "The next two jobs of two ranks or more measure again."
                                                  : "ZEROHOP_PROFILE=builtin: jobs measure nothing.");
  return 0;
}

int show_or_renew(const TuneArguments& arguments) {
  Options options;
  options.read_environment(environ);
  const tune::KeptFolders folders = tune::kept_folders(options);
  const std::string path = tune::profile_path(folders, tune::this_machine());
  if (path.empty() || (arguments.renew && folders.own.empty())) {
    std::fprintf(stderr, "zerohop tune: there is no folder for what is measured: set HOME or ZEROHOP_CACHE\n");
    return 1;
  }
  if (arguments.renew) return renew(options, folders);
  if (!options.is(Opt::kProfile, "auto")) {
    std::printf("ZEROHOP_PROFILE=%s: jobs use nothing of what is kept.\n", options.get_text(Opt::kProfile).c_str());
  }
  tune::Profile profile;
  const Status status = tune::load_profile(folders, tune::this_machine(), &profile);
  if (!status.ok()) {
    std::printf("%s: %s\n", path.c_str(), status.what());
    return 0;
  }
  for (uint32_t i = 0; i < profile.n_classes; ++i) {
    const std::string line = tune::standing(profile.classes[i]);
    constexpr size_t kLevel = 14;  // it begins with the level in so many columns
    std::fputs(hanging(line.substr(0, kLevel), line.substr(std::min(kLevel, line.size())), output_columns()).c_str(),
               stdout);
  }
  std::printf("Kept in %s\n--renew forgets it. `zerohop info` shows the choices.\n", path.c_str());
  return 0;
}

std::string wrong_machines(const std::string& value) {
  return value == "2" ? "" : "2, please: one for each rank of a job of two";
}

/// Three ways to come by nodes, of which one can be taken.
void add_node_options(CLI::App* command, CLI::Option* profile, MeasureOptions* measure) {
  CLI::Option* pretend =
      command
          ->add_flag("--pretend-nodes", measure->pretend_nodes,
                     "Measure between nodes, too, that ZEROHOP_NODE_RANKS makes of this machine, as `zerohop bench "
                     "algorithms --node-ranks` does")
          ->needs(profile);
  CLI::Option* machines =
      command
          ->add_option("--machines", measure->hosts.machines,
                       "Measure between so many machines, too, made of namespaces of this one with TCP between them: 2")
          ->check(&wrong_machines)
          ->needs(profile)
          ->excludes(pretend)
          ->excludes(command->get_option("--mpiexec"));
  command
      ->add_option(
          "--between", measure->between,
          "Measure between nodes, too: a launcher with its arguments that puts two ranks on two nodes, such as "
          "\"mpiexec -hosts a,b -ppn 1\"")
      ->check(&wrong_command)
      ->needs(profile)
      ->excludes(pretend)
      ->excludes(machines);
}

void add_measure_options(CLI::App* command, MeasureOptions* measure) {
  CLI::Option* profile =
      command
          ->add_option("--json", measure->json_path,
                       "Measure what messages cost here and write it as a profile for `zerohop model`")
          ->type_name("FILE")
          ->check(&wrong_output);
  command->add_option("--base", measure->base, "Profile whose costs between nodes are taken over")
      ->capture_default_str()
      ->needs(profile);
  command
      ->add_option(
          "--rounds", measure->rounds,
          "Launches at each distance; fewer than 6 leave every cost noisy (default: 8, or as many from 6 on as "
          "fit into 45 s)")
      ->check(CLI::Range(1, 1000))
      ->needs(profile);
  add_under_options(*command, &measure->hosts);
  add_node_options(command, profile, measure);
}

}  // namespace

void add_tune_command(CLI::App& app) {
  auto arguments = std::make_shared<TuneArguments>();
  CLI::App* command = app.add_subcommand("tune", "What is known of this machine's copy costs; have it measured again.");
  command->footer(
      "A job's start measures what ways of copying cost between its ranks (10 to 25 ms), where that is not known yet.\n"
      "It counts once a second job finds the same; until then, and where a machine is never quiet, zerohop uses\n"
      "built-in choices. Measure again after a change that zerohop cannot see: another clock, another placement of\n"
      "virtual processors.\n"
      "\n"
      "--json measures something else: what messages of ranks cost by size and stride, as overhead and latency of the\n"
      "mlog_nP models, at every distance that two processors have here, and what caches there are. It takes less than\n"
      "a minute, runs real jobs, and changes no choice of zerohop. Costs between nodes come from --base, unless nodes "
      "are\n"
      "made (--machines) or named (--between).\n"
      "\n"
      "  zerohop tune --json here.json\n"
      "  zerohop tune --json cluster.json --between \"mpiexec -hosts a,b -ppn 1\"\n"
      "  zerohop model crossover --ranks 8 --profile here.json");
  command->add_flag("--renew", arguments->renew, "Forget what is kept: the next two jobs measure again");
  add_measure_options(command, &arguments->measure);
  command->callback([arguments] {
    exit_code = arguments->measure.json_path.empty() ? show_or_renew(*arguments) : measure_profile(arguments->measure);
  });
}

}  // namespace zh::tools
