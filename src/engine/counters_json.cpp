// The counters of a rank as JSON (ZEROHOP_STATS, docs/user/statistics.md) and the ways it chose, for `zerohop info`.
#include <string>

#include "coll/algorithms/algorithms.h"
#include "engine/state.h"

namespace zh::engine {

namespace {

/// Upper bounds (exclusive) of the hybrid paper's table 1: < 1K, 1K-32K, 32K-1M, > 1M.
struct PaperClass {
  const char* name;
  uint32_t first;
  uint32_t last;
};
constexpr PaperClass kPaperClasses[] = {{"<1K", 0, 10}, {"1K-32K", 11, 15}, {"32K-1M", 16, 20}, {">=1M", 21, 43}};

/// Appends to a growing JSON text; keeps track of commas.
class Json {
 public:
  Json& open(char bracket) {
    comma();
    text_ += bracket;
    fresh_ = true;
    return *this;
  }
  Json& close(char bracket) {
    text_ += bracket;
    fresh_ = false;
    return *this;
  }
  Json& key(const char* name) {
    comma();
    text_ += '"';
    text_ += name;
    text_ += "\":";
    fresh_ = true;
    return *this;
  }
  Json& value(uint64_t n) {
    comma();
    text_ += std::to_string(n);
    return *this;
  }
  Json& value(const char* s) {
    comma();
    text_ += '"';
    for (; *s != 0; ++s) {
      if (*s == '"' || *s == '\\') text_ += '\\';
      text_ += *s;
    }
    text_ += '"';
    return *this;
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  void comma() {
    if (!fresh_) text_ += ',';
    fresh_ = false;
  }
  std::string text_;
  bool fresh_ = true;
};

void tallies(Json& json, const p2p::Tally (&table)[p2p::kPaths][p2p::kSizeClasses], const p2p::Tally* of_collectives) {
  json.open('{');
  json.key("by_path").open('{');
  for (uint32_t p = 0; p < p2p::kPaths; ++p) {
    json.key(p2p::kPathNames[p]).open('[');
    for (uint32_t c = 0; c < p2p::kSizeClasses; ++c) {
      const p2p::Tally& t = table[p][c];
      if (t.messages == 0) continue;
      json.open('{').key("below_bytes").value(uint64_t{1} << c);
      json.key("messages").value(t.messages).key("bytes").value(t.bytes).close('}');
    }
    json.close(']');
  }
  json.close('}');
  json.key("by_size").open('[');
  for (const PaperClass& k : kPaperClasses) {
    p2p::Tally sum;
    for (uint32_t c = k.first; c <= k.last; ++c) {
      for (const auto& row : table) {
        sum.messages += row[c].messages;
        sum.bytes += row[c].bytes;
      }
    }
    json.open('{').key("size").value(k.name);
    json.key("messages").value(sum.messages).key("bytes").value(sum.bytes).close('}');
  }
  json.close(']');
  if (of_collectives != nullptr) {
    json.key("of_collectives").open('{').key("messages").value(of_collectives->messages);
    json.key("bytes").value(of_collectives->bytes).close('}');
  }
  json.close('}');
}

void mapped_memory(Json& json, const p2p::Counters& c, const copy::WindowStats& windows) {
  json.open('{').key("by_one_end").value(c.mapped_by_one).key("by_both_ends").value(c.mapped_by_both);
  json.key("edge_bytes").value(c.edge_bytes);
  json.key("first_uses").value(c.first_uses).key("revoked").value(c.revoked);
  json.key("windows_mapped").value(windows.mapped).key("windows_unmapped").value(windows.unmapped);
  json.key("pages_mapped_in").value(windows.pages).key("windows_refused").value(windows.refused).close('}');
}

/// `calls`: by place in coll::algorithms().
void schedules(Json& json, coll::Collective collective, const std::vector<uint64_t>& calls) {
  for (size_t i = 0; i < calls.size(); ++i) {
    if (calls[i] == 0) continue;
    const std::string name = std::string(coll::name_of(collective)).append(" by ");
    json.key((name + std::string(coll::algorithms(collective)[i].name)).c_str()).value(calls[i]);
  }
}

void shared_heap(Json& json, const heap::SharedHeap& heap) {
  const heap::Stats s = heap.stats();
  json.open('{').key("declined_why").value(heap.declined() != nullptr ? heap.declined() : "");
  json.key("shared_bytes").value(s.shared_bytes).key("adopted").value(s.adopted);
  json.key("adopted_bytes").value(s.adopted_bytes).key("returned_bytes").value(s.returned_bytes);
  json.key("kept_blocks").value(s.kept_blocks).key("kept_bytes").value(s.kept_bytes);
  json.key("reused_blocks").value(s.reused_blocks).key("first_uses").value(s.first_uses);
  json.key("declined").value(s.declined).key("declined_bytes").value(s.declined_bytes);
  json.key("declined_latest").value(s.declined_why);
  json.key("saved_ns").value(s.saved_ns).key("spent_ns").value(s.spent_ns);
  json.key("forks").value(s.forks).key("forks_copied").value(s.forks_copied).close('}');
}

/// Number of its socket among those of the node's ranks.
uint64_t socket_of(const node::Node& node, uint32_t index) {
  const auto first_of = [&](uint32_t rank) {
    uint32_t first = 0;
    while (first != rank && node.level(rank, first) == node::Level::kOtherSocket) ++first;
    return first;
  };
  uint64_t before = 0;
  for (uint32_t i = 0; i < first_of(index); ++i) before += first_of(i) == i ? 1 : 0;
  return before;
}

void sent_to(Json& json, int32_t world_rank, const p2p::Tally& sent) {
  if (sent.messages == 0) return;
  json.open('{').key("rank").value(static_cast<uint64_t>(world_rank));
  json.key("messages").value(sent.messages).key("bytes").value(sent.bytes).close('}');
}

void identity(Json& json, const node::Node& node, uint32_t index) {
  json.key("rank").value(static_cast<uint64_t>(node.world_rank(index)));
  json.key("node_index").value(index);
  json.key("node_ranks").value(node.size());
  json.key("node").value(node.node_of(node.world_rank(index)));
  json.key("socket").value(socket_of(node, index));
}

/// What a rank has told in shared memory.
void told_by(Json& json, const p2p::PartShm& part) {
  const p2p::Counters& c = part.account.counters;
  tallies(json.key("sent"), c.sent, &c.of_collectives);
  tallies(json.key("received"), c.received, nullptr);
  json.key("unexpected").open('{').key("total").value(part.queues.arrivals.load_relaxed());
  json.key("high_water").value(part.queues.unexpected_high.load_relaxed()).close('}');
  json.key("skew").open('{').key("switched_on").value(c.skew_on).key("switched_off").value(c.skew_off);
  json.key("messages_through_cells").value(c.skew_detours).close('}');
  json.key("single_copies").open('{').key("by_sender").value(c.copies_by_sender);
  json.key("by_receiver").value(c.copies_by_receiver).key("by_both").value(c.copies_by_both);
  json.key("bytes_by_sender").value(c.bytes_by_sender).key("bytes_by_receiver").value(c.bytes_by_receiver).close('}');
  json.key("matched_for_peers").open('{').key("turns").value(c.peer_turns);
  json.key("envelopes").value(c.peer_envelopes).close('}');
  json.key("receivers_in_host").open('{').key("helper_calls").value(c.helpers_called);
  json.key("entries_lent").value(c.entries_lent).key("buffered_messages").value(c.buffered.messages);
  json.key("buffered_bytes").value(c.buffered.bytes).close('}');
  json.key("sends_parked").value(c.parked).key("sends_told_of").value(c.unparked);
  json.key("ring_full").value(c.ring_full).key("rings_grown").value(c.rings_grown);
  json.key("shared_cpu").value(c.company).key("busy_cpu").value(c.busy);
  json.key("distance_changes").value(c.distance_changes);
  json.key("slept").value(c.slept).key("woken").value(c.woken);
}

}  // namespace

std::string Rank::stats_json() const {
  State& s = *state_;
  Guard guard(s);
  const p2p::Counters& c = s.endpoint->counters();
  Json json;
  json.open('{');
  identity(json, node_, node_.self());
  told_by(json, s.endpoint->part());
  mapped_memory(json.key("mapped"), c, s.endpoint->memory().windows());
  json.key("collectives").open('{').key("mapped_accesses").value(c.collective_mapped.messages);
  json.key("mapped_bytes").value(c.collective_mapped.bytes).key("cma_accesses").value(c.collective_cma.messages);
  json.key("cma_bytes").value(c.collective_cma.bytes).key("ko_accesses").value(c.collective_module.messages);
  json.key("ko_bytes").value(c.collective_module.bytes).key("staged_reductions").value(s.staged.messages);
  json.key("staged_bytes").value(s.staged.bytes).close('}');
  json.key("schedules").open('{');
  for (size_t i = 0; i < s.schedules.size(); ++i) schedules(json, static_cast<coll::Collective>(i), s.schedules[i]);
  json.close('}');
  if (s.internode != nullptr) {
    const Internode::Stats between = s.internode->stats();
    json.key("between_nodes").open('{').key("sent").value(between.messages);
    json.key("sent_bytes").value(between.bytes);
    json.key("host_collectives").value(s.by_leaders.messages);
    json.key("host_collective_bytes").value(s.by_leaders.bytes).close('}');
  }
  if (s.config.heap != nullptr) shared_heap(json.key("heap"), *s.config.heap);
  if (s.by_receiver) {
    json.key("peers").open('[');
    for (uint32_t i = 0; s.endpoint->sent_to() != nullptr && i < node_.size(); ++i) {
      sent_to(json, node_.world_rank(i), s.endpoint->sent_to()[i]);
    }
    for (const auto& [rank, sent] : s.sent_by_host) sent_to(json, rank, sent);
    json.close(']');
  }
  json.key("helper_started").value(s.has_helper ? 1 : 0);
  json.key("memory_bytes").value(s.endpoint->backed_bytes());
  json.key("fallbacks").open('{');
  if (c.pull_failed != 0) json.key("single copy by receiver ended early").value(c.pull_failed);
  if (c.push_failed != 0) json.key("single copy by sender ended early").value(c.push_failed);
  for (const auto& [reason, count] : s.fallbacks) json.key(reason).value(count);
  json.close('}').close('}');
  return json.take();
}

std::string Rank::told_json(uint32_t index) const {
  Json json;
  json.open('{');
  identity(json, node_, index);
  told_by(json, state_->endpoint->part(index));
  return json.close('}').take();
}

void Rank::count_collective_message(uint64_t bytes) {
  Guard guard(*state_);
  account().counters.of_collectives.add(bytes);
}

void Rank::count_by_receiver() {
  Guard guard(*state_);
  state_->endpoint->count_by_receiver();
  receives_short_ = false;
  state_->by_receiver = true;
}

void Rank::count_sent_by_host(int32_t world_rank, uint64_t bytes) {
  Guard guard(*state_);
  if (state_->by_receiver) state_->sent_by_host[world_rank].add(bytes);
  state_->endpoint->tell({.bytes = bytes, .peer = world_rank, .kind = p2p::Event::Kind::kSentByHost});
}

void Rank::time_waits() {
  Guard guard(*state_);
  state_->timed = true;
}

void Rank::count_leader_step(uint64_t bytes) {
  Guard guard(*state_);
  state_->by_leaders.add(bytes);
}

void Rank::count_call(uint64_t key, uint64_t bytes) {
  Guard guard(*state_);
  account().calls.add(key, bytes);
}

void Rank::tell(const p2p::Event& event) {
  Guard guard(*state_);
  state_->endpoint->tell(event);
}

p2p::AccountShm& Rank::account() const { return account(node_.self()); }
p2p::AccountShm& Rank::account(uint32_t index) const { return state_->endpoint->part(index).account; }

}  // namespace zh::engine
