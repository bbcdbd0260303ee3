// Taking communicators when they are made, and forgetting them.
#include "mpi/handles/comm.h"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <numeric>
#include <span>

#include "coll/team/team.h"
#include "engine/contexts.h"
#include "mpi/coll/collective_operation.h"
#include "mpi/p2p/bsend.h"
#include "mpi/p2p/wildcard.h"

namespace zh::mpi {

HandleMap<CommInfo> comms;

CommInfo::CommInfo() : handle(MPI_COMM_NULL) {}
CommInfo::~CommInfo() {
  if (collectives != nullptr) collectives->keep_no_more();
}

namespace {

std::mutex comms_mutex;

/// The error handler of a communicator that was freed.
struct FreedHandler {
  uint64_t context;
  MPI_Errhandler handler;  ///< a reference
};
constexpr size_t kMostFreed = 1024;
std::deque<FreedHandler> freed_handlers;  // the latest; errors on older ones are returned

MemberLists member_lists;

/// From more members on they tell each other who they are. Open MPI looks for each in the other group from its
/// beginning: for 192,000 that would take minutes.
#if defined(ZH_ABI_MPICH)
constexpr size_t kMostTranslated = SIZE_MAX;
#else
constexpr size_t kMostTranslated = 512;
#endif

/// All members of the new communicator come here, or none.
bool ask_each_other(MPI_Comm comm, std::span<int32_t> world_ranks) {
  const int32_t mine = member_lists.world()->self();
  return host.Allgather(&mine, 1, MPI_INT, world_ranks.data(), 1, MPI_INT, comm) == MPI_SUCCESS;
}

/// Of these ranks of the communicator.
void ask_host(MPI_Comm comm, std::span<const int> ranks, int* world_ranks) {
  MPI_Group group;
  MPI_Group world;
  host.Comm_group(comm, &group);
  host.Comm_group(MPI_COMM_WORLD, &world);
  host.Group_translate_ranks(group, static_cast<int>(ranks.size()), ranks.data(), world, world_ranks);
  host.Group_free(&group);
  host.Group_free(&world);
}

/// The host's answer, in one call for all of them: false if one is not in this world, or `comm` an intercommunicator.
bool translate(MPI_Comm comm, std::span<int32_t> world_ranks) {
  int inter = 0;
  host.Comm_test_inter(comm, &inter);
  if (inter != 0) return false;
  // Only where all ranks of the world take part; all members are of it, since those of the parent are.
  if (world_ranks.size() > kMostTranslated && shim.collectives) return ask_each_other(comm, world_ranks);
  std::vector<int> ranks(world_ranks.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  ask_host(comm, ranks, world_ranks.data());
  return std::ranges::all_of(world_ranks, [](int rank) { return rank >= 0 && rank < shim.world_size; });
}

/// Null if `comm` cannot be taken.
std::shared_ptr<const Members> members_of(MPI_Comm comm, const CommInfo& parent, Kin kin) {
  int n = 0;
  host.Comm_size(comm, &n);  // of MPICH's topologies with fewer places than ranks, the group is too large
  if (n == 0) return nullptr;
  return member_lists.made(parent.members, kin, n,
                           [comm](std::span<int32_t> world_ranks) { return translate(comm, world_ranks); });
}

void destroy(CommInfo* info) {
  if (shim.rank != nullptr) {
    shim.rank->forget_members(info->context);
    shim.rank->name_context(info->context, "");
  }
  delete info;
}

/// Makes the entry if members share nodes.
void take(MPI_Comm comm, uint64_t context, std::shared_ptr<const Members> members) {
  if (!members->share_a_node()) return;
  auto info = std::make_unique<CommInfo>();
  info->handle = comm;
  info->context = context;
  info->rank = members->self();
  info->size = members->size();
  info->lone = members->here() < 2;
  info->all_local = members->here() == info->size;
  info->local = members->local().data();
  info->members = std::move(members);
  if (!info->all_local && !info->lone) info->wild = std::make_unique<WildcardQueue>(info.get());
  shim.rank->name_members(context, info->members->local());
  const TableLock lock(comms_mutex);
  comms.insert(key_of(comm), info.release());
}

/// Under the mutex; it is in no table any more. What is under way ends without it.
void end_of_handle(CommInfo* info) {
  info->freed = true;
  if (info->holders == 0) destroy(info);
}

/// A handle that the host may have used before for a communicator that was taken.
void drop_stale(MPI_Comm made) {
  const TableLock lock(comms_mutex);
  CommInfo* info = comms.erase(key_of(made));
  if (info != nullptr) end_of_handle(info);
}

}  // namespace

bool is_neighbour(MPI_Comm comm, int member) {
  int inter = 0;
  int n = 0;
  int rank = -1;
  host.Comm_test_inter(comm, &inter);
  host.Comm_size(comm, &n);
  if (inter != 0 || member < 0 || member >= n) return false;
  ask_host(comm, {&member, 1}, &rank);
  const Members& all = *member_lists.world();
  return rank >= 0 && rank < all.size() && rank != all.self() && all.local()[static_cast<size_t>(rank)] >= 0;
}

void take_world() {
  const node::Node& node = shim.rank->node();
  const auto n = static_cast<size_t>(node.world_size());
  member_lists.open({{node.world_ranks(), n},
                     node.local_indices(),
                     node.nodes_of(),
                     static_cast<uint32_t>(node.nodes()),
                     node.self()});
  take(MPI_COMM_WORLD, engine::kWorldContext, member_lists.world());
  shim.rank->name_context(engine::kWorldContext, "MPI_COMM_WORLD");
}

namespace {
uint64_t count_creation(CommInfo* parent) {
  const TableLock lock(comms_mutex);
  return parent->creations++;
}
}  // namespace

std::unique_ptr<ExpectedComm> expect_duplicate(CommInfo* parent, bool served) {
  const uint64_t creations = count_creation(parent);
  if (!served) return nullptr;
  const uint64_t context = engine::derive_context(parent->context, creations, parent->members->hash());
  return std::make_unique<ExpectedComm>(ExpectedComm{context, parent->members});
}

void made_as_expected(const ExpectedComm& expected, MPI_Comm made) {
  if (shim.rank == nullptr || made == MPI_COMM_NULL) return;
  drop_stale(made);
  take(made, expected.context, expected.members);
}

void made_collectively(MPI_Comm parent, MPI_Comm made, Kin kin, bool served) {
  if (shim.rank == nullptr) return;
  CommInfo* info = known(parent);
  if (info == nullptr) return;
  const uint64_t creations = count_creation(info);
  if (!served || made == MPI_COMM_NULL) return;
  drop_stale(made);
  const auto members = members_of(made, *info, kin);
  if (members == nullptr) return;
  take(made, engine::derive_context(info->context, creations, members->hash()), members);
}

void made_by_group(MPI_Comm parent, MPI_Comm made, int tag) {
  if (shim.rank == nullptr || made == MPI_COMM_NULL) return;
  CommInfo* info = known(parent);
  if (info == nullptr) return;
  drop_stale(made);
  const auto members = members_of(made, *info, Kin::kOther);
  if (members == nullptr) return;
  const uint64_t group = members->hash();
  uint64_t calls = 0;
  {
    const TableLock lock(comms_mutex);
    calls = info->group_calls[engine::mix(group, static_cast<uint64_t>(static_cast<uint32_t>(tag)))]++;
  }
  take(made, engine::derive_group_context(info->context, group, tag, calls), members);
}

void hold_comm(CommInfo* info) {
  const TableLock lock(comms_mutex);
  ++info->holders;
}

void drop_comm(CommInfo* info) {
  MPI_Comm kept = MPI_COMM_NULL;
  const uint64_t context = info->context;
  {
    const TableLock lock(comms_mutex);
    if (--info->holders != 0 || !info->freed) return;
    if (info->host_keeps) kept = info->handle;
    destroy(info);
  }
  if (kept == MPI_COMM_NULL) return;
  const MPI_Comm handle = kept;
  const auto handler = handler_of(kept);
  if (host.Comm_free(&kept) != MPI_SUCCESS) return;
  keep_handler(context, handler);
  bsend_forget(handle);
}

std::optional<MPI_Errhandler> handler_of(MPI_Comm comm) {
  MPI_Errhandler handler;
  if (host.Comm_get_errhandler(comm, &handler) != MPI_SUCCESS) return {};
  return handler;
}

void keep_handler(uint64_t context, std::optional<MPI_Errhandler> handler) {
  if (!handler.has_value()) return;
  const TableLock lock(comms_mutex);
  freed_handlers.push_back({context, *handler});
  if (freed_handlers.size() <= kMostFreed) return;
  host.Errhandler_free(&freed_handlers.front().handler);
  freed_handlers.pop_front();
}

// A handler can be called through a communicator only.
int raise(const ErrorSite& site, int error_class) {
  bool lives = site.context == 0;
  MPI_Errhandler handler;
  if (!lives) {
    const TableLock lock(comms_mutex);
    const CommInfo* info = known(site.comm);
    lives = info != nullptr && info->context == site.context;
    const auto freed = std::find_if(freed_handlers.begin(), freed_handlers.end(),
                                    [&](const FreedHandler& f) { return f.context == site.context; });
    if (!lives && freed == freed_handlers.end()) return error_class;
    if (!lives) handler = freed->handler;
  }
  if (lives) return raise(site.comm, error_class);
  MPI_Comm voice;
  if (host.Comm_dup(MPI_COMM_SELF, &voice) != MPI_SUCCESS) return error_class;
  host.Comm_set_errhandler(voice, handler);
  raise(voice, error_class);
  host.Comm_free(&voice);
  return error_class;
}

bool outlives_its_handle(MPI_Comm comm) {
  if (shim.rank == nullptr) return false;
  const TableLock lock(comms_mutex);
  CommInfo* info = known(comm);
  if (info == nullptr || info->all_local || info->holders == 0) return false;
  comms.erase(key_of(comm));
  info->host_keeps = true;
  end_of_handle(info);
  return true;
}

void forget_comm(MPI_Comm comm, uint64_t context) {
  if (shim.rank == nullptr) return;
  const TableLock lock(comms_mutex);
  CommInfo* info = known(comm);
  if (info == nullptr || info->context != context) return;
  comms.erase(key_of(comm));
  end_of_handle(info);
}

void forget_all_comms() {
  const TableLock lock(comms_mutex);
  comms.for_each([](CommInfo& info) {
    if (info.holders == 0) delete &info;
  });
  comms.clear();
  member_lists.close();
}

}  // namespace zh::mpi
