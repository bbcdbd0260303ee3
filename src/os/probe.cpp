#include "os/probe.h"

#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "os/copy_module.h"
#include "os/error.h"
#include "os/own_memory.h"
#include "os/peer_mem.h"
#include "os/process.h"
#include "os/segment.h"
#include "os/vm.h"

namespace zh::os {
namespace {

/// Two processes, siblings as ranks are: `own()` prepares the one (a number for the other one, negative: it cannot),
/// ask(pid, number) in the other says 0 or errno. 0 or -errno.
template <typename Own, typename Ask>
int ask_siblings(Own&& own, Ask&& ask) {
  int ready[2], hold[2];
  if (pipe(ready) != 0) return -errno;
  if (pipe(hold) != 0) {
    const int error = errno;
    close(ready[0]);
    close(ready[1]);
    return -error;
  }
  const pid_t owner = fork();
  if (owner == 0) {
    close(hold[1]);
    const int number = own();
    if (write(ready[1], &number, sizeof number) != sizeof number) _exit(1);
    char c = 0;
    [[maybe_unused]] const ssize_t n = read(hold[0], &c, 1);  // until the parent closes its end
    _exit(0);
  }
  close(ready[1]);
  int number = -1;
  int result = -ECHILD;
  if (owner > 0 && read(ready[0], &number, sizeof number) == sizeof number && number >= 0) {
    const pid_t asker = fork();
    if (asker == 0) {
      close(hold[1]);
      _exit(ask(owner, number));
    }
    int status = 0;
    if (asker > 0 && waitpid(asker, &status, 0) == asker) result = WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
  }
  for (const int fd : {ready[0], hold[0], hold[1]}) close(fd);
  if (owner > 0) waitpid(owner, nullptr, 0);
  return result;
}

}  // namespace

int probe_sibling_read(bool opened) {
  static const uint64_t kSecret = 0x7a65726f686f7021;
  return ask_siblings(
      [opened] {
        if (opened) (void)allow_any_tracer();
        return 0;
      },
      [](pid_t owner, int) {
        uint64_t seen = 0;
        const iovec local{&seen, sizeof seen};
        const iovec remote{const_cast<uint64_t*>(&kSecret), sizeof seen};
        const ssize_t n = peer_read(owner, &local, 1, &remote, 1);
        return n == static_cast<ssize_t>(sizeof seen) && seen == kSecret ? 0 : n < 0 ? static_cast<int>(-n) : EIO;
      });
}

Status probe_copy_module() {
  constexpr size_t kBytes = 4 << 20;
  std::unique_ptr<CopyModule> module;
  if (Status s = open_copy_module(kCopyDevice, &module); !s.ok()) return s;
  CopyModule::Secret secret{};
  for (uint64_t& word : secret.words) word = random_token();
  uint32_t member = 0;
  if (Status s = module->join(secret, &member); !s.ok()) return s;
  std::vector<std::byte> theirs(kBytes), mine(kBytes);
  if (const int error = module->let_in(theirs.data(), kBytes, true); error != 0) {
    return {Code::kNoMemory, "the kernel module: 4 MiB of locked memory", -error};
  }
  const iovec local{mine.data(), kBytes};
  const iovec remote{theirs.data(), kBytes};
  const ssize_t n = module->read(member, &local, 1, &remote, 1);
  return from_errno("the kernel module: copy", n < 0 ? static_cast<int>(-n) : n == ssize_t{kBytes} ? 0 : EIO);
}

int probe_sibling_file() {
  static constexpr uint64_t kSecret = 0x7a65726f66696c65;
  const uint64_t bytes = page_bytes();
  return ask_siblings(
      [bytes] {
        Descriptor fd;
        std::byte* p = nullptr;
        if (!make_memfd("zerohop-probe", bytes, &fd).ok() || !map_shared(fd.get(), bytes, &p).ok()) return -1;
        std::memcpy(p, &kSecret, sizeof kSecret);
        return fd.release();
      },
      [bytes](pid_t owner, int number) {
        Descriptor fd;
        std::byte* p = nullptr;
        Status s = open_peer_descriptor(owner, number, &fd);
        if (s.ok()) s = map_shared(fd.get(), bytes, &p);
        if (!s.ok()) return s.error() != 0 ? s.error() : EIO;
        return std::memcmp(p, &kSecret, sizeof kSecret) == 0 ? 0 : EIO;
      });
}

int probe_populate() {
  const uint64_t bytes = page_bytes();
  Descriptor fd;
  std::byte* p = nullptr;
  Status s = make_memfd("zerohop-probe", bytes, &fd);
  if (s.ok()) s = map_shared(fd.get(), bytes, &p);
  if (!s.ok()) return s.error() != 0 ? -s.error() : -EIO;
  const int error = populate_for_write(p, bytes) ? 0 : -errno;
  unmap(p, bytes);
  return error;
}

bool probe_pagemap() {
  bool knows_huge = false;
  const auto here = reinterpret_cast<uintptr_t>(&knows_huge) / page_bytes() * page_bytes();
  return behind(reinterpret_cast<const void*>(here), page_bytes(), &knows_huge) != Behind::kUnknown;
}

Status probe_memfd() {
  Descriptor fd, again;
  if (Status s = make_memfd("zerohop-probe", 1 << 16, &fd); !s.ok()) return s;
  if (Status s = back_range(fd.get(), 0, 1 << 16); !s.ok()) return s;
  return open_peer_descriptor(process_id(), fd.get(), &again);
}

int probe_pidfd() {
  const int fd = open_pidfd(process_id());
  close_fd(fd);
  return fd >= 0 ? 0 : fd;
}

FileSystemSpace space_of(const std::string& folder) {
  struct statvfs info {};
  FileSystemSpace space;
  if (statvfs(folder.c_str(), &info) != 0) return space;
  space.exists = true;
  space.size_bytes = static_cast<uint64_t>(info.f_blocks) * info.f_frsize;
  space.free_bytes = static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
  return space;
}

}  // namespace zh::os
