// HeldBuffer: a buffer of a collective that goes on after its call has returned, as bytes behind one another or at
// listed places from one address: what schedules work on (coll/schedule/problem.h). The program's own memory where its
// bytes lie so; else a private copy, filled at each start and spread at each end. Called by the calls and by
// collective_operation.cpp.
#pragma once

#include <span>
#include <vector>

#include "coll/schedule/problem.h"
#include "mpi/coll/peers.h"

namespace zh::mpi {

class HeldBuffer {
 public:
  HeldBuffer() = default;
  ~HeldBuffer();
  HeldBuffer(const HeldBuffer&) = delete;
  HeldBuffer& operator=(const HeldBuffer&) = delete;

  /// Whether there was none for a private copy: the buffer then has its sizes, and no memory.
  [[nodiscard]] bool lacks_memory() const { return lacks_memory_; }
  /// Memory that is used as it lies.
  void open(void* memory) { base_ = static_cast<std::byte*>(memory); }
  int open(const Elements& elements, MPI_Comm);
  /// A buffer for each member. `copied`: bytes between the pieces may not be there, so that a list is copied in any
  /// case.
  template <typename N>
  int open(const Data<N>& data, const CommInfo& comm, bool /*copied*/ = false) {
    Elements all;
    ZH_STEP(judge(data, comm.handle, &all));
    piece_bytes_ = all.bytes();
    members_ = comm.size;
    all.count *= members_;
    return open(all, comm.handle);
  }
  template <typename List>
  int open(const List& list, const CommInfo& comm, bool copied = false) {
    list_.resize(static_cast<size_t>(comm.size));
    ZH_STEP(judge(list, comm.size, comm.handle, list_.data()));
    return place_list(copied);
  }
  /// A buffer for each neighbour.
  int open(std::vector<Elements> parts) {
    list_ = std::move(parts);
    return place_list(false);
  }

  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] uint64_t piece_bytes(int32_t member) const {
    return pieces_.empty() ? piece_bytes_ : pieces_[static_cast<size_t>(member)].bytes;
  }
  /// By member, where they are listed.
  [[nodiscard]] const std::vector<coll::Piece>& pieces() const { return pieces_; }
  /// What one member's piece consists of.
  [[nodiscard]] Elements at(int32_t member) const;
  /// This rank gives `bytes` to itself, or takes them: what does not fit is an error.
  int expect_own(int32_t self, uint64_t bytes, MPI_Comm comm);

  /// Before a start: what the program's memory holds. After an end: what is to be there. MPI_SUCCESS or the host's
  /// error.
  [[nodiscard]] int pack();
  [[nodiscard]] int unpack() { return scratch_.used() ? spread() : MPI_SUCCESS; }
  /// Whether unpack() calls the host, because a layout is the host's secret.
  [[nodiscard]] bool unpacked_by_host() const;

 private:
  int spread();
  int place_list(bool copied);
  int stage(uint64_t bytes);
  /// By member, or all in one; none where memory is used as it lies.
  [[nodiscard]] std::span<const Elements> parts() const {
    if (!list_.empty()) return list_;
    return {&one_, one_.type != nullptr ? 1U : 0U};
  }

  std::byte* base_ = nullptr;
  uint64_t piece_bytes_ = 0;
  int32_t members_ = 1;  ///< whose pieces are in one part
  Elements one_{};       ///< without a type: there is none
  std::vector<Elements> list_;
  std::vector<coll::Piece> pieces_;
  ScratchMemory scratch_;
  bool lacks_memory_ = false;
};

}  // namespace zh::mpi
