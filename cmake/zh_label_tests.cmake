# Read by ctest where the tests of a program are known (zh_gtest): gives them the labels that their sources name in lines
#   // label <label>: <regular expression of names>
# A line that fits no test is an error, for what it named has gone; builds that leave tests out do not look.
if(NOT ${zh_target}_TESTS)
  return()  # not built
endif()
foreach(source IN LISTS zh_sources)
  file(STRINGS ${source} lines REGEX "^// label [a-z-]+: .")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^// label ([a-z-]+): (.+)$" line ${line})
    set(label ${CMAKE_MATCH_1})
    set(named ${${zh_target}_TESTS})
    list(FILTER named INCLUDE REGEX ${CMAKE_MATCH_2})
    if(named)
      set_tests_properties(${named} PROPERTIES LABELS ${label})  # added to those that they have
    elseif(zh_complete AND source MATCHES "_test.cpp$")
      message(FATAL_ERROR "${source}: no test of ${zh_target} fits\n${line}")
    endif()
  endforeach()
endforeach()
