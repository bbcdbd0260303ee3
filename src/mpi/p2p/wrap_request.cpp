// The wait and test families. Arrays may mix zerohop's requests, the host's, null and inactive ones: ours are looked at
// one by one, the host's are handed to the host together, in one compact array, and put back.
#include <algorithm>
#include <array>
#include <climits>
#include <vector>

#include "mpi/coll/collective_operation.h"
#include "mpi/p2p/wildcard.h"
#include "mpi/wrap.h"

namespace zh::mpi {
namespace {

/// Error of a call that completed one request: raised unless the host did.
int raise_single(int error, bool raised, const ErrorSite& site) {
  return error == MPI_SUCCESS || raised ? error : raise(site, error);
}

/// `left`: requests that the call waits for, this one with them.
void wait_for(Request* request, int left = 1) {
  if (const UserRequest* kept = more(request); kept != nullptr && kept->collective != nullptr) {
    kept->collective->look_for_long();
  }
  const auto told = [&](p2p::Activity* out) {
    mpi::tell(request, out);
    out->requests = static_cast<uint32_t>(left);
  };
  turn_until([request] { return look(request); }, told, request);
}

/// What waiting for one of them is for.
void tell_any(int n, const MPI_Request* requests, p2p::Activity* out) {
  bool from_all = false;  // whoever is a member may end it, or the host
  out->requests = 0;
  for (int i = 0; i < n; ++i) {
    const Request* request = own(requests[i]);
    from_all = from_all || (request == nullptr && requests[i] != MPI_REQUEST_NULL);
    if (request == nullptr || !is_active(request)) continue;
    p2p::Activity one;
    mpi::tell(request, &one);
    ++out->requests;
    out->waits = one.waits;
    out->context = one.context;
    for (uint32_t k = 0; k < one.peers_told; ++k) out->add_peer(one.peers[k]);
    from_all = from_all || one.peers_told == 0 || out->peers_told == p2p::Activity::kPeers;
  }
  out->any = true;
  if (from_all) out->peers_told = 0;
}

[[gnu::noinline]] int finish_and_raise(Request* request, MPI_Request* handle, MPI_Status* status) {
  const ErrorSite site = error_site(request);
  bool raised = false;
  const int error = finish(request, handle, status, &raised);
  return raise_single(error, raised, site);
}

int finish_single(Request* request, MPI_Request* handle, MPI_Status* status) {
  if (more(request) != nullptr && finish_collective(more(request), handle, status)) return MPI_SUCCESS;
  return finish_and_raise(request, handle, status);
}

bool any_own(int n, const MPI_Request* requests) {
  for (int i = 0; i < n; ++i) {
    if (is_own(requests[i])) return true;
  }
  return false;
}

bool is_hosts(MPI_Request handle) { return !is_own(handle) && handle != MPI_REQUEST_NULL; }

/// The host's requests of an array, together, and where they came from: from `first` on, before which there are none.
class HostPart {
 public:
  HostPart(int n, MPI_Request* requests, int first = 0) : all_(requests) {
    for (int i = first; i < n; ++i) {
      if (!is_hosts(requests[i])) continue;
      requests_.push_back(requests[i]);
      places_.push_back(i);
    }
    statuses_.resize(requests_.size());
  }
  [[nodiscard]] int size() const { return static_cast<int>(requests_.size()); }
  [[nodiscard]] MPI_Request* requests() { return requests_.data(); }
  [[nodiscard]] MPI_Status* statuses() { return statuses_.data(); }
  [[nodiscard]] int place(int k) const { return places_[static_cast<size_t>(k)]; }
  /// The host's handles back into the program's array (freed ones are null now).
  void put_back() {
    for (size_t k = 0; k < requests_.size(); ++k) all_[places_[k]] = requests_[k];
  }

