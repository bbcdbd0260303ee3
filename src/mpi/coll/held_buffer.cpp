// See held_buffer.h.
#include "mpi/coll/held_buffer.h"

#include <algorithm>

namespace zh::mpi {
namespace {

bool contiguous(const Elements& e) { return e.type->kind == TypeInfo::Kind::kContiguous; }

}  // namespace

HeldBuffer::~HeldBuffer() {
  if (!scratch_.used()) return;
  for (const Elements& e : parts()) drop_handle(e.type);
}

int HeldBuffer::open(const Elements& elements, MPI_Comm) {
  if (piece_bytes_ == 0) piece_bytes_ = elements.bytes();
  one_ = elements;
  base_ = elements.buf;
  return contiguous(elements) ? kGoOn : stage(elements.bytes());
}

int HeldBuffer::place_list(bool copied) {
  uintptr_t lowest = UINTPTR_MAX;
  uint64_t total = 0;
  for (const Elements& e : list_) {
    if (!contiguous(e)) copied = true;
    if (e.bytes() > 0) lowest = std::min(lowest, reinterpret_cast<uintptr_t>(e.buf));
  }
  pieces_.reserve(list_.size());
  for (const Elements& e : list_) {
    const uint64_t bytes = e.bytes();
    const uint64_t at = copied ? total : reinterpret_cast<uintptr_t>(e.buf) - lowest;
    pieces_.push_back({bytes > 0 ? at : 0, bytes});
    total += bytes;
  }
  if (total == 0) return kGoOn;
  base_ = reinterpret_cast<std::byte*>(lowest);
  return copied ? stage(total) : kGoOn;
}

// No error of the call yet: the others have begun it or will, and learn by its steps (coll::Call::empty_handed).
int HeldBuffer::stage(uint64_t bytes) {
  base_ = scratch_.get(bytes);
  lacks_memory_ = base_ == nullptr;
  if (lacks_memory_) return kGoOn;
  for (const Elements& e : parts()) hold_handle(e.type);
  return kGoOn;
}

Elements HeldBuffer::at(int32_t member) const {
  if (!pieces_.empty()) return list_[static_cast<size_t>(member)];
  Elements e = one_;
  e.count /= members_;
  const auto first = reinterpret_cast<intptr_t>(e.buf);
  e.buf = reinterpret_cast<std::byte*>(first + member * e.count * e.type->extent);
  return e;
}

int HeldBuffer::expect_own(int32_t self, uint64_t bytes, MPI_Comm comm) {
  const uint64_t room = piece_bytes(self);
  if (bytes > room) return raise(comm, MPI_ERR_TRUNCATE);
  if (bytes == room) return kGoOn;
  // All pieces of a uniform call are alike; of a list this one may stay shorter.
  if (pieces_.empty()) return raise(comm, MPI_ERR_COUNT);
  pieces_[static_cast<size_t>(self)].bytes = bytes;
  return kGoOn;
}

int HeldBuffer::pack() {
  if (!scratch_.used()) return MPI_SUCCESS;
  std::byte* to = base_;
  for (const Elements& e : parts()) {
    if (const int error = pack_elements(e, to); error != MPI_SUCCESS) return error;
    to += e.bytes();
  }
  return MPI_SUCCESS;
}

bool HeldBuffer::unpacked_by_host() const {
  return scratch_.used() &&
         std::ranges::any_of(parts(), [](const Elements& e) { return e.type->kind == TypeInfo::Kind::kPacked; });
}

int HeldBuffer::spread() {
  const std::byte* from = base_;
  const std::span<const Elements> all = parts();
  for (size_t i = 0; i < all.size(); ++i) {
    const Elements& e = all[i];
    const uint64_t bytes = pieces_.empty() ? e.bytes() : pieces_[i].bytes;
    if (const int error = unpack_elements(from, bytes, e); error != MPI_SUCCESS) return error;
    from += e.bytes();
  }
  return MPI_SUCCESS;
}

}  // namespace zh::mpi
