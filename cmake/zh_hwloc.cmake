# zh::hwloc - hwloc without a new run-time dependency in a process that is not ours.
#
# A preloaded library must not bring its own libhwloc.so into a program whose MPI may carry another one, so the distribution's
# static archive is linked in and hidden. Two obstacles, both removed here:
# - the archive is not position independent where it takes the address of libc's data (stdout, stderr, ...): those symbols are
#   renamed with objcopy and defined by hwloc_stubs.c inside the library;
# - it refers to libudev (I/O devices, which zerohop filters off) and to dlopen for plugins (which would load a second hwloc):
#   stubs that say "not there".
# Without a usable archive the shared library is taken; without any hwloc, ZH_HAVE_HWLOC is 0 and the topology is flat.
add_library(zh_hwloc INTERFACE)
add_library(zh::hwloc ALIAS zh_hwloc)

set(ZH_HWLOC_MODE "auto" CACHE STRING "auto, static, shared or off")
set(hwloc_mode off)

if(NOT ZH_HWLOC_MODE STREQUAL "off")
  find_path(ZH_HWLOC_INCLUDE hwloc.h)
  find_library(ZH_HWLOC_STATIC NAMES libhwloc.a)
  find_library(ZH_HWLOC_SHARED NAMES libhwloc.so)
  if(ZH_HWLOC_INCLUDE AND ZH_HWLOC_STATIC AND CMAKE_OBJCOPY AND NOT ZH_HWLOC_MODE STREQUAL "shared")
    set(hwloc_local ${CMAKE_BINARY_DIR}/hwloc/libzh_hwloc_renamed.a)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/hwloc)
    set(renames)
    foreach(symbol IN ITEMS stdin stdout stderr program_invocation_name dlopen udev_new udev_unref
            udev_device_new_from_subsystem_sysname udev_device_unref udev_device_get_property_value)
      list(APPEND renames --redefine-sym ${symbol}=zh_hwloc_${symbol})
    endforeach()
    set(objcopy_failed 0)
    if(NOT EXISTS ${hwloc_local} OR ${ZH_HWLOC_STATIC} IS_NEWER_THAN ${hwloc_local})
      execute_process(COMMAND ${CMAKE_OBJCOPY} ${renames} ${ZH_HWLOC_STATIC} ${hwloc_local} RESULT_VARIABLE objcopy_failed)
      unset(ZH_HWLOC_STATIC_WORKS CACHE)
    endif()
    if(NOT objcopy_failed AND NOT DEFINED ZH_HWLOC_STATIC_WORKS)
      # Proof rather than hope: another distribution's archive may hold other relocations.
      try_compile(ZH_HWLOC_STATIC_WORKS ${CMAKE_BINARY_DIR}/hwloc/try ${CMAKE_CURRENT_LIST_DIR}/hwloc_try zh_hwloc_try
        CMAKE_FLAGS -DHWLOC_INCLUDE=${ZH_HWLOC_INCLUDE} -DHWLOC_ARCHIVE=${hwloc_local}
                    -DHWLOC_STUBS=${CMAKE_CURRENT_LIST_DIR}/hwloc_stubs.c
        OUTPUT_VARIABLE hwloc_try_log)
      if(NOT ZH_HWLOC_STATIC_WORKS)
        message(STATUS "static hwloc cannot be embedded here:\n${hwloc_try_log}")
      endif()
    endif()
    if(NOT objcopy_failed AND ZH_HWLOC_STATIC_WORKS)
      set(hwloc_mode static)
    endif()
  endif()
  if(hwloc_mode STREQUAL "off" AND ZH_HWLOC_INCLUDE AND ZH_HWLOC_SHARED AND NOT ZH_HWLOC_MODE STREQUAL "static")
    set(hwloc_mode shared)
  endif()
endif()

if(hwloc_mode STREQUAL "static")
  add_library(zh_hwloc_stubs STATIC ${CMAKE_CURRENT_LIST_DIR}/hwloc_stubs.c)
  target_include_directories(zh_hwloc SYSTEM INTERFACE ${ZH_HWLOC_INCLUDE})
  target_link_libraries(zh_hwloc INTERFACE ${hwloc_local} zh_hwloc_stubs m)
elseif(hwloc_mode STREQUAL "shared")
  target_include_directories(zh_hwloc SYSTEM INTERFACE ${ZH_HWLOC_INCLUDE})
  target_link_libraries(zh_hwloc INTERFACE ${ZH_HWLOC_SHARED})
endif()
if(hwloc_mode STREQUAL "off")
  target_compile_definitions(zh_hwloc INTERFACE ZH_HAVE_HWLOC=0)
else()
  target_compile_definitions(zh_hwloc INTERFACE ZH_HAVE_HWLOC=1)
endif()
# For `zerohop --version`.
set(ZH_HWLOC_WORDS "hwloc: ${hwloc_mode}")
find_file(ZH_HWLOC_CONFIG hwloc/autogen/config.h)
if(ZH_HWLOC_CONFIG AND NOT hwloc_mode STREQUAL "off")
  file(STRINGS ${ZH_HWLOC_CONFIG} version REGEX "define HWLOC_VERSION ")
  string(REGEX REPLACE ".*\"(.*)\".*" "hwloc \\1 (${hwloc_mode})" ZH_HWLOC_WORDS "${version}")
endif()
if(hwloc_mode STREQUAL "off")
  zh_part_left_out(hwloc "no headers and library of hwloc (libhwloc-dev, hwloc-devel): distances are measured only")
elseif(hwloc_mode STREQUAL "shared")
  zh_part(hwloc "${ZH_HWLOC_SHARED}, needed wherever zerohop runs")
else()
  zh_part(hwloc "inside, from ${ZH_HWLOC_STATIC}")
endif()
