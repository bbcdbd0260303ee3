// Topology by hwloc; see machine.h.
#include "node/machine.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "os/process.h"

#if ZH_HAVE_HWLOC
#include <hwloc.h>
#endif

namespace zh::node {

const char* to_string(Level level) {
  constexpr const char* kNames[] = {"self",      "same-core",   "shared-l2",   "shared-l3",
                                    "same-numa", "same-socket", "other-socket"};
  return static_cast<size_t>(level) < std::size(kNames) ? kNames[static_cast<size_t>(level)] : "?";
}

#if ZH_HAVE_HWLOC

struct Machine::State {
  hwloc_topology_t topology = nullptr;
  ~State() {
    if (topology != nullptr) hwloc_topology_destroy(topology);
  }
};

namespace {

/// Frees itself.
class Bitmap {
 public:
  Bitmap() : bits_(hwloc_bitmap_alloc()) {}
  ~Bitmap() { hwloc_bitmap_free(bits_); }
  Bitmap(const Bitmap&) = delete;
  Bitmap& operator=(const Bitmap&) = delete;
  [[nodiscard]] hwloc_bitmap_t get() const { return bits_; }

 private:
  hwloc_bitmap_t bits_;
};

/// The set's CPUs that the topology knows; all of them if there are none.
void to_bitmap(hwloc_topology_t topology, const os::CpuSet& set, hwloc_bitmap_t out) {
  hwloc_bitmap_zero(out);
  for (uint32_t cpu = 0; cpu < os::CpuSet::kMaxCpus; ++cpu) {
    if (set.has(cpu)) hwloc_bitmap_set(out, cpu);
  }
  hwloc_const_bitmap_t all = hwloc_topology_get_topology_cpuset(topology);
  hwloc_bitmap_and(out, out, all);
  if (hwloc_bitmap_iszero(out)) hwloc_bitmap_copy(out, all);
}

/// Whether one object of `type` holds the whole set.
bool within_one(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_const_bitmap_t set) {
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr) {
    if (object->cpuset != nullptr && hwloc_bitmap_isincluded(set, object->cpuset)) return true;
  }
  return false;
}

uint32_t number_of(hwloc_topology_t topology, hwloc_obj_type_t type) {
  const int n = hwloc_get_nbobjs_by_type(topology, type);
  return n > 0 ? static_cast<uint32_t>(n) : 0;
}

uint64_t cache_bytes(hwloc_topology_t topology, hwloc_obj_type_t type) {
  hwloc_obj_t cache = hwloc_get_obj_by_type(topology, type, 0);
  return cache != nullptr && cache->attr != nullptr ? cache->attr->cache.size : 0;
}

}  // namespace

bool Machine::has_hwloc() { return true; }

Status Machine::load(const std::string& source) {
  auto state = std::make_unique<State>();
  if (hwloc_topology_init(&state->topology) != 0) return {Code::kNoMemory, "hwloc_topology_init"};
  hwloc_topology_t topology = state->topology;
  // Only CPUs, caches, memory: no devices, which cost most of the loading time.
  hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(topology, HWLOC_OBJ_MISC, HWLOC_TYPE_FILTER_KEEP_NONE);
  // cpuid is asked by hwloc on each processor in turn, so that the program's thread has to wait for every one of them.
  // What it tells is in sysfs, too, but where there is none.
#if HWLOC_API_VERSION >= 0x00020100
  if (access("/sys/devices/system/cpu/cpu0/cache/index0", F_OK) == 0) {
    (void)hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  }
#endif
  const char* kSynthetic = "synthetic:";
  if (source.compare(0, std::strlen(kSynthetic), kSynthetic) == 0) {
    if (hwloc_topology_set_synthetic(topology, source.c_str() + std::strlen(kSynthetic)) != 0) {
      return {Code::kInvalid, "topology: hwloc does not understand the synthetic description"};
    }
  } else if (!source.empty()) {
    if (hwloc_topology_set_xml(topology, source.c_str()) != 0) {
      return {Code::kInvalid, "topology: the XML file cannot be read"};
    }
  }
  if (hwloc_topology_load(topology) != 0) return {Code::kInvalid, "hwloc cannot load the topology"};

  Summary s;
  s.cpus = number_of(topology, HWLOC_OBJ_PU);
  s.cores = number_of(topology, HWLOC_OBJ_CORE);
  s.l2 = number_of(topology, HWLOC_OBJ_L2CACHE);
  s.l3 = number_of(topology, HWLOC_OBJ_L3CACHE);
  s.numa_nodes = number_of(topology, HWLOC_OBJ_NUMANODE);
  s.packages = number_of(topology, HWLOC_OBJ_PACKAGE);
  s.l1d_bytes = cache_bytes(topology, HWLOC_OBJ_L1CACHE);
  s.l2_bytes = cache_bytes(topology, HWLOC_OBJ_L2CACHE);
  s.l3_bytes = cache_bytes(topology, HWLOC_OBJ_L3CACHE);
  for (hwloc_obj_t object : {hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0), hwloc_get_root_obj(topology)}) {
    const char* model =
        object != nullptr && s.cpu_model.empty() ? hwloc_obj_get_info_by_name(object, "CPUModel") : nullptr;
    if (model != nullptr) s.cpu_model = model;
  }
  summary_ = s;
  state_ = std::move(state);
  return kOk;
}

