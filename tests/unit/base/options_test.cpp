// Options: what is obeyed, what is reported, which source wins.
// label one-thread: ^test_base[.]
#include "base/options.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

namespace zh {
namespace {

TEST(Options, EveryDefaultIsAcceptedByItsOwnRow) {
  Options options;
  std::set<std::string> names;
  for (const OptionSpec& spec : option_table()) {
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name << " twice";
    EXPECT_TRUE(options.set(spec.name, spec.default_value, Source::kCommandLine).ok()) << spec.name;
    EXPECT_NE(spec.help[0], '\0');
  }
  EXPECT_TRUE(options.complaints().empty());
}

TEST(Options, RowsAreInTheOrderOfTheirIndex) {
  const auto table = option_table();
  EXPECT_STREQ(table[static_cast<size_t>(Opt::kEnable)].name, "ZEROHOP_ENABLE");
  EXPECT_STREQ(table[static_cast<size_t>(Opt::kMemory)].name, "ZEROHOP_MEMORY");
  EXPECT_STREQ(table[static_cast<size_t>(Opt::kSegment)].name, "segment");
  EXPECT_STREQ(table[static_cast<size_t>(Opt::kTopology)].name, "topology");
}

TEST(Options, ReadsTheEnvironment) {
  const char* environment[] = {"PATH=/bin",
                               "ZEROHOP_CMA=off",
                               "ZEROHOP_MEMORY=8M",
                               "ZEROHOP_STATS=x",
                               "ZEROHOP_WAIT=Passive",
                               "ZEROHOP_CONFIG=single_copy=2048",
                               "ZEROHOP_PROFILE=",
                               nullptr};
  Options options;
  options.read_environment(environment);
  EXPECT_TRUE(options.complaints().empty());
  EXPECT_FALSE(options.get_bool(Opt::kCma));
  EXPECT_EQ(options.source(Opt::kCma), Source::kEnvironment);
  EXPECT_EQ(options.get_number(Opt::kMemory), uint64_t{8} << 20);
  EXPECT_TRUE(options.is(Opt::kWait, "passive"));
  EXPECT_EQ(options.get_text(Opt::kStats), "x");
  EXPECT_EQ(options.get_number(Opt::kSingleCopy, 7), 2048u);
  EXPECT_EQ(options.source(Opt::kProfile), Source::kDefault);
}

TEST(Options, ReportsWrongValuesAndKeepsTheDefault) {
  const char* environment[] = {"ZEROHOP_WAIT=never",
                               "ZEROHOP_CMA=maybe",
                               "ZEROHOP_KERNEL=2",
                               "ZEROHOP_MEMORY=64X",
                               "ZEROHOP_MEMORY=1",
                               "ZEROHOP_CONFIG=node_ranks=-1,single_copy=999999999999999999999,node_ranks=2K",
                               nullptr};
  Options options;
  options.read_environment(environment);
  EXPECT_EQ(options.complaints().size(), 8u);
  EXPECT_NE(options.complaints()[3].find("one of auto, spin, passive; using auto"), std::string::npos)
      << options.complaints()[3];
  EXPECT_TRUE(options.is(Opt::kWait, "auto") && options.is(Opt::kKernel, "auto"));
  EXPECT_TRUE(options.get_bool(Opt::kCma));
  EXPECT_EQ(options.get_number(Opt::kMemory), uint64_t{64} << 20);
  EXPECT_EQ(options.get_number(Opt::kNodeRanks), 0u);
  EXPECT_EQ(options.get_number(Opt::kSingleCopy, 5), 5u);
}

TEST(Options, SuggestsTheNearestName) {
  const char* environment[] = {"ZEROHOP_CAM=0", "ZEROHOP_SOMETHING_ELSE_ALTOGETHER=1", "ZEROHOP_SINGLECOPY=1K",
                               "ZEROHOP_FOO=1", nullptr};
  Options options;
  options.read_environment(environment);
  ASSERT_EQ(options.complaints().size(), 4u);
  EXPECT_NE(options.complaints()[3].find("; `zerohop info --variables` lists them all"), std::string::npos);
  EXPECT_NE(options.complaints()[2].find("did you mean ZEROHOP_CONFIG=single_copy=...?"), std::string::npos);
  EXPECT_NE(options.complaints()[0].find("did you mean ZEROHOP_CMA?"), std::string::npos) << options.complaints()[0];
  EXPECT_EQ(options.complaints()[1].find("did you mean"), std::string::npos);
  EXPECT_TRUE(options.get_bool(Opt::kCma));
}

TEST(Options, NamesOfBeforeAreRefusedWithTheNewOne) {
  const char* environment[] = {"ZEROHOP_BCAST=ring", "ZEROHOP_CALIBRATE=0", "ZEROHOP_CALIBRATE=1", "ZEROHOP_SKEW=0",
                               nullptr};
  const char* now[] = {"ZEROHOP_ALGORITHM=bcast:ring", "ZEROHOP_PROFILE=builtin", "ZEROHOP_PROFILE=auto",
                       "ZEROHOP_CONFIG=skew=0"};
  Options options;
  options.read_environment(environment);
  ASSERT_EQ(options.complaints().size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NE(options.complaints()[i].find(std::string("is ignored: it is ") + now[i] + " now"), std::string::npos)
        << options.complaints()[i];
  }
  EXPECT_TRUE(options.is(Opt::kAlgorithm, "auto") && options.is(Opt::kProfile, "auto"));
  EXPECT_TRUE(options.is(Opt::kSkew, "auto"));
  EXPECT_EQ(options.place(Opt::kCopier), 0U);
  ASSERT_TRUE(options.set("copier", "later", Source::kConfig).ok());
  EXPECT_EQ(options.place(Opt::kCopier), 3U);
}

TEST(Options, AConfigurationIsSettingsAndFiles) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("zh-settings-" + std::to_string(::getpid()))).string();
  std::ofstream(path) << "skew=0\nCHUNK=4K\n";
  const std::string config =
      with_setting("ZEROHOP_CONFIG=, skew=1 ;" + path + ",wait=spin,topology=synthetic:core:2 pu:1", "chunk", "8K");
  const char* environment[] = {config.c_str(), nullptr};
  Options options;
  options.read_environment(environment);
  EXPECT_TRUE(options.complaints().empty()) << options.complaint();
  EXPECT_TRUE(options.is(Opt::kSkew, "0")) << "what stands later counts";
  EXPECT_EQ(options.get_number(Opt::kChunk), 8192U);
  EXPECT_EQ(options.source(Opt::kChunk), Source::kConfig);
  EXPECT_TRUE(options.is(Opt::kWait, "spin"));
  EXPECT_EQ(options.get_text(Opt::kTopology), "synthetic:core:2 pu:1");
  std::filesystem::remove(path);
}