 private:
  MPI_Request* all_;
  std::vector<MPI_Request> requests_;
  std::vector<int> places_;
  std::vector<MPI_Status> statuses_;
};

/// Outcome of several completions at once: MPI_ERROR of each status, one MPI_ERR_IN_STATUS for all.
class ManyErrors {
 public:
  void add(int error, bool raised, const ErrorSite& site) {
    if (error == MPI_SUCCESS) return;
    if (!failed_) site_ = site;
    failed_ = true;
    raised_ = raised_ || raised;
  }
  [[nodiscard]] int result() const {
    if (!failed_) return MPI_SUCCESS;
    return raised_ ? MPI_ERR_IN_STATUS : raise(site_, MPI_ERR_IN_STATUS);
  }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  bool failed_ = false;
  bool raised_ = false;
  ErrorSite site_{};
};

bool own_complete(int n, const MPI_Request* requests) {
  return std::all_of(requests, requests + n, [](MPI_Request handle) {
    Request* request = own(handle);
    return request == nullptr || look(request);
  });
}

/// Null requests and finished own ones of a completed array; `host_error` is what the host said about its part.
int finish_all(int n, MPI_Request* requests, MPI_Status* statuses, HostPart* host_part, int host_error) {
  const bool want = !statuses_ignored(statuses);
  std::vector<int> errors(want ? static_cast<size_t>(n) : 0, MPI_SUCCESS);
  ManyErrors many;
  for (int i = 0; i < n; ++i) {
    MPI_Status* status = want ? &statuses[i] : MPI_STATUS_IGNORE;
    Request* request = own(requests[i]);
    if (request == nullptr) {
      if (requests[i] == MPI_REQUEST_NULL) write_empty_status(status);
      continue;
    }
    const ErrorSite site = error_site(request);
    bool raised = false;
    const int error = finish(request, &requests[i], status, &raised);
    many.add(error, raised, site);
    if (want) errors[static_cast<size_t>(i)] = error;
  }
  if (host_part->size() > 0) {
    if (want) {
      for (int k = 0; k < host_part->size(); ++k) {
        statuses[host_part->place(k)] = host_part->statuses()[k];
        if (class_of(host_error) == MPI_ERR_IN_STATUS) {
          errors[static_cast<size_t>(host_part->place(k))] = host_part->statuses()[k].MPI_ERROR;
        }
      }
    }
    if (host_error != MPI_SUCCESS) many.add(host_error, true, {MPI_COMM_WORLD});
    host_part->put_back();
  }
  if (many.failed() && want) {
    for (int i = 0; i < n; ++i) statuses[i].MPI_ERROR = errors[static_cast<size_t>(i)];
  }
  return many.result();
}

/// What MPI_Testall does with a mixed array; true when everything is complete and finished. The host is asked last, for
/// it frees its requests when they are complete.
bool try_all(int n, MPI_Request* requests, MPI_Status* statuses, int* error) {
  if (!own_complete(n, requests)) return false;
  HostPart host_part(n, requests);
  int host_error = MPI_SUCCESS;
  if (host_part.size() > 0) {
    int flag = 0;
    host_error = host.Testall(host_part.size(), host_part.requests(), &flag, host_part.statuses());
    if (flag == 0 && host_error == MPI_SUCCESS) return false;
  }
  *error = finish_all(n, requests, statuses, &host_part, host_error);
  return true;
}

/// The last array that a thread asked for and of which all requests were messages of the engine that pended, or null.
/// Until one of this rank's requests ends it need not be looked at again. Not where several threads may be here.
class PendingArray {
 public:
  [[nodiscard]] bool is(int n, const MPI_Request* requests) const {
    return n == n_ && ended_ == shim.rank->ended_requests() && std::equal(requests, requests + n, requests_.begin());
  }
  /// `ended`: of before they were looked at.
  void set(int n, const MPI_Request* requests, uint64_t ended) {
    if (shim.threaded || n > static_cast<int>(requests_.size())) return;
    n_ = n;
    ended_ = ended;
    std::copy_n(requests, n, requests_.begin());
  }

