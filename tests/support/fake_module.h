// The kernel module zerohop, as ranks that are threads of one process see it: what was not let in to is refused. A test
// may revoke everything at any time, and let nothing in any more.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "base/atomic.h"
#include "os/copy_module.h"

namespace zh::test {

class FakeModules {
 public:
  Status open(std::unique_ptr<os::CopyModule>* out) {
    opened.fetch_add_relaxed(1);
    *out = std::make_unique<File>(*this);
    return kOk;
  }
  /// As if every owner had changed its mappings.
  void revoke() {
    const std::lock_guard lock(mutex_);
    regions_.clear();
  }
  [[nodiscard]] uint64_t longest() const { return longest_; }

  Atomic<uint32_t> opened{0};
  Atomic<int> refusal{0};  ///< errno of let_in(), from the second one of a file on

 private:
  static constexpr size_t kMostRegions = 100;  // the oldest goes
  struct Region {
    uint32_t member;
    uintptr_t from, to;
    bool writable;
  };

  class File final : public os::CopyModule {
   public:
    explicit File(FakeModules& all) : all_(all) {}
    Status join(const Secret& secret, uint32_t* member) override {
      const std::lock_guard lock(all_.mutex_);
      if (all_.joined_++ == 0) all_.secret_ = secret;
      if (std::memcmp(&secret, &all_.secret_, sizeof secret) != 0) return {Code::kInvalid, "another secret"};
      *member = member_ = all_.joined_;
      return kOk;
    }
    int let_in(const void* address, uint64_t bytes, bool writable) override {
      if (const int error = all_.refusal.load_relaxed(); calls_++ != 0 && error != 0) return -error;
      const auto from = reinterpret_cast<uintptr_t>(address);
      const std::lock_guard lock(all_.mutex_);
      all_.longest_ = std::max(all_.longest_, bytes);
      if (covered(member_, from, bytes, writable)) return 0;
      if (all_.regions_.size() == kMostRegions) all_.regions_.erase(all_.regions_.begin());
      all_.regions_.push_back({member_, from, from + bytes, writable});
      return 0;
    }
    ssize_t read(uint32_t member, const iovec* local, size_t nlocal, const iovec* remote, size_t nremote) override {
      return copy(member, local, nlocal, remote, nremote, false);
    }
    ssize_t write(uint32_t member, const iovec* local, size_t nlocal, const iovec* remote, size_t nremote) override {
      return copy(member, local, nlocal, remote, nremote, true);
    }

   private:
    [[nodiscard]] bool covered(uint32_t member, uintptr_t from, uint64_t bytes, bool writes) const {
      return std::ranges::any_of(all_.regions_, [&](const Region& r) {
        return r.member == member && r.from <= from && from + bytes <= r.to && (r.writable || !writes);
      });
    }
    [[nodiscard]] bool reaches(uint32_t member, const iovec& piece, bool writes) const {
      const std::lock_guard lock(all_.mutex_);
      return covered(member, reinterpret_cast<uintptr_t>(piece.iov_base), piece.iov_len, writes);
    }
    ssize_t copy(uint32_t member, const iovec* local, size_t nlocal, const iovec* remote, size_t nremote, bool writes) {
      ssize_t done = 0;
      size_t in_local = 0, in_remote = 0;
      for (size_t i = 0, k = 0; i < nlocal && k < nremote;) {
        if (in_remote == 0 && !reaches(member, remote[k], writes)) return done != 0 ? done : -ENOENT;
        const size_t n = std::min(local[i].iov_len - in_local, remote[k].iov_len - in_remote);
        auto* const mine = static_cast<std::byte*>(local[i].iov_base) + in_local;
        auto* const theirs = static_cast<std::byte*>(remote[k].iov_base) + in_remote;
        std::memcpy(writes ? theirs : mine, writes ? mine : theirs, n);
        done += static_cast<ssize_t>(n);
        if ((in_local += n) == local[i].iov_len) ++i, in_local = 0;
        if ((in_remote += n) == remote[k].iov_len) ++k, in_remote = 0;
      }
      return done;
    }

    FakeModules& all_;
    uint32_t member_ = 0;
    uint32_t calls_ = 0;
  };

  mutable std::mutex mutex_;
  std::vector<Region> regions_;
  os::CopyModule::Secret secret_{};
  uint32_t joined_ = 0;
  uint64_t longest_ = 0;
};

}  // namespace zh::test
