// What a Node does after joining: backing memory, asking for life. Joining itself is joiner.cpp's.
#include "node/node.h"

#include <algorithm>
#include <cerrno>

#include "node/segment_map.h"
#include "os/affinity.h"
#include "os/clock.h"
#include "os/futex.h"
#include "os/process.h"
#include "os/segment.h"
#include "os/vm.h"

namespace zh::node {

Node::~Node() {
  os::unmap(base_, segment_bytes_);
  os::close_fd(segment_fd_);
  for (const int fd : pid_fds_) os::close_fd(fd);
}

Status Node::reserve(Offset offset, uint64_t bytes) {
  const Offset begin = offset / page_bytes_ * page_bytes_;
  const Offset end = round_up(offset + bytes, page_bytes_);
  const auto within = [&](Offset from, uint64_t length) {
    return begin >= from && end <= from + length && end >= begin;
  };
  const bool in_annex = within(annex(self_), annex_bytes_);
  if (!in_annex && !within(part(self_), rank_bytes_)) {
    return {Code::kInvalid, "reserve: not within this rank's part of the segment"};
  }
  if (in_annex && end != begin && !open(end - 1)) return {Code::kNoMemory, "an annex of the segment cannot be opened"};
  // Above a cgroup's limit fallocate does not fail: the kernel kills a process. So ask first. Where there was no limit
  // at the start, a send opens no files.
  const uint64_t headroom =
      memory_limited_ ? os::cgroup_memory(os::find_cgroup()).headroom() : uint64_t{os::kUnlimited};
  if (end - begin > headroom) {
    return {Code::kNoMemory,
            "the memory limit of the cgroup (memory.max) leaves no room for more of the segment: raise it or lower "
            "ZEROHOP_MEMORY",
            ENOMEM};
  }
  if (Status s = os::back_range(segment_fd_, begin, end - begin); !s.ok()) {
    if (s.code() != Code::kNoMemory) return s;
    if (os::free_bytes_of(segment_fd_) != os::kUnlimited) {
      return {Code::kNoMemory,
              "the file system of the segment is full (df -h /dev/shm): make it larger (containers: --shm-size=1g) or "
              "lower "
              "ZEROHOP_MEMORY",
              s.error()};
    }
    return {Code::kNoMemory, "no memory for the segment (free -m; vm.overcommit_memory): lower ZEROHOP_MEMORY",
            s.error()};
  }
  os::populate(base_ + begin, end - begin);
  return kOk;
}

// Another rank's annex opens here as far as that rank has said something about it, in large steps.
bool Node::open_annex(Offset offset) {
  constexpr uint64_t kStep = 16 << 20;
  const uint64_t from_first = offset - annexes_;
  const auto index = static_cast<uint32_t>(from_first / annex_bytes_);
  const uint64_t needed = from_first % annex_bytes_ + 1;
  uint64_t& opened = annex_opened_[index];
  if (needed <= opened) return true;
  const uint64_t to = std::min(round_up(needed, kStep), annex_bytes_);
  if (!os::make_writable(base_ + annex(index) + opened, to - opened).ok()) return false;
  opened = to;
  return true;
}

void Node::release(Offset offset, uint64_t bytes) {
  const Offset own = part(self_);
  if (offset < own || offset + bytes > own + rank_bytes_) return;
  (void)os::release_range(segment_fd_, offset, bytes);
}

void Node::leave_word(uint64_t word) {
  at<SlotShm>(base_, tables_.slots)[self_].word.store_release(word);  // N4 -> N4
}

uint64_t Node::word_of(uint32_t index) const {
  return at<SlotShm>(base_, tables_.slots)[index].word.load_acquire();  // N4 -> N4: what the word tells of
}

Status Node::agree(Bootstrap& world, const Status& mine) {
  if (is_whole_job() && meet(mine.ok())) return kOk;
  const Status told = mine.ok() ? kOk : failure_of(world.rank(), mine);
  uint64_t failed = mine.ok() ? ~uint64_t{0} : static_cast<uint64_t>(world.rank());
  if (Status s = world.least({&failed, 1}); !s.ok()) return s;
  return failed == ~uint64_t{0} ? kOk : world.tell(static_cast<int>(failed), told);
}

void Node::come(bool well) {
  SlotShm& own = at<SlotShm>(base_, tables_.slots)[self_];
  const uint32_t meeting = own.met.load_relaxed() + 1;
  if (!well) own.failed.store_relaxed(meeting);
  own.met.store_release(meeting);  // N5 -> N5
  os::futex_wake(own.met, os::kWakeAll);
}

bool Node::have_come(bool* well) {
  const SlotShm* const slots = at<SlotShm>(base_, tables_.slots);
  const uint32_t meeting = slots[self_].met.load_relaxed();
  *well = true;
  for (uint32_t i = 0; i < size_; ++i) {
    if (slots[i].met.load_acquire() < meeting) {  // N5 -> N5: all that came before it
      if (alive(i)) return false;
      *well = false;
    }
    *well = *well && slots[i].failed.load_relaxed() != meeting;
  }
  return true;
}

// A host's collective would keep a processor that the others want.
bool Node::meet(bool well) {
  constexpr uint32_t kLooks = 1000;  // before sleeping
  constexpr uint64_t kLookNs = 10'000'000;
  come(well);
  const SlotShm* const slots = at<SlotShm>(base_, tables_.slots);
  const uint32_t meeting = slots[self_].met.load_relaxed();
  for (uint32_t looks = oversubscribed() ? kLooks : 0; !have_come(&well); ++looks) {
    if (looks < kLooks) {
      cpu_relax();
      continue;
    }
    for (uint32_t i = 0; i < size_; ++i) {
      const uint32_t seen = slots[i].met.load_relaxed();
      if (seen < meeting) os::futex_wait(slots[i].met, seen, kLookNs);
    }
  }
  return well;
}

bool Node::alive(uint32_t index) {
  if (index == self_ || pids_[index] == pids_[self_]) return true;
  if (ended_[index] != 0) return false;
  const uint64_t now = os::ticks();
  if (now < next_look_[index]) return true;
  next_look_[index] = now + os::ticks_in_us(2000);
  if (!ended(index)) return true;
  ended_[index] = 1;
  return false;
}

bool Node::ended(uint32_t index) const {
  if (pids_[index] == pids_[self_]) return false;
  if (pid_fds_[index] == -1) return false;  // its pid means nothing here (another PID namespace)
  return os::process_ended(pid_fds_[index], pids_[index]);
}

}  // namespace zh::node
