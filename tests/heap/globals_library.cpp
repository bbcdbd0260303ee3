// A library that the tests load, at start or with dlopen: large global data with and without initial values.
#include <cstddef>
#include <cstdint>

extern "C" {
__attribute__((visibility("default"))) extern const size_t zh_library_bytes;
const size_t zh_library_bytes = 6u << 20;
__attribute__((visibility("default"))) unsigned char zh_library_bss[6u << 20];
__attribute__((visibility("default"))) uint64_t zh_library_data[(6u << 20) / 8] = {0x1122334455667788u, 2, 3};
__attribute__((visibility("default"))) int zh_library_check();
}

// 0 when the data is what a freshly loaded library has.
int zh_library_check() {
  for (size_t i = 0; i < zh_library_bytes; ++i)
    if (zh_library_bss[i] != 0) return 1;
  if (zh_library_data[0] != 0x1122334455667788u || zh_library_data[1] != 2 || zh_library_data[2] != 3) return 2;
  for (size_t i = 3; i < zh_library_bytes / 8; ++i)
    if (zh_library_data[i] != 0) return 3;
  return 0;
}
