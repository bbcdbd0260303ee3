// What a rank waits for, in the words of p2p/activity.h. For the files of this folder.
#pragma once

#include "p2p/activity.h"
#include "p2p/types.h"

namespace zh::node {
class Node;
}

namespace zh::engine {

/// That args are waited for.
void told(const node::Node& node, const p2p::SendArgs& args, p2p::Activity* out);
void told(const node::Node& node, const p2p::RecvArgs& args, p2p::Activity* out);
/// Node-local indices of peers become ranks of the world.
void to_world_ranks(const node::Node& node, p2p::Activity* out);

}  // namespace zh::engine
