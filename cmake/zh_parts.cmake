# What is built and what is left out, told when the configuration ends: nothing is missing in silence.

# zh_part(<name> <how it is built>) and zh_part_left_out(<name> <reason>), without semicolons.
function(zh_part name how)
  set_property(GLOBAL APPEND PROPERTY ZH_PARTS "${name}|${how}")
endfunction()

function(zh_part_left_out name reason)
  set_property(GLOBAL APPEND PROPERTY ZH_PARTS "${name}|LEFT OUT: ${reason}")
  set_property(GLOBAL APPEND PROPERTY ZH_LEFT_OUT ${name})
endfunction()

# Prints the table and leaves it in parts.txt of the build folder (dev/build shows it).
function(zh_tell_parts)
  get_property(parts GLOBAL PROPERTY ZH_PARTS)
  get_property(left_out GLOBAL PROPERTY ZH_LEFT_OUT)
  set(table "")
  foreach(part IN LISTS parts)
    string(REGEX REPLACE "[|].*" "" name "${part}")
    string(REGEX REPLACE "^[^|]*[|]" "" how "${part}")
    string(LENGTH "${name}" length)
    math(EXPR blanks "24 - ${length}")
    string(REPEAT " " ${blanks} gap)
    string(APPEND table "  ${name}${gap}${how}\n")
  endforeach()
  file(WRITE ${PROJECT_BINARY_DIR}/parts.txt "${table}")
  message(STATUS "zerohop ${PROJECT_VERSION} is built of\n${table}")
  if(left_out)
    list(JOIN left_out ", " names)
    message(WARNING "LEFT OUT: ${names}; the table above says why")
  endif()
endfunction()
