// The model checker's side of src/base/invariant.h: a hand-over's check sees memory as it is, is no step of the
// execution, and fails it. Used by src/base/invariant.h when ZH_MODEL_CHECK is defined.
#pragma once

#include "checker.h"

namespace zh::mc {

template <typename Broken>
void check_invariant(Broken&& broken) {
  const char* what = nullptr;
  {
    const Watching watching;
    what = broken();
  }
  if (what != nullptr) fail(what);
}

}  // namespace zh::mc

#define ZH_CHECK_INVARIANT(broken) ::zh::mc::check_invariant([&]() -> const char* { return broken; })
