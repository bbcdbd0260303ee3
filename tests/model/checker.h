// A small stateless model checker: runs a scenario of a few cooperative threads again and again until every schedule,
// and every value that a weak memory may return, has been tried. Called by the instrumented zh::Atomic and by the
// scenarios of this folder; it knows nothing of what it checks.
//
// Memory model: each location keeps its modification order (the order in which the stores were executed) with vector
// clocks, as Relacy does. A load may return any store that coherence and happens-before leave it; each is a branch.
// Release, acquire, read-modify-writes with their release sequences, and sequentially consistent fences are modelled;
// load buffering (a load that reads from a store executed later) is not. Unsynchronised plain accesses, announced by
// data_read()/data_write(), are data races and fail the execution.
//
// Search: depth first over a path of choices, replayed from the start. Exhaustive mode cuts equivalent schedules by
// dynamic partial-order reduction (Flanagan and Godefroid, POPL 2005) with sleep sets. Bounded mode runs all schedules
// with at most so many preemptions and stale reads, for code too large to exhaust.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace zh::mc {

enum class Order : uint8_t { kRelaxed, kAcquire, kRelease, kAcqRel, kSeqCst };

struct Site {
  const char* file;
  int line;
  const char* function;
};

/// What is made wrong on purpose, to prove that the scenario would notice.
struct Mutation {
  enum class Kind : uint8_t {
    kNone,
    kRelaxed,  ///< the operations at the site lose their acquire and release
    kTorn,     ///< the read-modify-writes at the site become a load and a store
  };
  Kind kind = Kind::kNone;
  std::string site;  ///< as named in Report::sites
};

struct Options {
  bool exhaustive = true;
  uint32_t preemptions = 2;  ///< bounded mode only
  uint32_t stale_reads = 1;  ///< bounded mode only
  uint64_t max_executions = 20'000'000;
  double max_seconds = 50;  ///< of processor time: beside other work a search goes as far
  Mutation mutation;
};

struct Report {
  bool ok = false;        ///< no execution failed
  bool complete = false;  ///< the whole space was searched
  uint64_t executions = 0;
  uint64_t pruned = 0;   ///< cut short as equivalent to another
  uint64_t longest = 0;  ///< steps
  std::string failure;   ///< what went wrong first, and the trace
  std::set<std::string>
      sites;  ///< operations met: "file:line function kind", kind = acquire, release or rmw (both may appear)
};

/// One run's objects, made anew for each execution.
class Scenario {
 public:
  virtual ~Scenario() = default;
  [[nodiscard]] virtual uint32_t threads() const = 0;
  virtual void run(uint32_t thread) = 0;
  /// After all threads have ended.
  virtual void finish() {}
};

Report explore(const Options& options, const std::function<std::unique_ptr<Scenario>()>& make);

// --- For scenarios, inside run() and finish().

/// Fails the execution.
void fail(const std::string& what);
inline void check(bool condition, const char* what) {
  if (!condition) fail(what);
}
/// Repeats `attempt` until it returns true. A failed attempt must have changed nothing; the thread then rests until one
/// of the locations that the attempt has read is written.
void await(const std::function<bool()>& attempt);
/// Stores that the running thread has made so far: lets an attempt tell whether it has changed anything.
uint64_t writes();
/// Called before each store (not read-modify-write) of a thread, to announce the plain data that it publishes. Null:
/// none.
using StoreHook = void (*)(const void* where, uint64_t value);
void set_store_hook(StoreHook hook);
/// Announces an access to plain memory, named by its first byte.
void data_read(const void* address);
void data_write(const void* address);
/// While one lives, loads return what is in place and are no step of the execution: for checks of a whole structure.
/// The search does not know of them: of the schedules that are equivalent without them they see one.
class Watching {
 public:
  Watching();
  ~Watching();
  Watching(const Watching&) = delete;
  Watching& operator=(const Watching&) = delete;
};
/// Index of the running thread.
uint32_t self();
/// True while a scenario's thread runs (false in its constructor and finish()).
bool running();

// --- For zh::Atomic. `initial` is the value in place, used when the location is met for the first time.

uint64_t load(const void* where, uint64_t initial, Order order, const Site& site);
void store(void* where, uint64_t initial, uint64_t value, Order order, const Site& site);
uint64_t update_begin(void* where, uint64_t initial, Order order, const Site& site);
void update_end(void* where, uint64_t value, Order order, const Site& site);
/// A compare-and-swap up to its store: true if `*expected` was found and update_end() must follow.
bool compare(void* where, uint64_t initial, uint64_t* expected, Order success, Order failure, const Site& site);
void fence(const Site& site);
/// For zh::prefetch_for_read() and zh::cpu_relax(): no steps.
void prefetch(const void* where);
void relax();

}  // namespace zh::mc
