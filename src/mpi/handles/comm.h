// Communicators that zerohop serves, and their names in the engine. A communicator is taken when it is made: all its
// members decide alike, from its group. What is not in the table belongs to the host.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "mpi/handles/handle_map.h"
#include "mpi/handles/members.h"
#include "mpi/shim.h"

namespace zh::coll {
class Team;
enum class Collective : uint8_t;
}  // namespace zh::coll

namespace zh::mpi {

class CommCollectives;
class WildcardQueue;

/// A taken communicator. Fields up to `members` never change after it is made.
struct CommInfo {
  MPI_Comm handle;
  uint64_t context = 0;
  int32_t rank = 0;
  int32_t size = 0;
  bool all_local = false;                    ///< every member is on this node
  bool lone = false;                         ///< no other member is on this node: point-to-point is the host's
  const int32_t* local = nullptr;            ///< node-local index by rank, -1 elsewhere
  std::shared_ptr<const Members> members;    ///< shared with communicators of the same ones
  uint64_t creations = 0;                    ///< calls collective over this communicator that made one
  std::map<uint64_t, uint64_t> group_calls;  ///< MPI_Comm_create_group by hash of group and tag
  std::mutex wild_mutex;
  std::unique_ptr<WildcardQueue> wild;  ///< only of communicators that span nodes
  // Collectives (peers.h): settled at the first one. One thread at a time may be in a collective of a communicator.
  enum class Coll : uint8_t {
    kUnsettled,
    kTeam,      ///< all members are on this node and have one: it serves the blocking ones
    kNodeTeam,  ///< those of this node have one: it takes the shared steps of schedules (coll/schedule/run.h)
    kNone,
  };
  Coll coll = Coll::kUnsettled;
  std::unique_ptr<coll::Team> team;
  /// A blocking collective that this rank was refused for its buffers, while the others may wait for it in theirs.
  struct Refused {
    bool there = false;
    bool uniform = true;
    bool commutative = true;
    coll::Collective collective{};
    uint16_t call = 0;  ///< CallId
    int root = 0;
    coll::Team* team = nullptr;  ///< that it would have gone by; null: a schedule
  } refused;
  std::shared_ptr<CommCollectives> collectives;  ///< for all others (collective_operation.h); made at the first
  uint32_t holders = 0;                          ///< requests that may outlive the handle (MPI standard 7.4.3)
  bool freed = false;                            ///< the program has; it lives for its holders
  bool host_keeps = false;                       ///< then: the host's lives as long, as holders need it

  CommInfo();
  ~CommInfo();
};

extern HandleMap<CommInfo> comms;

/// The entry of a communicator of which some node has two members at least, or null: then all calls are the host's.
inline CommInfo* known(MPI_Comm comm) { return comms.find(key_of(comm)); }
/// The same for point-to-point: two members at least are on this node.
inline CommInfo* taken(MPI_Comm comm) {
  CommInfo* info = known(comm);
  return info == nullptr || info->lone ? nullptr : info;
}

/// Whether `rank` names a member other than PROC_NULL and the like.
inline bool is_rank(const CommInfo* comm, int rank) {
  return static_cast<uint32_t>(rank) < static_cast<uint32_t>(comm->size);
}

/// Takes MPI_COMM_WORLD. Called once, when the engine is up.
void take_world();
/// After a constructor that is collective over `parent` returned MPI_SUCCESS: counts it and takes `made` if it should
/// be. `served` false: the communicator must stay with the host.
void made_collectively(MPI_Comm parent, MPI_Comm made, Kin kin, bool served);
/// The same for MPI_Comm_create_group.
void made_by_group(MPI_Comm parent, MPI_Comm made, int tag);
/// Of a communicator that will be there when MPI_Comm_idup completes; all that follows from the parent as it was at the
/// call.
struct ExpectedComm {
  uint64_t context;
  std::shared_ptr<const Members> members;
};
/// At the call: counts it. Null if the communicator must stay with the host (`served` false).
[[nodiscard]] std::unique_ptr<ExpectedComm> expect_duplicate(CommInfo* parent, bool served);
void made_as_expected(const ExpectedComm& expected, MPI_Comm made);
/// Whether that member of a communicator of the host's alone is another rank of this node; not of intercommunicators.
[[nodiscard]] bool is_neighbour(MPI_Comm comm, int member);
/// For a persistent request of `info`, or a receive that its WildcardQueue has seen. Giving up the last one may free
/// the host's communicator, which calls the program's callbacks.
void hold_comm(CommInfo* info);
void drop_comm(CommInfo* info);
/// Whether the host must keep `comm` although the program frees it: requests that span nodes will still ask the host
/// with it. It is forgotten then, and freed in the host when the last of them has ended (MPICH alone calls the
/// callbacks of attributes then, too).
[[nodiscard]] bool outlives_its_handle(MPI_Comm comm);
/// After the host has freed `comm`, whose callbacks may have used it. Its handle may be another communicator's by now,
/// which has another context.
void forget_comm(MPI_Comm comm, uint64_t context);

/// The error handler of `comm`, a reference to it.
[[nodiscard]] std::optional<MPI_Errhandler> handler_of(MPI_Comm comm);
/// When the host has freed the communicator of that context: its handler, for operations that outlive it.
void keep_handler(uint64_t context, std::optional<MPI_Errhandler> handler);

/// The communicator on which an operation's error is raised. The program may have freed it since (MPI standard 7.4.3),
/// and its handle be another one's.
struct ErrorSite {
  MPI_Comm comm;
  uint64_t context = 0;  ///< of the communicator; 0: it is not zerohop's
};
/// As raise(), on a freed communicator by the handler that it had then, which is given a communicator of one rank.
int raise(const ErrorSite& site, int error_class);
void forget_all_comms();

}  // namespace zh::mpi
