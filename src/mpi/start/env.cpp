// Init, Finalize, Abort: joins the node, makes the Rank, takes MPI_COMM_WORLD; later brings everything to rest before
// the host goes. Also the pump that keeps the host moving while the engine waits.
#include "mpi/start/env.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "base/log.h"
#include "copy/regions.h"
#include "heap/shared_heap.h"
#include "mpi/coll/started.h"
#include "mpi/p2p/bsend.h"
#include "mpi/p2p/carrier.h"
#include "mpi/p2p/wildcard.h"
#include "mpi/start/launcher.h"
#include "mpi/start/settings.h"
#include "mpi/start/statistics.h"
#include "mpi/wrap.h"
#include "node/node.h"
#include "node/roll_call.h"
#include "os/devices.h"
#include "os/vm.h"
#include "tune/profile.h"

namespace zh::mpi {

Shim shim;

namespace {

/// The host's Allgather over a private duplicate of MPI_COMM_WORLD.
class HostBootstrap final : public node::Bootstrap {
 public:
  HostBootstrap() {
    host.Comm_dup(MPI_COMM_WORLD, &world_);
    host.Comm_rank(world_, &rank_);
    host.Comm_size(world_, &size_);
  }
  ~HostBootstrap() override { host.Comm_free(&world_); }
  HostBootstrap(const HostBootstrap&) = delete;
  HostBootstrap& operator=(const HostBootstrap&) = delete;
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  Status allgather(const void* in, size_t bytes, void* out) override {
    const int n = static_cast<int>(bytes);
    const int error = host.Allgather(in, n, MPI_BYTE, out, n, MPI_BYTE, world_);
    return error == MPI_SUCCESS ? kOk : Status{Code::kIo, "the host's allgather failed"};
  }
  [[nodiscard]] MPI_Comm comm() const { return world_; }

 private:
  MPI_Comm world_{};
  int rank_ = 0;
  int size_ = 1;
};

/// Marks in the launcher's store; messages on MPI_COMM_WORLD, which the program cannot use yet.
class HostRoll final : public node::Roll {
 public:
  void prepare(std::span<const int> ranks, bool only_to_tell) override { launcher.ask_for(ranks, only_to_tell); }
  node::Presence look(int rank) override { return launcher.look(rank); }
  void tell(int rank, bool all) override {
    const char answer = all ? 1 : 0;
    host.Send(&answer, 1, MPI_BYTE, rank, kTag, MPI_COMM_WORLD);
  }
  bool hear(int rank) override {
    char answer = 0;
    host.Recv(&answer, 1, MPI_BYTE, rank, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return answer != 0;
  }

 private:
  static constexpr int kTag = 31336;  // every host has tags up to 32767
};

/// A receive that never completes: testing it turns the host's progress at the lowest price on every host.
class Pump {
 public:
  void open() {
    host.Comm_dup(MPI_COMM_SELF, &self_);
    host.Irecv(&sink_, 1, MPI_BYTE, 0, kPumpTag, self_, &request_);
    open_ = true;
  }
  void close() {
    if (!open_) return;
    open_ = false;
    char nothing = 0;
    MPI_Request send;
    host.Isend(&nothing, 1, MPI_BYTE, 0, kPumpTag, self_, &send);
    host.Wait(&request_, MPI_STATUS_IGNORE);
    host.Wait(&send, MPI_STATUS_IGNORE);
    host.Comm_free(&self_);
  }
  void turn() {
    if (!open_) return;  // also while the host ends
    if (shim.threaded && !busy_.try_lock()) return;
    int flag = 0;
    host.Test(&request_, &flag, MPI_STATUS_IGNORE);
    if (shim.threaded) busy_.unlock();
  }

