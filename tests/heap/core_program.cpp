// Fills large blocks and dumps core; the tests read the dump with gdb. Also the ordinary program that runs under other
// allocators, sanitizers and valgrind (tool_cases.py): `quiet` ends well, `wrong` uses memory after it was freed.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

long* zh_core_array;
unsigned char zh_core_bss[8u << 20];

namespace {

constexpr size_t kWords = (24u << 20) / sizeof(long);

bool memory_is_zerohops(const void* p) {
  FILE* maps = fopen("/proc/self/maps", "r");
  if (maps == nullptr) return false;
  char line[512];
  bool found = false;
  while (fgets(line, sizeof line, maps) != nullptr) {
    unsigned long from = 0;
    unsigned long to = 0;
    if (sscanf(line, "%lx-%lx", &from, &to) != 2) continue;
    const auto at = reinterpret_cast<unsigned long>(p);
    if (at >= from && at < to) found = strstr(line, "memfd:") != nullptr && strstr(line, "zerohop") != nullptr;
  }
  fclose(maps);
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  zh_core_array = static_cast<long*>(malloc(kWords * sizeof(long)));
  for (size_t i = 0; i < kWords; ++i) zh_core_array[i] = static_cast<long>(3 * i + 1);
  memset(zh_core_bss, 7, sizeof zh_core_bss);
  if (strcmp(what, "core") == 0) abort();
  for (int round = 0; round < 200; ++round) {
    const size_t n = static_cast<size_t>(1000 + round * 9000);
    char* p = static_cast<char*>(malloc(n));
    memset(p, round, n);
    p = static_cast<char*>(realloc(p, 2 * n));
    if (p[n - 1] != static_cast<char>(round)) return 3;
    free(p);
  }
  printf("served %d\n", memory_is_zerohops(zh_core_array + kWords / 2) ? 1 : 0);
  fflush(stdout);
  const long* volatile stale = zh_core_array;
  free(zh_core_array);
  if (strcmp(what, "wrong") == 0) return stale[77] == 0 ? 5 : 6;
  return 0;
}
