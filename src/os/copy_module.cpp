// Thin wrappers of the module's calls; see copy_module.h.
#include "os/copy_module.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <uapi/zerohop.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "os/error.h"
#include "os/high_descriptor.h"
#include "os/segment.h"
#include "os/vm.h"

namespace zh::os {
namespace {

// The same two words, so that lists are handed over as they are.
static_assert(sizeof(iovec) == sizeof(zerohop_segment) && offsetof(iovec, iov_len) == offsetof(zerohop_segment, bytes));
static_assert(sizeof(CopyModule::Secret) == ZEROHOP_SECRET_BYTES);

uint64_t number_of(const void* address) { return reinterpret_cast<uintptr_t>(address); }

class CopyDevice final : public CopyModule {
 public:
  explicit CopyDevice(Descriptor file) : file_(std::move(file)) {}

  Status join(const Secret& secret, uint32_t* member) override {
    zerohop_join call{};
    call.size = sizeof call;
    call.abi = ZEROHOP_ABI;
    std::memcpy(call.secret, &secret, sizeof secret);
    const int error = ask(ZEROHOP_IOC_JOIN, &call);
    std::memset(call.secret, 0, sizeof call.secret);
    if (error == EPERM) return {Code::kNotPermitted, "the kernel module serves other processes of another user", error};
    *member = call.member;
    return from_errno("the kernel module: join", error);
  }

  int let_in(const void* address, uint64_t bytes, bool writable) override {
    const uint64_t page = page_bytes();
    const uint64_t from = number_of(address) / page * page;
    zerohop_register call{};
    call.size = sizeof call;
    call.flags = ZEROHOP_REUSE | ZEROHOP_READ | (writable ? ZEROHOP_WRITE : 0);
    call.address = from;
    call.bytes = (number_of(address) + bytes + page - 1) / page * page - from;
    return -ask(ZEROHOP_IOC_REGISTER, &call);
  }

  ssize_t read(uint32_t member, const iovec* local, size_t nlocal, const iovec* remote, size_t nremote) override {
    return copy(0, member, local, nlocal, remote, nremote);
  }
  ssize_t write(uint32_t member, const iovec* local, size_t nlocal, const iovec* remote, size_t nremote) override {
    return copy(ZEROHOP_TO_REGION, member, local, nlocal, remote, nremote);
  }

 private:
  /// 0 or errno. The kernel itself may change a mapping while it is asked for it, and a signal may end the call.
  int ask(unsigned long what, void* call) {
    constexpr int kAttempts = 8;
    for (int i = 0; i < kAttempts; ++i) {
      if (ioctl(file_.get(), what, call) == 0) return 0;
      if (errno != EAGAIN && errno != EINTR) break;
    }
    return errno;
  }

  ssize_t copy(uint32_t direction, uint32_t member, const iovec* local, size_t nlocal, const iovec* remote,
               size_t nremote) {
    zerohop_copy call{};
    call.size = sizeof call;
    call.flags = direction | ZEROHOP_OF_MEMBER;
    call.region = member;
    call.here = number_of(local);
    call.there = number_of(remote);
    call.here_count = static_cast<uint32_t>(nlocal);
    call.there_count = static_cast<uint32_t>(nremote);
    const int error = ask(ZEROHOP_IOC_COPY, &call);
    return call.copied != 0 ? static_cast<ssize_t>(call.copied) : -error;
  }

  Descriptor file_;
};

}  // namespace

Status open_copy_module(const char* device, std::unique_ptr<CopyModule>* out) {
  Descriptor file(move_high(open(device, O_RDWR | O_CLOEXEC)));
  if (!file.valid()) {
    if (errno == ENOENT || errno == ENXIO || errno == ENODEV) {
      return {Code::kNotSupported, "the kernel module is not loaded (no /dev/zerohop)"};
    }
    return from_errno("open /dev/zerohop, of the kernel module", errno);
  }
  out->reset(new (std::nothrow) CopyDevice(std::move(file)));
  return *out != nullptr ? kOk : Status{Code::kNoMemory, "out of memory"};
}

}  // namespace zh::os