 private:
  int n_ = -1;
  uint64_t ended_ = 0;
  std::array<MPI_Request, 64> requests_{};
};
PendingArray pending_array;

/// What MPI_Waitany and MPI_Testany do once. `*index` is MPI_UNDEFINED when nothing is active.
bool try_any(int n, MPI_Request* requests, int* index, MPI_Status* status, int* error) {
  if (pending_array.is(n, requests)) return false;
  const uint64_t ended = shim.rank->ended_requests();
  bool active = false;
  bool all_pend = true;
  int hosts = n;  // the first of them
  for (int i = 0; i < n; ++i) {
    Request* request = own(requests[i]);
    if (request == nullptr) {
      if (hosts == n && is_hosts(requests[i])) hosts = i;
      continue;
    }
    active = active || is_active(request);
    if (pends(request)) continue;
    all_pend = false;
    if (!is_active(request) || !look(request)) continue;
    *index = i;
    *error = finish_single(request, &requests[i], status);
    return true;
  }
  if (all_pend && active && hosts == n) pending_array.set(n, requests, ended);
  if (hosts < n) {
    HostPart host_part(n, requests, hosts);
    int flag = 0;
    int k = MPI_UNDEFINED;
    *error = host.Testany(host_part.size(), host_part.requests(), &k, &flag, status);
    if (*error != MPI_SUCCESS || (flag != 0 && k != MPI_UNDEFINED)) {
      host_part.put_back();
      *index = k == MPI_UNDEFINED ? MPI_UNDEFINED : host_part.place(k);
      return true;
    }
    if (flag == 0) active = true;
  }
  if (active) return false;
  *index = MPI_UNDEFINED;
  write_empty_status(status);
  return true;
}

/// What MPI_Waitsome and MPI_Testsome do once: `*n_done` is MPI_UNDEFINED when nothing is active.
int some(int n, MPI_Request* requests, int* n_done, int* indices, MPI_Status* statuses) {
  *n_done = 0;
  if (pending_array.is(n, requests)) return MPI_SUCCESS;
  const uint64_t ended = shim.rank->ended_requests();
  const bool want = !statuses_ignored(statuses);
  std::vector<int> errors;
  ManyErrors many;
  bool active = false;
  bool all_pend = true;
  int hosts = n;  // the first of them
  int done = 0;
  for (int i = 0; i < n; ++i) {
    Request* request = own(requests[i]);
    if (request == nullptr) {
      if (hosts == n && is_hosts(requests[i])) hosts = i;
      continue;
    }
    active = active || is_active(request);
    if (pends(request)) continue;
    all_pend = false;
    if (!is_active(request) || !look(request)) continue;
    const ErrorSite site = error_site(request);
    bool raised = false;
    const int error = finish(request, &requests[i], want ? &statuses[done] : MPI_STATUS_IGNORE, &raised);
    many.add(error, raised, site);
    errors.push_back(error);
    indices[done++] = i;
  }
  if (all_pend && active && hosts == n) pending_array.set(n, requests, ended);
  if (hosts < n) {
    HostPart host_part(n, requests, hosts);
    std::vector<int> which(static_cast<size_t>(host_part.size()));
    int host_done = 0;
    const int error =
        host.Testsome(host_part.size(), host_part.requests(), &host_done, which.data(), host_part.statuses());
    if (host_done != MPI_UNDEFINED) {
      active = true;
      for (int k = 0; k < host_done; ++k) {
        if (want) statuses[done] = host_part.statuses()[k];
        errors.push_back(class_of(error) == MPI_ERR_IN_STATUS ? host_part.statuses()[k].MPI_ERROR : MPI_SUCCESS);
        indices[done++] = host_part.place(which[static_cast<size_t>(k)]);
      }
    }
    if (error != MPI_SUCCESS) many.add(error, true, {MPI_COMM_WORLD});
    host_part.put_back();
  }
  if (many.failed() && want) {
    for (int k = 0; k < done; ++k) statuses[k].MPI_ERROR = errors[static_cast<size_t>(k)];
  }
  *n_done = active ? done : MPI_UNDEFINED;
  return many.result();
}

/// The host's requests that MPI_Request_get_status has called complete. MPICH's MPI_Test calls those of files an error
/// from then on; its MPI_Wait does not.
class ToldComplete {
 public:
  void add(MPI_Request handle) {
    const TableLock lock(mutex_);
    std::erase(handles_, handle);
    if (handles_.size() == kMost) handles_.erase(handles_.begin());
    handles_.push_back(handle);
  }
  /// Whether it was there. A newer request may have its handle: of nothing but waiting for it in the host.
  bool take(MPI_Request handle) {
    const TableLock lock(mutex_);
    return std::erase(handles_, handle) != 0;
  }

