// The members of communicators: one object for all communicators that have the same ones in the same order, so that a
// duplicate costs no list. Made when communicators are taken (comm.cpp). No MPI here: what the host knows of a group is
// asked through a function of the caller's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

namespace zh::coll {
class Layout;
}

namespace zh::mpi {

/// What the node knows of the ranks of the world, by world rank (node::Node). It outlives all lists.
struct WorldTables {
  std::span<const int32_t> ranks;  ///< 0, 1, 2, ...
  const int32_t* local_of;         ///< index on this node, -1 elsewhere
  const uint32_t* node_of;         ///< number of the rank's node
  uint32_t nodes;
  uint32_t self;  ///< this rank's index on its node
};

class Members {
 public:
  /// All of the world; no list of its own.
  explicit Members(const WorldTables& world) : Members(world, world.ranks, {}) {}
  /// In the order of the communicator; 8 bytes a member.
  Members(const WorldTables& world, std::span<const int32_t> world_ranks);
  ~Members();
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;

  [[nodiscard]] int32_t size() const { return static_cast<int32_t>(world_.size()); }
  /// By rank of the communicator: the index on this node (-1 elsewhere), the rank in the world.
  [[nodiscard]] std::span<const int32_t> local() const { return {local_, world_.size()}; }
  [[nodiscard]] std::span<const int32_t> world() const { return world_; }
  [[nodiscard]] int32_t self() const { return self_; }               ///< this rank's, 0 where it is no member
  [[nodiscard]] int32_t here() const { return here_; }               ///< members on this node
  [[nodiscard]] bool share_a_node() const { return share_a_node_; }  ///< any two of them
  [[nodiscard]] uint64_t hash() const { return hash_; }              ///< hash_group() of world()
  /// Which of them share a node, for schedules. Made when it is first asked for. For any thread.
  [[nodiscard]] const std::shared_ptr<const coll::Layout>& layout() const;
  /// Memory of this object's own lists.
  [[nodiscard]] size_t list_bytes() const { return lists_.size() * sizeof(int32_t); }

 private:
  Members(const WorldTables& world, std::span<const int32_t> world_ranks, std::vector<int32_t> lists);

  std::vector<int32_t> lists_;  ///< world_, then local_; empty where they are the node's
  std::span<const int32_t> world_;
  const int32_t* local_;
  const uint32_t* node_of_;
  int32_t self_ = 0;
  int32_t here_ = 0;
  bool share_a_node_ = false;
  uint64_t hash_;
  mutable std::once_flag layout_made_;
  mutable std::shared_ptr<const coll::Layout> layout_;
};

/// What a new communicator has to do with the one that it was made from.
enum class Kin : uint8_t {
  kSame,   ///< a duplicate
  kFirst,  ///< its first ranks, in their order: a topology without reordering (MPI standard 8.5.1)
  kOther,  ///< the host knows
};

/// All that communicators have now. For any thread.
class MemberLists {
 public:
  void open(const WorldTables& world);
  void close();
  [[nodiscard]] std::shared_ptr<const Members> world() const { return all_; }
  /// Of a communicator of `size` ranks that was made from one with `parent`. `translate(world_ranks)` fills in what the
  /// host says of them and returns false where one is not in the world: then there is no list, and the result is null.
  /// It is called once at most, and only for kOther, since a host may take a time of size squared for it.
  template <typename Translate>
  [[nodiscard]] std::shared_ptr<const Members> made(const std::shared_ptr<const Members>& parent, Kin kin, int32_t size,
                                                    Translate&& translate) {
    if (kin == Kin::kSame) return parent;
    const auto n = static_cast<size_t>(size);
    if (kin == Kin::kFirst && size <= parent->size()) return with(parent->world().first(n));
    std::vector<int32_t> world_ranks(n);
    if (!translate(std::span<int32_t>(world_ranks))) return nullptr;
    return with(world_ranks);
  }
  /// Those of another communicator if one has the same.
  [[nodiscard]] std::shared_ptr<const Members> with(std::span<const int32_t> world_ranks);

 private:
  WorldTables tables_{};
  std::shared_ptr<const Members> all_;
  std::mutex mutex_;
  std::unordered_multimap<uint64_t, std::weak_ptr<const Members>> known_;  ///< by hash
  size_t sweep_at_ = 0;  ///< so many entries are looked through for those of no communicator any more
};

}  // namespace zh::mpi
