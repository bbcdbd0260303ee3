#include "heap/decide.h"

#include <sys/auxv.h>

#include <cstdlib>
#include <cstring>

#include "base/environment.h"

// Tools that watch every allocation.
extern "C" {
__attribute__((weak)) void __asan_init();
__attribute__((weak)) void __tsan_init();
__attribute__((weak)) void __msan_init();
__attribute__((weak)) void __hwasan_init();
__attribute__((weak)) void __lsan_init();
}

namespace zh::heap {
namespace {

bool contains(const char* variable, const char* text) {
  const char* value = std::getenv(variable);
  return value != nullptr && std::strstr(value, text) != nullptr;
}

}  // namespace

Decision decide() {
  const char* choice = std::getenv("ZEROHOP_HEAP");
  if (is_word(choice, "0")) return {false, false, "ZEROHOP_HEAP is 0"};
  if (says_no(std::getenv("ZEROHOP_ENABLE"))) return {false, false, "ZEROHOP_ENABLE is 0"};
  if (getauxval(AT_SECURE) != 0) return {false, false, "the program runs with more rights than its user"};
  if (contains("LD_PRELOAD", "libc_malloc_debug")) return {false, false, "libc watches the program's blocks"};
  if (contains("LD_PRELOAD", "vgpreload")) return {false, false, "the program runs under valgrind"};
  for (void (*init)() : {&__asan_init, &__tsan_init, &__msan_init, &__hwasan_init, &__lsan_init}) {
    if (init != nullptr) return {false, false, "a sanitizer watches the program's memory"};
  }
  const bool always = is_word(choice, "1");
  return {true, always, always ? "ZEROHOP_HEAP is 1" : "the default"};
}

}  // namespace zh::heap
