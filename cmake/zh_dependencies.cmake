# What the project takes from the system: hwloc, the headers of Highway, and header-only CLI11, nlohmann json and fmt for the command.

include(zh_hwloc)

# zh_link_headers(<folder> <into> <found>): links /usr/include/<folder> into the build tree's folder <into>, and says whether it is
# there. When cross-compiling, /usr/include itself must stay out of the search path; these folders hold no code for one architecture.
function(zh_link_headers folder into found)
  find_path(ZH_${folder}_DIR ${folder} PATHS /usr/include /usr/local/include NO_CMAKE_FIND_ROOT_PATH)
  if(ZH_${folder}_DIR)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/${into})
    file(CREATE_LINK ${ZH_${folder}_DIR}/${folder} ${CMAKE_BINARY_DIR}/${into}/${folder} SYMBOLIC)
    set(${found} ON PARENT_SCOPE)
  else()
    set(${found} OFF PARENT_SCOPE)
  endif()
endfunction()

# zh::highway - Highway's headers alone: its compiled part (the choice of a CPU's target) would be one more library in a process
# that is not ours, and Debian has no static one. Without it the reductions are plain loops.
add_library(zh_highway INTERFACE)
add_library(zh::highway ALIAS zh_highway)
zh_link_headers(hwy highway-include ZH_HIGHWAY_FOUND)
if(ZH_HIGHWAY_FOUND)
  target_include_directories(zh_highway SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/highway-include)
  target_compile_definitions(zh_highway INTERFACE ZH_HAVE_HIGHWAY=1)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12's own intrinsics hold deliberately undefined values, which old Highways use.
    target_compile_options(zh_highway INTERFACE -Wno-maybe-uninitialized)
  endif()
else()
  zh_part_left_out("vector reductions" "no headers of Highway (libhwy-dev, highway-devel)")
  target_compile_definitions(zh_highway INTERFACE ZH_HAVE_HIGHWAY=0)
endif()

# Header-only libraries of the command.
add_library(zh_tool_headers INTERFACE)
add_library(zh::tool_headers ALIAS zh_tool_headers)
target_compile_definitions(zh_tool_headers INTERFACE FMT_HEADER_ONLY=1)
# A key that is not in a const object is no memory to read, in builds without assertions either.
target_compile_options(zh_tool_headers INTERFACE "-DJSON_ASSERT(x)=((x)?static_cast<void>(0):__builtin_trap())")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 follows nlohmann json's moved-from values into unions that are not read.
  target_compile_options(zh_tool_headers INTERFACE -Wno-maybe-uninitialized)
endif()
set(ZH_TOOL_HEADERS_FOUND ON)
foreach(folder IN ITEMS CLI nlohmann fmt)
  zh_link_headers(${folder} tool-include found)
  if(NOT found)
    set(ZH_TOOL_HEADERS_FOUND OFF)
    list(APPEND missing ${folder})
  endif()
endforeach()
if(ZH_BUILD_TOOLS AND NOT ZH_TOOL_HEADERS_FOUND)
  zh_part_left_out("zerohop (command)" "no headers of ${missing} (libcli11-dev, nlohmann-json3-dev, libfmt-dev)")
endif()
target_include_directories(zh_tool_headers SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/tool-include)

# GoogleTest: the system's library, or its packaged sources when cross-compiling.
function(zh_find_gtest)
  if(NOT CMAKE_CROSSCOMPILING)
    find_package(GTest QUIET)
  endif()
  if(NOT GTest_FOUND AND EXISTS /usr/src/googletest/CMakeLists.txt)
    set(BUILD_GMOCK OFF CACHE BOOL "" FORCE)
    set(INSTALL_GTEST OFF CACHE BOOL "" FORCE)
    add_subdirectory(/usr/src/googletest ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
    if(NOT TARGET GTest::gtest_main)
      add_library(GTest::gtest ALIAS gtest)
      add_library(GTest::gtest_main ALIAS gtest_main)
    endif()
  endif()
  if(NOT TARGET GTest::gtest_main)
    message(FATAL_ERROR "GoogleTest not found: run dev/setup, or configure with -DZH_BUILD_TESTS=OFF")
  endif()
  if(GTest_FOUND)
    set_target_properties(GTest::gtest GTest::gtest_main PROPERTIES IMPORTED_GLOBAL TRUE)
  endif()
endfunction()
