// See members.h.
#include "mpi/handles/members.h"

#include <algorithm>
#include <utility>

#include "coll/schedule/problem.h"
#include "engine/contexts.h"

namespace zh::mpi {
namespace {

constexpr size_t kFewEntries = 64;

/// World ranks, then what the node knows of each.
std::vector<int32_t> both_lists(const WorldTables& world, std::span<const int32_t> world_ranks) {
  std::vector<int32_t> lists(world_ranks.begin(), world_ranks.end());
  lists.reserve(2 * world_ranks.size());
  for (const int32_t rank : world_ranks) lists.push_back(world.local_of[rank]);
  return lists;
}

}  // namespace

Members::Members(const WorldTables& world, std::span<const int32_t> world_ranks)
    : Members(world, world_ranks, both_lists(world, world_ranks)) {}

Members::Members(const WorldTables& world, std::span<const int32_t> world_ranks, std::vector<int32_t> lists)
    : lists_(std::move(lists)),
      world_(lists_.empty() ? world_ranks : std::span<const int32_t>(lists_).first(world_ranks.size())),
      local_(lists_.empty() ? world.local_of : lists_.data() + world_ranks.size()),
      node_of_(world.node_of),
      hash_(engine::hash_group(world_.data(), world_.size())) {
  std::vector<bool> seen(world.nodes);
  for (size_t i = 0; i < world_.size(); ++i) {
    const uint32_t node = node_of_[world_[i]];
    share_a_node_ = share_a_node_ || seen[node];
    seen[node] = true;
    if (local_[i] >= 0) ++here_;
    if (local_[i] == static_cast<int32_t>(world.self)) self_ = static_cast<int32_t>(i);
  }
}

Members::~Members() = default;

const std::shared_ptr<const coll::Layout>& Members::layout() const {
  std::call_once(layout_made_, [this] {
    std::vector<uint32_t> nodes;
    nodes.reserve(world_.size());
    for (const int32_t rank : world_) nodes.push_back(node_of_[rank]);
    layout_ = std::make_shared<const coll::Layout>(nodes);
  });
  return layout_;
}

void MemberLists::open(const WorldTables& world) {
  tables_ = world;
  all_ = std::make_shared<const Members>(world);
}

void MemberLists::close() {
  const std::lock_guard lock(mutex_);
  known_.clear();
  all_.reset();
}

std::shared_ptr<const Members> MemberLists::with(std::span<const int32_t> world_ranks) {
  const auto is = [&](const Members& members) { return std::ranges::equal(members.world(), world_ranks); };
  if (is(*all_)) return all_;
  const uint64_t hash = engine::hash_group(world_ranks.data(), world_ranks.size());
  const std::lock_guard lock(mutex_);
  const auto [first, last] = known_.equal_range(hash);
  for (auto entry = first; entry != last; ++entry) {
    if (auto members = entry->second.lock(); members != nullptr && is(*members)) return members;
  }
  if (known_.size() >= sweep_at_) {
    std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
    sweep_at_ = 2 * known_.size() + kFewEntries;
  }
  auto members = std::make_shared<const Members>(tables_, world_ranks);
  known_.emplace(hash, members);
  return members;
}

}  // namespace zh::mpi
