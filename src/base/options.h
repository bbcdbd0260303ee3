// The ZEROHOP_* variables and the settings that only ZEROHOP_CONFIG has: ONE table of names, types, defaults and
// meanings, and the effective values with their sources. Read by the shim and the tools, which hand plain values down;
// no layer between reads the environment itself. A value that cannot be obeyed is reported, not obeyed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace zh {

enum class OptionType : uint8_t {
  kBool,  ///< 0/1, no/yes, off/on, false/true
  kInt,
  kSize,  ///< bytes, suffixes K, M, G (of 1024)
  kEnum,  ///< one of `values`
  kString,
};

/// Where an effective value comes from; a later one wins.
enum class Source : uint8_t { kDefault, kConfig, kEnvironment, kCommandLine };
[[nodiscard]] const char* to_string(Source source);
[[nodiscard]] const char* to_string(OptionType type);

/// Index into the table; the same order as kTable in options.cpp.
enum class Opt : uint8_t {
  kEnable,
  kHeap,
  kCma,
  kKernel,
  kCollectives,
  kAlgorithm,
  kWait,
  kMemory,
  kProfile,
  kCache,
  kStats,
  kLog,
  kConfig,
  kDevices,
  kSite,
  kPtracer,
  kSegment,
  kFolder,
  kSingleCopy,
  kSkew,
  kCopier,
  kQueueLock,
  kKeepCopies,
  kStatsTime,
  kTrace,
  kChunk,
  kCopiers,
  kNodeRanks,
  kTopology,
  kCount,
};

struct OptionSpec {
  const char* name;  ///< "ZEROHOP_...", or in lower case if it is a setting of ZEROHOP_CONFIG and no variable
  OptionType type;
  const char* default_value;  ///< as it would be written
  const char* values;         ///< kEnum: "a|b|c"; others: words that are allowed beside the type's own ("auto"), or ""
  uint64_t min, max;          ///< of kInt and kSize
  const char* help;           ///< one line
};

[[nodiscard]] std::span<const OptionSpec> option_table();
[[nodiscard]] bool is_variable(const OptionSpec& spec);
/// A value of ZEROHOP_CONFIG with one more setting, which counts more than those before. `value` has no separator.
[[nodiscard]] std::string with_setting(std::string_view config, std::string_view name, std::string_view value);

class Options {
 public:
  Options();

  /// Reads ZEROHOP_CONFIG and the environment ("NAME=value" strings, null-terminated array). What is wrong becomes a
  /// complaint and the value stays as it was.
  void read_environment(const char* const* environment);
  /// Lines NAME=value; '#' starts a comment.
  void read_file(const std::string& path);
  /// One value; but in the environment its name may lack the ZEROHOP_ and be in either case. kInvalid (with
  /// complaint()) if the name is unknown or the value is wrong.
  Status set(std::string_view name, std::string_view value, Source source);

  [[nodiscard]] bool get_bool(Opt option) const;
  /// kInt and kSize; `when_word` if the value is a word like "auto".
  [[nodiscard]] uint64_t get_number(Opt option, uint64_t when_word = 0) const;
  [[nodiscard]] const std::string& get_text(Opt option) const { return values_[static_cast<size_t>(option)].text; }
  /// kEnum: which of its words it is, from 0.
  [[nodiscard]] size_t place(Opt option) const;
  [[nodiscard]] bool is(Opt option, std::string_view word) const { return get_text(option) == word; }
  [[nodiscard]] Source source(Opt option) const { return values_[static_cast<size_t>(option)].source; }

  /// What was reported instead of obeyed, one line each. Rank 0 prints them once.
  [[nodiscard]] const std::vector<std::string>& complaints() const { return complaints_; }
  [[nodiscard]] const std::string& complaint() const { return complaints_.back(); }

 private:
  struct Value {
    std::string text;
    Source source = Source::kDefault;
  };
  void complain(std::string text);
  void read_config(std::string_view config);
  void set_line(std::string_view line);

  std::vector<Value> values_;
  std::vector<std::string> complaints_;
};

/// Bytes of "64M", "8192", "1.5G"; false if it is not a size.
[[nodiscard]] bool parse_size(std::string_view text, uint64_t* out);
/// The inverse, as short as it is exact: "64M".
[[nodiscard]] std::string format_size(uint64_t bytes);
inline constexpr size_t kNotNear = SIZE_MAX;
/// How many slips of a finger make `name` what was typed; kNotNear if more than a third of the letters.
[[nodiscard]] size_t slips(std::string_view typed, std::string_view name);
/// The table as a Markdown page (docs/user/variables.md).
[[nodiscard]] std::string options_markdown();

}  // namespace zh
