// A library that the tests load, at start or with dlopen: large global data with and without initial values. Its places
// are asked for by functions, for a reference to the arrays themselves would make the linker copy them into the
// program.
#include <cstddef>
#include <cstdint>

namespace {
constexpr size_t kBytes = 6u << 20;
unsigned char g_bss[kBytes];
uint64_t g_data[kBytes / 8] = {0x1122334455667788u, 2, 3};
}  // namespace

#define ZH_EXPORT extern "C" __attribute__((visibility("default")))

ZH_EXPORT size_t zh_library_bytes();
ZH_EXPORT void* zh_library_bss();
ZH_EXPORT void* zh_library_data();
ZH_EXPORT int zh_library_check();

size_t zh_library_bytes() { return kBytes; }
void* zh_library_bss() { return g_bss; }
void* zh_library_data() { return g_data; }

// 0 when the data is what a freshly loaded library has.
int zh_library_check() {
  for (const unsigned char byte : g_bss)
    if (byte != 0) return 1;
  if (g_data[0] != 0x1122334455667788u || g_data[1] != 2 || g_data[2] != 3) return 2;
  for (size_t i = 3; i < kBytes / 8; ++i)
    if (g_data[i] != 0) return 3;
  return 0;
}
