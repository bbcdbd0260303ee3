// The doctor's judgement of the shared heap, on machines that are not this one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "doctor.h"

namespace zh::tools {
namespace {

HeapFacts good_machine() {
  HeapFacts f;
  f.setting = "auto";
  f.used = f.used_by_hand = true;
  f.threshold = 32 << 10;
  f.page_bytes = 4096;
  f.span_bytes = uint64_t{64} << 30;
  f.overcommit = "0";
  f.private_huge_pages = "always [madvise] never";
  f.shared_huge_pages = "always within_size advise [never] deny force";
  return f;
}

Check check_of(const HeapFacts& facts, const std::string& name) {
  for (Check& c : heap_checks(facts)) {
    if (name == c.name) return c;
  }
  ADD_FAILURE() << "no check " << name;
  return {"none", State::kOk, "", "", ""};
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
  f.private_from = 2 << 20;
  for (const Check& c : heap_checks(f)) {
    EXPECT_EQ(c.state == State::kOk, c.cost.empty()) << c.name;
    EXPECT_EQ(c.state == State::kOk, c.cure.empty()) << c.name;
    EXPECT_EQ(c.state == State::kOk, std::string(c.name) == "shared_heap") << c.name;
  }
}

TEST(DoctorHeap, HugePagesOfPrivateMemoryOnly) {
  HeapFacts f = good_machine();
  f.private_from = 2 << 20;
  const Check c = check_of(f, "huge_pages");
  EXPECT_EQ(c.state, State::kWarn);
  EXPECT_NE(c.cost.find("2M"), std::string::npos) << c.cost;
  EXPECT_EQ(c.cure.find("echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled"), 0U) << c.cure;
  f.used = false;
  EXPECT_EQ(check_of(f, "huge_pages").state, State::kOk) << "without the heap it costs nothing";
}

TEST(DoctorHeap, WhatTheUserSwitchedOffIsNoFault) {
  HeapFacts f = good_machine();
  f.used = f.used_by_hand = false;
  f.switched_off = true;
  f.why = "ZEROHOP_HEAP is 0";
  EXPECT_EQ(check_of(f, "shared_heap").state, State::kOk);
  f.switched_off = false;
  f.overcommit = "2";
  EXPECT_EQ(check_of(f, "shared_heap").cure, "sysctl -w vm.overcommit_memory=0");
  f.overcommit = "0";
  f.why = "a limit on the size of files is set (ulimit -f)";
  EXPECT_EQ(check_of(f, "shared_heap").cure, "ulimit -f unlimited");
}

TEST(DoctorHeap, SizesAreReadable) {
  EXPECT_EQ(size_text(~uint64_t{0}), "unlimited");
  EXPECT_EQ(size_text(uint64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(size_text(1 << 19), "0.5 MiB");
}

}  // namespace
}  // namespace zh::tools
