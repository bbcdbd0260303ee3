// The host MPI as the shim calls it: PMPI_ functions found by dlsym when the module starts, never linked.
// Counted calls exist in one template each: int and MPI_Count arguments, also on hosts without large-count functions.
#pragma once

#include <climits>
#include <type_traits>

#include "mpi/entry/abi.h"
#include "mpi/entry/function_names.h"

namespace zh::engine {
class Rank;
}

namespace zh::mpi {

// Functions that every host has; with those of collectives.table and blocking.table.
// clang-format off
#define ZH_HOST_FUNCTIONS(X)                                                                                           \
  X(Isend) X(Ibsend) X(Issend) X(Irsend) X(Irecv) X(Send_init) X(Bsend_init) X(Ssend_init) X(Rsend_init) X(Recv_init)  \
  X(Imrecv) X(Iprobe) X(Improbe) X(Test) X(Testall) X(Testany) X(Testsome) X(Request_get_status) X(Request_free)       \
  X(Cancel) X(Start) X(Startall) X(Comm_idup) X(Type_free) X(Init) X(Init_thread) X(Finalize) X(Abort) X(Alloc_mem)    \
  X(Free_mem) X(Buffer_attach) X(Ibarrier) X(Op_create) X(Op_free) X(Reduce_local) X(Comm_remote_size) X(Comm_rank)    \
  X(Comm_size) X(Comm_group) X(Comm_test_inter) X(Comm_call_errhandler) X(Comm_get_errhandler) X(Comm_set_errhandler)  \
  X(Comm_set_name) X(Errhandler_free) X(Comm_get_attr) X(Comm_create_keyval) X(Comm_set_attr) X(Comm_free_keyval) X(Group_free)         \
  X(Group_incl) X(Group_translate_ranks) X(Info_get) X(Status_set_elements_x) X(Status_set_cancelled) X(Type_size_x)   \
  X(Type_get_extent_x) X(Type_get_envelope) X(Type_get_contents) X(Type_contiguous) X(Type_vector)                     \
  X(Type_create_struct) X(Type_commit) X(Type_dup) X(Pack) X(Unpack) X(Query_thread) X(Error_class) X(Finalized)       \
  X(Get_elements_x) X(Test_cancelled) X(Topo_test) X(Cartdim_get) X(Cart_get) X(Cart_shift) X(Graph_neighbors_count)   \
  X(Graph_neighbors) X(Dist_graph_neighbors_count) X(Dist_graph_neighbors)
#define ZH_HOST_BLOCKING(X)                                                                                            \
  X(Send) X(Bsend) X(Ssend) X(Rsend) X(Recv) X(Sendrecv) X(Sendrecv_replace) X(Mrecv) X(Probe) X(Mprobe) X(Wait)       \
  X(Waitall) X(Waitany) X(Waitsome) X(Comm_dup) X(Comm_dup_with_info) X(Comm_create) X(Comm_create_group)              \
  X(Comm_split) X(Comm_split_type) X(Cart_create) X(Cart_sub) X(Graph_create) X(Dist_graph_create)                     \
  X(Dist_graph_create_adjacent) X(Comm_free) X(Comm_disconnect) X(Buffer_detach) X(Barrier) X(Win_create)              \
  X(Win_allocate) X(Win_allocate_shared) X(Win_create_dynamic)
// Functions of MPI 4.0 that a program of an older host does not call.
#define ZH_HOST_YOUNG(X) X(Isendrecv) X(Isendrecv_replace) X(Session_init)
// The same, with large counts.
#define ZH_HOST_COUNTED(X)                                                                                             \
  X(Isend_c) X(Ibsend_c) X(Issend_c) X(Irsend_c) X(Irecv_c) X(Isendrecv_c) X(Isendrecv_replace_c) X(Send_init_c)       \
  X(Bsend_init_c) X(Ssend_init_c) X(Rsend_init_c) X(Recv_init_c) X(Imrecv_c) X(Buffer_attach_c) X(Op_create_c)         \
  X(Reduce_local_c) X(Type_get_envelope_c) X(Type_get_contents_c)
#define ZH_HOST_COUNTED_BLOCKING(X)                                                                                    \
  X(Send_c) X(Bsend_c) X(Ssend_c) X(Rsend_c) X(Recv_c) X(Sendrecv_c) X(Sendrecv_replace_c) X(Mrecv_c)                  \
  X(Buffer_detach_c) X(Win_create_c) X(Win_allocate_c) X(Win_allocate_shared_c)
// clang-format on

/// While one lives its thread is in a call of the host that may wait for other ranks.
class Away {
 public:
  /// `function`: function_number() of what it calls.
  explicit Away(uint16_t function);
  ~Away();
  Away(const Away&) = delete;
  Away& operator=(const Away&) = delete;

 private:
  engine::Rank* rank_;
};

/// A function of the host that may wait for other ranks.
template <typename Function>
class Blocking;
template <typename Result, typename... Arguments>
class Blocking<Result (*)(Arguments...)> {
 public:
  using Function = Result (*)(Arguments...);
  Result operator()(Arguments... arguments) const {
    const Away away(number_);
    return function_(arguments...);
  }
  explicit operator bool() const { return function_ != nullptr; }
  void set(void* address, const char* name) {
    function_ = reinterpret_cast<Function>(address);
    number_ = function_number(name);
  }

