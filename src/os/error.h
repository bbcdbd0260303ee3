// Translates errno into a Status. Used by every file of src/os and by those that call them; knows no system call.
#pragma once

#include <cerrno>

#include "base/status.h"

namespace zh::os {

/// Status for a failed system call; `what` is a static text naming the call and its purpose.
[[nodiscard]] inline Status from_errno(const char* what, int error) {
  switch (error) {
    case 0:
      return kOk;
    case EPERM:
    case EACCES:
      return {Code::kNotPermitted, what, error};
    case ENOMEM:
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
      return {Code::kNoMemory, what, error};
    case ENOSYS:
    case EOPNOTSUPP:
    case EINVAL:
      return {Code::kNotSupported, what, error};
    case ESRCH:
      return {Code::kPeerDead, what, error};
    case EAGAIN:
    case ETIMEDOUT:
      return {Code::kWouldBlock, what, error};
    default:
      return {Code::kIo, what, error};
  }
}

}  // namespace zh::os
