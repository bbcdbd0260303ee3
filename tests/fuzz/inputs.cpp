// See inputs.h.
#include "inputs.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "base/options.h"
#include "coll/algorithms/selection.h"
#include "fuzz_support.h"
#include "node/joiner.h"
#include "node/node.h"
#include "os/process.h"
#include "os/segment.h"
#include "os/vm.h"
#include "tools/doctor/run_stats.h"
#include "tune/choice.h"
#include "tune/profile.h"

namespace zh::test {
namespace {

constexpr size_t kLineMax = 1000;  // of a text that a user is to read

// Made before any child is forked: a child ends without destructors.
const Folder& folder() {
  static const Folder made;
  return made;
}
[[maybe_unused]] const Folder& made_early = folder();

void write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

bool one_line(const std::string& text) {
  return !text.empty() && text.size() <= kLineMax &&
         text.find_first_of(std::string("\n\r\033\0", 4)) == std::string::npos;
}

/// Every value is one that the table allows.
std::string check_values(const Options& options) {
  for (const std::string& line : options.complaints()) {
    if (!one_line(line)) return "a complaint that is no line of text: " + line.substr(0, kLineMax);
  }
  for (size_t i = 0; i < option_table().size(); ++i) {
    const OptionSpec& spec = option_table()[i];
    const auto option = static_cast<Opt>(i);
    const std::string& text = options.get_text(option);
    Options again;
    if (!again.set(spec.name, text, Source::kCommandLine).ok()) return std::string(spec.name) + " became " + text;
    if (again.get_text(option) != text && spec.type != OptionType::kString) {
      return std::string(spec.name) + " is read as " + text + " and then as " + again.get_text(option);
    }
    if (spec.type != OptionType::kInt && spec.type != OptionType::kSize) continue;
    const uint64_t number = options.get_number(option, spec.min);
    if (number < spec.min || number > spec.max) return std::string(spec.name) + " is beyond its bounds";
  }
  return "";
}

std::string check_curve(const tune::Curve& curve) {
  if (curve.n > tune::Curve::kMaxPoints) return "too many points";
  for (uint32_t i = 0; i < curve.n; ++i) {
    const tune::Curve::Point& p = curve.points[i];
    if (!(p.us > 0) || !(p.spread >= 0) || p.bytes == 0) return "an impossible point";
    if (i > 0 && p.bytes <= curve.points[i - 1].bytes) return "points out of order";
  }
  return "";
}

/// Plays rank 0 of a job of two, for a rank 1 that joins: its segment is the input.
class FalseLeader final : public node::Bootstrap {
 public:
  FalseLeader(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  [[nodiscard]] int rank() const override { return 1; }
  [[nodiscard]] int size() const override { return 2; }

  Status allgather(const void* in, size_t bytes, void* out) override {
    auto* both = static_cast<std::byte*>(out);
    std::memcpy(both + bytes, in, bytes);
    std::memcpy(both, in, bytes);
    if (bytes == sizeof(node::Card)) {
      node::Card card;
      std::memcpy(&card, in, sizeof card);
      ++card.token;
      std::memcpy(both, &card, sizeof card);
    } else if (bytes == sizeof(node::Vote)) {
      node::Vote vote{};
      vote.fd = path_.empty() ? fd_ : -1;
      vote.reached = 1;
      std::strncpy(vote.address, path_.c_str(), sizeof vote.address - 1);
      // The address of a socket is asked for once, before that of a file.
      if (++votes_ == kSocketVote) vote.address[0] = '\0';
      std::memcpy(both, &vote, sizeof vote);
    }
    return kOk;
  }
  /// What rank 1 says is the least, but for the number by which ranks see that the host orders right.
  Status least(std::span<uint64_t> values) override {
    if (values.size() > 1) values.back() = std::min<uint64_t>(values.back(), 1);
    return kOk;
  }

 private:
  static constexpr int kSocketVote = 3;  // create, reached, socket
  int fd_;
  std::string path_;
  int votes_ = 0;
};

node::JoinConfig small() {
  node::JoinConfig config;
  config.rank_bytes = 256 << 10;
  config.measure_line = false;
  return config;
}

}  // namespace

std::string feed_options(const std::string& input) {
  const std::string path = folder().path() + "/config";
  write(path, input);
  Options from_file;
  from_file.read_file(path);
  if (std::string wrong = check_values(from_file); !wrong.empty()) return wrong;

  // The first lines, each ended by a zero byte as in an environment.
  std::string copy = input;
  copy.push_back('\0');
  std::vector<const char*> entries;
  for (size_t at = 0; at < copy.size() && entries.size() < 100; at += std::strlen(copy.c_str() + at) + 1) {
    const size_t end = copy.find('\n', at);
    if (end != std::string::npos && copy.find('\0', at) > end) copy[end] = '\0';
    entries.push_back(copy.c_str() + at);
  }
  // A configuration that names other files is not followed out of this folder.
  std::erase_if(entries, [](const char* e) { return std::strstr(e, "CONFIG=") != nullptr; });
  const std::string config = "ZEROHOP_CONFIG=" + path;
  entries.push_back(config.c_str());
  entries.push_back(nullptr);
  Options from_environment;
  from_environment.read_environment(entries.data());
  if (std::string wrong = check_values(from_environment); !wrong.empty()) return wrong;

  // A list, which names no file outside this folder either.
  std::string list = "ZEROHOP_CONFIG=" + input.substr(0, input.find('\0'));
  std::replace(list.begin(), list.end(), '/', '_');
  const char* listed[] = {list.c_str(), nullptr};
  Options from_list;
  from_list.read_environment(listed);
  return check_values(from_list);
}

std::string feed_profile(const std::string& input) {
  const tune::MachineId machine = tune::MachineId{"cpu", "kernel", "hypervisor", "topology"};
  write(tune::profile_path(folder().path(), machine), input);
  tune::Profile profile;
  const Status s = tune::load_profile({folder().path(), ""}, machine, &profile);
  if (!s.ok()) {
    if (!one_line(s.what())) return "refused without a word";
    return profile.n_classes == 0 ? "" : "refused, and left something";
  }
  if (profile.n_classes == 0 || profile.n_classes > tune::Profile::kMaxClasses) return "impossible classes";
  for (uint32_t i = 0; i < profile.n_classes; ++i) {
    const tune::DistanceClass& c = profile.classes[i];
    for (const tune::Curve* curve :
         {&c.cells, &c.cells_nt, &c.cma_read, &c.cma_write, &c.cma_both, &c.mapped_one, &c.mapped_both}) {
      if (std::string wrong = check_curve(*curve); !wrong.empty()) return wrong;
    }
  }
  const tune::PairChoice built_in;
  for (int level = 0; level <= static_cast<int>(node::Level::kOtherSocket); ++level) {
    const tune::PairChoice c = tune::choose(level, &profile);
    if (c.inline_max > c.eager_max || c.eager_max > built_in.eager_max) return "an impossible choice";
    if (c.single_copy_min <= c.eager_max) return "a choice with two ways for one size";
  }
  return "";
}

std::string feed_selection(const std::string& input) {
  coll::Selection selection;
  const Status s = selection.parse(input);
  if (!s.ok()) {
    if (!one_line(s.what())) return "refused without a word";
    return selection.entries().empty() ? "" : "refused, and left something";
  }
  coll::Selection again;
  if (!again.parse(selection.text()).ok()) return "what was read cannot be read again";
  return again.text() == selection.text() ? "" : "read again it is another";
}

std::string feed_statistics(const std::string& input) {
  const nlohmann::json document = nlohmann::json::parse(input, nullptr, false);
  tools::RunStats run;
  if (!tools::read_run(document, &run)) return run.ranks == 0 && run.ways.empty() ? "" : "refused, and left something";
  uint64_t sum = 0;
  for (const tools::RunStats::Way& w : run.ways) sum += w.bytes;
  if (sum != run.bytes) return "the ways' bytes are not the sum";
  return run.mapped_share() >= 0 && run.mapped_share() <= 1 ? "" : "an impossible share";
}

std::string feed_segment(const std::string& input) {
  const uint8_t how = input.empty() ? 0 : static_cast<uint8_t>(input[0]);
  const std::string content = input.empty() ? "" : input.substr(1);
  const bool by_file = (how & 1) != 0;
  // As long as the header says; or as its content; or a page; or a little less than it says.
  const uint64_t whole = node::make_header({2, 2}, 256 << 10, 0, os::page_bytes()).segment_bytes;
  const uint64_t lengths[] = {whole, content.size(), os::page_bytes(), whole - 1};
  const uint64_t length = lengths[how >> 1 & 3];
  os::Descriptor memory;
  const std::string path = folder().path() + "/segment";
  if (by_file) {
    write(path, content);
    if (truncate(path.c_str(), static_cast<off_t>(length)) != 0) return "no file";
  } else {
    if (!os::make_memfd("fuzz", length, &memory).ok()) return "no memory file";
    const uint64_t n = std::min<uint64_t>(content.size(), length);
    if (pwrite(memory.get(), content.data(), n, 0) != static_cast<ssize_t>(n)) return "cannot be written";
  }
  FalseLeader world(memory.get(), by_file ? path : "");
  std::unique_ptr<node::Node> node;
  const Status s = node::Node::join(world, small(), &node);
  // Even a segment that begins as it should is not this job's: rank 0's token is not in it.
  if (s.ok() || node != nullptr) return "joined another job's segment";
  const std::string why = s.what();
  const bool clear = one_line(why) && (why.find("segment") != why.npos || why.find("shared memory") != why.npos);
  return clear ? "" : "unclear: " + why;
}

std::string true_header() {
  const node::HeaderShm header = node::make_header({2, 2}, 256 << 10, 0, os::page_bytes());
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

std::string true_profile() {
  tune::Profile profile;
  profile.n_classes = 2;
  for (uint32_t i = 0; i < 2; ++i) {
    tune::DistanceClass& c = profile.classes[i];
    c.level = static_cast<int32_t>(2 + 3 * i);
    c.line_ns = 40.0F + 200.0F * static_cast<float>(i);
    c.ring_bytes = 1 << 20;
    for (tune::Curve* curve :
         {&c.cells, &c.cells_nt, &c.cma_read, &c.cma_write, &c.cma_both, &c.mapped_one, &c.mapped_both}) {
      curve->add(1024, 0.25F, 0.125F);
      curve->add(65536, 7.5F, 0.0625F);
      curve->add(1 << 20, 90.0F, 0.0625F);
    }
  }
  const tune::MachineId machine = tune::MachineId{"cpu", "kernel", "hypervisor", "topology"};
  if (!tune::save_profile(folder().path(), machine, profile).ok()) return "";
  return whole_file(tune::profile_path(folder().path(), machine));
}

}  // namespace zh::test
