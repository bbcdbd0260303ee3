// The system calls' wrappers against the real system.
// label not-emulated: CopyModule[.]SaysWhy|TheAddressSpaceLimit|PeerMem[.]Errors|Process[.]Ends
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "os/affinity.h"
#include "os/clock.h"
#include "os/copy_module.h"
#include "os/devices.h"
#include "os/futex.h"
#include "os/peer_mem.h"
#include "os/probe.h"
#include "os/process.h"
#include "os/room.h"
#include "os/segment.h"
#include "os/vm.h"
#include "support/folder.h"
#include "support/refused_call.h"

namespace zh::os {
namespace {

using test::Folder;

/// How a child ends that runs body(), its exit code; 100: by a signal.
template <typename Body>
int exit_code_of(const Body& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

/// The kernel refuses to read what may not be touched.
bool kernel_reads(const std::byte* p) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const bool could = write(ends[1], p, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return could;
}

TEST(CopyModule, SaysWhyThereIsNone) {
  const Folder folder;
  const std::string path = folder.path() + "/device";
  std::unique_ptr<CopyModule> module;
  Status s = open_copy_module(path.c_str(), &module);
  EXPECT_EQ(s.code(), Code::kNotSupported);
  EXPECT_NE(s.text().find("not loaded"), std::string::npos) << s.text();
  ASSERT_EQ(close(open(path.c_str(), O_CREAT | O_WRONLY, 0600)), 0);
  ASSERT_TRUE(open_copy_module(path.c_str(), &module).ok());
  uint32_t member = 0;
  s = module->join({{1, 2, 3, 4}}, &member);
  EXPECT_EQ(s.error(), ENOTTY) << "it is another kind of file";
  std::byte memory[64];
  EXPECT_EQ(module->let_in(memory, sizeof memory, true), -ENOTTY);
  const iovec piece{memory, sizeof memory};
  EXPECT_EQ(module->read(1, &piece, 1, &piece, 1), -ENOTTY);
  EXPECT_EQ(module->write(1, &piece, 1, &piece, 1), -ENOTTY);
}

TEST(Segment, MemfdIsSharedAndSparse) {
  Descriptor fd;
  ASSERT_TRUE(make_memfd("zh-test", 1 << 20, &fd).ok());
  std::byte *a = nullptr, *b = nullptr;
  ASSERT_TRUE(map_shared(fd.get(), 1 << 20, &a).ok());
  ASSERT_TRUE(map_shared_range(fd.get(), 4096, 4096, false, &b).ok());
  ASSERT_TRUE(back_range(fd.get(), 4096, 4096).ok());
  populate(a + 4096, 4096);
  std::memcpy(a + 4096, "hello", 6);
  EXPECT_STREQ(reinterpret_cast<const char*>(b), "hello");
  ASSERT_TRUE(release_range(fd.get(), 4096, 4096).ok());
  EXPECT_EQ(static_cast<int>(b[0]), 0);
  unmap(a, 1 << 20);
  unmap(b, 4096);
}

TEST(Segment, RoomIsFoundWithoutFallocate) {
  for (const unsigned error : {ENOSYS, EPERM, EOPNOTSUPP}) {
    const int code = exit_code_of([&] {
      Descriptor fd;
      if (!make_memfd("zh-test", 1 << 20, &fd).ok()) return 8;
      std::byte* a = nullptr;
      if (!map_shared(fd.get(), 1 << 20, &a).ok()) return 7;
      a[4096] = std::byte{5};
      test::refuse_call(SYS_fallocate, SECCOMP_RET_ERRNO | error);
      if (fallocate(fd.get(), FALLOC_FL_KEEP_SIZE, 0, 4096) == 0) return 6;
      if (!back_range(fd.get(), 4096, 8192).ok()) return 5;
      struct stat info {};
      if (fstat(fd.get(), &info) != 0 || info.st_blocks * 512 < 8192) return 4;
      if (a[4096] != std::byte{5}) return 3;
      return back_range(fd.get(), 1 << 20, 4096).ok() ? 2 : 0;  // behind the end there is none
    });
    if (code == 9) GTEST_SKIP() << "no filters of system calls here";
    EXPECT_EQ(code, 0) << error;
  }
}

TEST(Segment, MappingBeyondTheEndIsRefused) {
  Descriptor fd;
  ASSERT_TRUE(make_memfd("zh-test", 8192, &fd).ok());
  std::byte* p = nullptr;
  EXPECT_EQ(map_shared(fd.get(), 16384, &p).code(), Code::kInvalid);
}

TEST(Segment, AFileLeavesNoName) {
  Folder folder;
  Descriptor fd;
  std::string path;
  ASSERT_TRUE(make_file(folder.path(), 8192, false, &fd, &path).ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  ASSERT_TRUE(make_file(folder.path(), 8192, true, &fd, &path).ok());
  Descriptor again;
  ASSERT_TRUE(open_path(path, &again).ok());
  remove_name(path);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_EQ(make_file(folder.path() + "/none", 8192, false, &fd, &path).error(), ENOENT);
}

TEST(Segment, TheFileSizeLimitIsAnErrorNotASignal) {
  const int code = exit_code_of([] {
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    Descriptor fd;
    return make_memfd("zh-test", 1 << 20, &fd).code() == Code::kNoMemory ? 0 : 1;
  });
  EXPECT_EQ(code, 0);
}

TEST(PrivateRoom, OpensFromItsStart) {
  PrivateRoom room;
  EXPECT_EQ(room.base(), nullptr);
  ASSERT_TRUE(room.reserve(64 << 20));
  ASSERT_TRUE(room.open(100));
  std::memset(room.base(), 1, 100);
  ASSERT_TRUE(room.open((5 << 20) + 1));
  room.base()[5 << 20] = std::byte{7};
  EXPECT_FALSE(kernel_reads(room.base() + (50 << 20)));
  EXPECT_TRUE(kernel_reads(room.base() + (5 << 20)));
  EXPECT_TRUE(room.open(64 << 20));
  EXPECT_FALSE(room.open((64 << 20) + 1));
}

TEST(PrivateRoom, OpensNothingBeyondItsEnd) {
  constexpr uint64_t kBytes = (1 << 20) + 4096;  // no whole number of steps
  PrivateRoom above;
  PrivateRoom room;
  ASSERT_TRUE(above.reserve(4 << 20));
  ASSERT_TRUE(room.reserve(kBytes));
  EXPECT_TRUE(room.open(kBytes));
  room.base()[kBytes - 1] = std::byte{7};
  if (above.base() != room.base() + kBytes) return;  // the kernel had another place
  EXPECT_FALSE(kernel_reads(above.base()));
}

TEST(Segment, TheAddressSpaceLimitIsAnError) {
#ifdef ZH_SANITIZE
  GTEST_SKIP() << "sanitizers reserve terabytes of address space";
#endif
  const int code = exit_code_of([] {
    const rlimit limit{uint64_t{1} << 30, uint64_t{1} << 30};
    setrlimit(RLIMIT_AS, &limit);
    Descriptor fd;
    std::byte* p = nullptr;
    const bool small = address_space_left() < (uint64_t{1} << 30);
    const bool made = make_memfd("zh-test", uint64_t{4} << 30, &fd).ok();
    return small && made && map_shared(fd.get(), uint64_t{4} << 30, &p).code() == Code::kNoMemory ? 0 : 1;
  });
  EXPECT_EQ(code, 0);
}

TEST(Segment, ADescriptorPassesOverSockets) {
  Folder folder;
  for (const std::string& where : {std::string(), folder.path()}) {
    Descriptor fd;
    ASSERT_TRUE(make_memfd("zh-test", 8192, &fd).ok());
    DescriptorServer server;
    ASSERT_TRUE(server.listen(random_token(), where).ok());
    const pid_t child = fork();
    if (child == 0) {
      Descriptor got;
      std::byte* p = nullptr;
      if (!receive_descriptor(server.address(), 5'000'000'000, &got).ok() || !map_shared(got.get(), 8192, &p).ok())
        _exit(1);
      std::memcpy(p, "child", 6);
      _exit(0);
    }
    EXPECT_TRUE(server.serve(fd.get(), 1, 5'000'000'000).ok());
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    std::byte* p = nullptr;
    ASSERT_TRUE(map_shared(fd.get(), 8192, &p).ok());
    EXPECT_STREQ(reinterpret_cast<const char*>(p), "child");
    unmap(p, 8192);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Segment, AServerWithoutClientsEnds) {
  DescriptorServer server;
  ASSERT_TRUE(server.listen(random_token(), "").ok());
  EXPECT_EQ(server.serve(0, 1, 1'000'000).error(), ETIMEDOUT);
  Descriptor none;
  EXPECT_FALSE(receive_descriptor("@zerohop-nobody-listens-here", 1'000'000, &none).ok());
}

TEST(PeerMem, ReadsAndWritesAChild) {
  uint64_t word = 1;
  int up[2], down[2];
  ASSERT_EQ(pipe(up), 0);
  ASSERT_EQ(pipe(down), 0);
  const pid_t child = fork();
  if (child == 0) {
    word = 77;
    char c = 'r';
    if (write(up[1], &c, 1) != 1 || read(down[0], &c, 1) != 1) _exit(2);
    _exit(word == 99 ? 0 : 1);
  }
  char c = 0;
  ASSERT_EQ(read(up[0], &c, 1), 1);
  uint64_t value = 0;
  const iovec local{&value, sizeof value};
  const iovec remote{&word, sizeof word};
  const ssize_t n = peer_read(child, &local, 1, &remote, 1);
  if (n == 8) {
    EXPECT_EQ(value, 77u);
    value = 99;
    EXPECT_EQ(peer_write(child, &local, 1, &remote, 1), 8);
  }
  ASSERT_EQ(write(down[1], &c, 1), 1);
  int status = -1;
  waitpid(child, &status, 0);
  for (const int fd : {up[0], up[1], down[0], down[1]}) close(fd);
  if (n < 0) GTEST_SKIP() << "process_vm_readv is not permitted here: " << std::strerror(static_cast<int>(-n));
  EXPECT_EQ(status, 0);
}

TEST(PeerMem, ErrorsAreNegativeErrno) {
  uint64_t value = 0;
  const iovec local{&value, sizeof value};
  EXPECT_EQ(peer_read(0x3fffffff, &local, 1, &local, 1), -ESRCH);
  const iovec bad{reinterpret_cast<void*>(8), 8};
  const ssize_t n = peer_read(getpid(), &local, 1, &bad, 1);
  EXPECT_TRUE(n == -EFAULT || n == -EPERM || n == -ENOSYS) << n;
}

TEST(Probe, ASiblingsMemoryFileIsReachedOrTheErrorIsTold) {
  const int result = probe_sibling_file();
  EXPECT_LE(result, 0);
  EXPECT_GT(result, -200);
  EXPECT_TRUE(result != 0 || probe_memfd().ok()) << "it needs as much of this process alone";
}

TEST(Probe, WhatIsAskedForInAdvanceIsThere) {
  if (const int error = probe_populate(); error != 0) GTEST_SKIP() << std::strerror(-error);
  EXPECT_TRUE(probe_pagemap());
}

TEST(Futex, WakesChangesAndTimesOut) {
  Atomic<uint32_t> word{5};
  EXPECT_EQ(futex_wait(word, 4), Wake::kChanged);
  const uint64_t before = now_ns();
  EXPECT_EQ(futex_wait(word, 5, 3'000'000), Wake::kTimedOut);
  EXPECT_GE(now_ns() - before, 3'000'000U);
  std::thread other([&] {
    while (word.load_acquire() == 5) futex_wait(word, 5);  // T1 -> T1
  });
  word.store_release(6);  // T1 -> T1
  futex_wake(word, kWakeAll);
  other.join();
}

TEST(Clock, TicksFollowTheClock) {
  EXPECT_GT(ticks_per_us(), 1.0);
  const uint64_t ns = now_ns();
  const uint64_t start = ticks();
  while (now_ns() - ns < 2'000'000) {
  }
  EXPECT_GT(static_cast<double>(ticks() - start) / ticks_per_us(), 1500.0);
}

TEST(Process, EndsAreSeenWithAndWithoutPidfd) {
  int gate[2];
  ASSERT_EQ(pipe(gate), 0);
  const pid_t child = fork();
  if (child == 0) {
    char c;
    close(gate[1]);
    [[maybe_unused]] const ssize_t n = read(gate[0], &c, 1);
    _exit(0);
  }
  const int fd = open_pidfd(child);
  EXPECT_FALSE(process_ended(fd, child));
  EXPECT_FALSE(process_ended(-1, child));
  if (fd >= 0) {
    // A program may close every descriptor, and open others under their numbers.
    const int kept = dup(fd);
    close(fd);
    EXPECT_FALSE(process_ended(fd, child)) << "closed";
    const int readable = open("/proc/self/status", O_RDONLY);
    ASSERT_EQ(dup2(readable, fd), fd);
    EXPECT_FALSE(process_ended(fd, child)) << "another descriptor";
    ASSERT_EQ(dup2(kept, fd), fd);
    close(kept);
    if (readable != fd) close(readable);
  }
  close(gate[0]);
  close(gate[1]);
  const uint64_t limit = now_ns() + 10'000'000'000;
  while (!process_ended(-1, child) && now_ns() < limit) std::this_thread::yield();
  EXPECT_TRUE(process_ended(-1, child)) << "a zombie has ended";
  if (fd >= 0) {  // told a moment after the state is seen
    while (!process_ended(fd, child) && now_ns() < limit) std::this_thread::yield();
    EXPECT_TRUE(process_ended(fd, child));
  }
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(process_ended(-1, child));
  close_fd(fd);
}

TEST(Process, IdentityIsThere) {
  EXPECT_FALSE(boot_id().empty());
  EXPECT_FALSE(host_name().empty());
  EXPECT_NE(namespace_id("pid"), 0u);
  EXPECT_EQ(namespace_id("nonsense"), 0u);
  EXPECT_NE(random_token(), random_token());
}

TEST(Process, APolicyMayWakeLate) {
  std::thread([] {
    const sched_param none{};
    ASSERT_EQ(sched_setscheduler(0, SCHED_OTHER, &none), 0);
    EXPECT_FALSE(wakes_late());
    ASSERT_EQ(sched_setscheduler(0, SCHED_BATCH | SCHED_RESET_ON_FORK, &none), 0);
    EXPECT_TRUE(wakes_late());
  }).join();
}

TEST(Affinity, SetsPrintAndCount) {
  CpuSet set;
  for (const uint32_t cpu : {0u, 1u, 2u, 5u, 7u, 8u, 100u}) set.add(cpu);
  EXPECT_EQ(set.to_string(), "0-2,5,7,8,100");
  EXPECT_EQ(set.count(), 7u);
  EXPECT_EQ(CpuSet().to_string(), "");
}

TEST(Affinity, BindingIsSeen) {
  const CpuSet before = allowed_cpus();
  ASSERT_GE(before.count(), 1u);
  std::thread([&] {
    CpuSet one;
    for (uint32_t cpu = 0; one.count() == 0; ++cpu) {
      if (before.has(cpu)) one.add(cpu);
    }
    ASSERT_EQ(bind_to(one), 0);
    EXPECT_EQ(allowed_cpus(), one);
  }).join();
}

// From each CPU to each; where it may run is what it was, for a thread that was bound to some as for one that was not.
TEST(Affinity, AMoveChangesNoBinding) {
  const CpuSet all = allowed_cpus();
  std::vector<uint32_t> cpus;
  for (uint32_t cpu = 0; cpu < CpuSet::kMaxCpus; ++cpu) {
    if (all.has(cpu)) cpus.push_back(cpu);
  }
  if (cpus.size() < 2) GTEST_SKIP() << "needs two CPUs";
  std::thread([&] {
    bool there = false;  // the kernel may have moved it on
    for (int i = 0; i < 1000 && !there; ++i) {
      const uint32_t to = current_cpu() == cpus[0] ? cpus[1] : cpus[0];
      ASSERT_EQ(move_to(to), 0);
      there = current_cpu() == to;
      ASSERT_EQ(allowed_cpus(), all);
    }
    EXPECT_TRUE(there);
    CpuSet one;
    one.add(cpus[0]);
    ASSERT_EQ(bind_to(one), 0);
    EXPECT_EQ(move_to(cpus[0]), 0);
    EXPECT_EQ(move_to(cpus[1]), -EINVAL);
    EXPECT_EQ(allowed_cpus(), one);
  }).join();
}

TEST(Cgroup, VersionTwo) {
  Folder f;
  f.write("cgroup.controllers", "cpu memory\n");
  f.write("a/cpu.max", "400000 100000\n");
  f.write("a/memory.max", "1000000000\n");
  f.write("a/memory.current", "300000000\n");
  f.write("a/memory.stat", "anon 5\ninactive_file 100000000\n");
  f.write("a/b/cpu.max", "max 100000\n");
  f.write("a/b/memory.max", "max\n");
  f.write("a/b/memory.current", "1\n");
  const std::string proc = f.write("proc", "0::/a/b\n");
  const Cgroup cgroup = find_cgroup(f.path(), proc);
  EXPECT_TRUE(cgroup.v2);
  EXPECT_EQ(cgroup.cpu_folder, f.path() + "/a/b");
  EXPECT_DOUBLE_EQ(cgroup_cpu_quota(cgroup, f.path()), 4.0) << "the parent's limit holds, too";
  const MemoryLimit memory = cgroup_memory(cgroup, f.path());
  EXPECT_EQ(memory.limit_bytes, 1000000000u);
  EXPECT_EQ(memory.headroom(), 800000000u);
  f.write("a/b/cpu.max", "200000 100000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpu_quota(cgroup, f.path()), 2.0) << "the tighter one holds";
}

TEST(Cgroup, VersionOneAndHiddenPath) {
  Folder f;
  f.write("cpu,cpuacct/cpu.cfs_quota_us", "150000\n");
  f.write("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  f.write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  // The path is the host's: not visible in a container, whose own cgroup is the mount's root.
  const std::string proc = f.write("proc", "5:cpu,cpuacct:/docker/0123\n4:memory:/docker/0123\n1:name=systemd:/x\n");
  const Cgroup cgroup = find_cgroup(f.path(), proc);
  EXPECT_FALSE(cgroup.v2);
  EXPECT_DOUBLE_EQ(cgroup_cpu_quota(cgroup, f.path()), 1.5);
  EXPECT_EQ(cgroup_memory(cgroup, f.path()).headroom(), kUnlimited);
}

// Any library under the name of a driver stands in for it.
TEST(Devices, TheDriverIsFoundOnceItIsLoaded) {
  if (!loaded_device_driver().empty()) GTEST_SKIP() << loaded_device_driver() << " is loaded here";
  Dl_info libm;
  ASSERT_NE(dladdr(dlsym(RTLD_DEFAULT, "cos"), &libm), 0);
  Folder f;
  const std::string driver = f.path() + "/libcuda.so.1";
  std::filesystem::copy_file(libm.dli_fname, driver);
  void* const handle = dlopen(driver.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  EXPECT_EQ(loaded_device_driver(), "libcuda.so.1");
  dlclose(handle);
}

TEST(Cgroup, AbsentMeansUnlimited) {
  Folder f;
  const Cgroup cgroup = find_cgroup(f.path(), f.path() + "/none");
  EXPECT_EQ(cgroup_cpu_quota(cgroup, f.path()), 0.0);
  EXPECT_EQ(cgroup_memory(cgroup, f.path()).headroom(), kUnlimited);
}

}  // namespace
}  // namespace zh::os
