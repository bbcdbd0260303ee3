// PMI-1 with a launcher that is a thread.
#include "os/pmi.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>

namespace zh::os {
namespace {

/// Answers each line; an empty answer closes the connection.
class FakeLauncher {
 public:
  explicit FakeLauncher(std::function<std::string(const std::string&)> answer) : answer_(std::move(answer)) {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_), 0);
    setenv("PMI_FD", std::to_string(ends_[0]).c_str(), 1);
    setenv("MPI_LOCALRANKID", "0", 1);
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeLauncher() {
    close(ends_[0]);
    thread_.join();
    unsetenv("PMI_FD");
    unsetenv("MPI_LOCALRANKID");
  }
  FakeLauncher(const FakeLauncher&) = delete;
  FakeLauncher& operator=(const FakeLauncher&) = delete;

 private:
  void serve() {
    std::string line;
    for (char c = 0; read(ends_[1], &c, 1) == 1;) {
      if (c != '\n') {
        line += c;
        continue;
      }
      const std::string reply = answer_(line);
      line.clear();
      if (reply.empty()) break;
      // In two pieces, as a stream may deliver it.
      const size_t half = reply.size() / 2;
      if (write(ends_[1], reply.data(), half) < 0) break;
      if (write(ends_[1], (reply + "\n").data() + half, reply.size() - half + 1) < 0) break;
    }
    close(ends_[1]);
  }

  std::function<std::string(const std::string&)> answer_;
  int ends_[2] = {-1, -1};
  std::thread thread_;
};

std::string hydra(const std::string& line) {
  if (line == "cmd=init pmi_version=1 pmi_subversion=1") return "cmd=response_to_init pmi_version=1 rc=0";
  if (line == "cmd=get_my_kvsname") return "cmd=my_kvsname kvsname=kvs_7_0_vm";
  if (line == "cmd=put kvsname=kvs_7_0_vm key=zerohop-3 value=abc") return "cmd=put_result rc=0 msg=success";
  if (line == "cmd=put kvsname=kvs_7_0_vm key=zerohop-4 value=abc") return "cmd=put_result rc=-1 msg=no_room";
  if (line == "cmd=get kvsname=kvs_7_0_vm key=zerohop-3") return "cmd=get_result rc=0 msg=success value=abc";
  if (line == "cmd=get kvsname=kvs_7_0_vm key=zerohop-4") return "cmd=get_result rc=-1 msg=key_not_found value=unknown";
  if (line == "cmd=get kvsname=kvs_7_0_vm key=zerohop-5") return "cmd=get_result rc=1";
  return "";
}

TEST(Pmi, PutAndGet) {
  const FakeLauncher launcher(hydra);
  PmiClient pmi;
  ASSERT_TRUE(pmi.open().ok());
  EXPECT_TRUE(pmi.put("zerohop-3", "abc").ok());
  EXPECT_FALSE(pmi.put("zerohop-4", "abc").ok());
  std::string value;
  EXPECT_TRUE(pmi.get("zerohop-3", &value).ok());
  EXPECT_EQ(value, "abc");
  EXPECT_TRUE(pmi.get("zerohop-4", &value).ok());
  EXPECT_EQ(value, "");
  EXPECT_TRUE(pmi.get("zerohop-5", &value).ok());
  EXPECT_EQ(value, "");
}

TEST(Pmi, ALauncherThatHasGoneIsAnError) {
  const FakeLauncher launcher(hydra);
  PmiClient pmi;
  ASSERT_TRUE(pmi.open().ok());
  EXPECT_FALSE(pmi.put("other", "abc").ok());
  std::string value = "old";
  EXPECT_FALSE(pmi.get("zerohop-3", &value).ok());
  EXPECT_EQ(value, "");
}

TEST(Pmi, OtherLaunchersAreNotSpokenTo) {
  PmiClient pmi;
  EXPECT_EQ(pmi.open().code(), Code::kNotSupported);
  int spoken = 0;
  const FakeLauncher launcher([&](const std::string&) {
    ++spoken;
    return "cmd=response_to_init rc=-1";
  });
  setenv("MPIR_CVAR_PMI_VERSION", "2", 1);
  EXPECT_EQ(pmi.open().code(), Code::kNotSupported);
  unsetenv("MPIR_CVAR_PMI_VERSION");
  unsetenv("MPI_LOCALRANKID");
  EXPECT_EQ(pmi.open().code(), Code::kNotSupported);
  EXPECT_EQ(spoken, 0);
  setenv("MPI_LOCALRANKID", "0", 1);
  EXPECT_EQ(pmi.open().code(), Code::kNotSupported);
  EXPECT_EQ(spoken, 1);
}

TEST(Pmi, ADescriptorOfTheProgramIsLeftAlone) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  setenv("PMI_FD", std::to_string(ends[1]).c_str(), 1);
  setenv("MPI_LOCALRANKID", "0", 1);
  PmiClient pmi;
  EXPECT_EQ(pmi.open().code(), Code::kNotSupported);
  unsetenv("PMI_FD");
  unsetenv("MPI_LOCALRANKID");
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace zh::os
