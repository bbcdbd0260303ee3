# Functions that make the project's targets. See CMakeLists.txt for their use.

# zh_layer(<name> [ROOMS <subfolders>...] [DEPENDS <lower layers>...] [LIBS <libraries>...])
# Target zh_<name> from src/<name>/*.cpp and its rooms: a static library, or an interface one while the folder holds only
# headers or nothing.
# Files named *_family.cpp are left out: they define functions of libc, for the preloaded library alone.
function(zh_layer name)
  cmake_parse_arguments(arg "" "" "ROOMS;DEPENDS;LIBS" ${ARGN})
  set(globs ${arg_ROOMS})
  list(TRANSFORM globs REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/src/${name}/\\1/*.cpp")
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp ${globs})
  list(FILTER sources EXCLUDE REGEX "_family\\.cpp$")
  set(lower ${arg_DEPENDS})
  list(TRANSFORM lower PREPEND zh_)
  if(sources)
    add_library(zh_${name} STATIC ${sources})
    target_link_libraries(zh_${name} PUBLIC ${lower} ${arg_LIBS} zh_options PRIVATE zh_warnings)
  else()
    add_library(zh_${name} INTERFACE)
    target_link_libraries(zh_${name} INTERFACE ${lower} ${arg_LIBS} zh_options)
  endif()
endfunction()

# zh_unit_test(<layer> [TARGET <name>] [LIBS <libraries>...])
# Executable test_<layer>, or of another name, from tests/unit/<layer>/*_test.cpp, its rooms and
# *_support.cpp, each case one ctest entry with label "unit".
function(zh_unit_test layer)
  cmake_parse_arguments(arg "" "TARGET" "LIBS" ${ARGN})
  if(NOT arg_TARGET)
    set(arg_TARGET test_${layer})
  endif()
  set(path ${PROJECT_SOURCE_DIR}/tests/unit/${layer})
  file(GLOB sources CONFIGURE_DEPENDS ${path}/*_test.cpp ${path}/*/*_test.cpp ${path}/*_support.cpp)
  if(NOT sources)
    return()
  endif()
  zh_gtest(${arg_TARGET} LABEL unit SOURCES ${sources} LIBS zh_${layer} ${arg_LIBS})
  # What is tested is compiled as it is shipped; optimising the tests themselves doubles their time in the compiler. Of
  # the layers named here the headers are what is tested, or the tests compute much.
  if(NOT layer MATCHES "^(shm|p2p|simd|copy|engine)$")
    target_compile_options(${arg_TARGET} PRIVATE -O0)
  endif()
endfunction()

# zh_gtest(<target> LABEL <label> SOURCES <files>... [LIBS <libraries>...] [TIMEOUT <seconds>])
# A GoogleTest executable with a main of its own; sources see src/ and tests/. They may label single tests further
# (zh_label_tests.cmake).
function(zh_gtest target)
  cmake_parse_arguments(arg "" "LABEL;TIMEOUT" "SOURCES;LIBS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)  # above the watchdog of tests/support/fork_world.h, which says what hangs
  endif()
  add_executable(${target} ${arg_SOURCES})
  set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE 8)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE ${arg_LIBS} GTest::gtest GTest::gtest_main zh_options zh_warnings)
  include(GoogleTest)
  gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 TEST_PREFIX "${target}."
    PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT} ENVIRONMENT XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/test-cache)
  set(sources ${PROJECT_SOURCE_DIR}/tests/support/fork_world.h)
  foreach(source IN LISTS arg_SOURCES)
    if(source MATCHES "_test.cpp$")
      get_filename_component(source ${source} ABSOLUTE)
      list(APPEND sources ${source})
    endif()
  endforeach()
  set(complete ON)
  if(ZH_SANITIZE OR CMAKE_CROSSCOMPILING)
    set(complete OFF)
  endif()
  set(labels ${CMAKE_CURRENT_BINARY_DIR}/${target}_labels.cmake)
  file(GENERATE OUTPUT ${labels} CONTENT "set(zh_target ${target})
set(zh_complete ${complete})
set(zh_program \"$<TARGET_FILE:${target}>\")
set(zh_sources \"${sources}\")
include(${PROJECT_SOURCE_DIR}/cmake/zh_label_tests.cmake)
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${labels})
endfunction()

# zh_preload_library(<target> [EXPORTS <version script>] [ALLOW_UNDEFINED])
# For a shared library that lives in programs which are not ours: it brings its own C++ runtime, hidden; it exports only what
# the version script names; it leaves nothing undefined that libc does not provide.
function(zh_preload_library target)
  cmake_parse_arguments(arg "ALLOW_UNDEFINED" "EXPORTS" "" ${ARGN})
  set_target_properties(${target} PROPERTIES
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(${target} PRIVATE zh_options zh_warnings zh::glibc)
  target_link_options(${target} PRIVATE
    -static-libgcc $<$<LINK_LANGUAGE:CXX>:-static-libstdc++> -Wl,--exclude-libs,ALL -Wl,--gc-sections -Wl,-z,relro
    -Wl,--build-id=sha1)
  if(NOT arg_ALLOW_UNDEFINED AND NOT ZH_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
  if(arg_EXPORTS)
    get_filename_component(map ${arg_EXPORTS} ABSOLUTE)
    target_link_options(${target} PRIVATE -Wl,--version-script=${map})
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${map})
  endif()
endfunction()

# Folders and tools that may not exist in a partial checkout.
function(zh_optional_subdirectory folder)
  if(EXISTS ${PROJECT_SOURCE_DIR}/${folder}/CMakeLists.txt)
    add_subdirectory(${folder})
  endif()
endfunction()

# zh_command(<folder>): the command, from the rooms of <folder>. Target zerohop_tool is bin/zerohop (`zerohop` is the
# library), which has `zerohop run` and starts bin/zerohop-tools, target zerohop_tools, for everything else; their code is in
# the libraries zh_command (<folder>/cli) and zh_<folder>, which tests/unit/<folder> tests. The C++ runtime is inside, so that
# they run where only libc is installed.
function(zh_command folder)
  set(path ${PROJECT_SOURCE_DIR}/${folder})
  if(NOT ZH_TOOL_HEADERS_FOUND)
    return()
  endif()
  file(GLOB command_sources CONFIGURE_DEPENDS ${path}/cli/*.cpp)
  file(GLOB sources CONFIGURE_DEPENDS ${path}/*/*.cpp)
  list(REMOVE_ITEM sources ${command_sources})
  list(REMOVE_ITEM command_sources ${path}/cli/main.cpp ${path}/cli/tools_main.cpp)
  add_library(zh_command STATIC ${command_sources})
  target_link_libraries(zh_command PUBLIC zh_os zh_base zh::tool_headers zh_options ${CMAKE_DL_LIBS} PRIVATE zh_warnings)
  add_library(zh_${folder} STATIC ${sources})
  target_link_libraries(zh_${folder} PUBLIC zh_command zh_engine zh_coll_analysis PRIVATE zh_warnings)
  set_target_properties(zh_${folder} PROPERTIES UNITY_BUILD_BATCH_SIZE 8)
  add_executable(zerohop_tool ${path}/cli/main.cpp)
  set_target_properties(zerohop_tool PROPERTIES OUTPUT_NAME zerohop)
  target_link_libraries(zerohop_tool PRIVATE zh_command)
  add_executable(zerohop_tools ${path}/cli/tools_main.cpp)
  set_target_properties(zerohop_tools PROPERTIES OUTPUT_NAME zerohop-tools)
  target_link_libraries(zerohop_tools PRIVATE zh_${folder})
  string(REPLACE GNU GCC compiler "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
  set_source_files_properties(${path}/cli/command_line.cpp PROPERTIES COMPILE_DEFINITIONS
    "ZH_COMPILER=\"${compiler}\";ZH_HWLOC=\"${ZH_HWLOC_WORDS}\"")
  foreach(target zh_command zh_${folder})
    # Half of a first build is these files; what a command measures with lies in src/.
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
    target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
  endforeach()
  foreach(target zerohop_tool zerohop_tools)
    target_link_libraries(${target} PRIVATE zh_warnings zh::glibc zh::glibc_math)
    target_link_options(${target} PRIVATE -static-libgcc -static-libstdc++)
  endforeach()
  if(ZH_BUILD_TESTS)
    zh_unit_test(${folder})
  endif()
endfunction()
