// A callable that is lent for the time of a call, where std::function would allocate and throw: below malloc, above
// all.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace zh {

template <typename Signature>
class FunctionRef;

/// Of an object, a lambda for example, that lives as long as this is used.
template <typename Result, typename... Arguments>
class FunctionRef<Result(Arguments...)> {
 public:
  template <typename F, typename = std::enable_if_t<!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>>>
  FunctionRef(F&& f)  // NOLINT(google-explicit-constructor): stands for it
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, Arguments... arguments) -> Result {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Arguments>(arguments)...);
        }) {}
  Result operator()(Arguments... arguments) const { return call_(object_, std::forward<Arguments>(arguments)...); }

 private:
  void* object_;
  Result (*call_)(void*, Arguments...);
};

}  // namespace zh
