// See heap_facts.h.
#include "tools/doctor/heap_facts.h"

#include "base/environment.h"
#include "base/options.h"
#include "heap/decide.h"
#include "heap/huge_pages.h"
#include "heap/limits.h"
#include "os/probe.h"
#include "os/process.h"
#include "os/program.h"
#include "os/vm.h"

namespace zh::tools {

HeapFacts look_at_heap(const Options& options) {
  HeapFacts facts;
  facts.setting = options.get_text(Opt::kHeap);
  facts.switched_off = facts.setting == "0" || !options.get_bool(Opt::kEnable);
  // The decision reads the environment, as `zerohop run` would hand it on.
  os::set_variable("ZEROHOP_HEAP", facts.setting);
  os::set_variable("ZEROHOP_ENABLE", options.get_text(Opt::kEnable));
  const heap::Decision decision = heap::decide();
  facts.page_bytes = os::page_bytes();
  facts.overcommit = os::read_small_file("/proc/sys/vm/overcommit_memory");
  facts.private_huge_pages = os::read_small_file("/sys/kernel/mm/transparent_hugepage/enabled");
  facts.shared_huge_pages = os::read_small_file("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  facts.huge_too = decision.always;
  facts.huge_pages_stay =
      !decision.always && heap::private_memory_has_huge_pages() && !heap::shared_memory_has_huge_pages();
  facts.populate = os::probe_populate();
  facts.sibling_file = os::probe_sibling_file();
  facts.pagemap = os::probe_pagemap();
  const char* obstacle = heap::system_obstacle();
  if (obstacle == nullptr && !facts.pagemap) obstacle = "/proc/self/pagemap cannot be read";
  facts.used = decision.use && obstacle == nullptr;
  facts.why = decision.use && obstacle != nullptr ? obstacle : decision.why;
  return facts;
}

}  // namespace zh::tools
