#include "engine/collectives.h"

#include <algorithm>
#include <new>
#include <utility>

#include "engine/contexts.h"
#include "engine/internode.h"

namespace zh::engine {

Collectives::Collectives(Rank& rank, CommRanks comm, const coll::Precedence& precedence)
    : rank_(rank),
      comm_(std::move(comm)),
      precedence_(precedence),
      calls_(rank.active_collectives()),
      transport_(make_transport(nonblocking_context(comm_.context))) {}

Collectives::~Collectives() {
  for (const auto& on_node : {small_.get(), large_.get()}) {
    if (on_node != nullptr) calls_->forget(on_node);
  }
}

bool Collectives::leads() const {
  const coll::Layout& layout = *comm_.layout;
  return layout.members(layout.node_of(comm_.self))[0] == comm_.self;
}

std::shared_ptr<coll::Transport> Collectives::make_transport(uint64_t context) const {
  if (comm_.layout->nodes() == 1) return std::make_shared<RunTransport>(rank_, context, comm_.members, comm_.self);
  Internode& internode = *rank_.internode();
  return std::make_shared<SpanTransport>(rank_, internode, context, comm_.members, comm_.world, comm_.self);
}

std::shared_ptr<coll::Transport> Collectives::transport_of(uint64_t init) const {
  return make_transport(persistent_context(comm_.context, init));
}

std::unique_ptr<NonblockingOnNode> Collectives::make_on_node(bool small, uint64_t context) const {
  using Kind = NonblockingOnNode::Kind;
  return std::make_unique<NonblockingOnNode>(rank_, small ? Kind::kSlots : Kind::kStaged,
                                             small ? small_context(context) : large_context(context), comm_.members,
                                             comm_.self);
}

NonblockingOnNode* Collectives::on_node(bool small) {
  std::unique_ptr<NonblockingOnNode>& kept = small ? small_ : large_;
  if (kept == nullptr) kept = make_on_node(small, nonblocking_context(comm_.context));
  return kept.get();
}

std::unique_ptr<NonblockingOnNode> Collectives::on_node_of(bool small, uint64_t init) const {
  return make_on_node(small, persistent_context(comm_.context, init));
}

Status Collectives::plan(coll::Problem* problem, Chosen* out, bool may_leave) try {
  coll::Problem& p = *problem;
  const bool of_neighbors = p.collective == coll::Collective::kNeighbor;
  const bool lasting = p.uniform || of_neighbors;
  const Key key{p.collective, p.root, p.count, p.element_bytes, p.commutative, p.in_place, p.team};
  const std::lock_guard lock(known_mutex_);
  const auto known = std::find_if(known_.begin(), known_.end(), [&](const Known& k) {
    return k.key == key && (!of_neighbors || (k.send == p.send && k.recv == p.recv));
  });
  if (lasting && known != known_.end()) {
    known_.splice(known_.begin(), known_, known);
    *out = {known->plan, known->algorithm, std::move(known->idle)};
    return kOk;
  }
  if (of_neighbors) add_neighbors(&p);
  coll::Schedule schedule;
  const coll::AlgorithmChoice choice = precedence_.choose(p);
  const coll::Algorithm* how = choice.algorithm;
  const bool leaves = how == nullptr;
  if (leaves && may_leave) return kOk;
  if (leaves) how = coll::algorithm(p.collective, coll::default_algorithm(p));
  p.chunk_bytes = choice.chunk_bytes;
  if (Status s = coll::build(p, how->name, &schedule); !s.ok()) return s;
  out->plan = std::make_shared<const coll::Plan>(std::move(schedule));
  out->algorithm = static_cast<size_t>(how - coll::algorithms(p.collective).data());
  if (!lasting || leaves) return kOk;
  known_.push_front({key, {}, {}, out->plan, out->algorithm, nullptr});
  if (of_neighbors) {
    known_.front().send = p.send;
    known_.front().recv = p.recv;
  }
  if (known_.size() > kKnown) known_.pop_back();
  return kOk;
} catch (const std::bad_alloc&) {
  return {Code::kNoMemory, "memory for a collective's plan"};
}

void Collectives::keep_run(std::unique_ptr<coll::Run> run) {
  run->release_scratch();
  const std::lock_guard lock(known_mutex_);
  const auto known =
      std::find_if(known_.begin(), known_.end(), [&](const Known& k) { return k.plan.get() == &run->plan(); });
  if (known != known_.end()) known->idle = std::move(run);
}

coll::HostLeads Collectives::host_leads(const coll::Problem& p) {
  const size_t key = static_cast<size_t>(p.collective) * 4 + (p.commutative ? 2 : 0) + (p.uniform ? 1 : 0);
  if (!host_leads_[key].has_value()) host_leads_[key] = precedence_.host_leads(p);
  return *host_leads_[key];
}

}  // namespace zh::engine
