// Checks of shared types where they are handed over. A type whose name ends in Shm has, where its *Invariant* can be
// told from memory, a function `broken_invariant()`: null while it holds, else a static text that says what should have
// held. Tests call it; ZH_CHECK_INVARIANT calls it in the code that is shipped, in builds with assertions (debug, asan,
// tsan) and where ZH_CHECK_INVARIANTS is defined, and is nothing in all others. It refuses to know what is checked.
#pragma once

#ifdef ZH_MODEL_CHECK
#include "model_check/invariant.h"
#elif defined(ZH_CHECK_INVARIANTS) || !defined(NDEBUG)
#include <cstdio>
#include <cstdlib>

namespace zh {
/// Ends the process where it stands: whoever reads what is broken goes on from there.
inline void require_invariant(const char* broken, const char* file, int line) {
  if (broken == nullptr) [[likely]]
    return;
  std::fprintf(stderr, "zerohop: broken invariant: %s (%s:%d)\n", broken, file, line);
  std::abort();
}
}  // namespace zh
#define ZH_CHECK_INVARIANT(broken) ::zh::require_invariant(broken, __FILE__, __LINE__)
#else
#define ZH_CHECK_INVARIANT(broken) static_cast<void>(0)
#endif
