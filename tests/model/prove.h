// Runs a scenario to the end and then proves that it can fail: every acquire, release and read-modify-write of the
// shipped code that the scenario meets is weakened once, and each such mutant must be found.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checker.h"

namespace zh::mc {

/// A site whose order this scenario does not need, and why; matched by "function kind".
struct Unneeded {
  std::string site;
  const char* why;
};

/// `min_executions` guards against a scenario that by mistake hardly runs.
inline void prove(const std::function<std::unique_ptr<Scenario>()>& make, uint64_t min_executions,
                  const std::vector<Unneeded>& unneeded = {}, Options options = {}) {
  const char* name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const Report base = explore(options, make);
  std::printf("%s: %llu executions, %llu cut short, at most %llu steps%s\n", name,
              static_cast<unsigned long long>(base.executions), static_cast<unsigned long long>(base.pruned),
              static_cast<unsigned long long>(base.longest), base.complete ? "" : " (NOT COMPLETE)");
  ASSERT_TRUE(base.ok) << base.failure;
  ASSERT_TRUE(base.complete) << "the space was not searched to the end";
  EXPECT_GE(base.executions, min_executions);
  uint32_t found = 0;
  for (const std::string& site : base.sites) {
    const std::string file = site.substr(0, site.find(':'));
    const std::string what = site.substr(site.find(' ') + 1);
    // The scenario's own.
    if (file.find("_test.") != std::string::npos || file.find("_world.") != std::string::npos) continue;
    const bool rmw = what.size() > 4 && what.substr(what.size() - 4) == " rmw";
    options.mutation = {rmw ? Mutation::Kind::kTorn : Mutation::Kind::kRelaxed, site};
    const Report mutant = explore(options, make);
    const Unneeded* known = nullptr;
    for (const Unneeded& u : unneeded) {
      if (u.site == what) known = &u;
    }
    if (known != nullptr) {
      EXPECT_TRUE(mutant.ok) << site << " is listed as not needed (" << known->why
                             << ") but its mutant fails: take it off";
      continue;
    }
    EXPECT_FALSE(mutant.ok) << "mutant not found: " << site << (rmw ? " torn" : " relaxed") << " in "
                            << mutant.executions << " executions";
    if (!mutant.ok) ++found;
  }
  std::printf("%s: %u mutants found\n", name, found);
  EXPECT_GT(found, 0u);
}

}  // namespace zh::mc
