# What `cmake --install` puts where: the command, the libraries beside each other, the header, and how others find it. All
# of it names its places relative to itself, so that the tree may be moved.

# The command looks for its library in ../lib, also where the system's libraries lie in a folder of the architecture.
set(CMAKE_INSTALL_LIBDIR lib CACHE PATH "Folder of the libraries, beside that of the command")
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

foreach(target IN ITEMS zerohop zerohop-mpich zerohop-ompi zerohop-abi)
  if(TARGET ${target})
    install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()
if(TARGET zerohop_tool)
  install(TARGETS zerohop_tool zerohop_tools RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
elseif(SKBUILD)
  message(FATAL_ERROR "pip installs the zerohop command, and it cannot be built here: the table of parts says why")
endif()

install(TARGETS zerohop_p2p EXPORT zerohop LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/zerohop DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# What `zerohop report`, `model report` and `bench apps` are written in.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/zerohop DESTINATION ${CMAKE_INSTALL_DATADIR}/zerohop/python
        FILES_MATCHING PATTERN "*.py" PATTERN "*.html")
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/zerohop)
install(EXPORT zerohop NAMESPACE zerohop:: DESTINATION ${package_dir} FILE zerohopConfig.cmake)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/zerohopConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/zerohopConfigVersion.cmake DESTINATION ${package_dir})

file(RELATIVE_PATH prefix_of_pc /x/${CMAKE_INSTALL_LIBDIR}/pkgconfig /x)
configure_file(${PROJECT_SOURCE_DIR}/cmake/zerohop.pc.in ${PROJECT_BINARY_DIR}/zerohop.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/zerohop.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# What `make build` needs: what is installed, without tests and tools of development; and what `make demo` runs.
add_custom_target(product)
add_custom_target(demo)
foreach(target IN ITEMS zerohop zerohop-mpich zerohop-ompi zerohop_tool)
  if(TARGET ${target})
    add_dependencies(demo ${target})
  endif()
endforeach()
foreach(target IN ITEMS zerohop zerohop-mpich zerohop-ompi zerohop-abi zerohop_tool zerohop_tools zerohop_p2p bench_embed)
  if(TARGET ${target})
    add_dependencies(product ${target})
  endif()
endforeach()
foreach(program IN ITEMS p2p coll matmul apps halo)
  foreach(abi IN ITEMS mpich ompi abi)
    if(TARGET bench_${program}_${abi})
      add_dependencies(product bench_${program}_${abi})
    endif()
  endforeach()
endforeach()
