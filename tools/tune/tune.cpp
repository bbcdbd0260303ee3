// `zerohop tune`: what is known of this machine's copy costs, how to have it measured again, the measuring of what
// messages cost, and the algorithms that a model takes by such costs.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/options.h"
#include "model/profiles.h"
#include "os/program.h"
#include "tools/cli/commands.h"
#include "tools/cli/inputs.h"
#include "tools/cli/text.h"
#include "tools/model/case.h"
#include "tools/model/profile.h"
#include "tools/tune/tune.h"
#include "tune/profile.h"

namespace zh::tools {
namespace {

struct TuneArguments {
  bool all = false;
  bool renew = false;
  std::string profile;
  MeasureOptions measure;
  ChooseOptions choose;
};

/// The profile of that name or file as JSON, to start one of one's own from; without a name what is built in.
int show_profile(const std::string& name) {
  if (name.empty()) {
    for (const model::Parameters& p : model::built_in_profiles())
      fmt::print("{}", hanging(fmt::format("{:<20} ", p.name), p.about, output_columns()));
    return 0;
  }
  std::string problem;
  const std::optional<model::Parameters> parameters = find_profile(name, &problem);
  if (!parameters) return refuse("tune", problem);
  fmt::print("{}\n", profile_json(*parameters).dump(2));
  return 0;
}

/// Lines of paths and what is told of them.
void print_line(const std::string& text) { std::puts(wrapped(text, 0, 2, output_columns()).c_str()); }

int renew(const Options& options, const tune::KeptFolders& folders) {
  const std::string path = tune::profile_path(folders.own, tune::this_machine());
  const bool removed = std::remove(path.c_str()) == 0;
  if (!removed && errno != ENOENT) {
    std::fprintf(stderr, "zerohop tune: cannot remove %s: %s\n", path.c_str(), std::strerror(errno));
    return 1;
  }
  print_line((removed ? "Forgotten: " : "Nothing was kept: ") + path);
  if (const std::string left = tune::profile_path(folders, tune::this_machine()); left != path) {
    print_line("The site's is in force: " + left);
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
  if (path.empty() || (arguments.renew && folders.own.empty()))
    return refuse("tune", "there is no folder for what is measured: set HOME or ZEROHOP_CACHE", 1);
  if (arguments.renew) return renew(options, folders);
  if (!options.is(Opt::kProfile, "auto")) {
    std::printf("ZEROHOP_PROFILE=%s: jobs use nothing of what is kept.\n", options.get_text(Opt::kProfile).c_str());
  }
  tune::Profile profile;
  const Status status = tune::load_profile(folders, tune::this_machine(), &profile);
  if (!status.ok()) {
    print_line(path + ": " + status.what());
    return 0;
  }
  for (uint32_t i = 0; i < profile.n_classes; ++i) {
    const std::string line = tune::standing(profile.classes[i]);
    constexpr size_t kLevel = 14;  // it begins with the level in so many columns
    std::fputs(hanging(line.substr(0, kLevel), line.substr(std::min(kLevel, line.size())), output_columns()).c_str(),
               stdout);
  }
  print_line("Kept in " + path);
  std::puts("--renew forgets it. `zerohop info` shows the choices.");
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
                     "Measure between nodes, too, that the setting node_ranks makes of this machine, as `zerohop bench "
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
  command
      ->add_flag(
          "--link", measure->link,
          "Also measure how long a message keeps the link busy, by two pairs at once: of four ranks --between has "
          "to put two on each of two nodes (--machines does it by itself where there are four processors)")
      ->needs(command->get_option("--between"));
}

/// The three commands that leave something for jobs, one after the other, as far as each goes well.
int tune_all(TuneArguments* arguments) {
  Options options;
  options.read_environment(environ);
  const std::string folder = tune::kept_folders(options).own;
  if (folder.empty()) return refuse("tune", "no folder to save in: set ZEROHOP_CACHE");
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const std::string costs = folder + "/costs.json";
  if (const std::string wrong = wrong_output(costs); !wrong.empty()) return refuse("tune", wrong);
  fmt::print("1 of 3: what copies and messages cost (zerohop tune --json {})\n\n", costs);
  std::fflush(stdout);
  arguments->measure.json_path = costs;
  if (const int code = measure_profile(arguments->measure); code != 0) return code;
  fmt::print("\n2 of 3: algorithms by a model of these costs (zerohop tune --model {} --save)\n\n", costs);
  arguments->choose.profile = costs;
  arguments->choose.save = true;
  if (const int code = choose_by_model(arguments->choose); code != 0) return code;
  fmt::print("\n3 of 3: algorithms by measurement (zerohop bench algorithms --save)\n\n");
  std::fflush(stdout);
  const std::string program = os::own_folder() + "/zerohop";
  return refuse("tune",
                program + ": " + std::strerror(os::execute(program, {program, "bench", "algorithms", "--save"})));
}

void add_measure_options(CLI::App* command, MeasureOptions* measure) {
  CLI::Option* profile =
      command
          ->add_option("--json", measure->json_path,
                       "Measure what messages cost here and write it as a profile of this machine's costs")
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
  for (const char* of_jobs : {"--under", "--hosts-py", "--mpiexec", "--abi", "--programs"})
    command->get_option(of_jobs)->needs(profile);
  add_node_options(command, profile, measure);
}

/// What jobs of this machine choose by a model.
void add_model_options(CLI::App* command, ChooseOptions* choose) {
  CLI::Option* model =
      command->add_option("--model", choose->profile,
                          "The fastest algorithms of collectives by this profile: built in, or a file of --json");
  model->excludes(command->get_option("--renew"))->excludes(command->get_option("--json"));
  command->add_option("-r,--ranks", choose->ranks, "Comma list of ranks in all, each a multiple of the nodes")
      ->delimiter(',')
      ->check(CLI::Range(2U, kManyWalks.ranks))
      ->needs(model)
      ->capture_default_str();
  command->add_option("--nodes", choose->nodes, "Also for so many nodes, on which ranks lie in blocks")
      ->check(CLI::Range(1U, kManyWalks.ranks))
      ->needs(model)
      ->capture_default_str();
  command
      ->add_option("--processors", choose->processors,
                   "Processors of a node, for which more ranks wait (the profile's)")
      ->check(CLI::Range(1U, model::kMostProcessors))
      ->needs(model);
  CLI::Option* save =
      command->add_flag("--save", choose->save, "Keep the table, in the place of the one before: jobs here obey it")
          ->needs(model);
  command
      ->add_option("--for", choose->abis,
                   "Comma list of the MPI libraries' binary interfaces to save it for; messages between nodes are "
                   "theirs, so name the one that the profile was measured with")
      ->delimiter(',')
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(coll::kAbis), std::end(coll::kAbis))))
      ->needs(save)
      ->capture_default_str();
  command->add_flag("--print-json", choose->as_json, "Print the table as JSON")->needs(model);
}

}  // namespace

