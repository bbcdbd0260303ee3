/* Stand-ins for what the static hwloc archive takes from outside (see zh_hwloc.cmake), linked beside it and nowhere
 * else. They know nothing of zerohop. I/O discovery is filtered off, so the udev functions are never reached; they
 * answer "no such device" all the same. The stream and name variables exist because the archive addresses libc's own
 * ones in a way that a shared object may not; glibc's FILE objects behind them are public. dlopen refuses: a plugin
 * would load another hwloc into the program. */
#include <stddef.h>
#include <stdio.h>

#define HIDDEN __attribute__((visibility("hidden")))

extern struct _IO_FILE _IO_2_1_stdin_, _IO_2_1_stdout_, _IO_2_1_stderr_;
extern FILE *zh_hwloc_stdin, *zh_hwloc_stdout, *zh_hwloc_stderr;
extern char* zh_hwloc_program_invocation_name;

HIDDEN FILE* zh_hwloc_stdin = &_IO_2_1_stdin_;
HIDDEN FILE* zh_hwloc_stdout = &_IO_2_1_stdout_;
HIDDEN FILE* zh_hwloc_stderr = &_IO_2_1_stderr_;
static char name[] = "zerohop";
HIDDEN char* zh_hwloc_program_invocation_name = name;

void* zh_hwloc_dlopen(const char* file, int mode);
void* zh_hwloc_udev_new(void);
void* zh_hwloc_udev_unref(void* udev);
void* zh_hwloc_udev_device_new_from_subsystem_sysname(void* udev, const char* subsystem, const char* sysname);
void* zh_hwloc_udev_device_unref(void* device);
const char* zh_hwloc_udev_device_get_property_value(void* device, const char* key);

HIDDEN void* zh_hwloc_dlopen(const char* file, int mode) {
  (void)file;
  (void)mode;
  return NULL;
}

HIDDEN void* zh_hwloc_udev_new(void) { return NULL; }

HIDDEN void* zh_hwloc_udev_unref(void* udev) {
  (void)udev;
  return NULL;
}

HIDDEN void* zh_hwloc_udev_device_new_from_subsystem_sysname(void* udev, const char* subsystem, const char* sysname) {
  (void)udev;
  (void)subsystem;
  (void)sysname;
  return NULL;
}

HIDDEN void* zh_hwloc_udev_device_unref(void* device) {
  (void)device;
  return NULL;
}

HIDDEN const char* zh_hwloc_udev_device_get_property_value(void* device, const char* key) {
  (void)device;
  (void)key;
  return NULL;
}
