// A collective call as a value: its arguments in groups, and how they are handed to the host, with counts of either
// type. The calls (call_data.h, call_neighbor.h, call_reduce.h) are made of these groups, whether they block or not.
// Refuses to know teams and schedules.
#pragma once

#include <climits>
#include <memory>
#include <mutex>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "mpi/shim.h"

namespace zh::mpi {

/// Displacements of the calls whose counts are N.
template <typename N>
using Displacement = std::conditional_t<std::is_same_v<N, int>, int, MPI_Aint>;

constexpr int kEverywhere = INT_MIN;  ///< a group that means something at every rank, not at the root alone
// ... and that has an entry for each neighbour of the caller's, not for each member.
constexpr int kDestinations = INT_MIN + 1;
constexpr int kSources = INT_MIN + 2;

/// Consecutive elements: of one message, or as many for each member.
template <typename N>
struct Data {
  Data(const void* b, N n, MPI_Datatype t, int at = kEverywhere)
      : buf(const_cast<void*>(b)), count(n), type(t), root(at) {}
  void* buf;
  N count;
  MPI_Datatype type;
  int root;
  [[nodiscard]] auto flat() const { return std::make_tuple(buf, count, type); }
};

/// Elements for each member, at listed places: the v-variants.
template <typename N>
struct Listed {
  Listed(const void* b, const N* n, const Displacement<N>* p, MPI_Datatype t, int at = kEverywhere)
      : buf(const_cast<void*>(b)), counts(n), places(p), type(t), root(at) {}
  void* buf;
  const N* counts;
  const Displacement<N>* places;
  MPI_Datatype type;
  int root;
  [[nodiscard]] auto flat() const { return std::make_tuple(buf, counts, places, type); }
};

/// The same with a datatype for each member, and places in bytes: MPI_Alltoallw.
template <typename N>
struct Typed {
  Typed(const void* b, const N* n, const Displacement<N>* p, const MPI_Datatype* t)
      : buf(const_cast<void*>(b)), counts(n), places(p), types(t) {}
  void* buf;
  const N* counts;
  const Displacement<N>* places;
  const MPI_Datatype* types;
  int root = kEverywhere;
  [[nodiscard]] auto flat() const { return std::make_tuple(buf, counts, places, types); }
};

/// The same with places that are of any size whatever the counts are: MPI_Neighbor_alltoallw.
template <typename N>
struct TypedFar {
  TypedFar(const void* b, const N* n, const MPI_Aint* p, const MPI_Datatype* t, int neighbours)
      : buf(const_cast<void*>(b)), counts(n), places(p), types(t), root(neighbours) {}
  void* buf;
  const N* counts;
  const MPI_Aint* places;
  const MPI_Datatype* types;
  int root;
  [[nodiscard]] auto flat() const { return std::make_tuple(buf, counts, places, types); }
};

/// Operands of a reduction.
template <typename N>
struct Operands {
  const void* in;
  void* out;
  N count;
  MPI_Datatype type;
  MPI_Op op;
  [[nodiscard]] auto flat() const { return std::make_tuple(in, out, count, type, op); }
};

/// Operands of which each member gets a listed part of the result.
template <typename N>
struct ListedOperands {
  const void* in;
  void* out;
  const N* counts;
  MPI_Datatype type;
  MPI_Op op;
  [[nodiscard]] auto flat() const { return std::make_tuple(in, out, counts, type, op); }
};

template <typename Group>
auto flat(const Group& group) {
  if constexpr (std::is_class_v<Group>) {
    return group.flat();
  } else {
    return std::make_tuple(group);
  }
}

/// Calls `function` with the members of all groups one after another.
template <typename Function, typename... Groups>
int call_flat(Function function, const Groups&... groups) {
  return std::apply(function, std::tuple_cat(flat(groups)...));
}

/// How many members' or neighbours' counts a group of a call on `comm` has; 0 where it means nothing.
int members_meant(MPI_Comm comm, int root);

/// A group with int counts for hosts that have no others. error(): what does not fit.
template <typename Group>
class Narrowed {
 public:
  Narrowed(const Group& group, MPI_Comm) : group_(group) {}
  [[nodiscard]] int error() const { return MPI_SUCCESS; }
  [[nodiscard]] auto flat() const { return mpi::flat(group_); }

