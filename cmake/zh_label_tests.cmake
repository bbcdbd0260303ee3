# Read by ctest where the tests of a program are known (zh_gtest): gives them the labels that their sources name in lines
#   // label <label>: <regular expression of names>
# A line that fits no test of a program built since is an error, for what it named has gone; builds that leave tests out
# do not look. By them dev/check.py leaves tests out (NOT_IN, NOT_QUICK):
#   threads, processes      ranks are threads, ranks are processes
#   one-thread              nothing that two threads could do wrong
#   more-ranks, most-ranks  the same code with more ranks; with more than ThreadSanitizer has time for
#   proof, analysis         of schedules: all shapes; times and pictures. They move no bytes.
#   not-emulated            limits, pidfds, copies between processes, what the kernel says of threads and pages: qemu-user
#                           has none of them
#   command, slow           the command as users call it; too long for the quick run
# and, given by tests/heap/CMakeLists.txt, heap-bare, heap-on, heap-shared and heap-long.
if(NOT ${zh_target}_TESTS)
  return()  # not built
endif()
foreach(source IN LISTS zh_sources)
  if(NOT EXISTS ${source})
    continue()  # gone since the build was configured
  endif()
  file(STRINGS ${source} lines REGEX "^// label [a-z-]+: .")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^// label ([a-z-]+): (.+)$" line ${line})
    set(label ${CMAKE_MATCH_1})
    set(named ${${zh_target}_TESTS})
    list(FILTER named INCLUDE REGEX ${CMAKE_MATCH_2})
    if(named)
      set_tests_properties(${named} PROPERTIES LABELS ${label})  # added to those that they have
    elseif(zh_complete AND source MATCHES "_test.cpp$" AND NOT ${source} IS_NEWER_THAN ${zh_program})
      message(FATAL_ERROR "${source}: no test of ${zh_target} fits\n${line}")
    endif()
  endforeach()
endforeach()
