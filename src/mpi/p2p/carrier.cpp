// See carrier.h.
#include "mpi/p2p/carrier.h"

#include <cstring>
#include <new>

#include "mpi/shim.h"

namespace zh::mpi {
namespace {

class HostCarrier final : public engine::Carrier {
 public:
  /// `own`: a duplicate of `world` for this carrier's messages. What is too long for its receive is an error of that
  /// call on it; other errors are the world's.
  HostCarrier(MPI_Comm world, MPI_Comm own) : world_(world), own_(own) {
    int rank = 0;
    host.Comm_rank(world, &rank);
    self_ = rank;
    host.Comm_set_errhandler(own, MPI_ERRORS_RETURN);
  }
  ~HostCarrier() override { host.Comm_free(&own_); }
  HostCarrier(const HostCarrier&) = delete;
  HostCarrier& operator=(const HostCarrier&) = delete;
  [[nodiscard]] int32_t self() const override { return self_; }
  [[nodiscard]] int32_t tag_ub() const override { return shim.tag_ub; }

  Request send(int32_t rank, int32_t tag, const void* data, uint64_t bytes) override {
    MPI_Request request = MPI_REQUEST_NULL;
    check(counted::Isend(data, static_cast<MPI_Count>(bytes), MPI_BYTE, rank, tag, own_, &request));
    return pack(request);
  }
  Request receive(int32_t rank, int32_t tag, void* data, uint64_t bytes) override {
    MPI_Request request = MPI_REQUEST_NULL;
    const int source = rank == kAnyRank ? MPI_ANY_SOURCE : rank;
    check(counted::Irecv(data, static_cast<MPI_Count>(bytes), MPI_BYTE, source, tag, own_, &request));
    return pack(request);
  }
  bool test(Request* packed, Arrival* arrival) override {
    MPI_Request request = unpack(*packed);
    MPI_Status status;
    int flag = 0;
    const bool truncated =
        check(host.Test(&request, &flag, arrival != nullptr ? &status : MPI_STATUS_IGNORE)) == MPI_ERR_TRUNCATE;
    // Some hosts leave the flag as it was when the message has an error.
    if (flag == 0 && !truncated) return false;
    if (arrival != nullptr) *arrival = arrival_of(status, truncated);
    return true;
  }
  bool cancel(Request* packed, Arrival* arrival) override {
    MPI_Request request = unpack(*packed);
    MPI_Status status;
    check(host.Cancel(&request));
    // No call that waits: that would serve this rank's collectives meanwhile, of which one may call here.
    bool truncated = false;
    for (int flag = 0; flag == 0 && !truncated;) {
      truncated = check(host.Test(&request, &flag, &status)) == MPI_ERR_TRUNCATE;
    }
    int cancelled = 0;
    if (!truncated) host.Test_cancelled(&status, &cancelled);
    if (cancelled == 0 && arrival != nullptr) *arrival = arrival_of(status, truncated);
    return cancelled != 0;
  }

 private:
  /// The class of that error. What is not of lengths goes to the handler of the world.
  int check(int error) const {
    if (error == MPI_SUCCESS) return error;
    const int error_class = class_of(error);
    if (error_class != MPI_ERR_TRUNCATE) host.Comm_call_errhandler(world_, error);
    return error_class;
  }
  static Arrival arrival_of(const MPI_Status& status, bool truncated) {
    if (truncated) return {0, true};
    MPI_Count bytes = 0;
    host.Get_elements_x(&status, MPI_BYTE, &bytes);
    return {static_cast<uint64_t>(bytes), false};
  }
  static Request pack(MPI_Request request) {
    Request packed = 0;
    static_assert(sizeof request <= sizeof packed);
    std::memcpy(&packed, &request, sizeof request);
    return packed;
  }
  static MPI_Request unpack(Request packed) {
    MPI_Request request;
    std::memcpy(&request, &packed, sizeof request);
    return request;
  }
  MPI_Comm world_;
  MPI_Comm own_;
  int32_t self_ = 0;
};

}  // namespace

std::unique_ptr<engine::Carrier> make_carrier(MPI_Comm world) {
  MPI_Comm own;
  if (host.Comm_dup(world, &own) != MPI_SUCCESS) return nullptr;
  auto* carrier = new (std::nothrow) HostCarrier(world, own);
  if (carrier == nullptr) host.Comm_free(&own);
  return std::unique_ptr<engine::Carrier>(carrier);
}

}  // namespace zh::mpi