 private:
  Group group_;
};

/// Counts and places as ints.
class NarrowArrays {
 public:
  template <typename Count, typename Displacement>
  NarrowArrays(int n, const Count* counts, const Displacement* places) {
    for (int i = 0; i < n; ++i) {
      counts_.push_back(narrow(counts[i], MPI_ERR_COUNT));
      if (places != nullptr) places_.push_back(narrow(places[i], MPI_ERR_ARG));
    }
  }
  [[nodiscard]] const int* counts() const { return counts_.data(); }
  [[nodiscard]] const int* places() const { return places_.data(); }
  [[nodiscard]] int error() const { return error_; }

 private:
  int narrow(MPI_Count wide, int error_class) {
    const int narrow = static_cast<int>(wide);
    if (narrow != wide) error_ = error_class;
    return narrow;
  }
  std::vector<int> counts_;
  std::vector<int> places_;
  int error_ = MPI_SUCCESS;
};

template <>
class Narrowed<Data<MPI_Count>> {
 public:
  Narrowed(const Data<MPI_Count>& x, MPI_Comm comm)
      : buf_(x.buf), narrow_(x.count > INT_MAX && !means_something(x, comm) ? 0 : x.count, x.type) {}
  [[nodiscard]] int error() const { return MPI_SUCCESS; }
  [[nodiscard]] auto flat() const { return std::make_tuple(buf_, narrow_.count(), narrow_.type()); }

 private:
  static bool means_something(const Data<MPI_Count>& x, MPI_Comm comm) {
    return x.buf != MPI_IN_PLACE && (x.root == kEverywhere || members_meant(comm, x.root) > 0);
  }
  void* buf_;
  counted::Narrow narrow_;
};

/// Of a list of blocks of one type, or each of its own.
template <typename List>
class NarrowedList {
 public:
  NarrowedList(const List& x, MPI_Comm comm)
      : x_(x), arrays_(x.buf == MPI_IN_PLACE ? 0 : members_meant(comm, x.root), x.counts, x.places) {}
  [[nodiscard]] int error() const { return arrays_.error(); }
  [[nodiscard]] auto flat() const {
    return std::make_tuple(x_.buf, arrays_.counts(), arrays_.places(), std::get<3>(mpi::flat(x_)));
  }

 private:
  List x_;
  NarrowArrays arrays_;
};
template <>
struct Narrowed<Listed<MPI_Count>> : NarrowedList<Listed<MPI_Count>> {
  using NarrowedList::NarrowedList;
};
template <>
struct Narrowed<Typed<MPI_Count>> : NarrowedList<Typed<MPI_Count>> {
  using NarrowedList::NarrowedList;
};

template <>
class Narrowed<TypedFar<MPI_Count>> {
 public:
  Narrowed(const TypedFar<MPI_Count>& x, MPI_Comm comm)
      : x_(x), arrays_(members_meant(comm, x.root), x.counts, static_cast<const MPI_Aint*>(nullptr)) {}
  [[nodiscard]] int error() const { return arrays_.error(); }
  [[nodiscard]] auto flat() const { return std::make_tuple(x_.buf, arrays_.counts(), x_.places, x_.types); }

 private:
  TypedFar<MPI_Count> x_;
  NarrowArrays arrays_;
};

template <>
class Narrowed<ListedOperands<MPI_Count>> {
 public:
  Narrowed(const ListedOperands<MPI_Count>& x, MPI_Comm comm)
      : x_(x), arrays_(members_meant(comm, kEverywhere), x.counts, static_cast<const MPI_Aint*>(nullptr)) {}
  [[nodiscard]] int error() const { return arrays_.error(); }
  [[nodiscard]] auto flat() const { return std::make_tuple(x_.in, x_.out, arrays_.counts(), x_.type, x_.op); }

