// The doctor's judgement of what a job meets: parts, MPI libraries, programs, preloads, variables, sockets.
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "base/options.h"
#include "mpi/entry/known_hosts.h"
#include "tools/doctor/doctor.h"

namespace zh::tools {
namespace {

Parts whole_job() { return {"/p/lib/libzerohop.so", true, {mpi::kMpichModule, mpi::kOpenMpiModule, mpi::kAbiModule}}; }

MpiLibrary open_mpi(const std::string& version = "5.0.3") {
  return {"libmpi.so.40", "/m/lib/libmpi.so.40", "Open MPI v" + version + ", package: somebody's", mpi::kOpenMpiModule};
}

MpiFacts machine_of(const MpiLibrary& library) {
  MpiFacts facts;
  facts.launcher = "/m/bin/mpiexec";
  facts.launcher_version = "Open MPI 5.0.3";
  facts.launcher_module = mpi::kOpenMpiModule;
  facts.libraries = {library};
  return facts;
}

ProgramFacts program_of(const MpiLibrary& library) {
  ProgramFacts p;
  p.name = "app";
  p.path = "/somewhere/app";
  p.mpi = {library};
  return p;
}

Check check_of(const std::vector<Check>& checks, const std::string& name) {
  for (const Check& c : checks) {
    EXPECT_EQ(c.state == State::kOk, c.cost.empty()) << c.name;
    EXPECT_EQ(c.state == State::kOk, c.cure.empty()) << c.name;
    EXPECT_FALSE(c.finding.empty()) << c.name;
  }
  for (const Check& c : checks) {
    if (name == c.name) return c;
  }
  ADD_FAILURE() << "no check " << name;
  return {"none"};
}

Check program_check(const ProgramFacts& p, const MpiFacts& mpi = machine_of(open_mpi()),
                    const Parts& parts = whole_job()) {
  return check_of(job_checks(parts, mpi, &p, {}), "program");
}

TEST(DoctorJob, AWholeInstallationWithAnMpiIsWell) {
  for (const Check& c : job_checks(whole_job(), machine_of(open_mpi()), nullptr, {}))
    EXPECT_EQ(c.state, State::kOk) << c.name;
}

TEST(DoctorJob, WithoutLibraryOrModulesNothingWorks) {
  Parts parts;
  const auto nothing = job_checks(parts, machine_of(open_mpi()), nullptr, {});
  EXPECT_EQ(check_of(nothing, "library").state, State::kBad);
  EXPECT_EQ(check_of(nothing, "modules").state, State::kBad);
  parts = whole_job();
  parts.library_whole = false;
  EXPECT_EQ(check_of(job_checks(parts, {}, nullptr, {}), "library").state, State::kBad) << "a file that is no library";
}

TEST(DoctorJob, AMissingModuleMattersWhereItsMpiIs) {
  Parts parts = whole_job();
  parts.modules = {mpi::kMpichModule};
  const Check c = check_of(job_checks(parts, machine_of(open_mpi()), nullptr, {}), "modules");
  EXPECT_EQ(c.state, State::kWarn);
  EXPECT_NE(c.finding.find(mpi::kOpenMpiModule), std::string::npos) << c.finding;
  MpiLibrary mpich{"libmpi.so.12", "/m/lib/libmpi.so.12", "MPICH Version: 5.0.0", mpi::kMpichModule};
  EXPECT_EQ(check_of(job_checks(parts, machine_of(mpich), nullptr, {}), "modules").state, State::kOk);
}

TEST(DoctorJob, VersionsAreThoseOfTheUserGuide) {
  const auto finding = [](const MpiLibrary& library) {
    return check_of(job_checks(whole_job(), machine_of(library), nullptr, {}), "mpi").finding;
  };
  EXPECT_NE(finding(open_mpi()).find("Open MPI 5.0.3, served ("), std::string::npos) << finding(open_mpi());
  EXPECT_NE(finding(open_mpi("6.1.0")).find("served; tried were 4.1, 5.0"), std::string::npos);
  MpiLibrary intel{"libmpi.so.12", "/i/libmpi.so.12", "Intel(R) MPI Library 2021.19 for Linux* OS\n",
                   mpi::kMpichModule};
  EXPECT_NE(finding(intel).find("Intel MPI 2021.19, served ("), std::string::npos) << finding(intel);
}

TEST(DoctorJob, AnUnknownMpiIsNotServed) {
  MpiLibrary odd = open_mpi();
  odd.module = "";
  EXPECT_EQ(check_of(job_checks(whole_job(), machine_of(odd), nullptr, {}), "mpi").state, State::kBad);
  EXPECT_EQ(program_check(program_of(odd)).state, State::kBad);
  MpiFacts both = machine_of(odd);
  both.libraries.push_back(open_mpi());
  EXPECT_EQ(check_of(job_checks(whole_job(), both, nullptr, {}), "mpi").state, State::kOk) << "another one is served";
  EXPECT_EQ(check_of(job_checks(whole_job(), {}, nullptr, {}), "mpi").state, State::kWarn) << "none at all";
}

TEST(DoctorJob, AProgramOfTheMachinesMpiIsWell) {
  const Check c = program_check(program_of(open_mpi()));
  EXPECT_EQ(c.state, State::kOk);
  EXPECT_EQ(c.finding.find("/somewhere/app: links with libmpi.so.40: Open MPI 5.0.3, served"), 0U) << c.finding;
}

TEST(DoctorJob, WhatKeepsZerohopOutOfAProgramIsBad) {
  const auto bad = [](auto change, const std::string& word) {
    ProgramFacts p = program_of(open_mpi());
    change(&p);
    const Check c = program_check(p);
    EXPECT_EQ(c.state, State::kBad) << word;
    EXPECT_NE(c.finding.find(word), std::string::npos) << c.finding;
  };
  bad([](ProgramFacts* p) { p->error = ENOENT; }, "not found");
  bad([](ProgramFacts* p) { p->error = EACCES; }, "Permission denied");
  bad([](ProgramFacts* p) { p->obstacle = "is a 32-bit program"; }, "32-bit");
  bad([](ProgramFacts* p) { p->other_machine = true; }, "processor");
  bad([](ProgramFacts* p) { p->holds_mpi = true; }, "statically");
  bad([](ProgramFacts* p) { p->missing = {"libm5.so"}; }, "libm5.so");
  bad([](ProgramFacts* p) { p->mpi[0].path = ""; }, "does not find");
  bad([](ProgramFacts* p) { p->doubtful_profiler = "libprof.so"; }, "libprof.so");
  bad([](ProgramFacts* p) { p->script_of = "/no/python", p->interpreter_missing = true; }, "/no/python");
  Parts parts = whole_job();
  parts.modules = {mpi::kMpichModule};
  EXPECT_EQ(program_check(program_of(open_mpi()), machine_of(open_mpi()), parts).state, State::kBad);
}

TEST(DoctorJob, ALauncherOfAnotherMpiMakesJobsOfOneRank) {
  MpiFacts other = machine_of(open_mpi());
  other.launcher_module = mpi::kMpichModule;
  other.launcher_version = "MPICH 5.0.2";
  EXPECT_NE(program_check(program_of(open_mpi()), other).cost.find("one rank"), std::string::npos);
  other.launcher_module = "";
  EXPECT_EQ(program_check(program_of(open_mpi()), other).state, State::kOk) << "srun serves any";
}

TEST(DoctorJob, ProgramsThatLoadTheirMpiLater) {
  ProgramFacts p = program_of(open_mpi());
  p.mpi.clear();
  EXPECT_EQ(program_check(p).state, State::kWarn);
  p.path = "/usr/bin/python3.11";
  EXPECT_EQ(program_check(p).state, State::kOk);
  p.path = "/somewhere/pythagoras";
  p.script_of = "/usr/bin/python3";
  EXPECT_NE(program_check(p).finding.find("a script, run by /usr/bin/python3"), std::string::npos);
  p.sanitizer = true;
  p.profilers = {"libmpiP.so"};
  EXPECT_NE(program_check(p).finding.find("no buffer becomes shared"), std::string::npos);
  EXPECT_NE(program_check(p).finding.find("libmpiP.so"), std::string::npos);
}

TEST(DoctorJob, Preloads) {
  const auto check = [](const Preload& p) { return check_of(job_checks(whole_job(), {}, nullptr, {p}), "preloads"); };
  EXPECT_EQ(check({"/p/lib/libzerohop.so", true, false, false}).state, State::kOk);
  EXPECT_EQ(check({"/q/lib/libzerohop.so", true, false, true}).state, State::kWarn);
  EXPECT_EQ(check({"libno.so", false, false, false}).state, State::kWarn);
  EXPECT_NE(check({"libmpiP.so", true, true, false}).finding.find("a profiler"), std::string::npos);
}

TEST(DoctorJob, Variables) {
  Options options;
  EXPECT_EQ(check_variables(options).finding, "none is set");
  const char* right[] = {"ZEROHOP_ENABLE=no", nullptr};
  options.read_environment(right);
  EXPECT_EQ(check_variables(options).state, State::kOk);
  EXPECT_EQ(check_variables(options).finding, "ZEROHOP_ENABLE=0: every call goes to the MPI library");
  const char* wrong[] = {"ZEROHOP_HEEP=1", "ZEROHOP_WAIT=never", nullptr};
  options.read_environment(wrong);
  const Check c = check_variables(options);
  EXPECT_EQ(c.state, State::kWarn);
  EXPECT_NE(c.finding.find("did you mean ZEROHOP_HEAP?"), std::string::npos) << c.finding;
  EXPECT_NE(c.finding.find("auto, spin, passive"), std::string::npos) << c.finding;
  EXPECT_FALSE(c.cost.empty() || c.cure.empty());
}

TEST(DoctorJob, VariablesThatJobsDoNotObey) {
  Options options;
  const char* wrong[] = {"ZEROHOP_ALGORITHM=bcast:foo,reduce:host", "ZEROHOP_SCAN=linear", nullptr};
  options.read_environment(wrong);
  const Check c = check_variables(options);
  EXPECT_EQ(c.state, State::kWarn);
  EXPECT_NE(c.finding.find("ZEROHOP_ALGORITHM: bcast:foo: there are auto, host, "), std::string::npos) << c.finding;
  EXPECT_EQ(c.finding.find("reduce:host:"), std::string::npos) << c.finding;
  EXPECT_NE(c.finding.find("it is ZEROHOP_ALGORITHM=scan:linear now"), std::string::npos) << c.finding;
}

TEST(DoctorJob, VariablesWithWhichNoJobStarts) {
  for (const std::vector<const char*>& set :
       {std::vector<const char*>{"ZEROHOP_CONFIG=topology=/no/such.xml", nullptr},
        std::vector<const char*>{"ZEROHOP_CONFIG=segment=file,folder=/no/such/folder", nullptr}}) {
    Options options;
    options.read_environment(set.data());
    const Check c = check_variables(options);
    EXPECT_EQ(c.state, State::kBad) << set[0];
    EXPECT_NE(c.finding.find("/no/such"), std::string::npos) << c.finding;
  }
}

TEST(DoctorJob, RanksThatMayChangeTheirSocket) {
  EXPECT_EQ(check_binding(1, 1, 8).state, State::kOk);
  EXPECT_EQ(check_binding(2, 1, 8).state, State::kOk);
  EXPECT_EQ(check_binding(2, 2, 0).state, State::kOk) << "outside of a job nobody knows";
  const Check c = check_binding(2, 2, 8);
  EXPECT_EQ(c.state, State::kWarn);
  EXPECT_FALSE(c.cost.empty() || c.cure.empty());
}

TEST(JobFacts, LaunchersSayWhatTheyAre) {
  const auto read = [](const std::string& text) {
    MpiFacts facts;
    read_launcher_version(text, &facts);
    return facts.launcher_version + "|" + facts.launcher_module;
  };
  EXPECT_EQ(read("mpiexec (Open MPI) 5.0.11\n\nReport bugs"), "Open MPI 5.0.11|libzerohop-ompi.so");
  EXPECT_EQ(read("mpiexec (OpenRTE) 4.1.4\n"), "Open MPI 4.1.4|libzerohop-ompi.so");
  EXPECT_EQ(read("HYDRA build details:\n    Version:     5.0.2\n"), "MPICH 5.0.2|libzerohop-mpich.so");
  EXPECT_EQ(read("Intel(R) MPI Library for Linux* OS, Version 2021.19.0 Build"),
            "Intel MPI 2021.19.0|libzerohop-mpich.so");
  EXPECT_EQ(read("slurm 23.02\n"), "slurm 23.02|");
  EXPECT_EQ(read(""), "|");
}

TEST(JobFacts, TheLoadersLines) {
  std::string name;
  std::string path;
  ASSERT_TRUE(read_loader_line("\tlibmpi.so.40 => /a b/libmpi.so.40 (0x00007fc9)", &name, &path));
  EXPECT_EQ(name + "|" + path, "libmpi.so.40|/a b/libmpi.so.40");
  ASSERT_TRUE(read_loader_line("\tlibmpi.so.12 => not found", &name, &path));
  EXPECT_EQ(name + "|" + path, "libmpi.so.12|");
  ASSERT_TRUE(read_loader_line("\tlibmpi.so.40 (libc6,x86-64) => /lib/libmpi.so.40", &name, &path));
  EXPECT_EQ(name + "|" + path, "libmpi.so.40|/lib/libmpi.so.40");
  EXPECT_FALSE(read_loader_line("\tlinux-vdso.so.1 (0x00007fc9)", &name, &path));
  EXPECT_FALSE(read_loader_line("1061 libs found in cache `/etc/ld.so.cache'", &name, &path));
  EXPECT_FALSE(read_loader_line("\t/lib64/ld-linux-x86-64.so.2 (0x00007fc9)", &name, &path));
  ASSERT_TRUE(read_loader_line("\tbin/libnext.so (0x00007fc9)", &name, &path)) << "named by its path";
  EXPECT_EQ(name + "|" + path, "bin/libnext.so|bin/libnext.so");
}

TEST(KnownHosts, AreToldByNameAndByWord) {
  EXPECT_EQ(mpi::host_called("libmpi.so.40")->module, mpi::kOpenMpiModule);
  EXPECT_EQ(mpi::host_called("libmpi.so.41"), nullptr);
  EXPECT_FALSE(mpi::is_what_it_is_called(mpi::kMpichModule, true)) << "Open MPI 1.10 has MPICH's name";
  EXPECT_TRUE(mpi::is_what_it_is_called(mpi::kAbiModule, true));
  EXPECT_EQ(mpi::module_for("Open MPI v2.1.1", true), nullptr);
  EXPECT_EQ(mpi::module_for("Open MPI v4.1.4", true), mpi::kOpenMpiModule);
  EXPECT_EQ(mpi::module_for("MPICH Version:\t3.0.4", false), nullptr);
  EXPECT_EQ(mpi::module_for("MPICH Version:\t3.4.3", false), mpi::kMpichModule);
  EXPECT_EQ(mpi::module_for("somebody's MPI", false), nullptr);
}

}  // namespace
}  // namespace zh::tools
