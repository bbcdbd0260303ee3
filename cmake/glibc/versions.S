// Calls of functions that glibc has given a newer version since 2.28, bound to the version that 2.28 has too. The linker sends
// every reference to <function> here (--wrap), also those of the C++ runtime's archives (see zh_glibc.cmake).
#include "bind.inc"

// libdl.so.2 until 2.34
BIND(dladdr, OLDEST)
BIND(dladdr1, LINKMAP)
BIND(dlclose, OLDEST)
BIND(dlerror, OLDEST)
BIND(dlinfo, LINKMAP)
BIND(dlopen, OLDEST)
BIND(dlsym, OLDEST)
// libpthread.so.0 until 2.34, some until 2.32
BIND(__pthread_key_create, OLDEST)
BIND(pthread_attr_setstacksize, OLDEST)
BIND(pthread_barrier_init, OLDEST)
BIND(pthread_barrier_wait, OLDEST)
BIND(pthread_barrierattr_init, OLDEST)
BIND(pthread_barrierattr_setpshared, OLDEST)
BIND(pthread_create, OLDEST)
BIND(pthread_detach, OLDEST)
BIND(pthread_getaffinity_np, AFFINITY)
BIND(pthread_getattr_np, OLDEST)
BIND(pthread_join, OLDEST)
BIND(pthread_key_create, OLDEST)
BIND(pthread_key_delete, OLDEST)
BIND(pthread_kill, OLDEST)
BIND(pthread_mutex_trylock, OLDEST)
BIND(pthread_once, OLDEST)
BIND(pthread_setaffinity_np, AFFINITY)
BIND(pthread_sigmask, OLDEST)
// What the conversions of C23 have been called since 2.38. They know 0b, which nothing here reads.
REPLACE(__isoc23_fscanf, fscanf)
REPLACE(__isoc23_sscanf, sscanf)
REPLACE(__isoc23_strtol, strtol)
REPLACE(__isoc23_strtoll, strtoll)
REPLACE(__isoc23_strtoul, strtoul)
REPLACE(__isoc23_strtoull, strtoull)
REPLACE(__isoc23_vfscanf, vfscanf)
REPLACE(__isoc23_vsscanf, vsscanf)
.section .note.GNU-stack, "", %progbits
