// The buffers of a collective call as a team takes them (coll/types.h): judged, and packed through a private copy where
// a datatype cannot be flattened or where MPI_IN_PLACE asks for one. Called by the calls; refuses to know what is done
// with the buffers.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <span>

#include "coll/algorithms/choose.h"
#include "coll/types.h"
#include "mpi/coll/call.h"
#include "mpi/handles/comm.h"
#include "mpi/step.h"
#include "mpi/wrap.h"

namespace zh::mpi {

/// Whether that error of a collective is of its buffers: aliased, null, or in place where they must not be.
inline bool is_of_buffers(int error) {
  const int error_class = class_of(error);
  return error_class == MPI_ERR_BUFFER || error_class == MPI_ERR_ARG;
}

/// Whether that error of a collective is one that hosts find in the arguments before they tell anybody: the call has
/// had no effect then, and the rank may make it again. Others that wait in a call of their own wait for that one.
inline bool is_without_effect(int error) {
  const int error_class = class_of(error);
  return error_class == MPI_ERR_ROOT || error_class == MPI_ERR_COUNT || error_class == MPI_ERR_TYPE ||
         error_class == MPI_ERR_OP || is_of_buffers(error);
}

// What hosts call a mistake: MPI_IN_PLACE where it is not allowed, a reduction without a datatype (Open MPI asks first
// whether the operation fits it), a buffer that is sent and received, a broadcast that brings less than was asked for.
#if defined(ZH_ABI_OMPI)
constexpr int kNotInPlace = MPI_ERR_ARG;
constexpr int kNoOperands = MPI_ERR_OP;
constexpr bool kRefusesAliases = false;
constexpr bool kRefusesShortBcast = false;
#else
constexpr int kNotInPlace = MPI_ERR_BUFFER;
constexpr int kNoOperands = MPI_ERR_TYPE;
constexpr bool kRefusesAliases = true;
constexpr bool kRefusesShortBcast = true;
#endif

inline int judge(void* buf, MPI_Count count, TypeInfo* type, MPI_Comm comm, Elements* out) {
  if (count < 0) [[unlikely]]
    return raise(comm, MPI_ERR_COUNT);
  *out = {static_cast<std::byte*>(buf), count, type};
  if (lacks_buffer(*out)) [[unlikely]]
    return raise(comm, MPI_ERR_BUFFER);
  return kGoOn;
}

template <typename N>
inline int judge(const Data<N>& data, MPI_Comm comm, Elements* out) {
  TypeInfo* type = nullptr;
  if (const int error = find_type(data.type, data.count, comm, &type); type == nullptr) [[unlikely]]
    return error;
  if (data.buf == MPI_IN_PLACE) [[unlikely]]
    return raise(comm, kNotInPlace);
  return judge(data.buf, data.count, type, comm, out);
}

/// Lists of elements for each of `n` members or neighbours, into an array of as many.
template <typename N>
inline int judge(const Listed<N>& list, int32_t n, MPI_Comm comm, Elements* out) {
  const bool empty = std::all_of(list.counts, list.counts + n, [](N count) { return count == 0; });
  TypeInfo* type = nullptr;
  if (const int error = find_type(list.type, empty ? 0 : 1, comm, &type); type == nullptr) return error;
  if (list.buf == MPI_IN_PLACE) return raise(comm, kNotInPlace);
  for (int32_t i = 0; i < n; ++i) {
    const auto at = reinterpret_cast<intptr_t>(list.buf) + static_cast<int64_t>(list.places[i]) * type->extent;
    ZH_STEP(judge(reinterpret_cast<void*>(at), list.counts[i], type, comm, &out[i]));
  }
  return kGoOn;
}
/// Typed or TypedFar.
template <typename List>
inline int judge(const List& list, int32_t n, MPI_Comm comm, Elements* out) {
  if (list.buf == MPI_IN_PLACE) return raise(comm, kNotInPlace);
  for (int32_t i = 0; i < n; ++i) {
    TypeInfo* type = nullptr;
    if (const int error = find_type(list.types[i], list.counts[i], comm, &type); type == nullptr) return error;
    const auto at = reinterpret_cast<intptr_t>(list.buf) + static_cast<int64_t>(list.places[i]);
    ZH_STEP(judge(reinterpret_cast<void*>(at), list.counts[i], type, comm, &out[i]));
  }
  return kGoOn;
}

enum class Use : uint8_t {
  kSend,
  kCopy,  ///< sent from a private copy, because the buffer also receives
  kReceive,
};

/// Memory of malloc's; small sizes only are likely, large ones may fail.
class ScratchMemory {
 public:
  ScratchMemory() = default;
  ~ScratchMemory() { std::free(memory_); }
  ScratchMemory(const ScratchMemory&) = delete;
  ScratchMemory& operator=(const ScratchMemory&) = delete;
  [[nodiscard]] std::byte* get(uint64_t bytes) {
    memory_ = static_cast<std::byte*>(std::malloc(bytes + 1));
    return memory_;
  }
  [[nodiscard]] bool used() const { return memory_ != nullptr; }

