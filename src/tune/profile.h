// The measured curves of a machine, by class of distance: pure data, and the file that keeps them between jobs.
// Made by calibrate.h, read by choice.cpp and `zerohop info`. A profile holds no pointer, so that ranks can copy it
// through shared memory.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "base/status.h"

namespace zh {
class Options;
}

namespace zh::tune {

/// One-way time by message size. Empty if the way was not measured or does not work.
struct Curve {
  static constexpr uint32_t kMaxPoints = 8;
  struct Point {
    uint64_t bytes;
    float us;
    float spread;  ///< interquartile range / median
  };
  uint32_t n = 0;
  uint32_t reserved = 0;
  Point points[kMaxPoints] = {};

  [[nodiscard]] bool empty() const { return n == 0; }
  bool add(uint64_t bytes, float us, float spread) {
    if (n == kMaxPoints) return false;
    points[n++] = {bytes, us, spread};
    return true;
  }
  /// Linear between points and beyond the last one; the first point's time below it. Not for an empty curve.
  [[nodiscard]] float us_at(uint64_t bytes) const;
  [[nodiscard]] float worst_spread() const;
};

/// What was measured between the first two ranks at one level.
struct DistanceClass {
  int32_t level = 0;        ///< node::Level
  float line_ns = 0;        ///< one-way time of a cache line while the curves were measured; 0: not known
  uint32_t ring_bytes = 0;  ///< best size of a payload ring (ordinary stores)
  uint32_t jobs = 0;        ///< in a row that found the same; from kConfirmed on the curves count
  uint32_t attempts = 0;    ///< jobs that measured it; after kMostAttempts no other one does
  uint32_t doubts = 0;      ///< quick looks in a row that contradicted the curves
  int64_t measured_at = 0;  ///< seconds since 1970, the last time
  int64_t looked_at = 0;    ///< ... when a job last saw that it still holds, or could not tell
  Curve cells;              ///< two copies, ordinary stores, at ring_bytes
  Curve cells_nt;           ///< two copies, non-temporal stores by the sender
  Curve cma_read;           ///< one copy by the receiver
  Curve cma_write;          ///< one copy by the sender
  Curve cma_both;
  Curve mapped_one;
  Curve mapped_both;
};

/// One line of text: how often it was found, how long ago, how noisy it was, whether it is in force.
[[nodiscard]] std::string standing(const DistanceClass& c);

/// One job may have had bad luck: what it measures is kept, and used when a second one finds the same.
constexpr uint32_t kConfirmed = 2;
/// A machine that is never quiet keeps its built-in choices, and its jobs their time, for a day.
constexpr uint32_t kMostAttempts = 8;

/// Machines change: another clock, another host of a virtual machine. The first job after this long looks whether the
/// curves still hold (plausible.h); after so many contradictions in a row the class is measured anew.
constexpr int64_t kLookEveryS = 600;
constexpr uint32_t kMostDoubts = 2;

struct Profile {
  static constexpr uint32_t kMaxClasses = 6;
  uint32_t n_classes = 0;
  uint32_t papers = 0;  ///< 1: ignore the classes, use the papers' thresholds (the profile named "papers")
  DistanceClass classes[kMaxClasses] = {};
};
static_assert(std::is_trivially_copyable_v<Profile>);

/// A profile named "papers" or "builtin" (empty); false for another name.
[[nodiscard]] bool named_profile(const std::string& name, Profile* out);

/// Curves whose points scatter more than this (interquartile range / median) do not count.
constexpr float kMaxSpread = 0.5F;

/// What a profile depends on: processor, kernel, hypervisor, topology, copy kernels.
struct MachineId {
  std::string cpu;
  std::string kernel;
  std::string hypervisor;
  std::string topology;
  [[nodiscard]] uint64_t hash() const;
  bool operator==(const MachineId&) const = default;
};
/// Looked up once in a process: it takes a dozen files for each of the machine's processors.
[[nodiscard]] const MachineId& this_machine();

/// A whole file of that folder, at most 1 MiB; "" if there is none, or something else of that name.
[[nodiscard]] std::string read_file(const std::string& path, bool* exists);

/// Where files about machines lie. Jobs and commands write into their user's own folder. What it does not have they
/// read from the site's, which an administrator fills for all users.
struct KeptFolders {
  std::string own;   ///< "": there is none
  std::string site;  ///< "": there is none
  /// The one that a file of this name is read from.
  [[nodiscard]] const std::string& with(const std::string& name) const;
};
/// own: `chosen` if not empty (ZEROHOP_CACHE), else $XDG_CACHE_HOME/zerohop, else ~/.cache/zerohop; "" if there is no
/// home. site: the setting of that name.
[[nodiscard]] KeptFolders kept_folders(const std::string& chosen, const std::string& site);
[[nodiscard]] KeptFolders kept_folders(const Options& options);
/// "" without a folder.
[[nodiscard]] std::string profile_path(const std::string& folder, const MachineId& machine);
/// The file that is read.
[[nodiscard]] std::string profile_path(const KeptFolders& folders, const MachineId& machine);

/// kOk: `*out` is the machine's kept profile. kWouldBlock: none has been kept yet. Else the file is there but corrupt,
/// of another machine or of another version: what() says so and `*out` is untouched.
Status load_profile(const KeptFolders& folders, const MachineId& machine, Profile* out);
/// Writes the file under another name and renames it, so that a reader sees the old or the new one. Makes the folder.
Status save_profile(const std::string& folder, const MachineId& machine, const Profile& profile);

}  // namespace zh::tune
