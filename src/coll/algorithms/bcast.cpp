// Broadcasts. The root reads its input, all others write their output; so the root needs no copy of its own.
#include "coll/algorithms/families.h"

namespace zh::coll {
namespace {

Range data_of(const Problem& p) { return p.self == p.root ? p.input() : p.output(); }

void bcast_linear(Builder& b, const Problem& p) { bcast_linear(b, everybody(p), p.root, data_of(p)); }

void bcast_binomial(Builder& b, const Problem& p) { bcast_binomial(b, everybody(p), p.root, data_of(p)); }

/// Van de Geijn's scatter and ring among a group whose index 0 has the data. `ready` hears of every chunk on this rank
/// once it is there, on members in an order that depends on their index alone.
/// The ring leaves out what the scatter already brought: the root receives nothing, and its copy is never written.
template <typename Ready>
class ScatterRing {
 public:
  ScatterRing(const Problem& p, uint32_t n, Range data, Ready ready) : p_(p), n_(n), data_(data), ready_(ready) {}

  void tell(Builder& b, const Group& group) {
    const uint32_t v = group.self;
    const Binomial tree(v, n_);
    if (v != 0) each(v, v + tree.span, [&](Range chunk) { b.receive(group.ranks[tree.parent], chunk); });
    for (const uint32_t child : tree.kids()) {
      const uint32_t span = Binomial(child, n_).span;
      each(child, child + span, [&](Range chunk) { b.send(group.ranks[child], chunk); });
    }
    each(v, v + tree.span, ready_);
    const uint32_t next = (v + 1) % n_;
    for (uint32_t step = 0; step + 1 < n_; ++step) {
      const uint32_t out = (v + n_ - step) % n_;
      if (!scattered(next, out)) each(out, out + 1, [&](Range chunk) { b.send(group.ranks[next], chunk); });
      const uint32_t in = (out + n_ - 1) % n_;
      if (scattered(v, in)) continue;
      each(in, in + 1, [&](Range chunk) {
        b.receive(group.ranks[(v + n_ - 1) % n_], chunk);
        ready_(chunk);
      });
    }
  }

  /// Calls ready for the chunks in the order in which member v has them.
  void order(uint32_t v) {
    each(v, v + Binomial(v, n_).span, ready_);
    for (uint32_t step = 1; step < n_; ++step) {
      const uint32_t in = (v + n_ - step) % n_;
      if (!scattered(v, in)) each(in, in + 1, ready_);
    }
  }

 private:
  [[nodiscard]] bool scattered(uint32_t v, uint32_t part) const { return part >= v && part < v + Binomial(v, n_).span; }

  template <typename F>
  void each(uint32_t first, uint32_t last, F&& f) const {
    for (uint32_t part = first; part < last; ++part) {
      Chunks(p_, block(data_, part, n_, p_.element_bytes), data_.bytes).each(f);
    }
  }

  const Problem& p_;
  uint32_t n_;
  Range data_;
  Ready ready_;
};

void bcast_scatter_ring(Builder& b, const Problem& p) {
  Problem whole = p;
  whole.chunk_bytes = 0;
  ScatterRing(whole, p.ranks(), data_of(p), [](Range) {}).tell(b, everybody(p).rotated(p.root));
}

void bcast_leader_ring(Builder& b, const Problem& p) {
  const Layout& layout = *p.layout;
  const Group ring = leaders(p, p.root).rotated(layout.node_of(p.root));
  const Group node = node_group(p, layout.node_of(p.self));
  const uint32_t v = (layout.node_of(p.self) + layout.nodes() - layout.node_of(p.root)) % layout.nodes();
  // Each chunk goes on to the ranks of the node while the next one travels between nodes.
  const uint32_t head = node.index(ring.ranks[v]);
  const auto pass_on = [&](Range chunk) {
    p.team ? node_bcast(b, node, head, chunk) : bcast_linear(b, node, head, chunk);
  };
  ScatterRing pass(p, ring.size(), data_of(p), pass_on);
  if (ring.has_self()) {
    pass.tell(b, ring);
  } else {
    pass.order(v);
  }
}

void bcast_hierarchical(Builder& b, const Problem& p) {
  const Layout& layout = *p.layout;
  const Group heads = leaders(p, p.root);
  const uint32_t my_node = layout.node_of(p.self);
  const Group node = node_group(p, my_node);
  Chunks(p, data_of(p)).each([&](Range chunk) {
    bcast_binomial(b, heads, layout.node_of(p.root), chunk);
    const uint32_t head = node.index(heads.ranks[my_node]);
    p.team ? node_bcast(b, node, head, chunk) : bcast_binomial(b, node, head, chunk);
  });
}

/// A root that leads no node tells its own first.
void bcast_host_leaders(Builder& b, const Problem& p) {
  const Layout& layout = *p.layout;
  const uint32_t from = layout.node_of(p.root);
  const bool at_root = layout.node_of(p.self) == from;
  const bool root_leads = layout.members(from)[0] == p.root;
  const Group node = node_group(p, layout.node_of(p.self));
  const Range data = data_of(p);
  const auto pass_on = [&](uint32_t root) {
    p.team ? node_bcast(b, node, root, data) : bcast_binomial(b, node, root, data);
  };
  if (at_root && !root_leads) pass_on(node.index(p.root));
  if (node.self == 0) {
    const SharedBy by = between_leaders(p, from);
    at_root ? b.bcast_root(by, data) : b.bcast_leaf(by, data);
  }
  if (!at_root || root_leads) pass_on(0);
}

constexpr Algorithm kBcastAlgorithms[] = {
    {"linear", "the root sends to everybody", "mlog_nP paper, section 5.2", always, bcast_linear},
    {"binomial", "a binomial tree over all ranks", "mlog_nP paper, section 7.2", always, bcast_binomial},
    {"scatter-ring-allgather", "binomial scatter, then a ring over all ranks",
     "multicore collectives paper, section 4.1 (the flat original)", always, bcast_scatter_ring},
    {"leader-ring", "scatter and ring among one leader per node, chunks shared inside nodes meanwhile",
     "multicore collectives paper, section 4.1", always, bcast_leader_ring, always},
    {"hierarchical", "binomial among leaders, then binomial inside nodes, chunk by chunk",
     "mlog_nP paper, sections 6 and 7.1", always, bcast_hierarchical, always},
    {kHostLeaders, "the host's broadcast among leaders, then shared inside nodes", kHostLeadersSource, if_several_nodes,
     bcast_host_leaders},
};

}  // namespace

std::span<const Algorithm> bcast_algorithms() { return kBcastAlgorithms; }

}  // namespace zh::coll
