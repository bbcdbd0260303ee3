// The table of variables and its parser; see options.h.
#include "base/options.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/environment.h"

namespace zh {
namespace {

constexpr uint64_t kMaxSize = uint64_t{1} << 46;
constexpr uint64_t kNoRange = 0;
constexpr size_t kFileMax = 1 << 20;
constexpr size_t kNameMax = 100;  // a longer name is near to none of the table's
constexpr size_t kComplaintMax = 600;
constexpr size_t kComplaintEnd = 250;  // of these the last, which say what is allowed and what is used instead

constexpr OptionSpec kTable[] = {
    {"ZEROHOP_ENABLE", OptionType::kBool, "1", "", 0, 1,
     "0: stay out of the way; every call goes to the host MPI untouched"},
    {"ZEROHOP_HEAP", OptionType::kEnum, "auto", "auto|1|0", kNoRange, kNoRange,
     "let peers map buffers that large messages use again: auto (once that pays, where nothing speaks against it), 1 "
     "(at their second use, also where memory loses huge pages by it), 0 (never; nor what MPI_Alloc_mem gives)"},
    {"ZEROHOP_CMA", OptionType::kBool, "1", "", 0, 1, "0: never copy by process_vm_readv/writev"},
    {"ZEROHOP_KERNEL", OptionType::kEnum, "auto", "auto|1|0", kNoRange, kNoRange,
     "the kernel module's copy (/dev/zerohop): auto (between ranks where the system refuses process_vm_readv), 1 (in "
     "place of process_vm_readv), 0 (never)"},
    {"ZEROHOP_COLLECTIVES", OptionType::kBool, "1", "", 0, 1, "0: collectives stay with the host MPI"},
    {"ZEROHOP_ALGORITHM", OptionType::kString, "auto", "", kNoRange, kNoRange,
     "algorithms of collectives, in all their forms, where they fit: bcast:leader-ring,allreduce:host and the like "
     "(`zerohop schedule --list` names them; host: the MPI library's own); as rank 0 has it"},
    {"ZEROHOP_WAIT", OptionType::kEnum, "auto", "auto|spin|passive", kNoRange, kNoRange,
     "how a rank waits: auto (spin, yield, then sleep), spin (never sleep), passive (sleep soon)"},
    {"ZEROHOP_MEMORY", OptionType::kSize, "64M", "", 1 << 20, kMaxSize,
     "bound of the shared memory of one rank; used as traffic asks for it, and beyond it only for sends under way "
     "(1 KiB each, up to 1 GiB more)"},
    {"ZEROHOP_PROFILE", OptionType::kEnum, "auto", "auto|builtin|papers", kNoRange, kNoRange,
     "thresholds: auto: as calibrated; builtin: those that need no calibration, and nothing is measured at start; "
     "papers: those of the hybrid paper, one copy from 32K, 2K or 1K by distance"},
    {"ZEROHOP_CACHE", OptionType::kString, "", "", kNoRange, kNoRange,
     "folder of the calibration cache; empty: $XDG_CACHE_HOME/zerohop, else ~/.cache/zerohop"},
    {"ZEROHOP_STATS", OptionType::kString, "", "", kNoRange, kNoRange,
     "file that receives every rank's counters as JSON, however the job ends; %j is the job's id, %r the rank, %p the "
     "process (with one of these two each rank writes a file of its own)"},
    {"ZEROHOP_LOG", OptionType::kEnum, "warn", "error|warn|info|debug", kNoRange, kNoRange,
     "what is told on stderr; info: the ways chosen for each pair at MPI_Init; debug: each decision when it is first "
     "made"},
    {"ZEROHOP_CONFIG", OptionType::kString, "", "", kNoRange, kNoRange,
     "settings: NAME=value pairs and files of such lines, separated by , or ; (values that have one: in a file); "
     "weaker than a variable of its own"},
    {"devices", OptionType::kEnum, "auto", "auto|0", kNoRange, kNoRange,
     "auto: everything stays with the host MPI where the driver of a GPU is loaded after MPI_Init, since messages may "
     "lie in memory of the device; 0: none do"},
    {"site", OptionType::kString, "/etc/zerohop", "", kNoRange, kNoRange,
     "folder of calibrations and tables of algorithms for all users: files that ZEROHOP_CACHE does not have are read "
     "from it; empty: none"},
    {"ptracer", OptionType::kBool, "1", "", 0, 1,
     "0: do not allow the user's other processes to trace this one (PR_SET_PTRACER); where Yama's ptrace scope is 1, "
     "CMA is then lost"},
    {"segment", OptionType::kEnum, "auto", "auto|memfd|file", kNoRange, kNoRange,
     "kind of the node's shared memory; auto: memfd, else a file that loses its name at once"},
    {"folder", OptionType::kString, "", "", kNoRange, kNoRange,
     "folder of segment files and sockets, where they are needed; empty: /dev/shm, else TMPDIR, else /tmp"},
    {"single_copy", OptionType::kSize, "auto", "auto", 1, kMaxSize,
     "messages of this many bytes and more are copied once, directly between the two buffers; auto: as measured"},
    {"skew", OptionType::kEnum, "auto", "auto|0|1", kNoRange, kNoRange,
     "whether medium messages change to buffered copies while their receiver lags behind; auto: unless ranks outnumber "
     "CPUs"},
    {"copier", OptionType::kEnum, "both", "both|receive|wait|later", kNoRange, kNoRange,
     "ablation, who copies a message that is copied once (LiMIC paper, section 4.3): both ends together; receive: the "
     "receiver alone, in its calls; wait: whoever waits for it first; later: whoever comes later, as in the paper"},
    {"queue_lock", OptionType::kEnum, "medium", "medium|coarse", kNoRange, kNoRange,
     "ablation, how much one lock of the matching queues covers (LiMIC paper, section 4.4): medium: a receiver's; "
     "coarse: the node's, if rank 0's; a fine one, of a queue, adds nothing: who matches needs both queues of a "
     "receiver at once"},
    {"keep_copies", OptionType::kBool, "1", "", 0, 1,
     "ablation, 0: a sender whose receiver stays away copies no message to be free of it; programs that count on it "
     "wait for ever"},
    {"stats_time", OptionType::kBool, "0", "", 0, 1,
     "1: the file of ZEROHOP_STATS also tells the time in each MPI function and in waits; as rank 0 has it"},
    {"trace", OptionType::kString, "", "", kNoRange, kNoRange,
     "file beside that of ZEROHOP_STATS: the latest calls and messages of each rank, with their times (`zerohop run "
     "--trace`); as rank 0 has it"},
    {"chunk", OptionType::kSize, "64K", "", 0, kMaxSize,
     "pieces in which collectives by a schedule pass on large vectors, 0: whole; where it is not set, tables of "
     "algorithms may have others; host-leaders never cuts; as rank 0 has it"},
    {"copiers", OptionType::kInt, "8", "", 1, 1 << 20,
     "ranks that copy from or into one rank's memory through the kernel at once, in a collective"},
    {"node_ranks", OptionType::kInt, "0", "", 0, 1 << 20,
     "k > 0: one machine acts as several nodes of k consecutive ranks (for tests)"},
    {"topology", OptionType::kString, "", "", kNoRange, kNoRange,
     "hwloc XML file or \"synthetic:...\" instead of this machine; ranks are placed on its CPUs in turn (for tests)"},
};
static_assert(std::size(kTable) == static_cast<size_t>(Opt::kCount));

constexpr std::string_view kPrefix = "ZEROHOP_";
constexpr std::string_view kConfigName = "ZEROHOP_CONFIG";
constexpr std::string_view kSeparators = ",;";  ///< of its parts

/// Names of before, each a collective of ZEROHOP_ALGORITHM.
constexpr std::string_view kRetired[] = {"barrier", "bcast",  "reduce",  "allreduce", "reduce_scatter", "scan",
                                         "exscan",  "gather", "scatter", "allgather", "alltoall"};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string_view trim(std::string_view text) {
  const char* kBlank = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

bool is_word_of(std::string_view word, std::string_view list) {
  while (!list.empty()) {
    const size_t end = std::min(list.find('|'), list.size());
    if (list.substr(0, end) == word) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

int to_bool(std::string_view text) {
  const std::string word = lower(text);
  if (is_word_of(word, "1|y|yes|on|true")) return 1;
  if (is_word_of(word, "0|n|no|off|false")) return 0;
  return -1;
}

bool parse_number(std::string_view text, uint64_t* out) {
  if (text.empty() || text.size() > 19 || text.find_first_not_of("0123456789") != std::string_view::npos) return false;
  *out = std::strtoull(std::string(text).c_str(), nullptr, 10);
  return true;
}

/// A name in lower case and without ZEROHOP_.
std::string plain(std::string_view name) {
  const std::string text = lower(name);
  return text.starts_with("zerohop_") ? text.substr(kPrefix.size()) : text;
}

/// The row that a name means where it is given; null if there is none.
const OptionSpec* find(std::string_view name, Source source) {
  for (const OptionSpec& spec : kTable) {
    if (source == Source::kEnvironment ? name == spec.name : plain(name) == plain(spec.name)) return &spec;
  }
  return nullptr;
}

/// What has become of a variable of before; nothing if there was no such name.
std::string fate_of(std::string_view name, std::string_view value) {
  const std::string rest = plain(name);
  if (const OptionSpec* spec = find(rest, Source::kConfig); spec != nullptr && !is_variable(*spec)) {
    const std::string setting = with_setting("", rest, value);
    return value.find_first_of(kSeparators) == std::string_view::npos
               ? std::string(kConfigName) + "=" + setting + " now"
               : setting + " now, in a file that " + kConfigName.data() + " names";
  }
  if (rest == "calibrate") return to_bool(value) == 0 ? "ZEROHOP_PROFILE=builtin now" : "ZEROHOP_PROFILE=auto now";
  if (std::find(std::begin(kRetired), std::end(kRetired), rest) == std::end(kRetired)) return "";
  return "ZEROHOP_ALGORITHM=" + rest + ":" + std::string(value) + " now";
}

/// The nearest name, or null if none is near.
const OptionSpec* nearest(std::string_view name) {
  const OptionSpec* best = nullptr;
  size_t fewest = kNotNear;
  for (const OptionSpec& spec : kTable) {
    const size_t n = slips(plain(name), plain(spec.name));
    if (n < fewest) {
      fewest = n;
      best = &spec;
    }
  }
  return best;
}

std::string allowed(const OptionSpec& spec) {
  switch (spec.type) {
    case OptionType::kBool:
      return "0 or 1";
    case OptionType::kEnum: {
      std::string text = "one of ";
      for (const char* c = spec.values; *c != '\0'; ++c) text += *c == '|' ? std::string(", ") : std::string(1, *c);
      return text;
    }
    case OptionType::kInt:
      return "a number from " + std::to_string(spec.min) + " to " + std::to_string(spec.max);
    case OptionType::kSize: {
      const std::string words = spec.values[0] != '\0' ? std::string(" or ") + spec.values : "";
      return "bytes from " + format_size(spec.min) + " to " + format_size(spec.max) + " (suffixes K, M, G)" + words;
    }
    case OptionType::kString:
      break;
  }
  return "any text";
}

/// Writes the normal form of a right value; false if it is wrong.
bool normalise(const OptionSpec& spec, std::string_view value, std::string* out) {
  uint64_t number = 0;
  switch (spec.type) {
    case OptionType::kBool:
      if (to_bool(value) < 0) return false;
      *out = to_bool(value) != 0 ? "1" : "0";
      return true;
    case OptionType::kEnum:
      *out = lower(value);
      return is_word_of(*out, spec.values);
    case OptionType::kInt:
    case OptionType::kSize:
      if (spec.values[0] != '\0' && is_word_of(lower(value), spec.values)) {
        *out = lower(value);
        return true;
      }
      if (!(spec.type == OptionType::kInt ? parse_number(value, &number) : parse_size(value, &number))) return false;
      if (number < spec.min || number > spec.max) return false;
      *out = spec.type == OptionType::kInt ? std::to_string(number) : format_size(number);
      return true;
    case OptionType::kString:
      *out = std::string(value);
      return true;
  }
  return false;
}

}  // namespace

const char* to_string(Source source) {
  constexpr const char* kWords[] = {"default", "configuration", "environment", "command line"};
  return kWords[static_cast<size_t>(source)];
}

const char* to_string(OptionType type) {
  constexpr const char* kWords[] = {"bool", "number", "bytes", "word", "text"};
  return kWords[static_cast<size_t>(type)];
}

std::span<const OptionSpec> option_table() { return kTable; }

bool is_variable(const OptionSpec& spec) { return std::string_view(spec.name).starts_with(kPrefix); }

std::string with_setting(std::string_view config, std::string_view name, std::string_view value) {
  std::string text(config);
  if (!text.empty()) text += ',';
  return text.append(name).append("=").append(value);
}

bool parse_size(std::string_view text, uint64_t* out) {
  text = trim(text);
  std::string unit;
  const size_t end = text.find_first_not_of("0123456789.");
  if (end != std::string_view::npos) {
    unit = lower(text.substr(end));
    text = text.substr(0, end);
  }
  if (unit.ends_with("ib")) {
    unit.resize(unit.size() - 2);
  } else if (unit.ends_with("b")) {
    unit.resize(unit.size() - 1);
  }
  uint64_t factor = 1;
  if (unit == "k") {
    factor = uint64_t{1} << 10;
  } else if (unit == "m") {
    factor = uint64_t{1} << 20;
  } else if (unit == "g") {
    factor = uint64_t{1} << 30;
  } else if (!unit.empty()) {
    return false;
  }
  const size_t point = text.find('.');
  uint64_t whole = 0, fraction = 0, scale = 1;
  if (!parse_number(text.substr(0, point), &whole)) return false;
  if (point != std::string_view::npos) {
    const std::string_view digits = text.substr(point + 1);
    if (digits.size() > 6 || !parse_number(digits, &fraction)) return false;
    for (size_t i = 0; i < digits.size(); ++i) scale *= 10;
  }
  if (whole > std::numeric_limits<uint64_t>::max() / factor / 2) return false;
  *out = whole * factor + fraction * factor / scale;
  return true;
}

std::string format_size(uint64_t bytes) {
  const char* units[] = {"", "K", "M", "G"};
  size_t unit = 0;
  while (unit < 3 && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + units[unit];
}

size_t slips(std::string_view typed, std::string_view name) {
  if (typed.size() > kNameMax) return kNotNear;
  std::vector<std::vector<size_t>> d(typed.size() + 1, std::vector<size_t>(name.size() + 1));
  for (size_t i = 0; i <= typed.size(); ++i) {
    for (size_t j = 0; j <= name.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j - 1] + (typed[i - 1] == name[j - 1] ? 0 : 1), d[i - 1][j] + 1, d[i][j - 1] + 1});
      const bool turned = i > 1 && j > 1 && typed[i - 1] == name[j - 2] && typed[i - 2] == name[j - 1];
      if (turned) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  const size_t n = d[typed.size()][name.size()];
  return n <= std::max<size_t>(1, name.size() / 3) ? n : kNotNear;
}

Options::Options() {
  values_.reserve(std::size(kTable));
  for (const OptionSpec& spec : kTable) values_.push_back({spec.default_value, Source::kDefault});
}

/// One line of text, whatever a name or value holds.
void Options::complain(std::string text) {
  if (text.size() > kComplaintMax) text.replace(kComplaintMax - kComplaintEnd, text.size() - kComplaintMax, "...");
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  complaints_.push_back(std::move(text));
}

Status Options::set(std::string_view name, std::string_view value, Source source) {
  const bool refused = source == Source::kCommandLine;  // nothing runs with it
  if (const OptionSpec* spec = find(name, source); spec != nullptr) {
    Value& mine = values_[static_cast<size_t>(spec - kTable)];
    if (source == Source::kConfig && spec->name == kConfigName) {
      complain(std::string(kConfigName) + " in a configuration is not followed: " + std::string(value));
      return {Code::kInvalid, "ZEROHOP_CONFIG in a configuration"};
    }
    std::string text;
    if (!normalise(*spec, trim(value), &text)) {
      const std::string& kept = mine.text.empty() ? "\"\"" : mine.text;
      complain(std::string(spec->name) + "=" + std::string(value) + " (" + to_string(source) + ") is not " +
               allowed(*spec) + (refused ? "" : "; using " + kept));
      return {Code::kInvalid, "wrong value of a ZEROHOP_ variable"};
    }
    if (source >= mine.source) mine = {std::move(text), source};
    return kOk;
  }
  if (const std::string fate = fate_of(name, value); !fate.empty()) {
    complain(std::string(name) + " (" + to_string(source) + ")" + (refused ? "" : " is ignored") + ": it is " + fate);
    return {Code::kInvalid, "ZEROHOP_ variable of before"};
  }
  const OptionSpec* near = nearest(name);
  complain("unknown variable " + std::string(name) + " (" + to_string(source) + ")" + (refused ? "" : " is ignored") +
           (near == nullptr      ? "; `zerohop info --variables` lists them all"
            : is_variable(*near) ? std::string("; did you mean ") + near->name + "?"
                                 : std::string("; did you mean ") + kConfigName.data() + "=" + near->name + "=...?"));
  return {Code::kInvalid, "unknown ZEROHOP_ variable"};
}

void Options::read_file(const std::string& path) {
  // Opening a pipe would wait for a writer.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    complain("ZEROHOP_CONFIG: cannot read " + path + ": " + std::strerror(errno));
    return;
  }
  struct stat info {};
  if (fstat(fd, &info) != 0 || !(S_ISREG(info.st_mode) || S_ISCHR(info.st_mode))) {
    close(fd);
    complain("ZEROHOP_CONFIG: " + path + " is not a file; it is ignored");
    return;
  }
  std::string text;
  char buffer[4096];
  ssize_t n = 0;
  while ((n = read(fd, buffer, sizeof buffer)) > 0 && text.size() <= kFileMax) {
    text.append(buffer, static_cast<size_t>(n));
  }
  close(fd);
  if (text.size() > kFileMax) {
    complain("ZEROHOP_CONFIG: " + path + " is longer than 1 MiB; it is ignored");
    return;
  }
  std::string_view rest = text;
  for (int number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    line = trim(line.substr(0, line.find('#')));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty()) continue;
    if (line.find('=') == std::string_view::npos) {
      complain(path + ":" + std::to_string(number) + ": not NAME=value");
      continue;
    }
    set_line(line);
  }
}

void Options::set_line(std::string_view line) {
  const size_t equal = line.find('=');
  (void)set(trim(line.substr(0, equal)), line.substr(equal + 1), Source::kConfig);  // a failure has become a complaint
}

void Options::read_config(std::string_view config) {
  if (access(std::string(config).c_str(), F_OK) == 0) return read_file(std::string(config));
  while (!config.empty()) {
    const size_t end = std::min(config.find_first_of(kSeparators), config.size());
    const std::string_view part = trim(config.substr(0, end));
    config.remove_prefix(std::min(end + 1, config.size()));
    if (part.empty()) continue;
    if (part.find('=') == std::string_view::npos || part[0] == '/' || part[0] == '.') {
      read_file(std::string(part));
    } else {
      set_line(part);
    }
  }
}

void Options::read_environment(const char* const* environment) {
  if (environment == nullptr) return;
  for (const char* const* e = environment; *e != nullptr; ++e) {
    const std::string_view entry = *e;
    const size_t equal = entry.find('=');
    if (equal == std::string_view::npos || entry.substr(0, equal) != kConfigName) continue;
    read_config(entry.substr(equal + 1));
  }
  for (const char* const* e = environment; *e != nullptr; ++e) {
    const std::string_view entry = *e;
    const size_t equal = entry.find('=');
    if (equal == std::string_view::npos || !entry.starts_with(kPrefix)) continue;
    const std::string_view name = entry.substr(0, equal);
    const std::string_view value = entry.substr(equal + 1);
    if (value.empty()) continue;  // set to nothing = not set
    (void)set(name, value, Source::kEnvironment);
  }
}

bool Options::get_bool(Opt option) const { return get_text(option) == "1"; }

size_t Options::place(Opt option) const {
  const std::string words = "|" + std::string(kTable[static_cast<size_t>(option)].values) + "|";
  const size_t at = words.find("|" + get_text(option) + "|");
  return static_cast<size_t>(std::count(words.begin(), words.begin() + static_cast<ptrdiff_t>(at), '|'));
}

uint64_t Options::get_number(Opt option, uint64_t when_word) const {
  uint64_t number = 0;
  return parse_size(get_text(option), &number) ? number : when_word;
}

std::string options_markdown() {
  std::string page =
      "# Variables\n\n"
      "<!-- Written by `zerohop info --variables-markdown`; change src/base/options.cpp instead. -->\n\n"
      "Zerohop needs none of these. Each may be given on the command line (`zerohop run --option NAME=VALUE`), in the "
      "environment, or in `ZEROHOP_CONFIG`; the first of these that names it wins. A wrong value or an unknown name is "
      "reported once, by rank 0, and not obeyed. `zerohop info --variables` prints the values in force and where each "
      "comes "
      "from.\n\n";
  const char* const head = " | Type | Default | Values | Meaning |\n|---|---|---|---|---|\n";
  page += std::string("| Variable") + head;
  bool variables = true;
  for (const OptionSpec& spec : kTable) {
    if (variables && !is_variable(spec)) {
      variables = false;
      page +=
          "\nFor experts and tests: `ZEROHOP_CONFIG=skew=0,single_copy=64K`, or a file of lines `skew=0` (`#` starts a "
          "comment).\n\n| Setting" +
          std::string(head);
    }
    std::string values = spec.type == OptionType::kString ? "any" : allowed(spec);
    std::string help = spec.help;
    for (std::string* cell : {&values, &help}) {
      for (size_t at = 0; (at = cell->find('|', at)) != std::string::npos; at += 2) cell->replace(at, 1, "\\|");
    }
    page += std::string("| `") + spec.name + "` | " + to_string(spec.type) + " | " +
            (spec.default_value[0] != '\0' ? std::string("`") + spec.default_value + "`" : "(empty)") + " | " + values +
            " | " + help + " |\n";
  }
  return page;
}

}  // namespace zh
