// See contention.h.
#include "tools/tune/contention.h"

#include <signal.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/atomic.h"
#include "base/shm_types.h"
#include "os/affinity.h"
#include "os/clock.h"
#include "os/futex.h"
#include "os/peer_mem.h"
#include "os/process.h"
#include "os/segment.h"
#include "os/vm.h"
#include "tools/bench/level_pairs.h"
#include "tools/bench/stats.h"

namespace zh::tools {
namespace {

enum class Reading : uint32_t { kMapped, kKernel };
constexpr const char* kWayNames[] = {model::kMappedWay, model::kKernelWay};
constexpr uint64_t kSizes[] = {16 << 10, 64 << 10, 1 << 20};
constexpr uint64_t kMostBytes = 1 << 20;
constexpr uint32_t kMostReaders = 64;
constexpr int kRepetitions = 25;
constexpr int kWarmUps = 3;
constexpr uint64_t kPatienceNs = 2'000'000'000;
constexpr double kNoisy = 0.25;

/// One measurement after the other of an owner of memory and its readers.
/// Writers: the owner zeroes the counters, writes the shot and then `round`; the readers of the round add to the
///   counters and write their own `us`.
/// Readers: the readers of a round read its shot; the owner reads `us` when all have done.
/// Invariant: arrived and done are at most the round's readers.
/// Wrap: rounds are a few thousand of 2^24.
/// Crash: the owner gives up after kPatienceNs and ends its readers; these end with it.
struct ContentionShm {
  Atomic<uint32_t> round{0};  ///< its number, and in the low kReaderBits how many read in it: the first ones
  Atomic<uint32_t> arrived{0};
  Atomic<uint32_t> done{0};
  Reading way = Reading::kMapped;
  uint64_t bytes = 0;
  double us[kMostReaders] = {};  ///< negative: it could not read
};
static_assert(kShmSafe<ContentionShm>);
constexpr uint32_t kReaderBits = 8;
constexpr uint32_t readers_in(uint32_t round) { return round & ((1U << kReaderBits) - 1); }

struct Arena {
  ContentionShm* shm = nullptr;
  std::byte* mapped = nullptr;    ///< kMostBytes that all processes share
  std::byte* owners = nullptr;    ///< as many, of the owner's private memory; the same address in all
  std::byte* private_ = nullptr;  ///< a reader's own
};

double read_once(const Arena& a, pid_t owner) {
  const ContentionShm& shm = *a.shm;
  const uint64_t begin = os::now_ns();
  if (shm.way == Reading::kMapped) {
    std::memcpy(a.private_, a.mapped, shm.bytes);
  } else {
    const iovec to = {a.private_, shm.bytes};
    const iovec from = {a.owners, shm.bytes};
    if (os::peer_read(owner, &to, 1, &from, 1) != static_cast<ssize_t>(shm.bytes)) return -1;
  }
  return static_cast<double>(os::now_ns() - begin) * 1e-3;
}

[[noreturn]] void be_reader(const Arena& a, uint32_t self, uint32_t processor, pid_t owner) {
  os::die_with_parent(owner);
  (void)os::bind_to(only(processor));
  std::memset(a.private_, 1, kMostBytes);
  ContentionShm& shm = *a.shm;
  for (uint32_t seen = 0, round = 0;; seen = round) {
    while ((round = shm.round.load_acquire()) == seen) os::futex_wait(shm.round, seen);  // CO1 <- CO0: the shot
    const uint32_t readers = readers_in(round);
    if (self >= readers) continue;
    shm.arrived.fetch_add_relaxed(1);
    while (shm.arrived.load_relaxed() < readers) cpu_relax();
    shm.us[self] = read_once(a, owner);
    if (shm.done.fetch_add_acq_rel(1) + 1 == readers) os::futex_wake(shm.done, 1);  // CO2 -> CO3: the times
  }
}

/// The owner's part of one round: new bytes, then it sleeps. µs of the slowest reader; negative: nothing was measured.
double one_round(const Arena& a, Reading way, uint64_t bytes, uint32_t readers) {
  ContentionShm& shm = *a.shm;
  std::memset(way == Reading::kMapped ? a.mapped : a.owners, static_cast<int>(shm.round.load_relaxed()), bytes);
  shm.way = way;
  shm.bytes = bytes;
  shm.arrived.store_relaxed(0);
  shm.done.store_relaxed(0);
  const uint32_t number = (shm.round.load_relaxed() >> kReaderBits) + 1;
  shm.round.store_release(number << kReaderBits | readers);  // CO0 -> CO1: the shot and its memory
  os::futex_wake(shm.round, os::kWakeAll);
  const uint64_t until = os::now_ns() + kPatienceNs;
  for (uint32_t done = 0; (done = shm.done.load_acquire()) < readers;) {  // CO3 <- CO2: the times
    const uint64_t now = os::now_ns();
    if (now >= until) return -1;
    os::futex_wait(shm.done, done, until - now);
  }
  const std::span<const double> us(shm.us, readers);
  return *std::ranges::min_element(us) < 0 ? -1 : *std::ranges::max_element(us);
}

bool make_arena(Arena* a) {
  os::Descriptor fd;
  const uint64_t head = round_up(sizeof(ContentionShm), os::page_bytes());
  std::byte* shared = nullptr;
  Status status = os::make_memfd("zerohop-contention", head + kMostBytes, &fd);
  if (status.ok()) status = os::back_range(fd.get(), 0, head + kMostBytes);
  if (status.ok()) status = os::map_shared(fd.get(), head + kMostBytes, &shared);
  a->owners = status.ok() ? os::map_lazy(2 * kMostBytes) : nullptr;
  if (a->owners == nullptr) return false;
  a->shm = new (shared) ContentionShm;
  a->mapped = shared + head;
  a->private_ = a->owners + kMostBytes;
  return true;
}

/// Nothing where a reader could not read, or did not come.
std::vector<double> repeat(const Arena& a, Reading way, uint64_t bytes, uint32_t readers) {
  std::vector<double> us;
  for (int i = -kWarmUps; i < kRepetitions; ++i) {
    const double slowest = one_round(a, way, bytes, readers);
    if (slowest < 0) return {};
    if (i >= 0) us.push_back(slowest);
  }
  return us;
}

std::vector<uint32_t> numbers_of_readers(uint32_t most) {
  std::vector<uint32_t> readers;
  for (uint32_t n = 1; n < most; n *= 2) readers.push_back(n);
  readers.push_back(most);
  return readers;
}

}  // namespace

model::Contention contention_of(const char* way, uint64_t bytes, std::span<const uint32_t> readers,
                                std::vector<std::vector<double>> us) {
  model::Contention out;
  out.way = way;
  out.bytes = bytes;
  for (size_t i = 0; i < readers.size(); ++i) {
    const Interval median = median_interval(us[i]);
    out.us.emplace_back(readers[i], median.mid);
    out.noisy |= !median.valid || median.high - median.low > kNoisy * median.mid;
  }
  return out;
}

std::vector<model::Contention> measure_contention(std::span<const uint32_t> processors) {
  const auto most = static_cast<uint32_t>(std::min<size_t>(processors.size(), kMostReaders));
  Arena arena;
  if (most < 2 || !make_arena(&arena)) return {};
  if (os::yama_scope() == 1) (void)os::allow_any_tracer();
  const os::CpuSet before = os::allowed_cpus();
  const pid_t owner = os::process_id();
  std::vector<pid_t> children;
  for (uint32_t i = 0; i < most; ++i) {
    const pid_t child = fork();
    if (child == 0) be_reader(arena, i, processors[i], owner);
    if (child > 0) children.push_back(child);
  }
  (void)os::bind_to(only(processors[most - 1]));
  std::vector<model::Contention> out;
  const std::vector<uint32_t> readers = numbers_of_readers(most);
  const bool complete = children.size() == most;
  for (const Reading way : {Reading::kMapped, Reading::kKernel}) {
    for (const uint64_t bytes : kSizes) {
      std::vector<std::vector<double>> us;
      for (const uint32_t n : readers) us.push_back(complete ? repeat(arena, way, bytes, n) : std::vector<double>());
      const bool all = std::ranges::none_of(us, [](const auto& t) { return t.empty(); });
      if (all) out.push_back(contention_of(kWayNames[static_cast<size_t>(way)], bytes, readers, std::move(us)));
    }
  }
  (void)os::bind_to(before);
  for (const pid_t child : children) kill(child, SIGKILL);
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  return out;
}

}  // namespace zh::tools
