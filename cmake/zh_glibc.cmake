# zh::unwinder - for libraries below which the program's functions are called: its exceptions pass (unwinder.c).
#
# zh::glibc and zh::glibc_math - what is shipped runs with glibc 2.28 and newer, whatever glibc it was built with.
#
# A binary refers to the newest version of each function that its build machine has. --wrap sends the references to such
# functions to stand-ins of the same names with __wrap_ before: those of versions.S and math.S jump to the old version of the
# function, those of newer.c do without it. It holds for the static C++ runtime too, which was compiled for the build machine.
# Until 2.34 threads and dlopen were libraries of their own; they are still there as empty ones, and must be asked for.
# dev/check_exports.py tells of a version above 2.28.
include(CheckCXXSymbolExists)

add_library(zh_glibc INTERFACE)
add_library(zh_glibc_math INTERFACE)
add_library(zh::glibc ALIAS zh_glibc)
add_library(zh::glibc_math ALIAS zh_glibc_math)
add_library(zh_unwinder INTERFACE)
add_library(zh::unwinder ALIAS zh_unwinder)

# zh_wrap(<target> <files>...): whoever links the target takes the stand-ins of the files for what they stand for. They are objects
# that are given, not members of an archive, as the C++ runtime comes last on the linker's command line; --gc-sections
# removes those that nothing refers to.
function(zh_wrap target)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/glibc/ OUTPUT_VARIABLE sources)
  add_library(${target}_objects OBJECT ${sources})
  target_compile_definitions(${target}_objects PRIVATE _GNU_SOURCE)
  # Stand-ins of assembly that are removed must have no line numbers: ld 2.40 breaks down over those.
  target_compile_options(${target}_objects PRIVATE
    $<$<COMPILE_LANGUAGE:C>:-ffunction-sections;-fdata-sections> $<$<COMPILE_LANGUAGE:ASM>:-g0>)
  target_link_libraries(${target}_objects PRIVATE zh_warnings)
  target_sources(${target} INTERFACE $<TARGET_OBJECTS:${target}_objects>)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sources})
  foreach(source IN LISTS sources)
    file(STRINGS ${source} lines REGEX "^[^#]*(BIND|REPLACE|STAND_IN|FORWARD)\\([A-Za-z_0-9]+")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE ".*(BIND|REPLACE|STAND_IN|FORWARD)\\(([A-Za-z_0-9]+).*" "\\2" name "${line}")
      target_link_options(${target} INTERFACE -Wl,--wrap=${name})
    endforeach()
  endforeach()
  target_link_options(${target} INTERFACE -Wl,--gc-sections)
endfunction()

check_cxx_symbol_exists(__GLIBC__ features.h ZH_HAVE_GLIBC)
if(ZH_HAVE_GLIBC AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|aarch64)$" AND NOT ZH_SANITIZE)
  enable_language(ASM)
  zh_wrap(zh_glibc versions.S newer.c)
  zh_wrap(zh_glibc_math math.S)
  zh_wrap(zh_unwinder unwinder.c)
  target_link_libraries(zh_glibc INTERFACE
    -Wl,--push-state,--no-as-needed -l:libpthread.so.0 -l:libdl.so.2 -Wl,--pop-state)
endif()
