// Names the places between a claim and its publication, where a process may die. Nothing at all in a normal build; with
// ZH_CRASH_POINTS the crash test's build calls back there and ends itself.
#pragma once

#ifdef ZH_CRASH_POINTS
namespace zh {
void crash_point(const char* name);
}
#define ZH_CRASH_POINT(name) ::zh::crash_point(name)
#else
#define ZH_CRASH_POINT(name) static_cast<void>(0)
#endif
