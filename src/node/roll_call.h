// Roll call: do all ranks of the job take part? Found out before the first collective, which a rank that takes no part
// would never enter. Called by src/mpi when a job starts; refuses to know launchers and messages, which are injected.
#pragma once

#include <span>
#include <string>

namespace zh::node {

/// What a rank has left for the others.
enum class Presence { kSame, kOther, kAbsent };  ///< this build's mark, another build's, none

/// What a roll call needs from outside.
class Roll {
 public:
  virtual ~Roll() = default;
  /// Said before look() of these ranks, so that a store which takes long to find that there is no mark can be asked for
  /// all of them at once. `only_to_tell`: what is found goes into a line for the user and decides nothing.
  virtual void prepare(std::span<const int> /*ranks*/, bool /*only_to_tell*/) {}
  /// The same to whoever asks: all ranks had their chance to leave a mark before any of them asks.
  virtual Presence look(int rank) = 0;
  /// Messages between two ranks that are kSame to each other.
  virtual void tell(int rank, bool all) = 0;
  virtual bool hear(int rank) = 0;
};

/// Whether all ranks take part, with this build. All ranks that do must call it, and get the same answer.
bool all_take_part(Roll& roll, int rank, int size);

/// For one rank of a job where not all take part, the lowest that left a mark: which do not. For the others: "".
std::string who_is_missing(Roll& roll, int rank, int size);

}  // namespace zh::node
