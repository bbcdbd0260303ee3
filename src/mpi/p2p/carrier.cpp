// See carrier.h.
#include "mpi/p2p/carrier.h"

#include <cstring>
#include <new>

#include "mpi/shim.h"

namespace zh::mpi {
namespace {

class HostCarrier final : public engine::Carrier {
 public:
  explicit HostCarrier(MPI_Comm world) : world_(world) {
    int rank = 0;
    host.Comm_rank(world, &rank);
    self_ = rank;
  }
  [[nodiscard]] int32_t self() const override { return self_; }
  [[nodiscard]] int32_t tag_ub() const override { return shim.tag_ub; }

  Request send(int32_t rank, int32_t tag, const void* data, uint64_t bytes) override {
    MPI_Request request;
    counted::Isend<MPI_Count>(data, static_cast<MPI_Count>(bytes), MPI_BYTE, rank, tag, world_, &request);
    return pack(request);
  }
  Request receive(int32_t rank, int32_t tag, void* data, uint64_t bytes) override {
    MPI_Request request;
    const int source = rank == kAnyRank ? MPI_ANY_SOURCE : rank;
    counted::Irecv<MPI_Count>(data, static_cast<MPI_Count>(bytes), MPI_BYTE, source, tag, world_, &request);
    return pack(request);
  }
  bool test(Request* packed) override {
    MPI_Request request = unpack(*packed);
    int flag = 0;
    host.Test(&request, &flag, MPI_STATUS_IGNORE);
    return flag != 0;
  }
  void cancel(Request* packed) override {
    MPI_Request request = unpack(*packed);
    host.Cancel(&request);
    host.Wait(&request, MPI_STATUS_IGNORE);
  }

 private:
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
  int32_t self_ = 0;
};

}  // namespace

std::unique_ptr<engine::Carrier> make_carrier(MPI_Comm world) {
  return std::unique_ptr<engine::Carrier>(new (std::nothrow) HostCarrier(world));
}

}  // namespace zh::mpi
