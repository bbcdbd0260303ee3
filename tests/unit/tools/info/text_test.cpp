// What `zerohop info` prints: nothing twice, nothing too wide, no number that means never.
#include "tools/info/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "tools/cli/text.h"
#include "tune/choice.h"

namespace zh::tools {
namespace {

using nlohmann::json;

json variable(const char* name, const char* value, const char* source, const char* meaning) {
  return {{"name", name}, {"value", value}, {"source", source}, {"default", "auto"}, {"meaning", meaning}};
}

json no_table() {
  return {{"path", "/c/t.txt"}, {"present", false}, {"why_not", "nothing measured"}, {"entries", json::array()}};
}

json no_model() {
  return {{"path", "/c/m.txt"}, {"present", false}, {"why_not", "nothing predicted"}, {"entries", json::array()}};
}

json info_document() {
  const json choice = {{"inline_max", 192}, {"eager_max", 16384}, {"single_copy_min", 2 << 20}, {"mapped_min", 8192}};
  return {{"version", "1.2"},
          {"mpi", "/bin/mpiexec"},
          {"variables",
           {variable("ZEROHOP_ENABLE", "1", "default",
                     "stay out of the way or not, which is a long story to tell in one line"),
            variable("ZEROHOP_ALGORITHM", "reduce:ring", "environment", "algorithms of collectives")}},
          {"complaints", json::array()},
          {"machine", {{"error", "no topology"}}},
          {"usable", {{"cma", {{"usable", false}, {"why_not", "Operation not permitted"}}}}},
          {"heap",
           {{"setting", "auto"},
            {"used", true},
            {"why", "the default"},
            {"huge_pages_stay_private", false},
            {"page_bytes", 4096},
            {"overcommit_memory", "0"},
            {"private_huge_pages", ""},
            {"shared_huge_pages", "never"},
            {"peers_open_files", {{"usable", true}, {"errno", 0}}},
            {"memory_in_advance", {{"usable", false}, {"errno", 22}}},
            {"pagemap", true}}},
          {"calibration",
           {{"path", "/c/calibration.json"},
            {"used", true},
            {"present", true},
            {"why_not", ""},
            {"classes",
             {{{"level", "same-core"},
               {"standing", "same-core     found alike by 2 of 2 jobs"},
               {"line_ns", 65.0},
               {"choice", choice}}}}}},
          {"collectives", {{"abi", no_table()}, {"mpich", no_table()}, {"ompi", no_table()}}},
          {"collectives_by_model", {{"abi", no_model()}, {"mpich", no_model()}, {"ompi", no_model()}}}};
}

size_t times(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

TEST(InfoText, SaysNothingTwice) {
  const std::string text = info_text(info_document(), 80);
  EXPECT_NE(text.find("  ZEROHOP_ALGORITHM = reduce:ring (environment)\n      algorithms of collectives\n"),
            std::string::npos)
      << text;
  EXPECT_LT(text.find("/bin/mpiexec"), text.find("Usable here")) << text;
  EXPECT_LT(text.find("Algorithms of"), text.find("ZEROHOP_ALGORITHM")) << text;
  EXPECT_EQ(text.find("ZEROHOP_ENABLE"), std::string::npos) << text;
  const std::string variables = info_text(info_document(), 80, true);
  EXPECT_NE(variables.find("  ZEROHOP_ENABLE = 1 (default)\n"), std::string::npos) << variables;
  EXPECT_EQ(variables.find("Usable here"), std::string::npos) << variables;
  EXPECT_EQ(times(text, "nothing measured"), 1U) << text;
  EXPECT_NE(text.find("Algorithms of collectives under abi, mpich, ompi\n"), std::string::npos) << text;
  EXPECT_EQ(times(text, "same-core"), 1U) << text;
  EXPECT_EQ(times(text, "inline: beside the header"), 1U) << text;
}

TEST(InfoText, TablesThatDifferAreToldApart) {
  json d = info_document();
  d["collectives"]["mpich"]["present"] = true;
  json entry = {{"collective", "bcast"}, {"ranks", 4},          {"several_nodes", true},
                {"from_bytes", 0},       {"algorithm", "ring"}, {"chunk_bytes", nullptr}};
  d["collectives"]["mpich"]["entries"].push_back(entry);
  for (const uint64_t chunk : {0, 8192}) {
    entry["chunk_bytes"] = chunk;
    d["collectives"]["mpich"]["entries"].push_back(entry);
  }
  const std::string text = info_text(d, 80);
  EXPECT_NE(text.find("under abi, ompi\n"), std::string::npos) << text;
  EXPECT_NE(text.find("under mpich\n  kept in /c/t.txt\n  bcast"), std::string::npos) << text;
  EXPECT_NE(text.find("on: ring\n"), std::string::npos) << text;
  EXPECT_NE(text.find("on: ring, whole\n"), std::string::npos) << text;
  EXPECT_NE(text.find("on: ring, in chunks of 8K\n"), std::string::npos) << text;
  EXPECT_NE(text.find("by a model under abi, mpich, ompi\n  nothing predicted: "), std::string::npos) << text;
}

TEST(InfoText, AThresholdThatNothingReachesIsNever) {
  json d = info_document();
  EXPECT_NE(info_text(d, 200).find("cells to 2M, then one copy; mapped from 8K"), std::string::npos);
  d["calibration"]["classes"][0]["choice"]["single_copy_min"] = tune::kNever;
  EXPECT_NE(info_text(d, 200).find("then cells, one copy never"), std::string::npos);
  d["calibration"]["classes"][0]["choice"]["mapped_min"] = tune::kNever;
  EXPECT_NE(info_text(d, 200).find("one copy never; never mapped"), std::string::npos);
}

TEST(InfoText, FitsTheColumns) {
  for (const size_t columns : {40U, 80U, 120U}) {
    std::istringstream lines(info_text(info_document(), columns));
    size_t widest = 0;
    for (std::string line; std::getline(lines, line);) {
      widest = std::max(widest, columns_of(line));
      EXPECT_LE(columns_of(line), columns) << line;
    }
    EXPECT_GT(widest, columns / 2) << "a wide terminal is used";
  }
}

}  // namespace
}  // namespace zh::tools
