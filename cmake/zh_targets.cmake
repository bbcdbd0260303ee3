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
# Executable test_<layer>, or of another name, from tests/unit/<layer>/*_test.cpp (and *_support.cpp), each case one ctest entry with label "unit".
function(zh_unit_test layer)
  cmake_parse_arguments(arg "" "TARGET" "LIBS" ${ARGN})
  if(NOT arg_TARGET)
    set(arg_TARGET test_${layer})
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/unit/${layer}/*_test.cpp
       ${PROJECT_SOURCE_DIR}/tests/unit/${layer}/*_support.cpp)
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
# A GoogleTest executable with a main of its own; sources see src/ and tests/.
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

# zh_optional_tool(<name> <folder>): the executable bin/<name> (target <name>_tool, for <name> is the library) from <folder>/main.cpp
# and the static library zh_<folder> of its other files (which tests/unit/<folder> tests). The C++ runtime is inside, so that it
# runs where only libc is installed.
function(zh_optional_tool name folder)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
  set(main ${PROJECT_SOURCE_DIR}/${folder}/main.cpp)
  if(NOT sources OR NOT ZH_TOOL_HEADERS_FOUND)
    return()
  endif()
  list(REMOVE_ITEM sources ${main})
  if(sources)
    add_library(zh_${folder} STATIC ${sources})
    target_link_libraries(zh_${folder} PUBLIC zh_engine zh_coll_analysis zh::tool_headers zh_options ${CMAKE_DL_LIBS} PRIVATE zh_warnings)
    # Half of a first build is these files; what a command measures with lies in src/.
    target_compile_options(zh_${folder} PRIVATE $<$<CONFIG:Release>:-O1>)
    set_target_properties(zh_${folder} PROPERTIES UNITY_BUILD_BATCH_SIZE 8)
  else()
    add_library(zh_${folder} INTERFACE)
    target_link_libraries(zh_${folder} INTERFACE zh_engine zh_coll_analysis zh::tool_headers zh_options ${CMAKE_DL_LIBS})
  endif()
  target_include_directories(zh_${folder} INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/${folder})
  if(sources)
    target_include_directories(zh_${folder} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/${folder})
  endif()
  if(TARGET zh_bench)
    get_target_property(kind zh_${folder} TYPE)
    if(kind STREQUAL "STATIC_LIBRARY")
      target_link_libraries(zh_${folder} PUBLIC zh_bench)
    else()
      target_link_libraries(zh_${folder} INTERFACE zh_bench)
    endif()
  endif()
  if(EXISTS ${main})
    add_executable(${name}_tool ${main})
    set_target_properties(${name}_tool PROPERTIES OUTPUT_NAME ${name})
    target_link_libraries(${name}_tool PRIVATE zh_${folder} zh_warnings zh::glibc zh::glibc_math)
    target_link_options(${name}_tool PRIVATE -static-libgcc -static-libstdc++)
  endif()
  if(ZH_BUILD_TESTS)
    zh_unit_test(${folder})
  endif()
endfunction()
