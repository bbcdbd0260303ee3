// What a turn of a rank costs that has heard of many senders, all of them silent now; and a message of one of them,
// from its isend() to the end of a receive from anywhere that was posted before. Threads are the ranks.
//   turn_bench [polled senders]
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "os/clock.h"
#include "os/yield.h"
#include "p2p/endpoint.h"
#include "support/fork_world.h"

namespace zh::test {
namespace {

constexpr int kTurns = 100'000;
constexpr int kMessages = 20'000;

struct Peer {
  std::unique_ptr<node::Node> node;
  std::unique_ptr<p2p::Endpoint> endpoint;

  void finish(p2p::Request* request) {
    while (request->done.load_acquire() == 0) {
      if (!endpoint->turn()) os::yield_cpu();
    }
    endpoint->release(request);
  }
  p2p::Request* send(uint32_t dest, uint64_t* token) {
    p2p::SendArgs args;
    args.dest = dest;
    args.context = 5;
    args.data = {reinterpret_cast<std::byte*>(token), sizeof *token, nullptr};
    return endpoint->sends().isend(args);
  }
  p2p::Request* receive(uint64_t* token) {
    p2p::RecvArgs args;
    args.context = 5;
    args.buffer = {reinterpret_cast<std::byte*>(token), sizeof *token, nullptr};
    return endpoint->receives().irecv(args);
  }
};

double ns_each(uint64_t since, int times) { return static_cast<double>(os::now_ns() - since) / times; }

void measure(TestBootstrap& world, uint32_t polled) {
  Peer me;
  node::JoinConfig nodes;
  nodes.measure_line = false;
  nodes.rank_bytes = 16 << 20;
  p2p::EndpointConfig config;
  config.polled_senders = polled;
  const bool open = node::Node::join(world, nodes, &me.node).ok() &&
                    p2p::Endpoint::open(*me.node, config, &me.endpoint).ok() && world.barrier().ok();
  if (!open) std::abort();
  const int senders = world.size() - 1;
  uint64_t token = 0;
  if (world.rank() != 0) {
    me.finish(me.send(0, &token));
  } else {
    for (int i = 0; i < senders; ++i) me.finish(me.receive(&token));
  }
  if (!world.barrier().ok()) std::abort();
  if (world.rank() == 0) {
    for (int i = 0; i < kTurns / 10; ++i) me.endpoint->turn();
    const uint64_t start = os::now_ns();
    for (int i = 0; i < kTurns; ++i) me.endpoint->turn();
    std::printf("%4d senders, %3u polled: %7.1f ns a turn", senders, polled, ns_each(start, kTurns));
  }
  if (!world.barrier().ok()) std::abort();
  // The last rank sends, answered by none: both costs of a bell, and of the ring that it opens.
  if (world.rank() == senders) {
    const uint64_t start = os::now_ns();
    for (int i = 0; i < kMessages; ++i) me.finish(me.send(0, &token));
    std::printf("\n");
    std::printf("                              %7.1f ns a message, as sent\n", ns_each(start, kMessages));
  } else if (world.rank() == 0) {
    for (int i = 0; i < kMessages; ++i) me.finish(me.receive(&token));
  }
  if (!world.barrier().ok()) std::abort();
}

}  // namespace
}  // namespace zh::test

int main(int argc, char** argv) {
  const auto polled = static_cast<uint32_t>(argc > 1 ? std::atoi(argv[1]) : 8);
  for (const int senders : {2, 8, 32, 128, 191}) {
    zh::test::run_ranks(zh::test::World::kThreads, senders + 1,
                        [&](zh::test::TestBootstrap& world) { zh::test::measure(world, polled); });
  }
  return 0;
}
