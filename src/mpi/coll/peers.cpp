// Private copies of buffers, and the moment when a communicator's collectives become zerohop's or the host's.
#include "mpi/coll/peers.h"

#include "coll/team/team.h"
#include "engine/contexts.h"
#include "mpi/coll/neighborhood.h"

namespace zh::mpi {
namespace {

std::mutex teams_mutex;

bool needs_copy(const TypeInfo* type, Use use) { return use == Use::kCopy || type->kind == TypeInfo::Kind::kPacked; }

}  // namespace

int members_meant(MPI_Comm comm, int root) {
  if (comm == MPI_COMM_NULL) return 0;
  if (root == kDestinations) return neighborhood_of(comm).destinations.blocks;
  if (root == kSources) return neighborhood_of(comm).sources.blocks;
  int inter = 0;
  int n = 0;
  int rank = 0;
  if (host.Comm_test_inter(comm, &inter) != MPI_SUCCESS || host.Comm_rank(comm, &rank) != MPI_SUCCESS) return 0;
  if (root != kEverywhere && root != (inter != 0 ? MPI_ROOT : rank)) return 0;
  if ((inter != 0 ? host.Comm_remote_size(comm, &n) : host.Comm_size(comm, &n)) != MPI_SUCCESS) return 0;
  return n;
}

int OneBuffer::stage(MPI_Comm comm) {
  const uint64_t bytes = elements_.bytes();
  view_ = {scratch_.get(bytes), bytes, nullptr};
  if (view_.base == nullptr) return raise(comm, MPI_ERR_NO_MEM);
  if (receives_) return kGoOn;
  const int error = pack_elements(elements_, view_.base);
  return error == MPI_SUCCESS ? kGoOn : error;
}

int PeerBuffers::make_list() {
  elements_ = std::make_unique<Elements[]>(n_);
  views_ = std::make_unique<copy::Buffer[]>(n_);
  pieces_.list = views_.get();
  return kGoOn;
}

int PeerBuffers::stage_even() {
  const uint64_t bytes = first_.bytes();
  std::byte* memory = scratch_.get(bytes * n_);
  if (memory == nullptr) return raise(comm_, MPI_ERR_NO_MEM);
  pieces_.first = {memory, bytes, nullptr};
  pieces_.stride = static_cast<int64_t>(bytes);
  if (use_ == Use::kReceive) return kGoOn;
  const int error = pack_elements({first_.buf, first_.count * static_cast<MPI_Count>(n_), first_.type}, memory);
  return error == MPI_SUCCESS ? kGoOn : error;
}

int PeerBuffers::stage_list() {
  uint64_t bytes = 0;
  bool any = false;
  for (size_t i = 0; i < n_; ++i) {
    const Elements& e = elements_[i];
    if (needs_copy(e.type, use_)) {
      bytes += e.bytes();
      any = true;
    } else {
      views_[i] = describe(e);
    }
  }
  if (!any) return kGoOn;
  std::byte* memory = scratch_.get(bytes);
  if (memory == nullptr) return raise(comm_, MPI_ERR_NO_MEM);
  for (size_t i = 0; i < n_; ++i) {
    const Elements& e = elements_[i];
    if (!needs_copy(e.type, use_)) continue;
    views_[i] = {memory, e.bytes(), nullptr};
    memory += e.bytes();
    if (use_ == Use::kReceive) continue;
    const int error = pack_elements(e, views_[i].base);
    if (error != MPI_SUCCESS) return error;
  }
  return kGoOn;
}

int PeerBuffers::give_own(int32_t self, copy::Buffer* out) {
  *out = pieces_[static_cast<uint32_t>(self)];
  const Elements mine = at(self);
  if (use_ != Use::kReceive || mine.type->kind != TypeInfo::Kind::kPacked) return kGoOn;
  const int error = pack_elements(mine, out->base);
  return error == MPI_SUCCESS ? kGoOn : error;
}

int PeerBuffers::expect_own(int32_t self, uint64_t bytes, MPI_Comm comm) {
  if (bytes > pieces_[static_cast<uint32_t>(self)].bytes) return raise(comm, MPI_ERR_TRUNCATE);
  if (views_ != nullptr) views_[static_cast<size_t>(self)].bytes = bytes;
  return kGoOn;
}

int PeerBuffers::close() {
  if (!scratch_.used() || use_ != Use::kReceive) [[likely]]
    return MPI_SUCCESS;
  for (size_t i = 0; i < n_; ++i) {
    const Elements e = at(static_cast<int32_t>(i));
    if (e.type->kind != TypeInfo::Kind::kPacked) continue;
    const copy::Buffer view = pieces_[static_cast<uint32_t>(i)];
    const int error = unpack_elements(view.base, view.bytes, e);
    if (error != MPI_SUCCESS) return error;
  }
  return MPI_SUCCESS;
}

void settle_team(CommInfo* comm) {
  comm->coll = CommInfo::Coll::kNone;
  if (shim.rank == nullptr || comm->lone || !shim.collectives) return;
  std::vector<uint32_t> members;
  uint32_t self = 0;
  for (int32_t i = 0; i < comm->size; ++i) {
    if (i == comm->rank) self = static_cast<uint32_t>(members.size());
    if (comm->local[i] >= 0) members.push_back(static_cast<uint32_t>(comm->local[i]));
  }
  {
    const TableLock lock(teams_mutex);
    comm->team = shim.rank->make_team(engine::team_context(comm->context), std::move(members), self);
  }
  // Waits for the other members, so without the lock: other threads are busy with other communicators meanwhile.
  if (comm->team == nullptr || !comm->team->ready()) {
    comm->team.reset();
    shim.rank->count_fallback("collectives: not all members have memory for a team");
    return;
  }
  comm->coll = comm->all_local ? CommInfo::Coll::kTeam : CommInfo::Coll::kNodeTeam;
  if (comm->all_local) comm->team->set_staging_order(coll::named_order(coll::Collective::kAllreduce, shim.algorithms));
  shim.rank->log().print(LogLevel::kDebug, "communicator of %d ranks: its blocking collectives go by a team%s",
                         comm->size, comm->all_local ? "" : " inside each node");
}

}  // namespace zh::mpi