TEST(Options, AFileMayHaveANameLikeSettings) {
  const std::string path = (std::filesystem::temp_directory_path() / ("zh=a,b-" + std::to_string(::getpid()))).string();
  std::ofstream(path) << "skew=0\nCONFIG=/no/such/file\n";
  const std::string config = "ZEROHOP_CONFIG=" + path;
  const char* environment[] = {config.c_str(), "ZEROHOP_FOLDER=/a,b", "ZEROHOP_heap=0", nullptr};
  Options options;
  options.read_environment(environment);
  EXPECT_TRUE(options.is(Opt::kSkew, "0"));
  ASSERT_EQ(options.complaints().size(), 3U);
  EXPECT_NE(options.complaints()[0].find("is not followed: /no/such/file"), std::string::npos);
  EXPECT_NE(options.complaints()[1].find("it is folder=/a,b now, in a file"), std::string::npos);
  EXPECT_NE(options.complaints()[2].find("did you mean ZEROHOP_HEAP?"), std::string::npos);
  std::filesystem::remove(path);
}

TEST(Options, CommandLineBeatsEnvironmentBeatsFile) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("zh-options-" + std::to_string(::getpid()))).string();
  std::ofstream(path)
      << "# comment\nZEROHOP_CMA = 0\nWAIT=spin  # the prefix may be left out\nMEMORY=16M\nnonsense\nHEEP=0\n";
  const std::string config = "ZEROHOP_CONFIG=" + path;
  const char* environment[] = {"ZEROHOP_WAIT=passive", config.c_str(), nullptr};
  Options options;
  ASSERT_TRUE(options.set("MEMORY", "32M", Source::kCommandLine).ok());
  options.read_environment(environment);
  EXPECT_EQ(options.source(Opt::kCma), Source::kConfig);
  EXPECT_FALSE(options.get_bool(Opt::kCma));
  EXPECT_EQ(options.source(Opt::kWait), Source::kEnvironment);
  EXPECT_TRUE(options.is(Opt::kWait, "passive"));
  EXPECT_EQ(options.get_number(Opt::kMemory), uint64_t{32} << 20);
  ASSERT_EQ(options.complaints().size(), 2u);
  EXPECT_NE(options.complaints()[0].find(":5: not NAME=value"), std::string::npos);
  EXPECT_NE(options.complaints()[1].find("did you mean ZEROHOP_HEAP?"), std::string::npos);
  std::filesystem::remove(path);
}

TEST(Options, OfTwoValuesFromOneSourceTheLastCounts) {
  Options options;
  ASSERT_TRUE(options.set("WAIT", "spin", Source::kCommandLine).ok());
  ASSERT_TRUE(options.set("WAIT", "passive", Source::kCommandLine).ok());
  EXPECT_TRUE(options.is(Opt::kWait, "passive"));
}

TEST(Options, AMissingFileIsReported) {
  const char* environment[] = {"ZEROHOP_CONFIG=/no/such/file", nullptr};
  Options options;
  options.read_environment(environment);
  ASSERT_EQ(options.complaints().size(), 1u);
  EXPECT_NE(options.complaints()[0].find("No such file"), std::string::npos);
}

TEST(Options, SizesParseAndPrint) {
  const std::pair<const char*, uint64_t> good[] = {{"0", 0},           {"4096", 4096}, {"4k", 4096},  {"64M", 64 << 20},
                                                   {"1.5G", 3u << 29}, {"2KiB", 2048}, {"2kb", 2048}, {" 8 ", 8}};
  for (const auto& [text, bytes] : good) {
    uint64_t seen = 1;
    EXPECT_TRUE(parse_size(text, &seen)) << text;
    EXPECT_EQ(seen, bytes) << text;
  }
  for (const char* text : {"", "K", "-1", "1.2.3", "12Q", "0x10", "1..5", "18446744073709551616"}) {
    uint64_t seen = 0;
    EXPECT_FALSE(parse_size(text, &seen)) << text;
  }
  for (const uint64_t bytes :
       {uint64_t{0}, uint64_t{1}, uint64_t{1023}, uint64_t{1024}, uint64_t{3} << 20, (uint64_t{1} << 30) + 1}) {
    uint64_t seen = 1;
    EXPECT_TRUE(parse_size(format_size(bytes), &seen));
    EXPECT_EQ(seen, bytes);
  }
}

TEST(Options, MarkdownNamesEveryVariable) {
  const std::string page = options_markdown();
  for (const OptionSpec& spec : option_table()) EXPECT_NE(page.find(spec.name), std::string::npos);
}

}  // namespace
}  // namespace zh
