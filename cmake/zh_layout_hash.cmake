# What two processes must agree on before they share memory: the definitions of all types that lie there (*Shm), and of what these
# headers name. Their text is hashed, so that no change of a field, its order or a constant beside it can be forgotten.

# zh_short_hash(<result> <text>): 16 hexadecimal digits.
function(zh_short_hash result text)
  string(SHA256 hash "${text}")
  string(SUBSTRING ${hash} 0 16 hash)
  set(${result} ${hash} PARENT_SCOPE)
endfunction()

# zh_layout_hash(<result> <files variable> <folder>)
# 16 hexadecimal digits over all files of <folder> that mention a shared type, without comments and white space; and these files.
function(zh_layout_hash result files folder)
  file(GLOB_RECURSE candidates RELATIVE ${folder} ${folder}/*.h ${folder}/*.cpp)
  list(SORT candidates)
  set(all "")
  set(found "")
  foreach(candidate IN LISTS candidates)
    file(READ ${folder}/${candidate} text)
    # Headers that use such a type give it its constants; of other files those count that define one.
    if(NOT text MATCHES "struct [^;{}]*Shm( |:|\n)[^;{}]*{" AND NOT (candidate MATCHES "\\.h$" AND text MATCHES "Shm"))
      continue()
    endif()
    string(REGEX REPLACE "//[^\n]*" "" text "${text}")
    string(REGEX REPLACE "[ \t\r\n]+" " " text "${text}")
    string(APPEND all "${candidate}: ${text}\n")
    list(APPEND found ${folder}/${candidate})
  endforeach()
  zh_short_hash(hash "${all}")
  set(${result} ${hash} PARENT_SCOPE)
  set(${files} ${found} PARENT_SCOPE)
endfunction()

# Writes mpi/interface_hash.h into the build folder: libzerohop.so and its modules must have been made from one text of
# what they say to each other.
function(zh_write_interface_hash)
  set(files ${PROJECT_SOURCE_DIR}/src/mpi/entry/module_abi.h ${PROJECT_SOURCE_DIR}/src/heap/shared_heap.h)
  set(all "")
  foreach(name IN LISTS files)
    file(READ ${name} text)
    string(APPEND all "${text}")
  endforeach()
  zh_short_hash(ZH_INTERFACE_HASH "${all}")
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/mpi/interface_hash.h CONTENT [[
// Made by cmake/zh_layout_hash.cmake.
#pragma once

#include <cstdint>

namespace zh::mpi {
/// Of the text of the interfaces between libzerohop.so and its modules.
constexpr uint64_t kInterfaceText = 0x@ZH_INTERFACE_HASH@;
}  // namespace zh::mpi
]] @ONLY)
endfunction()

# Writes node/layout_hash.h into the build folder; configured anew whenever one of the files changes.
function(zh_write_layout_hash)
  zh_layout_hash(ZH_LAYOUT_HASH files ${PROJECT_SOURCE_DIR}/src)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/node/layout_hash.h CONTENT [[
// Made by cmake/zh_layout_hash.cmake.
#pragma once

#include <cstdint>

namespace zh::node {
/// Of the text of all types that lie in shared memory.
constexpr uint64_t kLayoutText = 0x@ZH_LAYOUT_HASH@;
}  // namespace zh::node
]] @ONLY)
  include_directories(${PROJECT_BINARY_DIR}/generated)
endfunction()
