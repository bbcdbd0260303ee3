// The doctor's judgement of the shared heap, on machines that are not this one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "tools/doctor/doctor.h"

namespace zh::tools {
namespace {

HeapFacts good_machine() {
  HeapFacts f;
  f.setting = "auto";
  f.used = true;
  f.page_bytes = 4096;
  f.overcommit = "0";
  f.private_huge_pages = "always [madvise] never";
  f.shared_huge_pages = "always within_size advise [never] deny force";
  return f;
}

Check heap_check(const HeapFacts& facts, const std::string& name) {
  for (Check& c : heap_checks(facts)) {
    if (name == c.name) return c;
  }
  ADD_FAILURE() << "no check " << name;
  return {"none"};
}

TEST(DoctorHeap, AGoodMachineCostsNothing) {
  for (const Check& c : heap_checks(good_machine())) {
    EXPECT_EQ(c.state, State::kOk) << c.name;
    EXPECT_TRUE(!c.finding.empty() && c.cost.empty() && c.cure.empty()) << c.name;
  }
}

TEST(DoctorHeap, WhateverCostsHasACure) {
  HeapFacts f = good_machine();
  f.populate = -EINVAL;
  f.sibling_file = -EACCES;
  f.pagemap = false;
  f.huge_pages_stay = true;
  for (const Check& c : heap_checks(f)) {
    const std::string name = c.name;
    EXPECT_EQ(c.cost.empty(), c.cure.empty()) << name;
    EXPECT_EQ(c.cost.empty(), c.state == State::kOk) << name;
    // Memory in huge pages is fast memory: that it stays so is a choice, not a fault.
    EXPECT_EQ(c.state == State::kOk, name == "shared_heap" || name == "huge_pages") << name;
  }
  f.used = false;
  f.switched_off = true;
  for (const Check& c : heap_checks(f)) {
    EXPECT_EQ(c.cost.empty(), std::string(c.name) != "peer_files") << c.name << ": without the heap it costs nothing";
  }
}

TEST(DoctorHeap, HugePagesOfPrivateMemoryOnly) {
  HeapFacts f = good_machine();
  f.huge_pages_stay = true;
  const Check c = heap_check(f, "huge_pages");
  EXPECT_EQ(c.state, State::kOk);
  EXPECT_NE(c.finding.find("[madvise]"), std::string::npos) << c.finding;
  EXPECT_NE(c.finding.find("memory in huge pages stays private"), std::string::npos) << c.finding;
  f.used = false;
  EXPECT_EQ(heap_check(f, "huge_pages").finding.find("stays private"), std::string::npos) << "all does then";
}

TEST(DoctorHeap, WhatTheUserSwitchedOffIsNoFault) {
  HeapFacts f = good_machine();
  f.used = false;
  f.switched_off = true;
  f.why = "ZEROHOP_HEAP is 0";
  EXPECT_EQ(heap_check(f, "shared_heap").state, State::kOk);
  EXPECT_NE(heap_check(f, "shared_heap").finding.find(f.why), std::string::npos);
  f.switched_off = false;
  EXPECT_EQ(heap_check(f, "shared_heap").state, State::kWarn);
  f.overcommit = "2";
  EXPECT_EQ(heap_check(f, "shared_heap").cure, "sysctl -w vm.overcommit_memory=0");
  f.overcommit = "0";
  f.why = "a limit on the size of files is set (ulimit -f)";
  EXPECT_EQ(heap_check(f, "shared_heap").cure, "ulimit -f unlimited");
}

TEST(DoctorHeap, SizesAreReadable) {
  EXPECT_EQ(amount(~uint64_t{0}), "unlimited");
  EXPECT_EQ(amount(uint64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(amount(1 << 19), "512.0 KiB");
}

}  // namespace
}  // namespace zh::tools
