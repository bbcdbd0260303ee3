// Two ranks around one transfer, for the model check of src/p2p's rendezvous. The shipped code (see CMakeLists.txt)
// runs unchanged under the checker; what it stands on - node, arena, copy loops, the kernel's copy, mapped memory,
// matching - are the doubles of transfer_world.cpp, which announce every plain access to the race detector. Used by
// transfer_test.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "checker.h"
#include "p2p/endpoint.h"

namespace zh::mc {

/// Payload is modelled in units: one byte stands for so many of the message.
constexpr uint64_t kUnitBytes = 2 << 10;
constexpr uint64_t kUnitsMax = p2p::kCellWindow + 1;
constexpr uint32_t kMessagesMax = 2;

struct TransferSetup {
  uint64_t bytes = 2 * kUnitBytes;
  uint64_t capacity = ~uint64_t{0};    ///< of the receive; default: as long as the message
  uint32_t messages = 1;               ///< one after the other over one transfer
  uint64_t cell_bytes = kUnitBytes;    ///< PairChoice::chunk_cells
  uint64_t single_bytes = kUnitBytes;  ///< PairChoice::chunk_both and chunk_alone
  uint64_t ring_units = 2;             ///< room of the payload ring
  uint16_t window = p2p::kCellWindow;  ///< TransferShm::window
  bool sender_cma = false;             ///< the message is offered for single copy
  bool receiver_cma = false;
  bool both_ends = false;
  bool sender_copies = false;  ///< without both_ends: the sender makes the single copy
  p2p::Copier copier = p2p::Copier::kBoth;
  bool found = false;     ///< the receive comes later than the message
  int failing_pull = -1;  ///< the pull of that number ends early, after half of its units
  int failing_push = -1;
  bool source_mapped = false;  ///< the receiver can map the sender's buffer
  bool target_mapped = false;
  uint64_t source_edges[2] = {};  ///< units in front of and behind what can be mapped, at most one each
  uint64_t target_edges[2] = {};
  bool lagging = false;  ///< the receiver lags by the time that the message has been offered
  int failing_map = -1;  ///< the window of that number cannot be mapped
  int forking = -1;      ///< this rank's process forks meanwhile, in another thread
};

class TransferScenario final : public Scenario {
 public:
  explicit TransferScenario(const TransferSetup& setup);
  ~TransferScenario() override;
  [[nodiscard]] uint32_t threads() const override;
  void run(uint32_t thread) override;
  void finish() override;

 private:
  void send();
  void receive();
  void fork();
};

}  // namespace zh::mc
