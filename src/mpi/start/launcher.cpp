// See launcher.h. hydra's store is reached over PMI-1 before the host initialises, whose barrier brings the marks to
// everyone. PMIx's (Open MPI) is reached just before the host publishes its own values there. It has all marks of the
// own node then, and fetches those of other nodes when they are asked for; a mark that is not there it waits for.
#include "mpi/start/launcher.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>

#include "mpi/entry/abi.h"

extern "C" const ElfW(Ehdr) __ehdr_start  // NOLINT(bugprone-reserved-identifier,cert-dcl37-c): the linker's name
    [[gnu::visibility("hidden")]];

namespace zh::mpi {

Launcher launcher;

namespace {

constexpr char kKey[] = "zerohop";

// --- PMIx, as far as it is used here; the same in all versions since 2.
constexpr uint8_t kPmixGlobal = 3;
constexpr uint16_t kPmixBool = 1;
constexpr uint16_t kPmixString = 3;
constexpr uint16_t kPmixInt = 6;
constexpr uint32_t kPmixAnyRank = UINT32_MAX - 1;
struct PmixProc {
  char nspace[256];
  uint32_t rank;
};
struct PmixValue {
  uint16_t type;
  union {
    bool flag;
    int integer;
    char* string;
    uint64_t room[3];
  } data;
};
struct PmixInfo {
  char key[512];
  uint32_t flags;
  PmixValue value;
};
static_assert(sizeof(PmixValue) == 32 && sizeof(PmixInfo) == 552);
using PmixPut = int (*)(uint8_t, const char*, PmixValue*);
using PmixGet = int (*)(const PmixProc*, const char*, const PmixInfo*, size_t, PmixValue**);
using PmixGetNb = int (*)(const PmixProc*, const char*, const PmixInfo*, size_t, void (*)(int, void*, void*), void*);

// Daemons answer for ranks, in about a millisecond. Who is taken for absent and is not waits for ever, so the limit is
// long; it passes only where a rank on another node takes no part.
constexpr int kPatienceS = 20;
constexpr int kPatienceToTellS = 2;
constexpr int kGraceS = 5;  ///< beyond PMIx's own limit
constexpr timespec kNap = {0, 50'000};

PmixProc pmix_proc(uint32_t rank) {
  PmixProc who{};
  std::snprintf(who.nspace, sizeof who.nspace, "%s", std::getenv("PMIX_NAMESPACE"));
  who.rank = rank;
  return who;
}

// --- the mark

/// The linker's hash of everything in this library, in hexadecimal digits.
std::string build_id() {
  const char* base = reinterpret_cast<const char*>(&__ehdr_start);
  const auto* header = reinterpret_cast<const ElfW(Phdr)*>(base + __ehdr_start.e_phoff);
  std::string text;
  for (unsigned i = 0; i < __ehdr_start.e_phnum; ++i) {
    if (header[i].p_type != PT_NOTE) continue;
    const char* at = base + header[i].p_vaddr;
    const char* end = at + header[i].p_memsz;
    const auto aligned = [](size_t n) { return (n + 3) / 4 * 4; };
    while (at + sizeof(ElfW(Nhdr)) < end) {
      const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(at);
      const char* name = at + sizeof *note;
      const char* bytes = name + aligned(note->n_namesz);
      if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
        for (unsigned k = 0; k < note->n_descsz; ++k) {
          char digits[3];
          std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(static_cast<unsigned char>(bytes[k])));
          text += digits;
        }
        return text;
      }
      at = bytes + aligned(note->n_descsz);
    }
  }
  return text;
}

std::string key_of_rank(int rank) { return std::string(kKey) + "-" + std::to_string(rank); }

}  // namespace

void Launcher::leave_mark() {
  std::call_once(once_, [this] { prepare(); });
}

void Launcher::prepare() {
  mark_ = std::string(ZH_ABI_NAME "/" ZH_VERSION "/") + build_id();
  if (hook_ != nullptr) *hook_ = &before_commit_of_host;
#if !defined(ZH_ABI_OMPI)
  const char* rank = std::getenv("PMI_RANK");
  if (rank == nullptr) return;
  const Status opened = pmi_.open();
  if (opened.code() == Code::kNotSupported) return;
  const bool good = opened.ok() && pmi_.put(key_of_rank(std::atoi(rank)), mark_).ok();
  state_ = good ? State::kPmi : State::kFailed;
#endif
}

void Launcher::before_commit_of_host(void* pmix) { launcher.before_commit(pmix); }

