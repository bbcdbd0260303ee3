// Passing a descriptor over a Unix socket (SCM_RIGHTS); declared in segment.h. Serves where /proc/<pid>/fd is closed:
// other PID namespaces, hidepid, Yama.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "os/clock.h"
#include "os/error.h"
#include "os/high_descriptor.h"
#include "os/process.h"
#include "os/segment.h"

namespace zh::os {
namespace {

/// Fills a socket address from "@abstract" or "/path"; false if it is too long.
bool to_sockaddr(const std::string& address, sockaddr_un* out, socklen_t* len_bytes) {
  *out = {};
  out->sun_family = AF_UNIX;
  if (address.empty() || address.size() >= sizeof out->sun_path) return false;
  std::memcpy(out->sun_path, address.data(), address.size());
  size_t path_bytes = address.size() + 1;
  if (address[0] == '@') {
    out->sun_path[0] = '\0';
    path_bytes = address.size();
  }
  *len_bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path_bytes);
  return true;
}

bool wait_readable(int fd, uint64_t deadline_ns) {
  for (;;) {
    const uint64_t now = now_ns();
    if (now >= deadline_ns) return false;
    pollfd item{fd, POLLIN, 0};
    const int n = poll(&item, 1, static_cast<int>((deadline_ns - now) / 1'000'000 + 1));
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}

bool same_user(int fd) {
  ucred peer{};
  socklen_t len_bytes = sizeof peer;
  // Across user namespaces the kernel shows the overflow id for users that are not mapped; those are refused, too.
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len_bytes) == 0 && peer.uid == geteuid();
}

/// A message of one byte with room for a descriptor.
struct Envelope {
  char byte = 'z';
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{nullptr, 0, &data, 1, control, sizeof control, 0};
};

Status send_descriptor(int socket, int fd) {
  Envelope envelope;
  msghdr& message = envelope.message;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  return sendmsg(socket, &message, MSG_NOSIGNAL) == 1 ? kOk : from_errno("sendmsg of the segment's descriptor", errno);
}

}  // namespace

DescriptorServer::~DescriptorServer() {
  if (!address_.empty() && address_[0] == '/') remove_name(address_);
}

Status DescriptorServer::listen(uint64_t token, const std::string& folder) {
  char name[64];
  std::snprintf(name, sizeof name, "zerohop-%016llx", static_cast<unsigned long long>(token));
  const std::string address = folder.empty() ? std::string("@") + name : folder + "/" + name;
  sockaddr_un where{};
  socklen_t len_bytes = 0;
  if (!to_sockaddr(address, &where, &len_bytes))
    return {Code::kInvalid, "the folder's name is too long for a socket", ENAMETOOLONG};
  Descriptor fd(move_high(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)));
  if (!fd.valid()) return from_errno("socket for passing the segment", errno);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&where), len_bytes) != 0) {
    return from_errno("bind of the socket for passing the segment", errno);
  }
  address_ = address;
  if (::listen(fd.get(), 128) != 0) return from_errno("listen for passing the segment", errno);
  socket_ = std::move(fd);
  return kOk;
}

Status DescriptorServer::serve(int fd, int clients, uint64_t timeout_ns) {
  const uint64_t deadline_ns = now_ns() + timeout_ns;
  while (clients > 0) {
    if (!wait_readable(socket_.get(), deadline_ns)) {
      return {Code::kWouldBlock, "a rank did not fetch the segment's descriptor in time", ETIMEDOUT};
    }
    Descriptor client(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client.valid()) continue;
    if (!same_user(client.get())) continue;  // a stranger: refused, and not counted
    if (Status s = send_descriptor(client.get(), fd); !s.ok()) return s;
    --clients;
  }
  return kOk;
}

Status receive_descriptor(const std::string& address, uint64_t timeout_ns, Descriptor* out) {
  sockaddr_un where{};
  socklen_t len_bytes = 0;
  if (!to_sockaddr(address, &where, &len_bytes)) return {Code::kInvalid, "no address of a socket", EINVAL};
  Descriptor fd(move_high(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)));
  if (!fd.valid()) return from_errno("socket for fetching the segment", errno);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&where), len_bytes) != 0) {
    return from_errno("connect for fetching the segment", errno);
  }
  if (!same_user(fd.get())) return {Code::kNotPermitted, "the socket of the segment belongs to another user", EPERM};
  if (!wait_readable(fd.get(), now_ns() + timeout_ns)) {
    return {Code::kWouldBlock, "the segment's descriptor did not come in time", ETIMEDOUT};
  }
  Envelope envelope;
  msghdr& message = envelope.message;
  const ssize_t n = recvmsg(fd.get(), &message, MSG_CMSG_CLOEXEC);
  const cmsghdr* header = n == 1 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
    return {Code::kIo, "no descriptor came over the socket", n < 0 ? errno : 0};
  }
  int received = -1;
  std::memcpy(&received, CMSG_DATA(header), sizeof received);
  out->reset(move_high(received));
  return kOk;
}

}  // namespace zh::os
