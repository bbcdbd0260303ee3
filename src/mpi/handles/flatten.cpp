// One function per type constructor (MPI standard 5.1). Inner handles that the host made for us are freed again.
#include "mpi/handles/flatten.h"

#include <cstddef>
#include <new>

namespace zh::mpi {
namespace {

constexpr size_t kMaxBlocks = size_t{1} << 18;
constexpr int kMaxDepth = 64;

/// How many integers, addresses, large counts and types a constructor was given.
int envelope(MPI_Datatype type, MPI_Count (&n)[4], int* combiner) {
#if ZH_ABI_LARGE_COUNT
  // Also where other functions with large counts are missing (Intel MPI 2021.13): the program's types may be made by
  // them.
  if (host.Type_get_envelope_c != nullptr) {
    return host.Type_get_envelope_c(type, &n[0], &n[1], &n[2], &n[3], combiner);
  }
#endif
  int integers = 0;
  int addresses = 0;
  int types = 0;
  const int error = host.Type_get_envelope(type, &integers, &addresses, &types, combiner);
  n[0] = integers;
  n[1] = addresses;
  n[2] = 0;
  n[3] = types;
  return error;
}

bool is_of_predefined(int combiner) {
  return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL || combiner == MPI_COMBINER_F90_COMPLEX ||
         combiner == MPI_COMBINER_F90_INTEGER;
}

/// The arguments of the constructor, in one form for int and large-count hosts.
struct Contents {
  int combiner = 0;
  std::vector<int> integers;
  std::vector<MPI_Aint> addresses;
  std::vector<MPI_Count> counts;
  std::vector<MPI_Datatype> types;

  Contents() = default;
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;
  ~Contents() {
    for (MPI_Datatype type : types) {
      if (!is_predefined(type)) host.Type_free(&type);
    }
  }

  /// Unifies counts: the i-th integer argument, whichever list holds it. Large-count constructors move integers to
  /// counts.
  [[nodiscard]] int64_t number(size_t i) const {
    return counts.empty() ? static_cast<int64_t>(integers[i]) : static_cast<int64_t>(counts[i]);
  }

  bool read(MPI_Datatype type) {
    MPI_Count n[4];  // integers, addresses, large counts, types
    if (envelope(type, n, &combiner) != MPI_SUCCESS) return false;
    if (combiner == MPI_COMBINER_NAMED) return true;
    integers.resize(static_cast<size_t>(n[0]) + 1);
    addresses.resize(static_cast<size_t>(n[1]) + 1);
    counts.resize(static_cast<size_t>(n[2]) + 1);
    types.resize(static_cast<size_t>(n[3]) + 1);
    const int error = get(type, n);
    integers.resize(static_cast<size_t>(n[0]));
    addresses.resize(static_cast<size_t>(n[1]));
    counts.resize(static_cast<size_t>(n[2]));
    types.resize(error == MPI_SUCCESS ? static_cast<size_t>(n[3]) : 0);
    return error == MPI_SUCCESS;
  }

