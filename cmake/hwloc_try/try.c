/* Touches the parts of hwloc that zerohop uses, so that the archive members behind them are linked. */
#include <hwloc.h>

int zh_hwloc_try(void);

int zh_hwloc_try(void) {
  hwloc_topology_t topology;
  if (hwloc_topology_init(&topology) != 0) return -1;
  hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_load(topology);
  int pus = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
  hwloc_topology_destroy(topology);
  return pus;
}
