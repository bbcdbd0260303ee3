// The result of an operation that can fail. Used by every layer below the MPI shim instead of exceptions.
// It refuses to know MPI's error classes: the shim translates.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

namespace zh {

enum class Code : uint8_t {
  kOk,
  kNoMemory,      // a budget, /dev/shm, cgroup or address-space limit
  kNotPermitted,  // EPERM/EACCES: Yama, seccomp, namespaces
  kNotSupported,  // ENOSYS and friends
  kTruncated,     // the message is longer than the receive buffer
  kPeerDead,      // the other process is gone
  kWouldBlock,    // nothing now; try again
  kInvalid,       // an argument is wrong
  kIo,            // any other system error
};

/// Outcome of a call: a code, the errno that caused it (0 if none) and a static text that names what failed.
class [[nodiscard]] Status {
 public:
  constexpr Status() = default;
  constexpr Status(Code code, const char* what, int error = 0) : what_(what), error_(error), code_(code) {}

  [[nodiscard]] constexpr bool ok() const { return code_ == Code::kOk; }
  [[nodiscard]] constexpr Code code() const { return code_; }
  [[nodiscard]] constexpr int error() const { return error_; }
  [[nodiscard]] constexpr const char* what() const { return what_; }
  /// What failed, and the system's word for errno.
  [[nodiscard]] std::string text() const {
    return error_ == 0 ? what_ : std::string(what_) + ": " + std::strerror(error_);
  }

 private:
  const char* what_ = "";
  int error_ = 0;
  Code code_ = Code::kOk;
};

constexpr Status kOk{};

}  // namespace zh
