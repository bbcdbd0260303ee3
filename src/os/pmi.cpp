// See pmi.h. Each command and each reply is one line of "name=value" words.
#include "os/pmi.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "os/error.h"

namespace zh::os {
namespace {

constexpr size_t kReplyMax = 16 << 10;

bool is_set_to(const char* variable, std::initializer_list<std::string_view> values) {
  const char* value = std::getenv(variable);
  if (value == nullptr) return false;
  for (const std::string_view v : values) {
    if (v == value) return true;
  }
  return false;
}
bool is_unset_or(const char* variable, std::initializer_list<std::string_view> values) {
  return std::getenv(variable) == nullptr || is_set_to(variable, values);
}

/// The MPI library may have been told to speak another protocol over the same descriptor.
bool library_speaks_pmi1() {
  return is_unset_or("MPIR_CVAR_PMI_VERSION", {"1"}) && is_unset_or("MPIR_PARAM_PMI_VERSION", {"1"}) &&
         is_unset_or("MPICH_PMI_VERSION", {"1"}) && is_unset_or("I_MPI_PMI", {"auto", "pmi1"});
}

/// The launcher's descriptor, or -1. Others than hydra leave one as well (Slurm's PMI-2 plugin), but not the rank's
/// place on the node beside it.
int launcher_descriptor() {
  const char* text = std::getenv("PMI_FD");
  if (text == nullptr || std::getenv("MPI_LOCALRANKID") == nullptr || !library_speaks_pmi1()) return -1;
  char* end = nullptr;
  const long fd = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || fd < 0 || fd > 1 << 20) return -1;
  struct stat about {};
  return fstat(static_cast<int>(fd), &about) == 0 && S_ISSOCK(about.st_mode) ? static_cast<int>(fd) : -1;
}

Status send_all(int fd, const std::string& text) {
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return from_errno("sending to the launcher", errno);
    sent += static_cast<size_t>(n);
  }
  return kOk;
}

/// One line, without its end. The launcher says nothing unasked, so nothing follows it.
Status receive_line(int fd, std::string* line) {
  line->clear();
  while (line->size() < kReplyMax) {
    char piece[512];
    const ssize_t n = recv(fd, piece, sizeof piece, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return from_errno("receiving from the launcher", errno);
    if (n == 0) return {Code::kPeerDead, "the launcher has closed its end"};
    line->append(piece, static_cast<size_t>(n));
    if (line->back() != '\n') continue;
    line->pop_back();
    return kOk;
  }
  return {Code::kIo, "the launcher's reply does not end"};
}

/// Value of the word `name`, "" if there is none.
std::string_view word(std::string_view line, std::string_view name) {
  while (!line.empty()) {
    const size_t end = line.find(' ');
    const std::string_view item = line.substr(0, end);
    if (item.size() > name.size() && item[name.size()] == '=' && item.substr(0, name.size()) == name) {
      return item.substr(name.size() + 1);
    }
    if (end == std::string_view::npos) break;
    line.remove_prefix(end + 1);
  }
  return {};
}

bool succeeded(std::string_view reply) {
  const std::string_view code = word(reply, "rc");
  return code.empty() || code == "0";
}

}  // namespace

Status PmiClient::ask(const std::string& command, const char* expected, std::string* reply) const {
  if (Status s = send_all(fd_, command + "\n"); !s.ok()) return s;
  if (Status s = receive_line(fd_, reply); !s.ok()) return s;
  return word(*reply, "cmd") == expected ? kOk : Status{Code::kIo, "the launcher answers something else"};
}

Status PmiClient::open() {
  fd_ = launcher_descriptor();
  if (fd_ < 0) return {Code::kNotSupported, "no launcher that speaks PMI-1"};
  std::string reply;
  // Before the first of these on a node, hydra's proxies up to 4.0 forget what is put.
  if (Status s = ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", &reply); !s.ok()) return s;
  if (!succeeded(reply)) return {Code::kNotSupported, "the launcher speaks another version of PMI"};
  if (Status s = ask("cmd=get_my_kvsname", "my_kvsname", &reply); !s.ok()) return s;
  space_ = word(reply, "kvsname");
  return space_.empty() ? Status{Code::kIo, "the launcher keeps no values"} : kOk;
}

Status PmiClient::put(const std::string& key, const std::string& value) {
  std::string reply;
  const std::string command = "cmd=put kvsname=" + space_ + " key=" + key + " value=" + value;
  if (Status s = ask(command, "put_result", &reply); !s.ok()) return s;
  return succeeded(reply) ? kOk : Status{Code::kIo, "the launcher does not keep the value"};
}

Status PmiClient::get(const std::string& key, std::string* value) {
  value->clear();
  std::string reply;
  if (Status s = ask("cmd=get kvsname=" + space_ + " key=" + key, "get_result", &reply); !s.ok()) return s;
  if (succeeded(reply)) *value = word(reply, "value");
  return kOk;
}

}  // namespace zh::os