 private:
  std::byte* memory_ = nullptr;
};

/// One rank's buffer.
class OneBuffer {
 public:
  explicit OneBuffer(Use use) : receives_(use == Use::kReceive) {}
  int open(const Elements& elements, MPI_Comm comm) {
    elements_ = elements;
    if (elements.type->kind != TypeInfo::Kind::kPacked) [[likely]] {
      view_ = describe(elements);
      return kGoOn;
    }
    return stage(comm);
  }
  [[nodiscard]] const copy::Buffer& view() const { return view_; }
  /// After the collective: puts what was received in its place.
  int close() {
    if (!scratch_.used() || !receives_) [[likely]]
      return MPI_SUCCESS;
    return unpack_elements(view_.base, view_.bytes, elements_);
  }

 private:
  int stage(MPI_Comm comm);
  copy::Buffer view_;
  Elements elements_;
  ScratchMemory scratch_;
  bool receives_;
};

/// A buffer for each member.
class PeerBuffers {
 public:
  explicit PeerBuffers(Use use) : use_(use) {}
  /// `n`: pieces, if they are not one for each member.
  template <typename N>
  int open(const Data<N>& data, const CommInfo& comm, size_t n = 0) {
    ZH_STEP(judge(data, comm.handle, &first_));
    start(comm, n);
    pieces_.first = describe(first_);
    pieces_.stride = first_.count * first_.type->extent;
    if (use_ != Use::kCopy && first_.type->kind != TypeInfo::Kind::kPacked) [[likely]]
      return kGoOn;
    return stage_even();
  }

  template <typename List>
  int open(const List& list, const CommInfo& comm, size_t n = 0) {
    start(comm, n);
    ZH_STEP(make_list());
    ZH_STEP(judge(list, static_cast<int32_t>(n_), comm.handle, elements_.get()));
    return stage_list();
  }
  /// Pieces that have been judged.
  int open(std::span<const Elements> pieces, const CommInfo& comm) {
    start(comm, pieces.size());
    ZH_STEP(make_list());
    std::copy(pieces.begin(), pieces.end(), elements_.get());
    return stage_list();
  }

  [[nodiscard]] const coll::Pieces& pieces() const { return pieces_; }
  /// What one member's piece consists of.
  [[nodiscard]] Elements at(int32_t member) const {
    if (elements_ != nullptr) return elements_[static_cast<size_t>(member)];
    Elements e = first_;
    const auto base = reinterpret_cast<intptr_t>(first_.buf) + member * first_.count * first_.type->extent;
    e.buf = reinterpret_cast<std::byte*>(base);
    return e;
  }
  /// The piece of this rank as what it gives, of a buffer that receives ("in place").
  int give_own(int32_t self, copy::Buffer* out);
  /// This rank gives `bytes` to itself: too many are an error; fewer shorten that piece, where they are listed.
  int expect_own(int32_t self, uint64_t bytes, MPI_Comm comm);
  int close();

 private:
  void start(const CommInfo& comm, size_t n) {
    comm_ = comm.handle;
    n_ = n != 0 ? n : static_cast<size_t>(comm.size);
  }
  int make_list();
  int stage_even();
  int stage_list();

  coll::Pieces pieces_;
  Elements first_;                         ///< the piece of member 0, where all are alike
  std::unique_ptr<Elements[]> elements_;   ///< by member; then also:
  std::unique_ptr<copy::Buffer[]> views_;  ///< what pieces_.list points to
  ScratchMemory scratch_;
  MPI_Comm comm_{};
  size_t n_ = 0;
  Use use_;
};

/// What the team said, then whatever must happen to buffers that received.
template <typename... Buffers>
inline int finish(Code code, MPI_Comm comm, Buffers&... received) {
  if (code != Code::kOk) [[unlikely]]
    return raise(comm, class_of(code));
  int error = MPI_SUCCESS;
  ((error = error == MPI_SUCCESS ? received.close() : error), ...);
  return error;
}

/// Makes a team of the members on this node, where they all have the memory. Synchronises them.
void settle_team(CommInfo* comm);
/// The team of all members of a communicator of one node, else null. Synchronising when it is asked for the first time,
/// as the next ones.
inline coll::Team* settled_team_of(CommInfo* comm) {
  if (comm == nullptr) return nullptr;
  if (comm->coll == CommInfo::Coll::kUnsettled) [[unlikely]]
    settle_team(comm);
  return comm->coll == CommInfo::Coll::kTeam ? comm->team.get() : nullptr;
}
/// The member's team if it serves this collective of the communicator, else null.
inline coll::Team* team_of(CommInfo* comm, coll::Collective collective) {
  if (comm == nullptr || comm->coll == CommInfo::Coll::kNone) return nullptr;
  if (shim.no_team[static_cast<size_t>(collective)]) [[unlikely]]
    return nullptr;
  return settled_team_of(comm);
}
/// The team of a node's members, on a communicator that has others; null if there is none.
inline coll::Team* node_team_of(CommInfo* comm) {
  if (comm->all_local) return nullptr;
  if (comm->coll == CommInfo::Coll::kUnsettled) settle_team(comm);
  return comm->coll == CommInfo::Coll::kNodeTeam ? comm->team.get() : nullptr;
}

}  // namespace zh::mpi
