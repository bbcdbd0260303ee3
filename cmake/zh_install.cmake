# What `cmake --install` puts where: the command, the libraries beside each other, the header, and how others find it. All
# of it names its places relative to itself, so that the tree may be moved. And the packages of CPack (dev/package).

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
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/zerohop DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
# What `zerohop report`, `model report` and `bench apps` are written in.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/zerohop DESTINATION ${CMAKE_INSTALL_DATADIR}/zerohop/python
        FILES_MATCHING PATTERN "*.py" PATTERN "*.html")
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/zerohop)
install(EXPORT zerohop NAMESPACE zerohop:: DESTINATION ${package_dir} FILE zerohopConfig.cmake COMPONENT development)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/zerohopConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/zerohopConfigVersion.cmake DESTINATION ${package_dir} COMPONENT development)

file(RELATIVE_PATH prefix_of_pc /x/${CMAKE_INSTALL_LIBDIR}/pkgconfig /x)
configure_file(${PROJECT_SOURCE_DIR}/cmake/zerohop.pc.in ${PROJECT_BINARY_DIR}/zerohop.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/zerohop.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
# The pages that the command's output names, and what they link to: tests/install.py finds links that lead nowhere.
foreach(page IN ITEMS LICENSE README.md SECURITY.md CHANGELOG.md CONTRIBUTING.md bench/README.md src/README.md tests/README.md
        dev/on_machines.py dev/packages.txt include/uapi/zerohop.h tests/mpi/older_hosts.py)
  cmake_path(GET page PARENT_PATH folder)
  install(FILES ${PROJECT_SOURCE_DIR}/${page} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder})
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)

# Manual pages and completion, as the command tells them of itself.
if(TARGET zerohop_tools AND NOT CMAKE_CROSSCOMPILING)
  set(pages ${PROJECT_BINARY_DIR}/pages)
  set(completion_bash share/bash-completion/completions/zerohop)
  set(completion_zsh share/zsh/site-functions/_zerohop)
  set(completion_fish share/fish/vendor_completions.d/zerohop.fish)
  set(commands COMMAND ${CMAKE_COMMAND} -E rm -rf ${pages} COMMAND zerohop_tools manual ${pages}/share/man/man1)
  foreach(shell IN ITEMS bash zsh fish)
    cmake_path(GET completion_${shell} PARENT_PATH folder)
    list(APPEND commands COMMAND ${CMAKE_COMMAND} -E make_directory ${pages}/${folder}
                         COMMAND zerohop_tools completion ${shell} > ${pages}/${completion_${shell}})
  endforeach()
  file(GLOB_RECURSE python_files ${PROJECT_SOURCE_DIR}/python/*.py) # the pages have their help
  add_custom_command(OUTPUT ${pages}/share/man/man1/zerohop.1 ${commands} DEPENDS zerohop_tools ${python_files} VERBATIM
                     COMMENT "Writing manual pages and completion")
  add_custom_target(pages ALL DEPENDS ${pages}/share/man/man1/zerohop.1)
  install(DIRECTORY ${pages}/share DESTINATION .)
endif()

# What `make build` needs: what is installed, without tests and tools of development; and what `make demo` runs.
add_custom_target(product)
add_custom_target(demo)
foreach(target IN ITEMS zerohop zerohop-mpich zerohop-ompi zerohop_tool)
  if(TARGET ${target})
    add_dependencies(demo ${target})
  endif()
endforeach()
foreach(target IN ITEMS zerohop zerohop-mpich zerohop-ompi zerohop-abi zerohop_tool zerohop_tools zerohop_p2p bench_embed pages)
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

# Packages of the system. Which MPI a job has is not theirs to say, so they ask for none.
set(CPACK_PACKAGE_NAME zerohop)
set(CPACK_PACKAGE_CONTACT "The zerohop developers <zerohop@localhost>")
set(CPACK_PACKAGE_VENDOR "The zerohop developers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Fast MPI messages and collectives inside a node, under an unmodified program")
set(CPACK_PACKAGE_DESCRIPTION "Preloaded under an MPI program (zerohop run ./app), it serves what stays on a node.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_COMPONENTS_ALL runtime development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME zerohop)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS "libc6 (>= 2.28)")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS python3)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "python3-jinja2, python3-matplotlib, python3-plotly")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "zerohop's engine for programs without MPI: header, CMake and pkg-config files.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME zerohop-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "zerohop (= ${PROJECT_VERSION})")
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_MAIN_COMPONENT runtime)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_RUNTIME_PACKAGE_DESCRIPTION ${CPACK_PACKAGE_DESCRIPTION})
set(CPACK_RPM_DEVELOPMENT_PACKAGE_DESCRIPTION ${CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION})
set(CPACK_RPM_RUNTIME_PACKAGE_SUGGESTS python3)
set(CPACK_RPM_PACKAGE_LICENSE BSD-3-Clause)
set(CPACK_RPM_PACKAGE_AUTOREQPROV OFF)
set(CPACK_RPM_RUNTIME_PACKAGE_REQUIRES "glibc >= 2.28")
set(CPACK_RPM_DEVELOPMENT_PACKAGE_NAME zerohop-devel)
set(CPACK_RPM_DEVELOPMENT_PACKAGE_REQUIRES "zerohop = ${PROJECT_VERSION}")
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/share/man /usr/share/man/man1 /usr/share/zsh
    /usr/share/zsh/site-functions /usr/share/fish /usr/share/fish/vendor_completions.d /usr/share/bash-completion
    /usr/share/bash-completion/completions /usr/lib/cmake /usr/lib/pkgconfig)
include(CPack)
