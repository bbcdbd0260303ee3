// `zerohop bench breakdown`: the parts of a message that the kernel copies from one process to another, by size
// (figures 8 and 9 of the LiMIC paper). How each part is derived, and what that misses: bench/README.md.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/atomic.h"
#include "base/options.h"
#include "base/shm_types.h"
#include "include/uapi/zerohop.h"
#include "node/line_time.h"
#include "os/clock.h"
#include "os/peer_mem.h"
#include "os/process.h"
#include "os/segment.h"
#include "os/yield.h"
#include "tools/bench/both_sides.h"
#include "tools/bench/command.h"
#include "tools/bench/machine_load.h"
#include "tools/bench/report.h"
#include "tools/cli/commands.h"
#include "tools/cli/progress.h"
#include "tools/cli/text.h"

namespace zh::tools {
namespace {

struct BreakdownOptions {
  std::string sizes = "256,1K,4K,16K,64K,256K,1M,4M";
  std::string json;
  std::vector<int> cpus;
  int rounds = 0;
  bool quick = false;
};

constexpr SizeRange kBreakdownSizes{.most = 16 << 20, .step = 8};
constexpr const char* kParts[] = {"message", "trap", "map", "copy", "rest", "mapped", "post", "pin", "copy %"};
enum MessagePart : size_t { kMessage, kTrap, kMap, kCopy, kRest, kMapped, kPost, kPin, kShare };
using MessageParts = std::array<double, std::size(kParts)>;

/// What the sender has posted.
struct Posted {
  std::byte* data = nullptr;
  uint64_t bytes = 0;
  uint64_t region = 0;
  pid_t process = 0;
};

double us_of(uint64_t ticks) { return static_cast<double>(static_cast<int64_t>(ticks)) / os::ticks_per_us(); }
double us_of_ns(uint64_t ns) { return static_cast<double>(ns) / 1000; }

// The kernel's ways to copy. Each side opens its own; the sender calls post() before a message and withdraw() after it,
// the receiver take(), which copies (`call_us`) and then looks for the parts. All return 0 or errno.

/// process_vm_readv, which tells nothing of its parts: they are differences of calls. It pins all pages of a segment,
/// kPinnedAtOnce at a time, before it copies what the receiver has room for: with room for one byte it does all but
/// copy.
class CmaCopy {
 public:
  static int open() { return 0; }
  static int post(Posted* /*posted*/) { return 0; }
  static int withdraw(const Posted& /*posted*/) { return 0; }

  static int take(const Posted& posted, std::byte* target, double* call_us, MessageParts* us) {
    constexpr double kPinnedAtOnce = 1024;
    const auto call = [&](uint64_t room, double* taken_us) {
      const iovec here{target, room};
      const iovec there{posted.data, posted.bytes};
      const uint64_t begun = os::ticks();
      const ssize_t moved = os::peer_read(posted.process, &here, 1, &there, 1);
      *taken_us = us_of(os::ticks() - begun);
      return moved < 0 ? static_cast<int>(-moved) : static_cast<uint64_t>(moved) == room ? 0 : EIO;
    };
    double pinning = 0;
    int error = call(posted.bytes, call_us);
    if (error == 0) error = call(1, &pinning);
    if (error == 0) error = call(0, &(*us)[kTrap]);
    const double batches = static_cast<double>(posted.bytes) / (kPinnedAtOnce * kPage);
    (*us)[kMap] = (pinning - (*us)[kTrap]) * std::max(batches, 1.0);
    (*us)[kCopy] = *call_us - (*us)[kTrap] - (*us)[kMap];
    return error;
  }
};

/// The module, which tells its parts.
class ModuleCopy {
 public:
  ModuleCopy() {
    for (uint64_t& word : secret_) word = os::random_token();
  }

  int open() {
    file_.reset(::open("/dev/zerohop", O_RDWR | O_CLOEXEC));
    zerohop_join join{};
    join.abi = ZEROHOP_ABI;
    std::memcpy(join.secret, secret_, sizeof join.secret);
    return file_.valid() ? call(ZEROHOP_IOC_JOIN, &join) : errno;
  }