Level Machine::level(const os::CpuSet& a, const os::CpuSet& b) const {
  if (state_ == nullptr) return Level::kSharedL3;
  hwloc_topology_t topology = state_->topology;
  Bitmap both, other;
  to_bitmap(topology, a, both.get());
  to_bitmap(topology, b, other.get());
  hwloc_bitmap_or(both.get(), both.get(), other.get());
  if (hwloc_bitmap_weight(both.get()) <= 1) return Level::kSameCore;
  if (within_one(topology, HWLOC_OBJ_CORE, both.get())) return Level::kSameCore;
  if (within_one(topology, HWLOC_OBJ_L2CACHE, both.get())) return Level::kSharedL2;
  if (within_one(topology, HWLOC_OBJ_L3CACHE, both.get())) return Level::kSharedL3;
  if (number_of(topology, HWLOC_OBJ_NUMANODE) > 1 && within_one(topology, HWLOC_OBJ_NUMANODE, both.get()))
    return Level::kSameNuma;
  if (within_one(topology, HWLOC_OBJ_PACKAGE, both.get())) {
    return number_of(topology, HWLOC_OBJ_NUMANODE) > 1 ? Level::kSameSocket : Level::kSameNuma;
  }
  // Virtual machines often show no package at all; then a single memory node is what is known.
  if (number_of(topology, HWLOC_OBJ_PACKAGE) == 0 && number_of(topology, HWLOC_OBJ_NUMANODE) <= 1)
    return Level::kSameNuma;
  return Level::kOtherSocket;
}

os::CpuSet Machine::place(uint32_t index) const {
  os::CpuSet set;
  const uint32_t n = state_ != nullptr ? number_of(state_->topology, HWLOC_OBJ_PU) : 0;
  if (n > 0) set.add(hwloc_get_obj_by_type(state_->topology, HWLOC_OBJ_PU, index % n)->os_index);
  return set;
}

uint32_t Machine::cores(const os::CpuSet& set) const {
  if (state_ == nullptr) return set.count();
  Bitmap bits;
  to_bitmap(state_->topology, set, bits.get());
  uint32_t n = 0;
  hwloc_obj_t core = nullptr;
  while ((core = hwloc_get_next_obj_by_type(state_->topology, HWLOC_OBJ_CORE, core)) != nullptr) {
    if (core->cpuset != nullptr && hwloc_bitmap_intersects(core->cpuset, bits.get())) ++n;
  }
  return n > 0 ? n : static_cast<uint32_t>(hwloc_bitmap_weight(bits.get()));
}

#else  // without hwloc: one shared cache for all

struct Machine::State {};
bool Machine::has_hwloc() { return false; }
Status Machine::load(const std::string& source) {
  if (!source.empty()) return {Code::kNotSupported, "topology needs a build with hwloc"};
  summary_ = {};
  summary_.cpus = summary_.cores = os::online_cpus();
  return kOk;
}
Level Machine::level(const os::CpuSet& a, const os::CpuSet& b) const {
  os::CpuSet both = a;
  both.add(b);
  return both.count() == 1 ? Level::kSameCore : Level::kSharedL3;
}
os::CpuSet Machine::place(uint32_t) const { return {}; }
uint32_t Machine::cores(const os::CpuSet& set) const { return set.count(); }

#endif

Machine::Machine() = default;
Machine::~Machine() = default;

std::string Machine::identity() const {
  const Summary& s = summary_;
  std::string model = s.cpu_model;
  if (model.empty()) model = "unknown-cpu";
  std::string text = model + "; kernel " + os::read_small_file("/proc/sys/kernel/osrelease");
  const std::string vendor = os::read_small_file("/sys/class/dmi/id/sys_vendor");
  const std::string hypervisor = os::read_small_file("/sys/hypervisor/type");
  if (!vendor.empty()) text += "; " + vendor;
  if (!hypervisor.empty()) text += "; " + hypervisor;
  text += "; cpus " + std::to_string(s.cpus) + " cores " + std::to_string(s.cores) + " l2 " + std::to_string(s.l2) +
          "x" + std::to_string(s.l2_bytes >> 10) + "K l3 " + std::to_string(s.l3) + "x" +
          std::to_string(s.l3_bytes >> 10) + "K numa " + std::to_string(s.numa_nodes) + " sockets " +
          std::to_string(s.packages);
  return text;
}

}  // namespace zh::node