 private:
  int get(MPI_Datatype type, const MPI_Count (&n)[4]) {
#if ZH_ABI_LARGE_COUNT
    if (host.Type_get_contents_c != nullptr) {
      return host.Type_get_contents_c(type, n[0], n[1], n[2], n[3], integers.data(), addresses.data(), counts.data(),
                                      types.data());
    }
#endif
    return host.Type_get_contents(type, static_cast<int>(n[0]), static_cast<int>(n[1]), static_cast<int>(n[3]),
                                  integers.data(), addresses.data(), types.data());
  }
};

bool append(std::vector<copy::Block>* blocks, int64_t offset, uint64_t len_bytes) {
  if (len_bytes == 0) return true;
  if (!blocks->empty()) {
    copy::Block& last = blocks->back();
    if (last.offset + static_cast<int64_t>(last.len_bytes) == offset) {
      last.len_bytes += len_bytes;
      return true;
    }
  }
  if (blocks->size() >= kMaxBlocks) return false;
  blocks->push_back({offset, len_bytes});
  return true;
}

/// `n` consecutive elements of `inner`, the first displaced by `offset`.
bool repeat(std::vector<copy::Block>* out, const TypeMap& inner, int64_t offset, int64_t n) {
  if (inner.blocks.empty()) return true;
  const copy::Block& only = inner.blocks.front();
  if (inner.blocks.size() == 1 && static_cast<int64_t>(only.len_bytes) == inner.extent) {
    return n <= 0 || append(out, offset + only.offset, static_cast<uint64_t>(n) * only.len_bytes);
  }
  if (n > 0 && static_cast<uint64_t>(n) > 2 * kMaxBlocks / inner.blocks.size()) return false;
  for (int64_t i = 0; i < n; ++i) {
    for (const copy::Block& block : inner.blocks) {
      if (!append(out, offset + i * inner.extent + block.offset, block.len_bytes)) return false;
    }
  }
  return true;
}

template <typename Value>
struct PairLayout {
  Value value;
  int index;
};

template <typename Value>
void pair_map(TypeMap* out) {
  append(&out->blocks, 0, sizeof(Value));
  append(&out->blocks, static_cast<int64_t>(offsetof(PairLayout<Value>, index)), sizeof(int));
}

bool flatten_named(MPI_Datatype type, TypeMap* out) {
  MPI_Count size = 0;
  if (host.Type_size_x(type, &size) != MPI_SUCCESS || size < 0) return false;
  if (type == MPI_SHORT_INT) {
    pair_map<short>(out);
  } else if (type == MPI_LONG_INT) {
    pair_map<long>(out);
  } else if (type == MPI_FLOAT_INT) {
    pair_map<float>(out);
  } else if (type == MPI_DOUBLE_INT) {
    pair_map<double>(out);
  } else if (type == MPI_LONG_DOUBLE_INT) {
    pair_map<long double>(out);
  } else {
    append(&out->blocks, 0, static_cast<uint64_t>(size));
    return true;
  }
  uint64_t bytes = 0;
  for (const copy::Block& block : out->blocks) bytes += block.len_bytes;
  return bytes == static_cast<uint64_t>(size);
}

bool flatten_at(MPI_Datatype type, TypeMap* out, int depth);

bool flatten_struct(const Contents& c, TypeMap* out, int depth) {
  const int64_t n = c.number(0);
  for (int64_t i = 0; i < n; ++i) {
    const auto k = static_cast<size_t>(i);
    TypeMap inner;
    if (!flatten_at(c.types[k], &inner, depth)) return false;
    const int64_t place = c.counts.empty() ? c.addresses[k] : c.counts[static_cast<size_t>(n) + 1 + k];
    if (!repeat(&out->blocks, inner, place, c.number(k + 1))) return false;
  }
  return true;
}

/// MPI_Type_create_subarray: sizes, subsizes, starts per dimension.
bool flatten_subarray(const Contents& c, const TypeMap& inner, TypeMap* out) {
  const auto n_dims = static_cast<size_t>(c.integers[0]);
  const bool fortran = c.integers.back() == MPI_ORDER_FORTRAN;
  std::vector<int64_t> size(n_dims), sub(n_dims), start(n_dims);  // fastest dimension first
  for (size_t d = 0; d < n_dims; ++d) {
    const size_t from = fortran ? d : n_dims - 1 - d;
    const size_t base = c.counts.empty() ? 1 : 0;
    size[d] = c.number(base + from);
    sub[d] = c.number(base + n_dims + from);
    start[d] = c.number(base + 2 * n_dims + from);
  }
  std::vector<int64_t> step(n_dims);  // in elements
  int64_t elements = 1;
  for (size_t d = 0; d < n_dims; ++d) {
    step[d] = elements;
    elements *= size[d];
  }
  std::vector<int64_t> at(n_dims, 0);
  for (;;) {
    int64_t place = start[0];
    for (size_t d = 1; d < n_dims; ++d) place += (start[d] + at[d]) * step[d];
    if (!repeat(&out->blocks, inner, place * inner.extent, sub[0])) return false;
    size_t d = 1;
    while (d < n_dims && ++at[d] == sub[d]) at[d++] = 0;
    if (d >= n_dims) break;
  }
  return true;
}

bool flatten_derived(const Contents& c, TypeMap* out, int depth) {
  if (c.combiner == MPI_COMBINER_STRUCT) return flatten_struct(c, out, depth);
  if (c.types.size() != 1) return false;
  TypeMap inner;
  if (!flatten_at(c.types[0], &inner, depth)) return false;
  const bool in_bytes = c.combiner == MPI_COMBINER_HVECTOR || c.combiner == MPI_COMBINER_HINDEXED ||
                        c.combiner == MPI_COMBINER_HINDEXED_BLOCK;
  // The i-th address, or else number from `first` on.
  const auto displacement = [&](size_t first, size_t i) {
    if (!in_bytes) return c.number(first + i) * inner.extent;
    return c.counts.empty() ? static_cast<int64_t>(c.addresses[i]) : c.number(first + i);
  };
  switch (c.combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED:
      out->blocks = std::move(inner.blocks);
      return true;
    case MPI_COMBINER_CONTIGUOUS:
      return repeat(&out->blocks, inner, 0, c.number(0));
    case MPI_COMBINER_VECTOR:
    case MPI_COMBINER_HVECTOR:
      for (int64_t i = 0; i < c.number(0); ++i) {
        if (!repeat(&out->blocks, inner, i * displacement(2, 0), c.number(1))) return false;
      }
      return true;
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_INDEXED_BLOCK:
    case MPI_COMBINER_HINDEXED_BLOCK: {
      const bool of_one_length = c.combiner == MPI_COMBINER_INDEXED_BLOCK || c.combiner == MPI_COMBINER_HINDEXED_BLOCK;
      const auto n = static_cast<size_t>(c.number(0));
      for (size_t i = 0; i < n; ++i) {
        const int64_t place = displacement(of_one_length ? 2 : 1 + n, i);
        if (!repeat(&out->blocks, inner, place, c.number(of_one_length ? 1 : 1 + i))) return false;
      }
      return true;
    }
    case MPI_COMBINER_SUBARRAY:
      return flatten_subarray(c, inner, out);
    default:
      return false;
  }
}

bool flatten_at(MPI_Datatype type, TypeMap* out, int depth) {
  if (depth > kMaxDepth) return false;
  MPI_Count lower = 0;
  MPI_Count extent = 0;
  if (host.Type_get_extent_x(type, &lower, &extent) != MPI_SUCCESS) return false;
  out->lower = lower;
  out->extent = extent;
  Contents contents;
  if (!contents.read(type)) return false;
  return is_of_predefined(contents.combiner) ? flatten_named(type, out) : flatten_derived(contents, out, depth + 1);
}

}  // namespace

bool flatten(MPI_Datatype type, TypeMap* out) {
  try {
    if (!flatten_at(type, out, 0)) return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
  uint64_t bytes = 0;
  for (const copy::Block& block : out->blocks) bytes += block.len_bytes;
  MPI_Count size = 0;
  host.Type_size_x(type, &size);
  return bytes == static_cast<uint64_t>(size);
}

bool is_predefined(MPI_Datatype type) {
  MPI_Count n[4];
  int combiner = 0;
  return envelope(type, n, &combiner) == MPI_SUCCESS && is_of_predefined(combiner);
}

}  // namespace zh::mpi