  int post(Posted* posted) {
    zerohop_register region{};
    region.flags = ZEROHOP_READ;
    region.address = reinterpret_cast<uintptr_t>(posted->data);
    region.bytes = posted->bytes;
    const int error = call(ZEROHOP_IOC_REGISTER, &region);
    posted->region = region.region;
    return error;
  }

  int withdraw(const Posted& posted) {
    zerohop_unregister gone{};
    gone.region = posted.region;
    return call(ZEROHOP_IOC_UNREGISTER, &gone);
  }

  int take(const Posted& posted, std::byte* target, double* call_us, MessageParts* us) {
    zerohop_copy whole{};
    whole.flags = ZEROHOP_TIMES;
    whole.region = posted.region;
    zerohop_copy nothing = whole;
    int error = copy(target, posted.bytes, &whole, call_us);
    if (error == 0) error = copy(target, 0, &nothing, &(*us)[kTrap]);
    zerohop_statistics now{};
    if (error == 0) error = call(ZEROHOP_IOC_STATISTICS, &now);
    (*us)[kTrap] -= us_of_ns(nothing.lookup_ns + nothing.copy_ns);
    (*us)[kMap] = us_of_ns(whole.lookup_ns);
    (*us)[kCopy] = us_of_ns(whole.copy_ns);
    (*us)[kPin] = us_of_ns(now.pin_ns - pinned_ns_);
    pinned_ns_ = now.pin_ns;
    return error;
  }

 private:
  template <typename T>
  int call(unsigned long number, T* argument) const {
    argument->size = sizeof *argument;
    return ioctl(file_.get(), number, argument) == 0 ? 0 : errno;
  }

  int copy(std::byte* target, uint64_t bytes, zerohop_copy* copy, double* us) const {
    const zerohop_segment here{reinterpret_cast<uintptr_t>(target), bytes};
    const zerohop_segment there{0, bytes};
    copy->here = reinterpret_cast<uintptr_t>(&here);
    copy->there = reinterpret_cast<uintptr_t>(&there);
    copy->here_count = copy->there_count = 1;
    const uint64_t begun = os::ticks();
    const int error = call(ZEROHOP_IOC_COPY, copy);
    *us = us_of(os::ticks() - begun);
    return error == 0 && copy->copied != bytes ? EIO : error;
  }

  os::Descriptor file_;
  uint64_t secret_[ZEROHOP_SECRET_BYTES / sizeof(uint64_t)];
  uint64_t pinned_ns_ = 0;
};

/// Between both sides.
struct ExchangeShm {
  alignas(kPairBytes) Atomic<uint64_t> sent;
  Posted posted;
  uint64_t stamp;
  int error;
  double post_us;  ///< of the message before
  alignas(kPairBytes) Atomic<uint64_t> taken;
};
static_assert(kShmSafe<ExchangeShm>);

/// One end of the messages.
template <typename Kernel>
class End {
 public:
  End(ExchangeShm* shm, Kernel* kernel, uint64_t most) : shm_(shm), kernel_(kernel), memory_(most + kPage) {
    const auto start = reinterpret_cast<uintptr_t>(memory_.data());
    data_ = memory_.data() + (round_up(start, kPage) - start);
    error_ = kernel->open();
  }
  [[nodiscard]] int error() const { return error_; }

  bool send(uint64_t bytes) {
    ++number_;
    // Every line has the message's number: what was there before is noticed.
    for (uint64_t o = 0; o < bytes; o += kLineBytes) std::memcpy(data_ + o, &number_, sizeof number_);
    Posted posted{data_, bytes, 0, os::process_id()};
    const uint64_t begun = os::ticks();
    shm_->error = kernel_->post(&posted);
    shm_->posted = posted;
    shm_->stamp = os::ticks();
    shm_->sent.store_release(number_);
    const double post_us = us_of(os::ticks() - begun);
    if (!wait_for(shm_->taken) || failed(shm_->error) || failed(kernel_->withdraw(posted))) return false;
    shm_->post_us = post_us;
    return true;
  }

