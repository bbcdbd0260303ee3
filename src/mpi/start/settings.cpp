// See settings.h.
#include "mpi/start/settings.h"

#include <unistd.h>

#include "shm/arena.h"

namespace zh::mpi {
namespace {
constexpr uint8_t kHostNumber = 255;
/// Address space for descriptions of a million large sends under way, of 1 KiB each.
constexpr uint64_t kAnnexBytes = uint64_t{1} << 30;
}  // namespace

Options read_options() {
  Options options;
  options.read_environment(environ);
  return options;
}

void apply(const Options& options, node::JoinConfig* out) {
  out->rank_bytes = shm::Arena::part_bytes(options.get_number(Opt::kMemory));
  out->annex_bytes = kAnnexBytes;
  out->node_ranks = static_cast<uint32_t>(options.get_number(Opt::kNodeRanks));
  out->topology_file = options.get_text(Opt::kTopology);
  out->cma = options.get_bool(Opt::kCma);
  out->module_use = static_cast<node::ModuleUse>(options.place(Opt::kKernel));
  out->tracer = options.get_bool(Opt::kPtracer);
  out->folder = options.get_text(Opt::kFolder);
  if (options.is(Opt::kSegment, "memfd")) out->memory_kinds = node::JoinConfig::kMemfd;
  if (options.is(Opt::kSegment, "file")) out->memory_kinds = node::JoinConfig::kFile;
}

void apply(const Options& options, engine::Config* out) {
  if (options.is(Opt::kWait, "spin")) out->wait = engine::WaitPolicy::kSpin;
  if (options.is(Opt::kWait, "passive")) out->wait = engine::WaitPolicy::kPassive;
  out->cma = options.get_bool(Opt::kCma);
  if (!options.is(Opt::kSkew, "auto")) out->skew = options.is(Opt::kSkew, "1") ? 1 : 0;
  out->single_copy_min = options.get_number(Opt::kSingleCopy, 0);
  out->copiers = static_cast<uint32_t>(options.get_number(Opt::kCopiers));
  out->calibration_folder = options.get_text(Opt::kCache);
  out->site_folder = options.get_text(Opt::kSite);
  if (!options.is(Opt::kProfile, "auto")) out->profile = options.get_text(Opt::kProfile);
  out->timeline = !options.get_text(Opt::kTrace).empty();
  out->ablations.copier = static_cast<p2p::Copier>(options.place(Opt::kCopier));
  out->ablations.keep_copies = options.get_bool(Opt::kKeepCopies);
}

AlgorithmNumbers read_algorithms(const Options& options, const std::function<void(const std::string&)>& complain) {
  AlgorithmNumbers numbers{};
  std::vector<std::string> faults;
  const coll::NamedAlgorithms named = coll::read_names(options.get_text(Opt::kAlgorithm), &faults);
  if (options.source(Opt::kChunk) != Source::kDefault)
    coll::find_uncut(named, options.get_number(Opt::kChunk), &faults);
  for (const std::string& fault : faults) complain(fault);
  for (size_t i = 0; i < coll::kCollectives; ++i) {
    if (!named[i]) continue;
    const auto all = coll::algorithms(static_cast<coll::Collective>(i));
    numbers[i] = *named[i] == nullptr ? kHostNumber : static_cast<uint8_t>(*named[i] - all.data() + 1);
  }
  return numbers;
}

coll::NamedAlgorithms algorithms_of(const AlgorithmNumbers& numbers) {
  coll::NamedAlgorithms found{};
  for (size_t i = 0; i < coll::kCollectives; ++i) {
    const auto all = coll::algorithms(static_cast<coll::Collective>(i));
    if (numbers[i] != 0) found[i] = numbers[i] == kHostNumber ? nullptr : &all[numbers[i] - 1U];
  }
  return found;
}

}  // namespace zh::mpi
