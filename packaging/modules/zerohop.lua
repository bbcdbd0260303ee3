-- Lmod: <folder of modules>/zerohop/@VERSION@.lua
help([[zerohop makes the MPI messages that never leave a node fast: mpirun -n 8 zerohop run ./app]])
whatis("Name: zerohop")
whatis("Version: @VERSION@")
local prefix = "/opt/zerohop/@VERSION@"
prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("MANPATH", pathJoin(prefix, "share/man"))
append_path("MANPATH", "")  -- and the system's
prepend_path("PKG_CONFIG_PATH", pathJoin(prefix, "lib/pkgconfig"))
prepend_path("CMAKE_PREFIX_PATH", prefix)
-- For all programs of a job without `zerohop run`:
-- prepend_path("LD_PRELOAD", pathJoin(prefix, "lib/libzerohop.so"))
