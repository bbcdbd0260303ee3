// See fatal_point.h.
#include "fatal_point.h"

#include <signal.h>
#include <unistd.h>

#include <cstring>

#include "base/crash_point.h"

namespace zh {

namespace {
const char* g_fatal_point = nullptr;
int g_hits_left = 0;
}  // namespace

void crash_point(const char* name) {
  if (g_fatal_point == nullptr || std::strncmp(name, g_fatal_point, std::strlen(g_fatal_point)) != 0) return;
  if (--g_hits_left == 0) kill(getpid(), SIGKILL);
}

void test::die_at(const char* point, int hits) {
  g_fatal_point = point;
  g_hits_left = hits;
}

}  // namespace zh