 private:
  static constexpr int kPumpTag = 1;
  MPI_Comm self_{};
  MPI_Request request_{};
  char sink_ = 0;
  bool open_ = false;
  std::mutex busy_;
};

/// Everything with the lifetime of the job. Never destroyed by the loader: the order of destructors at exit is not
/// ours.
struct Job {
  std::unique_ptr<HostBootstrap> world;
  std::unique_ptr<node::Node> node;
  std::unique_ptr<copy::RegionOwner> regions;
  std::unique_ptr<engine::Rank> rank;
  Pump pump;
  Options options;
  Statistics statistics;
  bool ends_with_self = false;
};
Job* job = nullptr;

/// In a forked child nothing of zerohop may run: the segment, the queues and the peers are the parent's. A program's
/// exit handlers may call MPI_Finalize there all the same; that goes to the host as if zerohop were not there.
class ChildWatch final : public heap::Client {
 public:
  void keep_peers_away() override {}
  void let_peers_in() override {}
  [[nodiscard]] bool has_memory() const override {
    return job != nullptr && job->regions != nullptr && job->regions->used();
  }
  void copy_in_child() override {
    constexpr uint64_t kMostBytes = 64 << 20;
    if (has_memory() && !job->regions->copy_in_child(kMostBytes)) {
      os::say_line("a forked child shares memory of MPI_Alloc_mem with its parent: out of memory", "");
    }
  }
  void in_child() override {
    shim.rank = nullptr;
    job = nullptr;
    is_child = true;
  }
  bool is_child = false;
};
ChildWatch child_watch;

void say(const char* what, const char* why) { std::fprintf(stderr, "zerohop: %s: %s\n", what, why); }

void say_once(int rank, const char* what, const char* why) {
  if (rank == 0) say(what, why);
}

/// All ranks end with the same answer.
bool all_agree(HostBootstrap& world, bool mine) {
  std::vector<char> all(static_cast<size_t>(world.size()));
  const char one = mine ? 1 : 0;
  if (!world.allgather(&one, 1, all.data()).ok()) return false;
  return std::find(all.begin(), all.end(), 0) == all.end();
}

/// What must hold for all ranks alike, lest they do a collective in different ways.
struct Terms {
  bool ready;
  bool devices;  ///< messages may lie in memory that only the host's library reaches
  bool collectives;
  AlgorithmNumbers algorithms;
  uint64_t chunk_bytes;
  bool statistics;  ///< of rank 0
};

/// Null, or why everything stays with the host.
const char* agree_on_terms(HostBootstrap& world, const Terms& mine) {
  std::vector<Terms> all(static_cast<size_t>(world.size()));
  if (!world.allgather(&mine, sizeof mine, all.data()).ok()) return "the ranks cannot agree";
  shim.collectives = std::all_of(all.begin(), all.end(), [](const Terms& t) { return t.collectives; });
  shim.algorithms = algorithms_of(all[0].algorithms);
  shim.chunk_bytes = all[0].chunk_bytes;
  shim.counts_calls = all[0].statistics;
  if (std::any_of(all.begin(), all.end(), [](const Terms& t) { return t.devices; })) {
    return "the driver of a GPU is loaded, and messages in its memory are not served (ZEROHOP_DEVICES=0: there are "
           "none)";
  }
  const bool ready = std::all_of(all.begin(), all.end(), [](const Terms& t) { return t.ready; });
  return ready ? nullptr : "no memory for request handles";
}

bool read_tag_ub() {
  void* value = nullptr;
  int flag = 0;
  host.Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag);
  shim.tag_ub = flag != 0 ? *static_cast<int*>(value) : 32767;
  return true;
}

/// Gives rank 0's table of measured algorithms to all.
void share_selection(HostBootstrap& world) {
  std::string text;
  if (world.rank() == 0) {
    const std::string folder = tune::cache_folder(job->options.get_text(Opt::kCache));
    const std::string path = coll::selection_path(folder, ZH_ABI_NAME);
    if (const Status s = shim.selection.load(path); s.code() == Code::kInvalid) say_once(0, "not obeyed", s.what());
    if (!shim.selection.entries().empty()) text = shim.selection.text();
  }
  auto bytes = static_cast<int>(text.size());
  host.Bcast(&bytes, sizeof bytes, MPI_BYTE, 0, world.comm());
  text.resize(static_cast<size_t>(bytes));
  host.Bcast(text.data(), bytes, MPI_BYTE, 0, world.comm());
  static_cast<void>(shim.selection.parse(text));
}

/// The collective start. Null, or why everything stays with the host (the same on all ranks).
const char* start_engine(HostBootstrap& world) {
  job->options = read_options();
  for (const std::string& complaint : job->options.complaints())
    say_once(world.rank(), "not obeyed", complaint.c_str());
  node::JoinConfig node_config;
  apply(job->options, &node_config);
  if (const Status s = node::Node::join(world, node_config, &job->node); !s.ok()) return s.what();
  if (job->node->nodes() == job->node->world_size()) return "";  // nobody shares a node: nothing to do, nothing to say
  Terms terms{};
  terms.ready = prepare_handles();
  // A host that serves device memory has loaded its driver by now; one that does not fails with it, as without zerohop.
  terms.devices = job->options.is(Opt::kDevices, "auto") && !os::loaded_device_driver().empty();
  terms.collectives = job->options.get_bool(Opt::kCollectives);
  terms.algorithms =
      read_algorithms(job->options, [&](const std::string& why) { say_once(world.rank(), "not obeyed", why.c_str()); });
  terms.chunk_bytes = job->options.get_number(Opt::kChunk);
  terms.statistics = !job->options.get_text(Opt::kStats).empty();
  if (const char* why = agree_on_terms(world, terms); why != nullptr) return why;
  if (shim.collectives) share_selection(world);
  const bool mappable = !job->options.is(Opt::kHeap, "0");
  engine::Config config;
  apply(job->options, &config);
  config.log = Log(world.rank(), log_level(job->options.get_text(Opt::kLog)));
  if (shim.heap != nullptr) shim.heap->host_started();
  // When it was loaded it did not read a file of options.
  if (!mappable && shim.heap != nullptr) shim.heap->decline("ZEROHOP_HEAP is 0");
  if (mappable && shim.heap != nullptr && shim.heap->add_client(&child_watch)) config.heap = shim.heap;
  // Forked children need the heap's handlers, which make this memory their own.
  if (config.heap != nullptr && config.heap->started()) job->regions = std::make_unique<copy::RegionOwner>();
  config.regions = job->regions.get();
  Status s = engine::Rank::create(*job->node, world, config, &job->rank);
  if (s.ok() && shim.threaded) job->rank->enable_threads();
  if (s.ok() && job->node->nodes() > 1 && shim.collectives) s = job->rank->open_internode(make_carrier(world.comm()));
  if (!all_agree(world, s.ok())) {
    job->rank.reset();
    if (config.heap != nullptr) config.heap->remove_client(&child_watch);
    return s.ok() ? "another rank could not start" : s.what();
  }
  return nullptr;
}

void say_start() {
  const Log& log = job->rank->log();
  if (!job->rank->complaint().empty()) log.print(LogLevel::kWarn, "%s", job->rank->complaint().c_str());
  bool refused = false;
  for (uint32_t i = 0; i < job->node->size(); ++i) {
    refused = refused || (i != job->node->self() && !job->node->cma(i));
  }
  if (refused && job->options.get_bool(Opt::kCma) && job->world->rank() == 0) {
    log.print(LogLevel::kWarn,
              "ranks may not copy from each other's memory, so large messages are slower: 'zerohop doctor' says why, "
              "ZEROHOP_CMA=0 that it is known");
  }
  if (!log.wants(LogLevel::kInfo)) return;
  log.print(LogLevel::kInfo, "rank %u of %u on its node, %d nodes; %s", job->node->self(), job->node->size(),
            job->node->nodes(), job->rank->choices_note().c_str());
  const char* declined = shim.heap != nullptr ? shim.heap->declined() : "not there";
  log.print(LogLevel::kInfo, "shared heap: %s%s", declined == nullptr ? "on" : "off, ",
            declined == nullptr ? "" : declined);
  for (uint32_t i = 0; i < job->node->size(); ++i) {
    if (i != job->node->self()) log.print(LogLevel::kInfo, "%s", job->rank->choice_text(i).c_str());
  }
}

/// Collective over the world: whether it is so on any rank. Turns the engine meanwhile.
bool anywhere(bool here) {
  int found = here ? 1 : 0;
  MPI_Request request;
  host.Iallreduce(MPI_IN_PLACE, &found, 1, MPI_INT, MPI_MAX, job->world->comm(), &request);
  turn_until([&] {
    int flag = 0;
    return host.Test(&request, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS || flag != 0;
  });
  return found != 0;
}

/// Everything comes to rest, on all ranks, and goes.
void end() {
  if (child_watch.is_child) return;
  bsend_finish_all();
  if (job == nullptr || shim.rank == nullptr) return;
  reap_abandoned(true);
  // Messages that no rank will receive are in nobody's way (a host's small ones are not either); others need both ends.
  if (anywhere(shim.rank->pending_sends() != 0)) {
    shim.rank->take_back_sends();
    shim.rank->quiesce();
    (void)anywhere(false);
  }
  shim.counts_calls = shim.traces_calls = false;
  job->statistics.finish(job->world->comm());
  job->pump.close();
  forget_all_comms();
  shim.rank = nullptr;
  job->rank.reset();
  job->node.reset();
  job->world.reset();
}

/// The first act of MPI_Finalize is to call the callbacks of MPI_COMM_SELF's attributes, the oldest attribute last (MPI
/// standard 11.2.4). A program's callbacks may send and receive, and other ranks may wait for that before they call
/// MPI_Finalize themselves; so zerohop ends in the callback of an attribute of its own, made before the program's.
bool end_with_self() {
  const auto copy = [](MPI_Comm, int, void*, void*, void*, int* copied) -> int {
    *copied = 0;
    return MPI_SUCCESS;
  };
  const auto leave = [](MPI_Comm, int, void*, void*) -> int {
    end();
    return MPI_SUCCESS;
  };
  int key = MPI_KEYVAL_INVALID;
  if (host.Comm_create_keyval(copy, leave, &key, nullptr) != MPI_SUCCESS) return false;
  const bool set = host.Comm_set_attr(MPI_COMM_SELF, key, nullptr) == MPI_SUCCESS;
  host.Comm_free_keyval(&key);
  return set;
}

/// Null, or why everything stays with the host: what rank 0 says of it, "" if it has nothing to say. Without a store
/// there is no telling who is here, and the ranks that are wait for all others.
const char* call_roll(int rank, int size) {
  if (launcher.has_no_store()) return nullptr;
  if (!launcher.has_mark()) return "the launcher does not pass on what ranks tell each other";
  HostRoll roll;
  if (node::all_take_part(roll, rank, size)) return nullptr;
  const std::string missing = node::who_is_missing(roll, rank, size);
  if (!missing.empty()) say("everything stays with the MPI library", missing.c_str());
  return "";
}

void stay_with_host(const char* reason_for_heap) {
  if (shim.heap != nullptr) shim.heap->decline(reason_for_heap);
  leave_to_host();
}

/// After the host's Init.
void begin() {
  if (!shim.enabled || job != nullptr) return;
  int size = 1;
  host.Comm_size(MPI_COMM_WORLD, &size);
  shim.world_size = size;
  if (size < 2) {
    stay_with_host("the program runs with one rank");
    return;
  }
  int rank = 0;
  host.Comm_rank(MPI_COMM_WORLD, &rank);
  if (const char* why = call_roll(rank, size); why != nullptr) {
    if (*why != '\0') say_once(rank, "everything stays with the MPI library", why);
    stay_with_host("some ranks of the job do not use zerohop");
    return;
  }
  int provided = MPI_THREAD_SINGLE;
  host.Query_thread(&provided);
  shim.threaded = provided == MPI_THREAD_MULTIPLE;
  read_tag_ub();
  shim.fast_status = verify_status_layout();
  job = new Job;
  job->world = std::make_unique<HostBootstrap>();
  const char* why = start_engine(*job->world);
  if (why != nullptr) {
    if (*why != '\0') say_once(job->world->rank(), "everything stays with the MPI library", why);
    shim.counts_calls = false;
    job->node.reset();
    job->world.reset();
    stay_with_host("no other rank of this node uses zerohop");
    return;
  }
  shim.spans_nodes = job->node->nodes() > 1;
  job->pump.open();
  job->rank->set_host_progress([] { pump_host(); });
  job->rank->set_away_work(started_advance_alone, [] { advance_started(true); });
  shim.rank = job->rank.get();
  take_world();
  shim.traces_calls = job->rank->log().wants(LogLevel::kDebug);
  if (shim.counts_calls) {
    shim.counts_calls = job->statistics.start(*job->rank, job->world->comm(), job->options.get_text(Opt::kStats));
  }
  job->ends_with_self = end_with_self();
  say_start();
}

}  // namespace

void pump_host() {
  job->pump.turn();
  advance_wildcards();
  advance_started();
  reap_abandoned(false);
}

namespace {
/// True at every 32nd call.
bool is_time_for_host() {
  static Atomic<uint32_t> calls{0};
  const uint32_t n = calls.load_relaxed() + 1;
  calls.store_relaxed(n);  // a lost increment between threads does no harm
  return n % 32 == 0;
}
}  // namespace

void turn_once() {
  if (shim.rank == nullptr) return;
  shim.rank->progress();
  if (is_time_for_host()) pump_host();
}

void turn_sometimes() {
  if (!is_time_for_host()) return;
  shim.rank->progress();
  pump_host();
}

copy::RegionOwner* mappable_memory() { return job != nullptr ? job->regions.get() : nullptr; }

Away::Away() : rank_(shim.rank) {
  if (rank_ != nullptr) rank_->enter_host();
}

Away::~Away() {
  if (rank_ != nullptr) rank_->leave_host();
}

int raise(MPI_Comm comm, int error_class) {
  host.Comm_call_errhandler(comm, error_class);
  return error_class;
}

int class_of(Code code) {
  switch (code) {
    case Code::kOk:
      return MPI_SUCCESS;
    case Code::kTruncated:
      return MPI_ERR_TRUNCATE;
    case Code::kNoMemory:
      return MPI_ERR_NO_MEM;
    default:
      return MPI_ERR_OTHER;
  }
}

namespace wrap {

int Init(int* argc, char*** argv) {
  launcher.leave_mark();
  const int error = host.Init(argc, argv);
  if (error == MPI_SUCCESS) begin();
  return error;
}

int Init_thread(int* argc, char*** argv, int required, int* provided) {
  launcher.leave_mark();
  const int error = host.Init_thread(argc, argv, required, provided);
  if (error == MPI_SUCCESS) begin();
  return error;
}

/// A session is the host's, but it may be what initialises the host.
int Session_init(MPI_Info info, MPI_Errhandler handler, MPI_Session* session) {
  launcher.leave_mark();
  return host.Session_init(info, handler, session);
}

int Finalize() {
  int finalized = 0;
  host.Finalized(&finalized);
  if (finalized != 0) return host.Finalize();
  if (job == nullptr || !job->ends_with_self) end();
  return host.Finalize();
}

int Abort(MPI_Comm comm, int code) {
  if (job != nullptr && shim.rank != nullptr) job->statistics.abort(code);
  return host.Abort(comm, code);
}

}  // namespace wrap
}  // namespace zh::mpi
