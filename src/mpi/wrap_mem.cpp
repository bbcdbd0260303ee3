// Memory that peers can map (MPI_Alloc_mem), and the calls about buffers of buffered sends.
#include <climits>

#include "copy/regions.h"
#include "mpi/p2p/bsend.h"
#include "mpi/shim.h"
#include "mpi/start/init.h"
#include "mpi/wrap.h"

namespace zh::mpi {
namespace {

int host_attach(void* base, int bytes) { return host.Buffer_attach(base, bytes); }
int host_detach(void* base, int* bytes) { return host.Buffer_detach(base, bytes); }
int host_attach(void* base, MPI_Count bytes) {
  ZH_LARGE_CALL(host.Buffer_attach_c(base, bytes));
  return bytes > INT_MAX ? raise(MPI_COMM_SELF, MPI_ERR_ARG) : host.Buffer_attach(base, static_cast<int>(bytes));
}
int host_detach(void* base, MPI_Count* bytes) {
  ZH_LARGE_CALL(host.Buffer_detach_c(base, bytes));
  int narrow = 0;
  const int error = host.Buffer_detach(base, &narrow);
  *bytes = narrow;
  return error;
}

template <typename N>
int attach(const MPI_Comm* comm, void* base, N bytes) {
  // Sessions without MPI_Init: the engine never starts, and buffered sends are the host's.
  if (shim.rank == nullptr && comm == nullptr) return host_attach(base, bytes);
  const int error = bsend_attach(comm, base, bytes);
  return error == MPI_SUCCESS ? error : raise(comm != nullptr ? *comm : MPI_COMM_SELF, error);
}

template <typename N>
int detach(const MPI_Comm* comm, void* base, N* bytes) {
  if (bsend_buffer(comm) == nullptr && shim.rank == nullptr && comm == nullptr) return host_detach(base, bytes);
  MPI_Count wide = 0;
  const int error = bsend_detach(comm, base, &wide);
  if (error != MPI_SUCCESS) return raise(comm != nullptr ? *comm : MPI_COMM_SELF, error);
  *bytes = static_cast<N>(wide);
  return MPI_SUCCESS;
}

int flush(const MPI_Comm* comm) {
  BsendBuffer* buffer = bsend_buffer(comm);
  if (buffer != nullptr) turn_until([buffer] { return bsend_flushed(buffer); });
  return MPI_SUCCESS;
}

int iflush(const MPI_Comm* comm, MPI_Request* handle) {
  if (shim.rank == nullptr) {  // MPI_Wait is the host's then, and knows no request of ours
    *handle = MPI_REQUEST_NULL;
    return flush(comm);
  }
  UserRequest* request = new_request(handle);
  const MPI_Comm on = comm != nullptr ? *comm : MPI_COMM_SELF;
  if (request == nullptr) return raise(on, MPI_ERR_NO_MEM);
  request->operation.site = {on};
  request->buffer = bsend_buffer(comm);
  request->kind = UserRequest::Kind::kFlush;
  return MPI_SUCCESS;
}

}  // namespace

namespace wrap {

int Buffer_attach(void* base, int bytes) { return attach(nullptr, base, bytes); }
int Buffer_attach_c(void* base, MPI_Count bytes) { return attach(nullptr, base, bytes); }
int Buffer_detach(void* base, int* bytes) { return detach(nullptr, base, bytes); }
int Buffer_detach_c(void* base, MPI_Count* bytes) { return detach(nullptr, base, bytes); }
int Comm_attach_buffer(MPI_Comm comm, void* base, int bytes) { return attach(&comm, base, bytes); }
int Comm_attach_buffer_c(MPI_Comm comm, void* base, MPI_Count bytes) { return attach(&comm, base, bytes); }
int Comm_detach_buffer(MPI_Comm comm, void* base, int* bytes) { return detach(&comm, base, bytes); }
int Comm_detach_buffer_c(MPI_Comm comm, void* base, MPI_Count* bytes) { return detach(&comm, base, bytes); }
int Buffer_flush() { return flush(nullptr); }
int Buffer_iflush(MPI_Request* request) { return iflush(nullptr, request); }
int Comm_flush_buffer(MPI_Comm comm) { return flush(&comm); }
int Comm_iflush_buffer(MPI_Comm comm, MPI_Request* request) { return iflush(&comm, request); }

int Alloc_mem(MPI_Aint bytes, MPI_Info info, void* out) {
  copy::RegionOwner* regions = mappable_memory();
  // Hints (alignment, kind of memory) are the host's to understand.
  if (regions != nullptr && info == MPI_INFO_NULL && bytes > 0) {
    void* memory = regions->allocate(static_cast<size_t>(bytes), 64);
    if (memory != nullptr) {
      *static_cast<void**>(out) = memory;
      return MPI_SUCCESS;
    }
  }
  return host.Alloc_mem(bytes, info, out);
}

int Free_mem(void* memory) {
  copy::RegionOwner* regions = mappable_memory();
  if (regions != nullptr && memory != nullptr && regions->free(memory)) return MPI_SUCCESS;
  return host.Free_mem(memory);
}

}  // namespace wrap
}  // namespace zh::mpi
