// Other ranks' memory as collectives see it: described by its owner, read, written and looked at by the others, mapped
// where that can be, else through the kernel. A caller sees only how far it came. PeerMemory implements it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "copy/remote_buffer.h"

namespace zh::copy {

/// Looks at another rank's memory, which other ranks may be reading as well.
using Visit = void (*)(void* context, const std::byte* memory);

/// For any thread of the rank.
class MemoryAccess {
 public:
  /// Describes contiguous memory of this process for its peers, of which `data` bytes are copied, with kWrite both
  /// ways. `exclusive`: the operation owns every byte; in gaps between pieces others may be writing.
  virtual void describe(const void* address, uint64_t bytes, uint64_t data, Direction use, bool exclusive,
                        RemoteBufferShm* out) = 0;
  /// Copies bytes [from, from + n) of rank `owner`'s buffer to `out`. Returns how many, from the front.
  [[nodiscard]] virtual uint64_t read(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n,
                                      void* out) = 0;
  /// The other way round.
  [[nodiscard]] virtual uint64_t write(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n,
                                       const void* in) = 0;
  /// Shows bytes [from, from + n) to `look`, mapped; false if they are not, or not in one piece. The address means
  /// nothing after `look` has returned, which must not call this object.
  [[nodiscard]] virtual bool visit(uint32_t owner, const RemoteBufferShm& remote, uint64_t from, uint64_t n, Visit look,
                                   void* context) = 0;

 protected:
  ~MemoryAccess() = default;
};

}  // namespace zh::copy