void add_tune_command(CLI::App& app) {
  auto arguments = std::make_shared<TuneArguments>();
  CLI::App* command =
      app.add_subcommand("tune", "What is known of this machine's costs; measuring; choosing by a model.");
  command->footer(
      "A job's start measures what ways of copying cost between its ranks (10 to 25 ms for each level of distance), "
      "where that is not known yet. It counts once a second job finds the same; until then, and where a machine is "
      "never quiet, zerohop uses built-in choices. Measure again after a change that zerohop cannot see: another "
      "clock, another placement of virtual processors.\n\n"
      "--json measures something else: what messages of ranks cost by size and stride, as overhead and latency of the "
      "mlog_nP models, at every distance that two processors have here, and what caches there are. It takes less than "
      "a minute, runs real jobs, and changes no choice of zerohop. Costs between nodes come from --base, unless nodes "
      "are made (--machines) or named (--between): round trips of several messages tell a processor's part from the "
      "network's there, as the paper's section 5.1 has it.\n\n"
      "--model walks all algorithms of each collective at such costs and tells the fastest by size, in tiles that fit "
      "the caches of this machine, as the paper's section 7 has it. --save keeps the table for jobs where no variable "
      "names an algorithm and `zerohop bench algorithms --save` measured nothing. It serves where a schedule does: "
      "several nodes, nonblocking and persistent calls of more than 512 bytes.\n\n"
      "  zerohop tune --all                               all of it, on a quiet machine\n"
      "  zerohop tune --json here.json                    what messages cost here\n"
      "  zerohop tune --json cluster.json --between \"mpiexec -hosts a,b -ppn 1\"\n"
      "  zerohop tune --model here.json -r 8,16 --nodes 2 --save\n"
      "  zerohop tune --profile gigabit-like > mine.json  a profile to change; without a name what is built in\n"
      "  zerohop info --collective allreduce --size 1M    which algorithm is in force, and why");
  CLI::Option* all = command->add_flag(
      "--all", arguments->all, "Measure costs and algorithms, and keep all of it for jobs here; takes some minutes");
  command->add_flag("--renew", arguments->renew, "Forget what is kept: the next two jobs measure again");
  add_measure_options(command, &arguments->measure);
  add_model_options(command, &arguments->choose);
  CLI::Option* profile = command->add_option("--profile", arguments->profile, "Print a profile: built in, or a file")
                             ->expected(0, 1)
                             ->excludes(command->get_option("--json"))
                             ->excludes(command->get_option("--model"))
                             ->excludes(command->get_option("--renew"));
  for (const char* other : {"--json", "--model", "--renew", "--profile"}) all->excludes(command->get_option(other));
  command->callback([arguments, profile] {
    if (arguments->all) {
      exit_code = tune_all(arguments.get());
    } else if (profile->count() > 0) {
      exit_code = show_profile(arguments->profile);
    } else if (!arguments->choose.profile.empty()) {
      exit_code = choose_by_model(arguments->choose);
    } else {
      exit_code =
          arguments->measure.json_path.empty() ? show_or_renew(*arguments) : measure_profile(arguments->measure);
    }
  });
}

}  // namespace zh::tools
