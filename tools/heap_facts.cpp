// See heap_facts.h.
#include "heap_facts.h"

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
  const heap::Decision decision = heap::decide(false, true);
  facts.threshold = heap::kMinBytes;
  facts.page_bytes = os::page_bytes();
  facts.physical_bytes = os::physical_bytes();
  facts.address_space = os::soft_limit(os::Limit::kAddressSpace);
  facts.span_bytes = heap::span_bytes(facts.physical_bytes, facts.address_space);
  facts.overcommit = os::read_small_file("/proc/sys/vm/overcommit_memory");
  facts.private_huge_pages = os::read_small_file("/sys/kernel/mm/transparent_hugepage/enabled");
  facts.shared_huge_pages = os::read_small_file("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  facts.huge_too = decision.huge_too;
  facts.private_from = decision.huge_too ? 0 : heap::private_only_from();
  facts.populate = os::probe_populate();
  facts.sibling_file = os::probe_sibling_file();
  facts.pagemap = os::probe_pagemap();
  const char* obstacle = heap::system_obstacle();
  if (obstacle == nullptr && facts.span_bytes == 0) obstacle = heap::kNoSpan;
  facts.used = decision.use && obstacle == nullptr;
  facts.why = decision.use && obstacle != nullptr ? obstacle : decision.why;
  facts.used_by_hand = facts.used && heap::decide(false).use;
  if (facts.used && !facts.used_by_hand) {
    facts.why = "behind `zerohop run` or a launcher of MPI programs; not with LD_PRELOAD alone";
  }
  return facts;
}

}  // namespace zh::tools
