// The explorer's insides: fibres, locations with all the values that they may still return, and the path of choices.
// Used by checker.cpp (fibres, search) and memory.cpp (what an operation does) only; see checker.h.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "checker.h"

namespace zh::mc {

constexpr uint32_t kMaxThreads = 5;  // clock entry 0 is the setup, thread t is entry t + 1
constexpr uint32_t kClocks = kMaxThreads + 1;
constexpr uint32_t kNever = ~0U;
constexpr uint64_t kStepsMax = 20000;
constexpr size_t kStackBytes = 256 << 10;

using Clock = std::array<uint32_t, kClocks>;

inline void join(Clock& a, const Clock& b) {
  for (uint32_t i = 0; i < kClocks; ++i) a[i] = std::max(a[i], b[i]);
}

inline bool has_acquire(Order o) { return o == Order::kAcquire || o == Order::kAcqRel || o == Order::kSeqCst; }
inline bool has_release(Order o) { return o == Order::kRelease || o == Order::kAcqRel || o == Order::kSeqCst; }

struct Store {
  uint64_t value;
  Clock sync;                          ///< what an acquiring load of it learns
  std::array<uint32_t, kClocks> seen;  ///< when each thread first saw it, kNever if not yet
};

struct AccessMade {
  uint32_t thread;
  uint32_t transition;
  bool writes;
};

struct Location {
  const void* address = nullptr;
  std::vector<Store> stores;
  std::vector<AccessMade> accesses;
  Clock writes_cv{};  ///< dependence clocks of the search
  Clock all_cv{};
};

struct Plain {
  uint32_t writer = 0;
  uint32_t written = 0;
  std::array<uint32_t, kClocks> read{};
};

/// What a thread will do next.
struct Pending {
  const void* address = nullptr;  ///< null: not announced; &fence_location_ for fences
  bool writes = false;
  Site site{"", 0, ""};
};

enum class Life : uint8_t { kReady, kWaiting, kEnded };

struct Fibre {
  ucontext_t start;
  jmp_buf resume;
  std::unique_ptr<char[]> stack;
  bool started = false;
  bool announced = false;
  Life life = Life::kEnded;
  Pending pending;
  Clock clock{};                                          ///< happens-before
  Clock acquire_later{};                                  ///< learnt by relaxed loads, valid after a fence
  Clock release_before{};                                 ///< what a fence released
  Clock depends{};                                        ///< dependence clock of the search
  std::vector<std::pair<const void*, uint32_t>> attempt;  ///< locations read, and which store
  bool in_attempt = false;
  uint64_t writes = 0;
};

struct Node {
  bool value_choice;
  uint32_t chosen;
  uint32_t alternatives;  ///< value choice
  uint32_t enabled = 0, backtrack = 0, done = 0, sleep = 0;
};

enum class End : uint8_t { kRunning, kFinished, kPruned, kFailed };

class Explorer {
 public:
  Explorer(const Options& options, const std::function<std::unique_ptr<Scenario>()>& make)
      : options_(options), make_(make) {}

  Report explore();

  // Called on a fibre.
  void announce(const void* address, bool writes, const Site& site);
  Location& location(const void* address, uint64_t initial);
  uint64_t load(const void* where, uint64_t initial, Order order, const Site& site);
  void store(void* where, uint64_t initial, uint64_t value, Order order, const Site& site);
  uint64_t update_begin(void* where, uint64_t initial, Order order, const Site& site);
  void update_end(void* where, uint64_t value, Order order, const Site& site);
  bool compare(void* where, uint64_t initial, uint64_t* expected, Order success, Order failure, const Site& site);
  void fence(const Site& site);
  void data(const void* address, bool writes);
  void await(const std::function<bool()>& attempt);
  [[noreturn]] void stop(End end, const std::string& what);
  void fail(const std::string& what);
  [[nodiscard]] bool on_fibre() const { return current_ != kNever; }
  [[nodiscard]] uint32_t current() const { return current_; }
  [[nodiscard]] uint64_t writes() const { return fibres_[current_].writes; }
  void fibre_main();

 private:
  void run_once();
  void run_fibre(uint32_t t);
  [[noreturn]] void switch_back();
  [[nodiscard]] bool pick(uint32_t* thread);
  uint32_t choose_value(uint32_t alternatives);
  bool next_path();
  void note_race(const Location& l, uint32_t t, bool writes);
  void note_transition(Location& l, uint32_t t, bool writes);
  void wake_waiters(const void* address);
  [[nodiscard]] bool dependent(const Pending& a, const Pending& b) const {
    return a.address == b.address && (a.writes || b.writes);
  }
  Order weakened(Order order, const Site& site, const char* kind);
  bool torn(const Site& site);
  bool mutated(Mutation::Kind mutation, const Site& site, const char* kind);
  void push_store(Location& l, uint64_t value, Order order, const Clock* continued);
  uint64_t read_store(Location& l, uint32_t index, Order order);
  [[nodiscard]] uint32_t oldest_visible(const Location& l) const;
  void trace(const char* what, const void* address, uint64_t value, const Site& site);
  static std::string site_name(const Site& site, const char* kind);

  const Options& options_;
  const std::function<std::unique_ptr<Scenario>()>& make_;
  Report report_;
  std::unique_ptr<Scenario> scenario_;
  std::array<Fibre, kMaxThreads> fibres_;
  uint32_t threads_ = 0;
  uint32_t current_ = kNever;
  jmp_buf home_;
  End end_ = End::kRunning;
  std::string failure_;

  std::unordered_map<const void*, uint32_t> index_;
  std::vector<Location> locations_;
  uint32_t location_count_ = 0;
  std::unordered_map<const void*, Plain> plain_;
  Clock sc_{};
  char fence_location_ = 0;

  std::vector<Node> path_;
  size_t depth_ = 0;
  uint32_t sleep_ = 0;
  uint32_t last_thread_ = kNever;
  uint32_t preemptions_ = 0;
  uint32_t stale_ = 0;
  uint64_t steps_ = 0;
  struct Transition {
    uint32_t thread;
    size_t node;
  };
  std::vector<Transition> transitions_;
  size_t pending_node_ = 0;

  bool tracing_ = false;
  std::string trace_;
  struct Operation {
    const char* file;
    int line;
    const char* kind;
    bool operator==(const Operation&) const = default;
  };
  struct OperationHash {
    size_t operator()(const Operation& o) const {
      return reinterpret_cast<size_t>(o.file) + reinterpret_cast<size_t>(o.kind) + static_cast<size_t>(o.line) * 1021;
    }
  };
  std::unordered_map<Operation, bool, OperationHash> mutated_;
};

}  // namespace zh::mc