 private:
  ListedOperands<MPI_Count> x_;
  NarrowArrays arrays_;
};

template <>
class Narrowed<Operands<MPI_Count>> {
 public:
  Narrowed(const Operands<MPI_Count>& x, MPI_Comm) : x_(x) {}
  [[nodiscard]] int error() const { return x_.count > INT_MAX ? MPI_ERR_COUNT : MPI_SUCCESS; }
  [[nodiscard]] auto flat() const {
    return std::make_tuple(x_.in, x_.out, x_.count < 0 ? -1 : static_cast<int>(x_.count), x_.type, x_.op);
  }

 private:
  Operands<MPI_Count> x_;
};

/// Groups that hand arrays to the host.
template <typename Group>
constexpr bool kArrays = requires(const Group& group) {
  group.counts;
};

/// The host may read the arrays of a call that does not block until its request is gone, and nobody tells when that is:
/// they are kept until the process ends. Only calls with large counts that the host serves come here.
template <typename Group>
void outlive_call(std::unique_ptr<Narrowed<Group>> narrowed) {
  if constexpr (kArrays<Group>) {
    static std::mutex mutex;
    static auto* kept = new std::vector<std::unique_ptr<Narrowed<Group>>>;
    const TableLock lock(mutex);
    kept->push_back(std::move(narrowed));
  }
}

template <typename Function, typename... Narrow>
int call_narrowed(Function function, MPI_Comm comm, const Narrow&... groups) {
  int error = MPI_SUCCESS;
  ((error = error == MPI_SUCCESS ? groups.error() : error), ...);
  return error != MPI_SUCCESS ? raise(comm, error) : std::apply(function, std::tuple_cat(groups.flat()...));
}

/// What the forms of a call end with, in their order: the communicator alone, or one of these.
struct Starting {
  MPI_Comm comm;
  MPI_Request* request;
  [[nodiscard]] auto flat() const { return std::make_tuple(comm, request); }
};
struct Initializing {
  MPI_Comm comm;
  MPI_Info info;
  MPI_Request* request;
  [[nodiscard]] auto flat() const { return std::make_tuple(comm, info, request); }
};
inline MPI_Comm comm_in(MPI_Comm comm) { return comm; }
inline MPI_Comm comm_in(const Starting& end) { return end.comm; }
inline MPI_Comm comm_in(const Initializing& end) { return end.comm; }

/// A group with large counts.
template <typename Group>
constexpr bool kLargeCounts = false;
template <template <typename> typename Group>
constexpr bool kLargeCounts<Group<MPI_Count>> = true;

template <typename Form, typename End, typename... Groups>
int call_host(const End& end, const Groups&... groups) {
  if (!Form::there()) return raise(comm_in(end), MPI_ERR_UNSUPPORTED_OPERATION);
  if constexpr (!(kLargeCounts<Groups> || ...)) {
    return call_flat(Form::narrow(), groups..., end);
  } else {
    ZH_LARGE_CALL(call_flat(Form::large(), groups..., end));
    const MPI_Comm comm = comm_in(end);
    if constexpr (std::is_same_v<End, MPI_Comm>) {
      return call_narrowed(Form::narrow(), comm, Narrowed<Groups>(groups, comm)..., Narrowed<End>(end, comm));
    } else {
      return std::apply(
          [&](auto... narrowed) {
            const int error = call_narrowed(Form::narrow(), comm, *narrowed..., Narrowed<End>(end, comm));
            (outlive_call<Groups>(std::move(narrowed)), ...);
            return error;
          },
          std::make_tuple(std::make_unique<Narrowed<Groups>>(groups, comm)...));
    }
  }
}

/// Blocking reductions of elements one by one: where the host's counts are too small, piece by piece.
template <typename Form, typename N, typename End, typename... Groups>
int call_host_by_element(const End& end, const Operands<N>& x, const Groups&... groups) {
  constexpr MPI_Count kPiece = 1 << 30;
  if constexpr (std::is_same_v<End, MPI_Comm>) {
    if (static_cast<MPI_Count>(x.count) > kPiece && !takes_large_counts()) {
      MPI_Count lower = 0;
      MPI_Count extent = 0;
      if (const int error = host.Type_get_extent_x(x.type, &lower, &extent); error != MPI_SUCCESS) return error;
      Operands<int> piece{x.in, x.out, 0, x.type, x.op};
      for (MPI_Count done = 0; done < static_cast<MPI_Count>(x.count); done += piece.count) {
        const MPI_Count left = static_cast<MPI_Count>(x.count) - done;
        piece.count = static_cast<int>(left < kPiece ? left : kPiece);
        if (x.in != MPI_IN_PLACE) piece.in = static_cast<const std::byte*>(x.in) + done * extent;
        piece.out = static_cast<std::byte*>(x.out) + done * extent;
        if (const int error = call_flat(Form::narrow(), piece, groups..., end); error != MPI_SUCCESS) return error;
      }
      return MPI_SUCCESS;
    }
  }
  return call_host<Form>(end, x, groups...);
}

/// Hands a call to the host. `Form` (below) names its functions, `end` is what its form ends with.
template <typename Form, typename Call, typename End>
int hand_to_host(const Call& call, const End& end) {
  // A reduce-scatter's counts are those of one member: what does not fit the host's is refused.
  constexpr bool kByElement = requires { call.operands; }
  &&Call::kCollective != coll::Collective::kReduceScatter;
  const auto give = [&end](const auto&... groups) {
    if constexpr (kByElement) {
      return call_host_by_element<Form>(end, groups...);
    } else {
      return call_host<Form>(end, groups...);
    }
  };
  return std::apply(give, call.groups());
}

/// Every function of a collective, those with large counts under the name of the others.
enum class CallId : uint8_t {
#define ZH_COLLECTIVE(name, nonblocking, ...) k##name, k##nonblocking, k##name##_init,
#include "mpi/entry/collectives.table"
  kBarrier,
  kIbarrier,
  kBarrier_init,
};

inline constexpr const char* kCallNames[] = {
#define ZH_COLLECTIVE(name, nonblocking, ...) #name, #nonblocking, #name "_init",
#include "mpi/entry/collectives.table"
    "Barrier", "Ibarrier", "Barrier_init"};

/// The host's functions of a collective and form. there(): the host has them.
template <CallId kWhich, auto kNarrow, auto kLarge>
struct HostForm {
  static constexpr auto kId = kWhich;
  static constexpr uint16_t kNumber = function_number(kCallNames[static_cast<size_t>(kWhich)]);
  static bool there() { return static_cast<bool>(host.*kNarrow); }
  static auto narrow() { return host.*kNarrow; }
  static auto large() { return host.*kLarge; }
};
namespace form {
#define ZH_FORM(name, large) using name = HostForm<CallId::k##name, &Host::name, &Host::large>;
#if ZH_ABI_LARGE_COUNT
#define ZH_BOTH(name) ZH_FORM(name, name##_c)
#else
#define ZH_BOTH(name) ZH_FORM(name, name)
#endif
#define ZH_COLLECTIVE(name, nonblocking, ...) ZH_BOTH(name) ZH_BOTH(nonblocking) ZH_BOTH(name##_init)
#include "mpi/entry/collectives.table"
ZH_FORM(Barrier, Barrier)
ZH_FORM(Ibarrier, Ibarrier)
ZH_FORM(Barrier_init, Barrier_init)
#undef ZH_BOTH
#undef ZH_FORM
}  // namespace form

}  // namespace zh::mpi
