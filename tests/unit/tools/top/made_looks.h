// Looks at a job that never was, made by hand. For the tests of whatever judges, tells and draws them.
#pragma once

#include <utility>
#include <vector>

#include "tools/top/look.h"

namespace zh::tools::top::test {

using p2p::Activity;
constexpr uint64_t kSecond = 1'000'000'000;

inline RankLook in_state(int rank, RankState state) {
  RankLook look;
  look.rank = rank;
  look.pid = 1000 + rank;
  look.state = state;
  return look;
}

inline RankLook computing(int rank) { return in_state(rank, RankState::kComputing); }

inline RankLook waiting(int rank, const std::vector<int>& peers, const char* call = "MPI_Recv",
                        Activity::Waits kind = Activity::Waits::kForMessage) {
  RankLook look = in_state(rank, RankState::kWaiting);
  look.call = call;
  look.wait.waits = kind;
  look.wait.tag = 7;
  look.wait.bytes = 4096;
  look.wait.context = 42;
  look.wait.set_comm("MPI_COMM_WORLD");
  look.wait.began_ns = look.wait.still_ns = 5 * kSecond;
  for (const int peer : peers) look.wait.add_peer(peer);
  return look;
}

inline RankLook any_of(RankLook look) {
  look.wait.any = true;
  return look;
}

/// Ranks 0, 1, 2, ... of one node.
inline JobLook job_of(std::vector<RankLook> ranks, uint64_t seen_ns = 20 * kSecond) {
  JobLook job;
  job.id = "4711";
  job.pid = 1000;
  job.program = "app";
  job.seen_ns = seen_ns;
  job.world_size = static_cast<uint32_t>(ranks.size());
  job.ranks = std::move(ranks);
  return job;
}

/// The same a second before.
inline JobLook earlier(JobLook job) {
  job.seen_ns -= kSecond;
  return job;
}

}  // namespace zh::tools::top::test
