// See to_json() in draw.h. Times are seconds; what is unknown is left out.
#include "tools/top/draw.h"
#include "tools/top/words.h"

namespace zh::tools::top {
namespace {

using Json = nlohmann::json;

double seconds(uint64_t ns) { return static_cast<double>(ns) * 1e-9; }
double seconds_between(uint64_t from_ns, uint64_t to_ns) { return to_ns > from_ns ? seconds(to_ns - from_ns) : 0; }

Json wait_json(const RankLook& rank, uint64_t now_ns) {
  const p2p::Activity& wait = rank.wait;
  constexpr const char* kKinds[] = {"nothing", "host", "untold", "message", "receive", "members"};
  const auto kind = static_cast<size_t>(wait.waits);
  Json out = {{"for", kind < std::size(kKinds) ? kKinds[kind] : "untold"},
              {"any", wait.any},
              {"ranks", std::vector<int>(wait.peers.begin(), wait.peers.begin() + wait.peers_told)},
              {"requests", wait.requests},
              {"bytes", wait.bytes},
              {"context", wait.context},
              {"communicator", std::string(wait.comm_name())},
              {"seconds", seconds_between(wait.began_ns, now_ns)},
              {"still_seconds", seconds_between(wait.still_ns, now_ns)}};
  if (wait.tag != p2p::kAnyTag) out["tag"] = wait.tag;
  return out;
}

Json traffic_json(const JobLook& before, const JobLook& now, const RankLook& rank) {
  Json out = Json::object();
  for (uint32_t i = 0; i < p2p::kPaths; ++i) {
    const Traffic& sent = rank.sent[i];
    const Traffic& received = rank.received[i];
    if (sent.messages + received.messages == 0) continue;
    const Rates rates = rates_of(before, now, rank, static_cast<p2p::Path>(i));
    out[kPathNames[i]] = {{"sent_messages", sent.messages},         {"sent_bytes", sent.bytes},
                          {"received_messages", received.messages}, {"received_bytes", received.bytes},
                          {"messages_per_second", rates.messages},  {"bytes_per_second", rates.bytes}};
  }
  return out;
}

Json rank_json(const JobLook& before, const JobLook& now, const RankLook& rank) {
  Json out = {{"rank", rank.rank},
              {"state", to_string(rank.state)},
              {"doing", doing(rank)},
              {"traffic", traffic_json(before, now, rank)},
              {"unexpected", rank.unexpected},
              {"unexpected_high", rank.unexpected_high},
              {"posted", rank.posted},
              {"backed_bytes", rank.backed_bytes},
              {"since_last_turn_seconds", seconds(rank.away_ns)}};
  if (rank.pid != 0) out["pid"] = rank.pid;
  if (!rank.call.empty()) out["call"] = rank.call;
  if (rank.state == RankState::kPolling) out["polls_seconds"] = seconds(rank.polls_ns);
  if (rank.state == RankState::kInHost) out["host_seconds"] = seconds(rank.host_ns);
  if (rank.state == RankState::kWaiting) out["waits"] = wait_json(rank, now.seen_ns);
  if (const double cpu = cpu_percent(before, now, rank); cpu >= 0) out["cpu_percent"] = cpu;
  return out;
}

}  // namespace

Json to_json(const JobLook& before, const JobLook& now) {
  Json out = {{"id", now.id}, {"pid", now.pid}, {"program", now.program}};
  if (!now.problem.empty()) {
    out["problem"] = now.problem;
    return out;
  }
  const Verdict verdict = judge(before, now);
  out["world_size"] = now.world_size;
  out["nodes"] = now.nodes;
  out["verdict"] = {{"text", verdict_text(now, verdict)}, {"deadlock", verdict.cycle}, {"blocked", verdict.blocked}};
  if (verdict.culprit >= 0) {
    const RankLook* culprit = now.rank(verdict.culprit);
    out["verdict"]["culprit"] = verdict.culprit;
    out["verdict"]["culprit_is"] = to_string(culprit == nullptr ? RankState::kElsewhere : culprit->state);
    out["verdict"]["waiters"] = verdict.waiters;
  }
  out["ranks"] = Json::array();
  for (const RankLook& rank : now.ranks) out["ranks"].push_back(rank_json(before, now, rank));
  return out;
}

}  // namespace zh::tools::top