  bool receive(uint64_t bytes, MessageParts* us) {
    ++number_;
    if (!wait_for(shm_->sent)) return false;
    const double on_its_way_us = us_of(os::ticks() - shm_->stamp);
    double call_us = 0;
    int error = shm_->error != 0 ? shm_->error : kernel_->take(shm_->posted, data_, &call_us, us);
    for (uint64_t o = 0; o < bytes && error == 0; o += kLineBytes) {
      if (std::memcmp(data_ + o, &number_, sizeof number_) != 0) error = EBADMSG;
    }
    (*us)[kMessage] = on_its_way_us + call_us;
    (*us)[kPost] = shm_->post_us;
    shm_->error = error;
    shm_->taken.store_release(number_);
    return !failed(error);
  }

 private:
  bool failed(int error) { return (error_ = error) != 0; }
  bool wait_for(const Atomic<uint64_t>& count) {
    const uint64_t until = os::now_ns() + 5'000'000'000;
    for (os::Backoff backoff(2000, 1); count.load_acquire() < number_;) {
      if (backoff.pause() && os::now_ns() > until) return !failed(ETIMEDOUT);
    }
    return true;
  }

  ExchangeShm* shm_;
  Kernel* kernel_;
  std::vector<std::byte> memory_;
  std::byte* data_;
  uint64_t number_ = 0;
  int error_ = 0;
};

using PartMedians = std::array<std::vector<double>, std::size(kParts)>;
struct Measured {
  std::string why_not;
  std::vector<double> line_ns;
  std::map<uint64_t, PartMedians> by_size;
};

/// One size in one round; side 1 sends. Appends the medians.
template <typename Kernel>
bool run_size(tune::MeasuringPair& pair, End<Kernel>* end, int side, uint64_t bytes, bool quick, PartMedians* rounds) {
  const uint64_t trips = std::clamp<uint64_t>((quick ? 1 << 20 : 8 << 20) / bytes, 3, quick ? 20 : 50);
  PartMedians times;
  for (uint64_t trip = 0; trip < 1 + trips; ++trip) {
    MessageParts us{};
    if (!(side == 1 ? end->send(bytes) : end->receive(bytes, &us))) return false;
    for (size_t i = 0; i < us.size() && trip > 0; ++i) times[i].push_back(us[i]);  // at first caches are cold
  }
  const tune::Timing mapped =
      pair.measure({.way = tune::Way::kMappedRead, .bytes = bytes, .trips = static_cast<uint32_t>(trips)});
  MessageParts us{};
  for (size_t i = 0; i < us.size(); ++i) us[i] = median(times[i]);
  us[kRest] = us[kMessage] - us[kTrap] - us[kMap] - us[kCopy];
  us[kShare] = 100 * us[kCopy] / us[kMessage];
  us[kMapped] = mapped.us;
  for (size_t i = 0; i < us.size(); ++i) (*rounds)[i].push_back(us[i]);
  return mapped.ok;
}

template <typename Kernel>
Measured measure(const char* name, Kernel* kernel, const BreakdownOptions& o, const std::vector<uint64_t>& sizes) {
  Progress progress("bench breakdown");
  Measured result;
  const uint64_t most = *std::max_element(sizes.begin(), sizes.end());
  void* shm = mmap(nullptr, sizeof(ExchangeShm), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shm == MAP_FAILED) return {std::strerror(errno), {}, {}};
  const tune::ScratchLimits limits{.ring_bytes = 4 << 10, .message_bytes = most};
  const bool complete = on_both_sides(limits, [&](tune::MeasuringPair& pair, int side) {
    bind_to_cpu(static_cast<uint32_t>(o.cpus[static_cast<size_t>(side)]));
    End<Kernel> end(static_cast<ExchangeShm*>(shm), kernel, most);
    bool good = end.error() == 0 && pair.meet();
    for (int round = 0; round < o.rounds && good; ++round) {
      if (side == 0) progress.show(name, round, o.rounds);
      result.line_ns.push_back(pair.line_ns());
      for (const uint64_t n : sizes) good = good && run_size(pair, &end, side, n, o.quick, &result.by_size[n]);
    }
    if (end.error() != 0) result.why_not = std::strerror(end.error());
    return good || end.error() != 0;
  });
  munmap(shm, sizeof(ExchangeShm));
  if (!complete) result.why_not = "the two processes lost each other";
  return result;
}

void report(const char* name, const Measured& measured, nlohmann::json* rows) {
  const double line_ns = median(measured.line_ns);
  std::vector<std::string> heads = {"bytes"};
  heads.insert(heads.end(), std::begin(kParts), std::end(kParts));
  Table table(heads, 0);
  for (const auto& [bytes, parts] : measured.by_size) {
    std::vector<std::string> cells = {format_size(bytes)};
    nlohmann::json row = {{"way", name}, {"size", bytes}, {"line_ns", line_ns}};
    for (size_t i = 0; i < parts.size(); ++i) {
      const Interval value = median_interval(parts[i]);
      cells.push_back(i == kMessage || i == kShare ? interval_text(value) : number_text(value.mid));
      row[i == kShare ? "copy_percent" : fmt::format("{}_us", kParts[i])] = interval_json(value);
    }
    table.add(std::move(cells));
    rows->push_back(std::move(row));
  }
  const char* placement = line_ns > node::kVirtualLines.near_ns ? "far" : "near";
  fmt::print("\n{}, {}: raw line {:.0f} ns\n{}", name, placement, line_ns, table.text());
}

int bench_breakdown(BreakdownOptions o) {
  if (const int code = choose_cpus("bench breakdown", &o.cpus); code != 0) return code;
  if (o.rounds == 0) o.rounds = o.quick ? 6 : 20;
  std::vector<uint64_t> sizes;
  for (const std::string& word : split(o.sizes)) (void)parse_size(word, &sizes.emplace_back());
  const bool emulated = os::cpu_is_emulated();
  if (emulated) fmt::print("warning: QEMU plays these processors without KVM: no time here says anything\n");
  LoadWatch watch("bench breakdown");
  fmt::print("CPUs {} and {}, {} rounds, µs\n", o.cpus[0], o.cpus[1], o.rounds);
  nlohmann::json document = {{"schema", "zerohop-bench-breakdown/1"}, {"emulated", emulated}, {"cpus", o.cpus}};
  nlohmann::json& rows = document["rows"] = nlohmann::json::array();
  document["not_measured"] = nlohmann::json::object();
  const auto run = [&](const char* name, auto kernel, const char* advice) {
    Measured measured;
    if (const int error = kernel.open(); error != 0) measured.why_not = std::strerror(error);
    if (measured.why_not.empty()) measured = measure(name, &kernel, o, sizes);
    if (measured.why_not.empty()) return report(name, measured, &rows);
    document["not_measured"][name] = measured.why_not;
    print_shown(fmt::format("\n{}: not measured: {} ({})\n", name, measured.why_not, advice));
  };
  run("process_vm_readv", CmaCopy(), "`zerohop doctor` says more");
  run("/dev/zerohop", ModuleCopy(), "docs/kernel-module.md: `make -C kernel`, `insmod kernel/zerohop.ko` as root");
  document["machine"] = watch.end();
  if (!o.json.empty() && !write_file(o.json, document.dump(1) + "\n", "bench breakdown")) return 1;
  constexpr int kNotHere = 77;
  return rows.empty() ? kNotHere : 0;
}

}  // namespace

void add_bench_breakdown_command(CLI::App& bench) {
  auto o = std::make_shared<BreakdownOptions>();
  CLI::App* c = bench.add_subcommand("breakdown", "Where the time of a message goes that the kernel copies, by size");
  c->footer(
      "message: trap (a call that moves nothing), map (until pages are in reach),\n"
      "copy and rest. mapped: the same without the kernel. post: the sender's work\n"
      "before, of which pin. How each is measured, what that misses: bench/README.md.");
  c->add_flag("--quick", o->quick, "Fewer messages and rounds");
  c->add_option("--rounds", o->rounds, "Over all sizes (default 20; 6 with --quick)")->check(CLI::Range(1, 1000));
  c->add_option("--sizes", o->sizes, "Comma list of bytes, with K or M")
      ->check([](const std::string& list) { return wrong_sizes(kBreakdownSizes, list); })
      ->capture_default_str();
  c->add_option("--cpus", o->cpus, "The two CPUs (default: the first two that this process may use)")
      ->delimiter(',')
      ->expected(2);
  c->add_option("--json", o->json, "Write all results to this file")->check(&wrong_output);
  c->callback([o] {
    if (const int result = bench_breakdown(*o); result != 0) throw CLI::RuntimeError(result);
  });
}

}  // namespace zh::tools
