// Init, Finalize, Abort: joins the node, makes the Rank, takes MPI_COMM_WORLD; later brings everything to rest before
// the host goes. And what a forked child is told.
#include "mpi/start/init.h"

#include <memory>
#include <string>

#include "base/log.h"
#include "copy/regions.h"
#include "engine/active_collectives.h"
#include "heap/shared_heap.h"
#include "mpi/p2p/bsend.h"
#include "mpi/p2p/carrier.h"
#include "mpi/start/agreement.h"
#include "mpi/start/job.h"
#include "mpi/start/launcher.h"
#include "mpi/start/settings.h"
#include "mpi/wrap.h"
#include "node/node.h"
#include "node/roll_call.h"
#include "os/vm.h"

namespace zh::mpi {

Job* job = nullptr;

namespace {

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

void read_tag_ub() {
  void* value = nullptr;
  int flag = 0;
  host.Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag);
  shim.tag_ub = flag != 0 ? *static_cast<int*>(value) : 32767;
}

/// The collective start. Null, or why everything stays with the host (the same on all ranks).
const char* start_engine(HostBootstrap& world) {
  job->options = read_options();
  for (const std::string& complaint : job->options.complaints())
    say_once(world.rank(), "not obeyed", complaint.c_str());
  Agreement agreement(world.rank(), job->options);
  node::JoinConfig node_config;
  apply(job->options, &node_config);
  node_config.terms = agreement.terms();
  if (const Status s = node::Node::join(world, node_config, &job->node); !s.ok()) return node::keep_text(s.text());
  if (job->node->nodes() == job->node->world_size()) return "";  // nobody shares a node: nothing to do, nothing to say
  if (const char* why = agreement.obey(world); why != nullptr) return why;
  const bool mappable = !job->options.is(Opt::kHeap, "0");
  engine::Config config;
  apply(job->options, &config);
  config.ablations.coarse_lock = agreement.coarse_lock();
  if (!prepare_handles()) config.ready = {Code::kNoMemory, "no memory for request handles"};
  config.log = Log(world.rank(), log_level(job->options.get_text(Opt::kLog)));
  if (shim.heap != nullptr) shim.heap->host_started();
  // When it was loaded it did not read a file of options.
  if (!mappable && shim.heap != nullptr) shim.heap->decline("ZEROHOP_HEAP is 0");
  if (mappable && shim.heap != nullptr && shim.heap->add_client(&child_watch)) config.heap = shim.heap;
  // Forked children need the heap's handlers, which make this memory their own.
  if (config.heap != nullptr) job->regions = std::make_unique<copy::RegionOwner>();
  config.regions = job->regions.get();
  const bool spans = job->node->nodes() > 1 && shim.collectives;
  if (job->node->nodes() > 1) world.go_apart();
  std::unique_ptr<engine::Carrier> carrier = spans ? make_carrier(world.comm()) : nullptr;  // all make one, or none
  Status s = engine::Rank::create(*job->node, world, config, &job->rank);
  if (s.ok() && shim.threaded) job->rank->enable_threads();
  if (s.ok() && spans) s = job->node->agree(world, job->rank->open_internode(std::move(carrier)));
  if (s.ok()) return nullptr;
  job->rank.reset();
  if (config.heap != nullptr) config.heap->remove_client(&child_watch);
  return node::keep_text(s.text());
}

void say_start() {
  const Log& log = job->rank->log();
  if (!job->rank->complaint().empty()) log.print(LogLevel::kWarn, "%s", job->rank->complaint().c_str());
  bool refused = false;
  for (uint32_t i = 0; i < job->node->size(); ++i) {
    refused = refused || (i != job->node->self() && !job->node->cma(i) && job->node->module_member(i) == 0);
  }
  if (refused && job->options.get_bool(Opt::kCma) && job->world->rank() == 0) {
    log.print(LogLevel::kWarn,
              "ranks may not copy from each other's memory, so large messages are slower: 'zerohop doctor' says why, "
              "ZEROHOP_CMA=0 that it is known");
  }
  if (job->options.is(Opt::kKernel, "1") && !job->node->module_refusal().empty() && job->world->rank() == 0) {
    log.print(LogLevel::kWarn, "ZEROHOP_KERNEL=1 is not obeyed: %s; 'zerohop doctor' says what helps",
              job->node->module_refusal().c_str());
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
  if (job->node->is_whole_job()) {
    bool nowhere = false;
    job->node->come(!here);
    turn_until([&] { return job->node->have_come(&nowhere); });
    return !nowhere;
  }
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
  if (shim.times_calls) time_functions(nullptr);
  shim.counts_calls = shim.times_calls = shim.traces_calls = false;
  job->statistics.finish(job->world->comm());
  job->pump.close();
  forget_all_comms();
  shim.rank = nullptr;
  shim.requests = &Shim::kNoRequests;
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
  const std::string absent = node::who_is_missing(roll, rank, size);
  if (!absent.empty()) say_once(0, "everything stays with the MPI library", absent.c_str());
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
    shim.counts_calls = shim.times_calls = false;
    job->node.reset();
    job->world.reset();
    stay_with_host("no other rank of this node uses zerohop");
    return;
  }
  shim.spans_nodes = job->node->nodes() > 1;
  job->pump.open();
  job->rank->set_host_progress([] { pump_host(); });
  shim.rank = job->rank.get();
  shim.requests = &shim.rank->requests();
  take_world();
  shim.traces_calls = job->rank->log().wants(LogLevel::kDebug);
  if (shim.counts_calls) {
    shim.counts_calls = job->statistics.start(*job->rank, job->world->comm(), job->options.get_text(Opt::kStats),
                                              job->options.get_text(Opt::kTrace));
    shim.times_calls = shim.times_calls && shim.counts_calls;
    if (shim.counts_calls) job->rank->count_by_receiver();
    if (shim.times_calls) {
      job->rank->time_waits();
      time_functions(&job->rank->account());
    }
  }
  job->ends_with_self = end_with_self();
  say_start();
}

}  // namespace

copy::RegionOwner* mappable_memory() { return job != nullptr ? job->regions.get() : nullptr; }

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