void Launcher::before_commit(void* pmix) {
  if (state_ != State::kNone || std::getenv("PMIX_NAMESPACE") == nullptr) return;
  const auto put = reinterpret_cast<PmixPut>(dlsym(pmix, "PMIx_Put"));
  pmix_get_ = dlsym(pmix, "PMIx_Get");
  pmix_get_nb_ = dlsym(pmix, "PMIx_Get_nb");
  if (put == nullptr || pmix_get_ == nullptr || pmix_get_nb_ == nullptr) return;
  PmixValue value{};
  value.type = kPmixString;
  value.data.string = mark_.data();
  state_ = put(kPmixGlobal, kKey, &value) == 0 ? State::kPmix : State::kFailed;
}

std::string Launcher::read_pmix(uint32_t rank, const char* key) const {
  const PmixProc who = pmix_proc(rank);
  // Without it the call waits until that rank has put the key.
  PmixInfo immediate{};
  std::snprintf(immediate.key, sizeof immediate.key, "pmix.immediate");
  immediate.value.type = kPmixBool;
  immediate.value.data.flag = true;
  std::string text;
  PmixValue* value = nullptr;
  if (reinterpret_cast<PmixGet>(pmix_get_)(&who, key, &immediate, 1, &value) != 0 || value == nullptr) return text;
  if (value->type == kPmixString && value->data.string != nullptr) {
    text = value->data.string;
    std::free(value->data.string);
  }
  std::free(value);
  return text;
}

void Launcher::find_neighbours() {
  if (knows_node_) return;
  knows_node_ = true;
  const std::string peers = read_pmix(kPmixAnyRank, "pmix.lpeers");
  for (const char* at = peers.c_str(); *at != '\0';) {
    char* end = nullptr;
    const long rank = std::strtol(at, &end, 10);
    if (end == at) return;
    on_node_.insert(static_cast<int>(rank));
    at = *end == ',' ? end + 1 : end;
  }
}

/// Of one rank. Lives until its answer comes.
struct Launcher::Question {
  Launcher* asker;
  int rank;
};

void Launcher::on_answer(int status, void* value, void* question) {
  const std::unique_ptr<Question> of(static_cast<Question*>(question));
  const std::lock_guard lock(of->asker->answers_);
  of->asker->open_.erase(of->rank);
  const auto* mark = static_cast<const PmixValue*>(value);
  if (status != 0 || mark == nullptr || mark->type != kPmixString || mark->data.string == nullptr) return;
  of->asker->found_[of->rank] = mark->data.string;
}

void Launcher::ask_for(std::span<const int> ranks, bool only_to_tell) {
  if (state_ != State::kPmix) return;
  find_neighbours();
  const int patience_s = only_to_tell ? kPatienceToTellS : kPatienceS;
  static PmixInfo limits[2];  // PMIx reads them until it answers
  PmixInfo& limit = limits[only_to_tell ? 1 : 0];
  std::snprintf(limit.key, sizeof limit.key, "pmix.timeout");
  limit.value.type = kPmixInt;
  limit.value.data.integer = patience_s;
  for (const int rank : ranks) {
    if (on_node_.contains(rank)) continue;
    {
      const std::lock_guard lock(answers_);
      if (found_.contains(rank) || !open_.insert(rank).second) continue;
    }
    const PmixProc who = pmix_proc(static_cast<uint32_t>(rank));
    auto question = std::make_unique<Question>(Question{this, rank});
    const int asked = reinterpret_cast<PmixGetNb>(pmix_get_nb_)(&who, kKey, &limit, 1, &on_answer, question.get());
    if (asked == 0) {
      (void)question.release();  // on_answer has it now
      continue;
    }
    const std::lock_guard lock(answers_);
    open_.erase(rank);
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(patience_s + kGraceS);
  while (std::chrono::steady_clock::now() < end) {
    {
      const std::lock_guard lock(answers_);
      if (open_.empty()) return;
    }
    nanosleep(&kNap, nullptr);
  }
}

std::string Launcher::read(int rank) {
  if (state_ == State::kPmi) {
    std::string text;
    (void)pmi_.get(key_of_rank(rank), &text);
    return text;
  }
  {
    const std::lock_guard lock(answers_);
    if (const auto found = found_.find(rank); found != found_.end()) return found->second;
  }
  return read_pmix(static_cast<uint32_t>(rank), kKey);
}

node::Presence Launcher::look(int rank) {
  const std::string theirs = read(rank);
  if (theirs.empty()) return node::Presence::kAbsent;
  return theirs == mark_ ? node::Presence::kSame : node::Presence::kOther;
}

}  // namespace zh::mpi
