#%Module1.0
# Environment Modules: <folder of modules>/zerohop/@VERSION@
proc ModulesHelp { } {
    puts stderr "zerohop makes the MPI messages that never leave a node fast: mpirun -n 8 zerohop run ./app"
}
module-whatis "zerohop @VERSION@"
set prefix /opt/zerohop/@VERSION@
prepend-path PATH $prefix/bin
prepend-path MANPATH $prefix/share/man
append-path MANPATH ""
prepend-path PKG_CONFIG_PATH $prefix/lib/pkgconfig
prepend-path CMAKE_PREFIX_PATH $prefix
# For all programs of a job without `zerohop run`:
# prepend-path LD_PRELOAD $prefix/lib/libzerohop.so
