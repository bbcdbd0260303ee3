// The stages of Node::join and what ranks tell each other in them. Used by joiner.cpp, identify.cpp and tests only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "node/measurers.h"
#include "node/node.h"
#include "node/segment_map.h"
#include "os/affinity.h"
#include "os/segment.h"

namespace zh::node {

/// A failure of one rank at any of these makes all ranks fail with its reason (JoinConfig::fail_stage provokes it in
/// tests).
enum class JoinStage : int {
  kIdentify,  ///< who I am; node membership follows from everyone's answers
  kCreate,    ///< the leader makes the segment
  kReach,     ///< everyone maps it, by up to three ways
  kVerify,    ///< everyone's token is found in it; CMA probe; the leader computes levels
  kMeasure,   ///< line times (only if some node measures)
  kFinish,    ///< levels corrected (only after kMeasure)
  kStages,
};

/// What a rank says of itself.
struct Card {
  uint64_t key[2];         ///< hash of boot id, host name, user: equal = may share memory
  uint64_t kernel;         ///< hash of boot id: equal = the same CPUs, also for containers with host names of their own
  uint64_t token;          ///< random, to be found in the segment and by CMA
  uint64_t token_address;  ///< of a private copy of the token in the rank's own memory
  uint64_t pid_namespace;
  uint64_t user_namespace;
  uint64_t net_namespace;
  uint64_t cgroup;       ///< hash of the CPU cgroup's path
  uint64_t quota_milli;  ///< its quota in thousandths of a CPU; 0 = none
  uint64_t rank_bytes;
  uint64_t annex_bytes;
  uint64_t address_space;
  uint64_t file_bytes;  ///< that a file may have (ulimit -f)
  uint64_t layout_hash;
  uint32_t page_bytes;
  uint32_t node_ranks;
  int32_t pid;
  uint8_t cma;
  uint8_t measure;
  uint8_t synthetic;  ///< a topology file is in force
  uint8_t pad;
  os::CpuSet cpus;
};

/// Outcome of a stage for one rank.
struct Vote {
  int32_t code;
  int32_t error;
  int32_t fd;         ///< leader: descriptor of the segment
  int32_t reached;    ///< the segment is mapped
  char what[200];     ///< why it failed
  char address[112];  ///< leader: socket or file
};

/// Status holds static texts; a reason that came from another process is kept for the rest of this one.
const char* keep_text(const std::string& text);
/// Adds a fact to a "; " list.
void note(std::string* notes, const std::string& text);

class Joiner {
 public:
  Joiner(Bootstrap& world, const JoinConfig& config) : world_(world), config_(config) {}
  Status run(std::unique_ptr<Node>* out);

 private:
  Status identify();
  Card own_card();
  [[nodiscard]] Status of_one_kind() const;
  void lay_out();
  void assign_nodes();
  void count_cpus();
  Status create();
  Status create_memory(bool keep_name, std::string* path);
  Status reach();
  Status map();
  Status reach_by_socket(uint32_t missing);
  Status reach_by_file();
  Status verify();
  void probe_cma();
  Status compute_levels();
  void time_lines();
  Status measure();
  void open_pidfds();
  void describe();

  /// All ranks tell how `stage` went: the first failure (lowest rank) becomes everyone's.
  Status agree(JoinStage stage, Status mine);
  Status exchange(const Vote& mine);
  [[nodiscard]] Vote vote_of(JoinStage stage, const Status& mine) const;
  [[nodiscard]] Status first_failure() const;
  [[nodiscard]] const Card& card(uint32_t index) const {
    return cards_[static_cast<size_t>(node_->world_of_local_[index])];
  }
  [[nodiscard]] int leader() const { return node_->world_of_local_[0]; }
  [[nodiscard]] bool is_leader() const { return node_->self_ == 0; }

  Bootstrap& world_;
  const JoinConfig& config_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<uint64_t> private_token_;
  std::vector<Card> cards_;  // by world rank
  std::vector<Vote> votes_;  // by world rank, of the last stage
  os::Descriptor segment_;
  HeaderShm header_{};
  uint32_t machine_ranks_ = 1;
  bool any_measures_ = false;
  std::unique_ptr<Measurers> measurers_;  // of this node; none if it measures nothing
  std::string memory_kind_;
  std::string reach_way_;
  std::string notes_;
  std::string cma_reason_;
};

}  // namespace zh::node
