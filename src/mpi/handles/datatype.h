// Datatypes as the engine sees them: contiguous, a flattened layout, or (too complicated) packed by the host into a
// private buffer. Flattened once per handle; forgotten by MPI_Type_free.
#pragma once

#include <array>

#include "copy/layout.h"
#include "mpi/handles/handle_map.h"
#include "mpi/shim.h"
#include "simd/reduce.h"

namespace zh::mpi {

struct TypeInfo {
  enum class Kind : uint8_t { kContiguous, kLayout, kPacked };
  MPI_Datatype handle;
  uint64_t size = 0;   ///< bytes of data in one element
  int64_t extent = 0;  ///< from one element to the next
  Kind kind = Kind::kContiguous;
  bool named = false;  ///< predefined: never freed
  copy::OwnedLayout layout;
  Atomic<uint32_t> handle_users{0};  ///< operations in flight for which the host needs `handle`
  bool free_handle = false;          ///< the program freed it meanwhile: the host frees it with the last user
  Atomic<uint32_t> users{1};         ///< the table, and operations in flight that need the layout
  // Reductions (reduction.h).
  uint64_t element_bytes = 0;  ///< from one element to the next where an operation may walk over them; else 0
  std::array<simd::Kernel, static_cast<size_t>(simd::Op::kCount)> kernels{};  ///< null: the operation is not defined
};

extern HandleMap<TypeInfo> types;

/// Flattens and enters it. The host judges it first, with `count` elements: if it is invalid or not committed the error
/// has been raised on `comm`, `*out` is null, and the caller returns what this returns. Of no elements some hosts take
/// any type, also none; then `*out` stands for no bytes and nothing is entered.
int learn_type(MPI_Datatype type, MPI_Count count, MPI_Comm comm, TypeInfo** out);

[[gnu::always_inline]] inline int find_type(MPI_Datatype type, MPI_Count count, MPI_Comm comm, TypeInfo** out) {
  *out = types.find(key_of(type));
  if (*out != nullptr) [[likely]]
    return MPI_SUCCESS;
  return learn_type(type, count, comm, out);
}

inline void hold(TypeInfo* type) { type->users.fetch_add_relaxed(1); }
void drop(TypeInfo* type);

/// For an operation that needs the host's datatype until it ends, also if the program frees it.
inline void hold_handle(TypeInfo* type) {
  hold(type);
  type->handle_users.fetch_add_relaxed(1);
}
inline void drop_handle(TypeInfo* type) {
  type->handle_users.fetch_add_relaxed(~0U);
  drop(type);
}

/// MPI_Type_free: at once, or when the last operation that needs it has ended.
int free_type(MPI_Datatype* type);

/// Judged (buffer, count, datatype) of a message or of a collective.
struct Elements {
  std::byte* buf = nullptr;
  MPI_Count count = 0;
  TypeInfo* type = nullptr;
  [[nodiscard]] uint64_t bytes() const { return static_cast<uint64_t>(count) * type->size; }
};

/// A null buffer where one is needed, which is an error.
[[gnu::always_inline]] inline bool lacks_buffer(const Elements& e) {
  return e.buf == nullptr && e.type->kind == TypeInfo::Kind::kContiguous && e.count != 0 && e.type->size != 0;
}

/// The bytes of elements of a type that is not packed.
inline copy::Buffer describe(const Elements& e) {
  copy::Buffer buffer;
  buffer.base = e.buf;
  buffer.bytes = e.bytes();
  buffer.layout = e.type->layout.get();
  return buffer;
}

/// Gathers them into `out` of as many bytes, whatever the type's kind.
int pack_elements(const Elements& e, std::byte* out);
/// Scatters the first `bytes` of `in`.
int unpack_elements(const std::byte* in, uint64_t bytes, const Elements& e);

}  // namespace zh::mpi
