// Inputs that others may have written: the corpus, and mutations of it. Nothing crashes or hangs; what cannot be obeyed
// is refused with a reason. A failure prints the input; put into the corpus it is fed every time.
#include "inputs.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <fstream>

#include "base/options.h"
#include "fuzz_support.h"

namespace zh::test {
namespace {

struct Kind {
  const char* name;  ///< and its folder in the corpus
  std::string (*feed)(const std::string& input);
  std::vector<std::string> words;
};

std::vector<std::string> option_words() {
  std::vector<std::string> words = {"=", "\n", "#", "auto", "1.5G", "18446744073709551615", "0", " ", "64M", "-1", "K"};
  for (const OptionSpec& spec : option_table()) words.emplace_back(spec.name);
  return words;
}

const std::vector<std::string> kJsonWords = {"{",
                                             "}",
                                             "[",
                                             "]",
                                             "\"",
                                             ",",
                                             ":",
                                             "null",
                                             "true",
                                             "-1",
                                             "1e308",
                                             "0.5",
                                             "1e-400",
                                             "[[",
                                             "{}",
                                             "\"bytes\":",
                                             "\\u0000",
                                             "65536",
                                             "99999999999999999999",
                                             "\"schema\":1"};

std::vector<Kind> kinds() {
  return {
      {"options", feed_options, option_words()},
      {"profile", feed_profile, kJsonWords},
      {"selection",
       feed_selection,
       {"allreduce", "bcast", "host", "one", "several", " ", "\n", "#", "4294967296", "2"}},
      {"statistics", feed_statistics, kJsonWords},
      {"segment", feed_segment, {std::string(8, '\0'), std::string(8, '\xff'), "zerohop1", "zerohop2", true_header()}},
  };
}

std::vector<std::string> seeds_of(const Kind& kind) {
  std::vector<std::string> seeds;
  for (const auto& file : corpus(kind.name)) seeds.push_back(whole_file(file));
  if (std::string(kind.name) == "profile") seeds.push_back(true_profile());
  if (std::string(kind.name) == "segment") {
    for (char how = 0; how < 8; ++how) seeds.push_back(how + true_header());
  }
  return seeds;
}

std::string escaped(const std::string& input) {
  std::string out;
  char part[8];
  for (const char c : input) {
    const bool plain = c >= ' ' && c <= '~' && c != '\\' && c != '"';
    std::snprintf(part, sizeof part, plain ? "%c" : "\\x%02x", static_cast<unsigned char>(c));
    out += part;
  }
  return out;
}

class InputFuzz : public ::testing::TestWithParam<size_t> {};

TEST_P(InputFuzz, IsTakenOrRefusedWithAReason) {
  const Kind kind = kinds()[GetParam()];
  const uint64_t seed = fuzz_seed();
  const FuzzClock clock;
  const std::vector<std::string> seeds = seeds_of(kind);
  for (const std::string& input : seeds) {
    ASSERT_EQ(in_child([&] { return kind.feed(input); }, 30), "") << "corpus: " << escaped(input);
  }
  // Many to a child; the one that failed is found again by its number.
  constexpr uint64_t kBatch = 200;
  uint64_t fed = 0;
  const auto input_of = [&](uint64_t number) {
    std::mt19937_64 rng(seed + number);
    return mutated(seeds[rng() % seeds.size()], rng, kind.words);
  };
  for (; !clock.over(); fed += kBatch) {
    const auto batch = [&] {
      for (uint64_t i = fed; i < fed + kBatch; ++i) {
        if (const std::string wrong = kind.feed(input_of(i)); !wrong.empty()) return wrong;
      }
      return std::string();
    };
    if (in_child(batch, 100).empty()) continue;
    for (uint64_t i = fed; i < fed + kBatch; ++i) {
      ASSERT_EQ(in_child([&] { return kind.feed(input_of(i)); }, 30), "")
          << "input: \"" << escaped(input_of(i)) << "\"";
    }
    FAIL() << "inputs " << fed << " to " << fed + kBatch << " fail together, and none alone";
  }
  std::printf("%llu inputs\n", static_cast<unsigned long long>(fed));
  EXPECT_GT(fed, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, InputFuzz, ::testing::Range(size_t{0}, kinds().size()),
                         [](const auto& instance) { return kinds()[instance.param].name; });

// What the fuzzers feed is not refused for a reason of its own.
TEST(Inputs, TheTrueOnesAreTaken) {
  EXPECT_EQ(feed_profile(true_profile()), "");
  EXPECT_NE(true_profile().find("cells_nt"), std::string::npos);
  EXPECT_EQ(feed_segment(std::string(1, '\0') + true_header()), "");
}

TEST(Inputs, AConfigurationThatIsNoFileIsRefusedAtOnce) {
  const Folder folder;
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, folder.path(), std::string("/dev/zero"), folder.path() + "/missing"}) {
    EXPECT_EQ(in_child(
                  [&] {
                    Options options;
                    options.read_file(path);
                    return options.complaints().size() == 1 ? "" : "not one complaint";
                  },
                  20),
              "")
        << path;
  }
}

TEST(Inputs, ALongConfigurationIsNotHalfObeyed) {
  const Folder folder;
  const std::string path = folder.path() + "/long";
  std::ofstream(path) << std::string(2 << 20, '#') << "\nCMA=0\n";
  Options options;
  options.read_file(path);
  EXPECT_EQ(options.complaints().size(), 1u);
  EXPECT_TRUE(options.get_bool(Opt::kCma));
}

}  // namespace
}  // namespace zh::test
