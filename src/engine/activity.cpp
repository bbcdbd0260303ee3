// See activity.h, and Rank's functions for whoever looks at the job from outside.
#include "engine/activity.h"

#include <algorithm>

#include "engine/contexts.h"
#include "engine/state.h"
#include "p2p/request.h"

namespace zh::engine {

using p2p::Activity;

void told(const node::Node& node, const p2p::SendArgs& args, Activity* out) {
  out->waits = Activity::Waits::kForReceive;
  out->tag = args.tag;
  out->bytes = args.data.bytes;
  out->context = args.context;
  out->add_peer(node.world_rank(args.dest));
}

void told(const node::Node& node, const p2p::RecvArgs& args, Activity* out) {
  out->waits = Activity::Waits::kForMessage;
  out->tag = args.tag;
  out->bytes = args.buffer.bytes;
  out->context = args.context;
  out->any = args.peer == p2p::kAnyPeer;
  if (!out->any) out->add_peer(node.world_rank(static_cast<uint32_t>(args.peer)));
}

void to_world_ranks(const node::Node& node, Activity* out) {
  for (uint32_t i = 0; i < out->peers_told; ++i) {
    out->peers[i] = node.world_rank(static_cast<uint32_t>(out->peers[i]));
  }
}

void Rank::tell(const Request* request, Activity* out) const {
  Guard guard(*state_);
  const p2p::Request& r = *request;
  if (r.is_send) {
    if (r.peer < 0) return;  // what stands for all sends that were complete at once
    told(node_, SendArgs{static_cast<uint32_t>(r.peer), r.source, r.tag, r.context, r.buffer, r.mode}, out);
  } else {
    told(node_, RecvArgs{r.peer, r.source, r.tag, r.context, r.buffer}, out);
  }
}

void Rank::name_context(uint64_t context, std::string_view name) {
  Guard guard(*state_);
  auto& names = state_->context_names;
  if (name.empty() && state_->config.timeline) return;  // which tells of communicators that have gone
  std::erase_if(names, [context](const auto& known) { return known.first == context; });
  if (!name.empty()) names.emplace_back(context, name);
}

std::string Rank::name_of_context(uint64_t context) const {
  Guard guard(*state_);
  return std::string(state_->name_of(context));
}

std::string_view Rank::State::name_of(uint64_t context) const {
  const auto is = [context](const auto& known) {
    return context == known.first || context == nonblocking_context(known.first) ||
           context == team_context(known.first);
  };
  const auto known = std::find_if(context_names.begin(), context_names.end(), is);
  return known != context_names.end() ? std::string_view(known->second) : std::string_view();
}

}  // namespace zh::engine
