// What the system tells of this process's own memory.
// label not-emulated: ThreadStacks|Threads[.]AreCounted|FutexWaits
#include "os/own_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/atomic.h"
#include "os/vm.h"

namespace zh::os {
namespace {

constexpr size_t kPage = 4096;
constexpr int kReadWrite = PROT_READ | PROT_WRITE;

uintptr_t number(const void* p) { return reinterpret_cast<uintptr_t>(p); }

std::byte* anonymous(size_t pages, int flags = MAP_PRIVATE) {
  void* p = mmap(nullptr, pages * kPage, kReadWrite, flags | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
}

bool equal(const Mapping& a, const Mapping& b) {
  return a.from == b.from && a.to == b.to && a.readable == b.readable && a.writable == b.writable &&
         a.executable == b.executable && a.shared == b.shared && a.stack == b.stack && a.inode == b.inode;
}

TEST(Mappings, QueryAndTextAgreeOnEveryLine) {
  const std::string long_name = "/tmp/" + std::string(200, 'n') + std::to_string(getpid());
  const int fd = open(long_name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  unlink(long_name.c_str());
  ASSERT_EQ(ftruncate(fd, kPage), 0);
  ASSERT_NE(mmap(nullptr, kPage, kReadWrite, MAP_SHARED, fd, 0), MAP_FAILED);
  anonymous(3, MAP_SHARED);
  const Mappings query;
  const Mappings text(true);
  std::vector<std::string> lines;
  {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) lines.push_back(line);
  }
  size_t same = 0;
  size_t stacks = 0;
  for (const std::string& line : lines) {
    if (line.find("[vsyscall]") != std::string::npos) continue;  // not of this process
    const uintptr_t from = std::strtoull(line.c_str(), nullptr, 16);
    Mapping a;
    Mapping b;
    const bool found = query.find(from, &a);
    ASSERT_EQ(found, text.find(from, &b)) << line;
    if (!found) continue;  // has gone since
    EXPECT_TRUE(equal(a, b)) << line;
    EXPECT_LE(a.from, from);
    EXPECT_GT(a.to, from);
    EXPECT_EQ(a.inode, std::strtoull(line.c_str() + line.find(' ', line.find(':')) + 1, nullptr, 10)) << line;
    stacks += a.stack ? 1U : 0U;
    ++same;
  }
  EXPECT_GT(same, 10U);
  EXPECT_EQ(stacks, 1U);
  close(fd);
}

TEST(Mappings, HolesAreNotFound) {
  std::byte* p = anonymous(3);
  munmap(p + kPage, kPage);
  for (const bool by_text : {false, true}) {
    const Mappings all(by_text);
    Mapping found;
    EXPECT_FALSE(all.find(number(p + kPage), &found)) << by_text;
    EXPECT_TRUE(all.find(number(p) + kPage - 1, &found));
    EXPECT_EQ(found.to, number(p) + kPage);
    EXPECT_TRUE(all.find(number(p + 2 * kPage), &found));
    EXPECT_FALSE(all.find(0, &found));
  }
}

TEST(Behind, BothWaysOfAskingAgree) {
  std::byte* touched = anonymous(300);
  std::memset(touched, 1, 300 * kPage);
  std::byte* untouched = anonymous(4);
  std::byte* partly = anonymous(300);
  std::memset(partly, 1, 299 * kPage);
  std::byte* shared = anonymous(4, MAP_SHARED);
  std::memset(shared, 1, 4 * kPage);
  const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  auto* file = static_cast<std::byte*>(mmap(nullptr, 4 * kPage, kReadWrite, MAP_PRIVATE, fd, 0));
  const volatile std::byte first = *file;
  (void)first;
  close(fd);
  for (const bool plain : {false, true}) {
    bool knows_huge = false;
    const auto ask = [&](const std::byte* at, uint64_t pages) { return behind(at, pages * kPage, &knows_huge, plain); };
    EXPECT_EQ(ask(touched, 300), Behind::kPrivate) << plain;
    EXPECT_EQ(ask(untouched, 4), Behind::kUntouched) << plain;
    EXPECT_EQ(ask(partly, 300), Behind::kUntouched) << plain;
    EXPECT_EQ(ask(partly, 299), Behind::kPrivate) << plain;
    EXPECT_EQ(ask(shared, 4), Behind::kFile) << plain;
    EXPECT_EQ(ask(file, 1), Behind::kFile) << plain;
    EXPECT_FALSE(plain && knows_huge);
  }
}

TEST(Behind, ThePageOfZerosIsNobodys) {
  std::byte* p = anonymous(4);
  std::memset(p, 1, 3 * kPage);
  const volatile std::byte last = p[3 * kPage];  // reads: the page of zeros
  (void)last;
  bool knows_huge = false;
  const Behind answer = behind(p, 4 * kPage, &knows_huge);
  if (!knows_huge) GTEST_SKIP() << "this system does not tell (before Linux 6.7)";
  EXPECT_EQ(answer, Behind::kUntouched);
}

/// A thread that waits, and tells of an address on its stack.
class Sleeper {
 public:
  Sleeper() : thread_([this] { run(); }) {
    while (local_.load_acquire() == 0) std::this_thread::yield();  // T0 <- T0
  }
  ~Sleeper() {
    stop_.store_relaxed(1);
    thread_.join();
  }
  [[nodiscard]] uintptr_t local() const { return local_.load_relaxed(); }
  [[nodiscard]] uintptr_t own_data() const { return own_.load_relaxed(); }

 private:
  void run() {
    char here = 0;
    own_.store_relaxed(number(__builtin_thread_pointer()));
    local_.store_release(number(&here));  // T0 -> T0
    while (stop_.load_relaxed() == 0) usleep(1000);
  }
  Atomic<uint32_t> stop_{0};
  Atomic<uintptr_t> local_{0};
  Atomic<uintptr_t> own_{0};
  std::thread thread_;
};

bool is_stack(uintptr_t address) {
  const Mappings all;
  Mapping mapping;
  return all.find(address, &mapping) && in_thread_stack(all, mapping, address);
}

TEST(ThreadStacks, MayBeSeveralMappings) {
  const Sleeper thread;
  auto* const page = reinterpret_cast<std::byte*>(thread.local() / kPage * kPage);
  // A page below what the thread uses, as a program would mark the end of what it may use.
  ASSERT_EQ(mprotect(page - 64 * kPage, kPage, PROT_READ), 0);
  EXPECT_TRUE(is_stack(thread.local()));
  EXPECT_TRUE(is_stack(number(page - 128 * kPage)));
  ASSERT_EQ(mprotect(page - 64 * kPage, kPage, PROT_READ | PROT_WRITE), 0);
}

TEST(ThreadStacks, AreToldFromWhatLiesBesideThem) {
  std::vector<void*> blocks;
  const auto block = [&] {
    blocks.push_back(malloc(1 << 20));
    std::memset(blocks.back(), 1, 1 << 20);
    EXPECT_FALSE(is_stack(number(blocks.back())));
    EXPECT_FALSE(is_stack(number(blocks.back()) + (1 << 19)));
  };
  block();
  {
    std::array<Sleeper, 4> threads;
    for (const Sleeper& t : threads) {
      EXPECT_TRUE(is_stack(t.local()));
      EXPECT_TRUE(is_stack(t.local() - 64 * kPage)) << "below what is in use";
      EXPECT_TRUE(is_stack(t.own_data()));
      block();
    }
    for (int i = 0; i < 16; ++i) block();
    std::byte* below = anonymous(16);
    EXPECT_FALSE(is_stack(number(below)));
    static char global[3 * kPage];
    EXPECT_FALSE(is_stack(number(global)));
    for (void* p : blocks) {
      EXPECT_FALSE(is_stack(number(p)));
      EXPECT_FALSE(is_stack(number(p) + (1 << 20) - kPage));
    }
  }
  for (void* p : blocks) free(p);
}

TEST(HolderOfPages, LocksAndDescriptorsAreSeen) {
  if (const char* before = holder_of_pages(); before != nullptr) GTEST_SKIP() << before;
  std::byte* p = anonymous(1);
  if (syscall(SYS_mlock, p, kPage) == 0) {  // by name a sanitizer ignores it
    ASSERT_NE(holder_of_pages(), nullptr);
    EXPECT_NE(std::string(holder_of_pages()).find("mlock"), std::string::npos);
    syscall(SYS_munlock, p, kPage);
  }
  EXPECT_EQ(holder_of_pages(), nullptr);
  constexpr int kUserModeOnly = 1;
  const auto fault = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | kUserModeOnly));
  if (fault >= 0) {
    ASSERT_NE(holder_of_pages(), nullptr);
    EXPECT_NE(std::string(holder_of_pages()).find("userfaultfd"), std::string::npos);
    close(fault);
  }
  EXPECT_EQ(holder_of_pages(), nullptr);
}

TEST(Threads, AreCounted) {
  const Sleeper first;  // with it a sanitizer starts a thread of its own
  const uint32_t before = threads_of_process();
  ASSERT_GE(before, 1U);
  {
    const Sleeper one;
    const Sleeper two;
    EXPECT_EQ(threads_of_process(), before + 2);
  }
}

TEST(FutexWaits, TheirAddressesAreTold) {
  Atomic<uint32_t> word{0};
  std::thread waiter([&] {
    while (word.load_relaxed() == 0) syscall(SYS_futex, &word, FUTEX_WAIT, 0, nullptr, nullptr, 0);
  });
  bool found = false;
  for (int i = 0; i < 500 && !found; ++i) {
    usleep(2000);
    for_each_futex_wait([&](uintptr_t address) { found = found || address == number(&word); });
  }
  EXPECT_TRUE(found);
  word.store_relaxed(1);
  wake_futex(&word);
  waiter.join();
}

}  // namespace
}  // namespace zh::os