 private:
  Function function_ = nullptr;
  uint16_t number_ = 0;
};

struct Host {
#define ZH_X(name) decltype(&PMPI_##name) name;
#define ZH_B(name) Blocking<decltype(&PMPI_##name)> name;
  ZH_HOST_FUNCTIONS(ZH_X)
  ZH_HOST_YOUNG(ZH_X)
  ZH_X(Comm_idup_with_info)
  ZH_HOST_BLOCKING(ZH_B)
#if ZH_ABI_LARGE_COUNT
  ZH_HOST_COUNTED(ZH_X)
  ZH_HOST_COUNTED_BLOCKING(ZH_B)
#define ZH_COLLECTIVE(name, nonblocking, ...) \
  ZH_B(name) ZH_B(name##_c) ZH_X(nonblocking) ZH_X(nonblocking##_c) ZH_X(name##_init) ZH_X(name##_init_c)
#else
#define ZH_COLLECTIVE(name, nonblocking, ...) ZH_B(name) ZH_X(nonblocking) ZH_X(name##_init)
#endif
#include "mpi/entry/collectives.table"
  ZH_X(Barrier_init)
#include "mpi/entry/blocking.table"
#undef ZH_X
  bool large_counts;  ///< it has all functions with large counts (MPI 4.0)
  int* unweighted;    ///< MPI_UNWEIGHTED, which the libraries of MPICH's ABI hold
  // Where the host has them.
  int (*Request_get_status_any)(int, const MPI_Request*, int*, int*, MPI_Status*);
  int (*Request_c2f)(MPI_Request);
  MPI_Request (*Request_f2c)(int);
  int (*Message_c2f)(MPI_Message);
  MPI_Message (*Message_f2c)(int);
  int (*Request_toint)(MPI_Request);
  MPI_Request (*Request_fromint)(int);
  int (*Message_toint)(MPI_Message);
  MPI_Message (*Message_fromint)(int);
  int (*Get_library_version)(char*, int*);
};
extern Host host;

/// Fills `host`; null, or the reason why it could not.
const char* load_host(void* library);
/// A symbol of the host: PMPI_name, else MPI_name, else null.
void* host_symbol(void* library, const char* name);
/// A data object of the host, or null: on Open MPI predefined handles are their addresses.
void* host_object(void* library, const char* symbol);

/// Whether calls with large counts can go to the host as they are.
inline bool takes_large_counts() { return ZH_ABI_LARGE_COUNT != 0 && host.large_counts; }
/// Returns what that call returns, if so; else the code goes on with int counts.
#if ZH_ABI_LARGE_COUNT
#define ZH_LARGE_CALL(...) \
  if (takes_large_counts()) return __VA_ARGS__
#else
#define ZH_LARGE_CALL(...)
#endif

/// Host calls with a count of either type.
namespace counted {

/// (count, type) for hosts that only take int counts: too large counts become one element of a derived type.
class Narrow {
 public:
  Narrow(MPI_Count count, MPI_Datatype type);
  ~Narrow();
  Narrow(const Narrow&) = delete;
  Narrow& operator=(const Narrow&) = delete;
  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] MPI_Datatype type() const { return type_; }

 private:
  int count_;
  MPI_Datatype type_;
  bool made_ = false;
};

// Of one buffer `b` with `n` elements of type `t`.
#define ZH_COUNTED(name)                                                           \
  inline constexpr auto name = [](auto* b, auto n, MPI_Datatype t, auto... rest) { \
    if constexpr (std::is_same_v<decltype(n), int>) {                              \
      return host.name(b, n, t, rest...);                                          \
    } else {                                                                       \
      ZH_LARGE_CALL(host.name##_c(b, n, t, rest...));                              \
      const Narrow x(n, t);                                                        \
      return host.name(b, x.count(), x.type(), rest...);                           \
    }                                                                              \
  };
ZH_COUNTED(Send)
ZH_COUNTED(Bsend)
ZH_COUNTED(Ssend)
ZH_COUNTED(Rsend)
ZH_COUNTED(Recv)
ZH_COUNTED(Isend)
ZH_COUNTED(Ibsend)
ZH_COUNTED(Issend)
ZH_COUNTED(Irsend)
ZH_COUNTED(Irecv)
ZH_COUNTED(Send_init)
ZH_COUNTED(Bsend_init)
ZH_COUNTED(Ssend_init)
ZH_COUNTED(Rsend_init)
ZH_COUNTED(Recv_init)
ZH_COUNTED(Mrecv)
ZH_COUNTED(Imrecv)
ZH_COUNTED(Sendrecv_replace)
ZH_COUNTED(Isendrecv_replace)
#undef ZH_COUNTED

// Of one buffer to send and one to receive.
#define ZH_COUNTED(name)                                                                                      \
  inline constexpr auto name = [](const void* sb, auto sn, MPI_Datatype st, int d, int sg, void* rb, auto rn, \
                                  MPI_Datatype rt, auto... rest) {                                            \
    if constexpr (std::is_same_v<decltype(sn), int>) {                                                        \
      return host.name(sb, sn, st, d, sg, rb, rn, rt, rest...);                                               \
    } else {                                                                                                  \
      ZH_LARGE_CALL(host.name##_c(sb, sn, st, d, sg, rb, rn, rt, rest...));                                   \
      const Narrow x(sn, st);                                                                                 \
      const Narrow y(rn, rt);                                                                                 \
      return host.name(sb, x.count(), x.type(), d, sg, rb, y.count(), y.type(), rest...);                     \
    }                                                                                                         \
  };
ZH_COUNTED(Sendrecv)
ZH_COUNTED(Isendrecv)
#undef ZH_COUNTED

}  // namespace counted
}  // namespace zh::mpi
