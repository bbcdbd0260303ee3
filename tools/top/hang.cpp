// See hang.h.
#include "tools/top/hang.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cstdio>

#include "os/process.h"
#include "os/segment.h"
#include "tools/top/words.h"

namespace zh::tools::top {
namespace {

constexpr int kLookMs = 1000;

uint64_t messages_of(const RankLook& rank) {
  uint64_t sum = 0;
  for (size_t i = 0; i < p2p::kPaths; ++i) sum += rank.sent[i].messages + rank.received[i].messages;
  return sum;
}

bool is_still(const RankLook& a, const RankLook& b) {
  return a.rank == b.rank && a.state == b.state && a.wait.began_ns == b.wait.began_ns &&
         a.wait.still_ns == b.wait.still_ns && a.host_ticks == b.host_ticks && a.unexpected == b.unexpected &&
         messages_of(a) == messages_of(b);
}

bool waits_for(const RankLook& rank, uint64_t ns, uint64_t now_ns) {
  const bool waits = rank.state == RankState::kWaiting || rank.state == RankState::kInHost;
  return (waits || rank.state == RankState::kPolling) && doing_for_ns(rank, now_ns) >= ns;
}

}  // namespace

std::string HangWatch::see(const JobLook& now) {
  const bool still = std::equal(last_.ranks.begin(), last_.ranks.end(), now.ranks.begin(), now.ranks.end(), is_still);
  const JobLook before = std::exchange(last_, now);
  if (!still || moved_ns_ == 0) {
    moved_ns_ = now.seen_ns;
    reported_ = false;
  }
  const uint64_t still_ns = now.seen_ns - moved_ns_;
  const bool waits = std::any_of(now.ranks.begin(), now.ranks.end(),
                                 [&](const RankLook& r) { return waits_for(r, patience_ns_, now.seen_ns); });
  if (reported_ || !waits || still_ns < patience_ns_) return "";
  reported_ = true;
  std::string report =
      fmt::format("zerohop: job {}: nothing has moved for {} on this node\n", printable(now.id), duration(still_ns));
  for (const std::string& line : rank_lines(now)) report += "zerohop:   " + line + "\n";
  const std::string says = verdict_text(now, judge(before, now));
  return says.empty() ? report : report + "zerohop: " + says + "\n";
}

void watch(pid_t pid, uint64_t patience_ns) {
  const os::Descriptor handle(std::max(os::open_pidfd(pid), -1));
  std::unique_ptr<Job> job;
  HangWatch hangs(patience_ns);
  for (;;) {
    pollfd end{handle.get(), POLLIN, 0};  // without a handle this only waits
    poll(&end, 1, kLookMs);
    if (os::process_ended(handle.get(), pid)) return;
    if (job != nullptr && job->ended()) job.reset();
    if (job == nullptr) {
      std::vector<std::unique_ptr<Job>> jobs = find_jobs(pid);
      if (jobs.empty()) continue;
      job = std::move(jobs.front());
      hangs = HangWatch(patience_ns);
    }
    const std::string report = hangs.see(job->look());
    std::fwrite(report.data(), 1, report.size(), stderr);
  }
}

}  // namespace zh::tools::top
