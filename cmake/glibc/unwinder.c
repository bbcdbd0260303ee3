/* The unwinder of the process in place of the library's own, which is linked into it and hidden. An exception of the
 * program, or the end of a cancelled thread, that passes through the library's frames asks their clean-up for what only
 * the unwinder that is under way can answer; a second one ends the program. So each call goes to the one that the
 * program has, whether linked, or loaded by libc for pthread_cancel(); to the own one where there is none. */
#include <dlfcn.h>
#include <stddef.h>
#include <unwind.h>

static _Unwind_Reason_Code stop_at_once(struct _Unwind_Context* context, void* nothing) {
  (void)context;
  (void)nothing;
  return _URC_END_OF_STACK;
}

/* The program's function of this name, else `own`. */
static void* function_of(const char* name, void* own) {
  static void* program;
  void* found = dlsym(RTLD_DEFAULT, name);
  if (found == NULL) {
    if (program == NULL) program = dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (program != NULL) found = dlsym(program, name);
  }
  if (found != NULL) return found;
  /* A program that has an unwinder linked into itself alone: the own one can read its contexts once it has run. */
  static int has_run;
  if (!has_run) _Unwind_Backtrace(&stop_at_once, NULL);
  has_run = 1;
  return own;
}

/* name, result, parameters, their names, how the answer is returned */
#define FORWARD(name, result, parameters, arguments, give)                \
  result __real_##name parameters;                                        \
  __attribute__((visibility("hidden"))) result __wrap_##name parameters;  \
  __attribute__((visibility("hidden"))) result __wrap_##name parameters { \
    typedef result(*Function) parameters;                                 \
    union {                                                               \
      void* address;                                                      \
      Function call;                                                      \
    } own = {.call = &__real_##name}, found;                              \
    found.address = function_of(#name, own.address);                      \
    give found.call arguments;                                            \
  }

typedef struct _Unwind_Context Context;
typedef struct _Unwind_Exception Exception;
FORWARD(_Unwind_GetIPInfo, _Unwind_Ptr, (Context * c, int* before), (c, before), return )
FORWARD(_Unwind_GetRegionStart, _Unwind_Ptr, (Context * c), (c), return )
FORWARD(_Unwind_GetTextRelBase, _Unwind_Ptr, (Context * c), (c), return )
FORWARD(_Unwind_GetDataRelBase, _Unwind_Ptr, (Context * c), (c), return )
FORWARD(_Unwind_GetLanguageSpecificData, void*, (Context * c), (c), return )
FORWARD(_Unwind_SetGR, void, (Context * c, int index, _Unwind_Word value), (c, index, value), )
FORWARD(_Unwind_SetIP, void, (Context * c, _Unwind_Ptr value), (c, value), )
FORWARD(_Unwind_DeleteException, void, (Exception * e), (e), )
FORWARD(_Unwind_RaiseException, _Unwind_Reason_Code, (Exception * e), (e), return )
FORWARD(_Unwind_Resume_or_Rethrow, _Unwind_Reason_Code, (Exception * e), (e), return )
FORWARD(_Unwind_Resume, void, (Exception * e), (e), )
