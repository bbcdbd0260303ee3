# Language level, warnings, sanitizers and output folders, for every target of the project.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${ZH_OUTPUT_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${ZH_OUTPUT_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/archive)

# -O2 keeps inlined rings small and debuggable; the copy kernels set their own flags where they need more.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g -DNDEBUG")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
set(CMAKE_C_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
# The folder of the sources leaves no trace: builds in two folders are equal, byte by byte.
add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
# Sanitizer builds keep the assertions; their reports need lines, not variables.
set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -g1")
set(CMAKE_C_FLAGS_SANITIZE "-O1 -g1")

# Files of a target are compiled together: a third of the processor time, for headers are read and templates made once.
# A layer is one unit; larger targets set UNITY_BUILD_BATCH_SIZE so that a changed file is rebuilt within 15 seconds.
# The preset `plain` compiles each file alone, so that none comes to lean on another's includes.
option(CMAKE_UNITY_BUILD "Compile the files of a target together" ON)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 0)

find_program(ZH_CCACHE_PROGRAM ccache)
if(ZH_CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ZH_CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${ZH_CCACHE_PROGRAM})
endif()

add_library(zh_warnings INTERFACE)
add_library(zh::warnings ALIAS zh_warnings)
target_compile_options(zh_warnings INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wcast-qual -Wundef -Wvla -Wformat=2 -Wnull-dereference -Wimplicit-fallthrough
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi -Wold-style-cast>
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>
  $<$<BOOL:${ZH_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports null dereferences through inlined standard-library code that cannot happen; and in a unity build every
  # type of a source file that holds one of an unnamed namespace, as if a header had it.
  target_compile_options(zh_warnings INTERFACE -Wno-null-dereference -Wduplicated-cond -Wlogical-op
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
else()
  # Part of Clang's -Wconversion, not of GCC's for C++: one meaning for both.
  target_compile_options(zh_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-sign-conversion>)
endif()

# One library that every target of the project links: no exceptions cross a layer, so unwinding stays possible but unused.
add_library(zh_options INTERFACE)
target_include_directories(zh_options INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_definitions(zh_options INTERFACE ZH_VERSION="${PROJECT_VERSION}" _GNU_SOURCE)
# Sanitizers follow frame pointers. A call without is three instructions shorter, and the hosts have none either.
target_compile_options(zh_options INTERFACE $<$<NOT:$<CONFIG:Release>>:-fno-omit-frame-pointer>)
find_package(Threads REQUIRED)
target_link_libraries(zh_options INTERFACE Threads::Threads)

if(ZH_SANITIZE)
  set(sanitize -fsanitize=${ZH_SANITIZE} -fno-sanitize-recover=all)
  add_compile_options(${sanitize})
  add_link_options(${sanitize})
  add_compile_definitions(ZH_SANITIZE=1)
  if(ZH_SANITIZE MATCHES "thread")
    add_compile_definitions(ZH_SANITIZE_THREAD=1)
    # GCC warns that ThreadSanitizer does not follow fences; the fences of base/atomic.h are annotated there.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      add_compile_options(-Wno-tsan)
    endif()
    # Kernels with 32 random bits of mmap break the shadow memory of older ThreadSanitizers: run without randomisation where
    # the container allows that.
    execute_process(COMMAND setarch -R true RESULT_VARIABLE no_setarch OUTPUT_QUIET ERROR_QUIET)
    if(no_setarch EQUAL 0)
      set(CMAKE_CROSSCOMPILING_EMULATOR setarch -R)
    endif()
  endif()
endif()
