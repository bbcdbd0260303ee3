// Who a process is and whether it lives. Called by src/node; refuses to know ranks.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace zh::os {

/// A handle that survives reuse of the pid; -errno where the kernel or a filter refuses pidfd_open.
[[nodiscard]] int open_pidfd(pid_t pid);
/// Whether the process behind `pidfd` has ended; with pidfd < 0 asks by `pid` (a zombie counts as ended).
[[nodiscard]] bool process_ended(int pidfd, pid_t pid);
/// Ends this process (SIGKILL) when the thread that made it ends; `parent` is the maker's pid as seen before fork().
void die_with_parent(pid_t parent);

/// Same on every process of one running kernel, different after a restart; "" if hidden.
[[nodiscard]] std::string boot_id();
[[nodiscard]] std::string host_name();
[[nodiscard]] uint32_t user_id();
[[nodiscard]] pid_t process_id();
/// Thread id of the caller, for messages.
[[nodiscard]] pid_t thread_id();
/// Inode of this process's namespace of a kind: "pid", "user", "ipc", "mnt", "net", "cgroup"; 0 if unknown.
[[nodiscard]] uint64_t namespace_id(const char* kind);
/// Value of "Seccomp:" in /proc/self/status: 0 off, 1 strict, 2 filter, -1 unknown.
[[nodiscard]] int seccomp_mode();
/// How often this thread has lost its processor, or offered it to others who took it, since it began; not: slept.
[[nodiscard]] uint64_t thread_preemptions();
/// For how long this thread could have run and had no processor, since it began; 0 where the kernel does not count it.
[[nodiscard]] uint64_t thread_run_delay_ns();
/// Whether this thread, when it wakes, waits until others have had their time (SCHED_BATCH, SCHED_IDLE).
[[nodiscard]] bool wakes_late();
/// Small files of /proc and /sys, without the trailing newline; "" if unreadable.
[[nodiscard]] std::string read_small_file(const char* path);
/// A number that differs between processes, threads and calls.
[[nodiscard]] uint64_t random_token();

}  // namespace zh::os
