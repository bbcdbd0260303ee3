/* What glibc has had only since a version above 2.28, in terms of what 2.28 has. The linker sends references to these
 * names here (--wrap, see zh_glibc.cmake), those of the C++ runtime's archives too. They know nothing of zerohop. */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STAND_IN(name) __attribute__((visibility("hidden"))) __wrap_##name

/* 2.33: functions of their own. On 64-bit machines the kernel's struct stat is libc's. */
int STAND_IN(stat)(const char* path, struct stat* out);
int STAND_IN(lstat)(const char* path, struct stat* out);
int STAND_IN(fstat)(int file, struct stat* out);
int STAND_IN(fstat64)(int file, struct stat* out);
int STAND_IN(fstatat)(int folder, const char* path, struct stat* out, int flags);

int STAND_IN(stat)(const char* path, struct stat* out) { return (int)syscall(SYS_newfstatat, AT_FDCWD, path, out, 0); }
int STAND_IN(lstat)(const char* path, struct stat* out) {
  return (int)syscall(SYS_newfstatat, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}
int STAND_IN(fstat)(int file, struct stat* out) { return (int)syscall(SYS_fstat, file, out); }
int STAND_IN(fstat64)(int file, struct stat* out) { return (int)syscall(SYS_fstat, file, out); }
int STAND_IN(fstatat)(int folder, const char* path, struct stat* out, int flags) {
  return (int)syscall(SYS_newfstatat, folder, path, out, flags);
}

/* 2.32: whether shared_ptr may count without atomic operations. It may not. */
extern char STAND_IN(__libc_single_threaded);
char STAND_IN(__libc_single_threaded) = 0;

/* 2.36: std::random_device. */
uint32_t STAND_IN(arc4random)(void);
uint32_t STAND_IN(arc4random)(void) {
  uint32_t value = 0;
  if (getentropy(&value, sizeof(value)) != 0) abort();
  return value;
}

/* 2.35: where the unwinder finds an object's table of frames. Older unwinders ask dl_iterate_phdr() themselves. */
#ifdef DLFO_STRUCT_HAS_EH_DBASE
struct Search {
  uintptr_t address;
  struct dl_find_object* found;
};

static int holds(struct dl_phdr_info* object, size_t bytes, void* data) {
  (void)bytes;
  const struct Search* search = data;
  struct dl_find_object found = {0};
  uintptr_t start = UINTPTR_MAX, end = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* header = &object->dlpi_phdr[i];
    const uintptr_t at = object->dlpi_addr + header->p_vaddr;
    if (header->p_type == PT_LOAD && at < start) start = at;
    if (header->p_type == PT_LOAD && at + header->p_memsz > end) end = at + header->p_memsz;
    if (header->p_type == PT_GNU_EH_FRAME) found.dlfo_eh_frame = (void*)at;
  }
  if (search->address < start || search->address >= end || found.dlfo_eh_frame == NULL) return 0;
  found.dlfo_map_start = (void*)start;
  found.dlfo_map_end = (void*)end;
  *search->found = found;
  return 1;
}

int STAND_IN(_dl_find_object)(void* address, struct dl_find_object* out);
int STAND_IN(_dl_find_object)(void* address, struct dl_find_object* out) {
  struct Search search = {(uintptr_t)address, out};
  return dl_iterate_phdr(&holds, &search) == 1 ? 0 : -1;
}
#endif

/* 2.34: programs come without the function that runs their constructors, and an older libc runs none. */
typedef void (*Constructor)(int, char**, char**);
typedef int (*Main)(int, char**, char**);
int zh_old_start(Main main, int argc, char** argv, Constructor init, void (*fini)(void), void (*loader_fini)(void),
                 void* stack_end);
#if defined(__x86_64__)
__asm__(".symver zh_old_start, __libc_start_main@GLIBC_2.2.5");
#else
__asm__(".symver zh_old_start, __libc_start_main@GLIBC_2.17");
#endif
extern Constructor __init_array_start[] __attribute__((visibility("hidden")));
extern Constructor __init_array_end[] __attribute__((visibility("hidden")));
extern void _init(void);

static void construct(int argc, char** argv, char** environment) {
  _init();
  for (Constructor* next = __init_array_start; next != __init_array_end; ++next) (*next)(argc, argv, environment);
}

int STAND_IN(__libc_start_main)(Main main, int argc, char** argv, Constructor init, void (*fini)(void),
                                void (*loader_fini)(void), void* stack_end);
int STAND_IN(__libc_start_main)(Main main, int argc, char** argv, Constructor init, void (*fini)(void),
                                void (*loader_fini)(void), void* stack_end) {
  return zh_old_start(main, argc, argv, init != NULL ? init : &construct, fini, loader_fini, stack_end);
}