 private:
  static constexpr size_t kMost = 64;
  std::mutex mutex_;
  std::vector<MPI_Request> handles_;  ///< the latest
};
ToldComplete told_complete;

/// Waits for one request of the host. Errors have been raised.
int wait_for_host(MPI_Request* handle, MPI_Status* status) {
  if (shim.rank == nullptr || *handle == MPI_REQUEST_NULL || told_complete.take(*handle)) {
    return host.Wait(handle, status);
  }
  int flag = 0;
  int error = MPI_SUCCESS;
  const auto look = [&] {
    error = host.Test(handle, &flag, status);
    return flag != 0 || error != MPI_SUCCESS;
  };
  turn_until(look, [](p2p::Activity* out) { out->waits = p2p::Activity::Waits::kInHost; });
  return error;
}

}  // namespace

namespace wrap {

int Wait(MPI_Request* handle, MPI_Status* status) {
  Request* request = own(*handle);
  if (request != nullptr) [[likely]] {
    constexpr uint16_t kNumber = function_number("Wait");
    shim.rank->called(kNumber);
    if (!look(request)) wait_for(request);
    return finish_single(request, handle, status);
  }
  return wait_for_host(handle, status);
}

int Test(MPI_Request* handle, int* flag, MPI_Status* status) {
  Request* request = own(*handle);
  if (request == nullptr) {
    turn_once();
    return host.Test(handle, flag, status);
  }
  *flag = 0;
  if (!look(request)) {
    turn_once();
    if (!look(request)) return MPI_SUCCESS;
  }
  *flag = 1;
  return finish_single(request, handle, status);
}

// In order, each finished as soon as it is complete: nobody sees the array before the call returns. The host's requests
// too are waited for one by one: MPICH's MPI_Testall calls those of files and partitioned messages an error until they
// are complete.
int Waitall(int n, MPI_Request* requests, MPI_Status* statuses) {
  if (n <= 0) return host.Waitall(n, requests, statuses);
  const bool want = !statuses_ignored(statuses);
  std::vector<int> errors;
  ManyErrors many;
  constexpr uint16_t kNumber = function_number("Waitall");
  if (shim.rank != nullptr) shim.rank->called(kNumber);
  for (int i = 0; (i += finish_ended(n - i, requests + i, want ? statuses + i : nullptr)) < n; ++i) {
    MPI_Status* status = want ? &statuses[i] : MPI_STATUS_IGNORE;
    Request* request = own(requests[i]);
    ErrorSite site{MPI_COMM_WORLD};
    bool raised = true;
    int error = MPI_SUCCESS;
    if (request != nullptr) {
      if (!look(request)) wait_for(request, n - i);
      site = error_site(request);
      error = finish(request, &requests[i], status, &raised);
    } else if (requests[i] == MPI_REQUEST_NULL) {
      write_empty_status(status);
    } else {
      error = wait_for_host(&requests[i], status);
      if (error != MPI_SUCCESS && class_of(error) == MPI_ERR_REQUEST) return error;
    }
    if (error == MPI_SUCCESS) continue;
    many.add(error, raised, site);
    errors.resize(static_cast<size_t>(i), MPI_SUCCESS);
    errors.push_back(error);
  }
  if (want && many.failed()) {
    errors.resize(static_cast<size_t>(n), MPI_SUCCESS);
    for (int i = 0; i < n; ++i) statuses[i].MPI_ERROR = errors[static_cast<size_t>(i)];
  }
  return many.result();
}

int Testall(int n, MPI_Request* requests, int* flag, MPI_Status* statuses) {
  turn_once();
  if (!any_own(n, requests)) return host.Testall(n, requests, flag, statuses);
  int error = MPI_SUCCESS;
  *flag = try_all(n, requests, statuses, &error) ? 1 : 0;
  return error;
}

int Waitany(int n, MPI_Request* requests, int* index, MPI_Status* status) {
  if (!any_own(n, requests) && (shim.rank == nullptr || n <= 0)) return host.Waitany(n, requests, index, status);
  int error = MPI_SUCCESS;
  constexpr uint16_t kNumber = function_number("Waitany");
  if (shim.rank != nullptr) shim.rank->called(kNumber);
  turn_until([&] { return try_any(n, requests, index, status, &error); },
             [=](p2p::Activity* out) { tell_any(n, requests, out); });
  return error;
}

int Testany(int n, MPI_Request* requests, int* index, int* flag, MPI_Status* status) {
  turn_once();
  if (!any_own(n, requests)) return host.Testany(n, requests, index, flag, status);
  int error = MPI_SUCCESS;
  *index = MPI_UNDEFINED;
  *flag = try_any(n, requests, index, status, &error) ? 1 : 0;
  return error;
}

int Waitsome(int n, MPI_Request* requests, int* n_done, int* indices, MPI_Status* statuses) {
  if (!any_own(n, requests) && (shim.rank == nullptr || n <= 0)) {
    return host.Waitsome(n, requests, n_done, indices, statuses);
  }
  int error = MPI_SUCCESS;
  constexpr uint16_t kNumber = function_number("Waitsome");
  if (shim.rank != nullptr) shim.rank->called(kNumber);
  const auto look = [&] {
    error = some(n, requests, n_done, indices, statuses);
    return *n_done != 0 || error != MPI_SUCCESS;
  };
  turn_until(look, [=](p2p::Activity* out) { tell_any(n, requests, out); });
  return error;
}

int Testsome(int n, MPI_Request* requests, int* n_done, int* indices, MPI_Status* statuses) {
  turn_once();
  if (!any_own(n, requests)) return host.Testsome(n, requests, n_done, indices, statuses);
  return some(n, requests, n_done, indices, statuses);
}

int Request_get_status(MPI_Request handle, int* flag, MPI_Status* status) {
  Request* request = own(handle);
  if (request == nullptr) {
    turn_once();
    const int error = host.Request_get_status(handle, flag, status);
    if (error == MPI_SUCCESS && *flag != 0 && handle != MPI_REQUEST_NULL) told_complete.add(handle);
    return error;
  }
  *flag = look(request) ? 1 : 0;
  if (*flag == 0) {
    turn_once();
    *flag = look(request) ? 1 : 0;
  }
  if (*flag != 0) peek_status(request, status);
  return MPI_SUCCESS;
}

// MPI 4.1's forms for arrays, over the one above: they look at every request and free none, so order does not matter.
int Request_get_status_all(int n, const MPI_Request* requests, int* flag, MPI_Status* statuses) {
  *flag = 1;
  for (int i = 0; i < n; ++i) {
    int one = 0;
    MPI_Status* status = statuses_ignored(statuses) ? MPI_STATUS_IGNORE : &statuses[i];
    const int error = Request_get_status(requests[i], &one, status);
    if (error != MPI_SUCCESS) return error;
    if (one == 0) *flag = 0;
  }
  return MPI_SUCCESS;
}

namespace {
/// One request of the any and some forms, for which null and inactive ones do not count as complete. Of the host's,
/// only the host's own any form tells inactive from complete.
int look_at_active(MPI_Request handle, bool* active, int* flag, MPI_Status* status) {
  *flag = 0;
  const Request* request = own(handle);
  *active = request != nullptr ? is_active(request) : handle != MPI_REQUEST_NULL;
  if (!*active) return MPI_SUCCESS;
  if (request != nullptr || host.Request_get_status_any == nullptr) return Request_get_status(handle, flag, status);
  turn_once();
  int index = MPI_UNDEFINED;
  const int error = host.Request_get_status_any(1, &handle, &index, flag, status);
  *active = *flag == 0 || index != MPI_UNDEFINED;
  if (!*active) *flag = 0;
  return error;
}
}  // namespace

int Request_get_status_any(int n, const MPI_Request* requests, int* index, int* flag, MPI_Status* status) {
  *index = MPI_UNDEFINED;
  *flag = 0;
  bool active = false;
  for (int i = 0; i < n; ++i) {
    bool counts = false;
    const int error = look_at_active(requests[i], &counts, flag, status);
    if (error != MPI_SUCCESS) return error;
    active = active || counts;
    if (*flag == 0) continue;
    *index = i;
    return MPI_SUCCESS;
  }
  if (!active) {
    *flag = 1;
    write_empty_status(status);
  }
  return MPI_SUCCESS;
}

int Request_get_status_some(int n, const MPI_Request* requests, int* n_done, int* indices, MPI_Status* statuses) {
  int done = 0;
  bool active = false;
  for (int i = 0; i < n; ++i) {
    bool counts = false;
    int flag = 0;
    MPI_Status* status = statuses_ignored(statuses) ? MPI_STATUS_IGNORE : &statuses[done];
    const int error = look_at_active(requests[i], &counts, &flag, status);
    if (error != MPI_SUCCESS) return error;
    active = active || counts;
    if (flag != 0) indices[done++] = i;
  }
  *n_done = active ? done : MPI_UNDEFINED;
  return MPI_SUCCESS;
}

int Request_free(MPI_Request* handle) {
  Request* request = own(*handle);
  if (request == nullptr) return host.Request_free(handle);
  if (const int error = abandon(request); error != MPI_SUCCESS) return error;
  *handle = MPI_REQUEST_NULL;
  return MPI_SUCCESS;
}

int Cancel(MPI_Request* handle) {
  Request* request = own(*handle);
  if (request == nullptr) return host.Cancel(handle);
  return cancel(request);
}

int Start(MPI_Request* handle) {
  Request* request = own(*handle);
  return request != nullptr ? start(request) : host.Start(handle);
}

int Startall(int n, MPI_Request* requests) {
  if (!any_own(n, requests)) return host.Startall(n, requests);
  for (int i = 0; i < n; ++i) {
    const int error = Start(&requests[i]);
    if (error != MPI_SUCCESS) return error;
  }
  return MPI_SUCCESS;
}

}  // namespace wrap
}  // namespace zh::mpi
