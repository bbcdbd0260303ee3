// The stages of Node::join and what ranks tell each other in them. Used by joiner.cpp, identify.cpp and tests only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "node/machine.h"
#include "node/measurers.h"
#include "node/node.h"
#include "node/roster.h"
#include "node/segment_map.h"
#include "os/affinity.h"
#include "os/segment.h"

namespace zh::node {

/// A failure of one rank at any of these makes the ranks of its machine stop there, and in the end all ranks fail with
/// its reason (JoinConfig::fail_stage provokes it in tests).
enum class JoinStage : int {
  kIdentify,  ///< builds and settings are compared; keys tell which ranks share a node, cards who they are
  kCreate,    ///< CMA probe; the leader makes the segment; from here on among the ranks of a machine
  kReach,     ///< everyone maps it, by up to three ways, and joins the kernel module's context if it is to copy
  kVerify,    ///< everyone's token is found in it; the module's probe; line times; the leader computes levels
  kStages,
};

/// What a rank says of itself to the others of its machine.
struct Card {
  uint64_t place;          ///< place_key(), as all ranks of the job know it
  uint64_t key[2];         ///< hash of boot id, host name, user: equal = may share memory
  uint64_t kernel;         ///< hash of boot id: equal = the same CPUs, also for containers with host names of their own
  uint64_t token;          ///< random, to be found in the segment, by CMA and by the module
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
  uint32_t page_bytes;
  int32_t pid;
  uint8_t cma;
  uint8_t measure;
  uint8_t synthetic;  ///< a topology file is in force
  uint8_t module_use;
  os::CpuSet cpus;
};

/// Outcome of a stage for one rank.
struct Vote {
  int32_t code;
  int32_t error;
  int32_t fd;         ///< leader: descriptor of the segment
  int32_t reached;    ///< the segment is mapped
  uint32_t refused;   ///< the system has refused CMA towards some rank that was thought to allow it
  uint32_t member;    ///< this rank's number in the kernel module's context; 0: not in it
  char what[200];     ///< why it failed
  char address[112];  ///< leader: socket or file
};

static_assert(sizeof(Card) == 648 && sizeof(Vote) == 336, "docs/design/scale.md says so");

/// Adds a fact to a "; " list.
void note(std::string* notes, const std::string& text);

class Joiner {
 public:
  Joiner(Bootstrap& world, const JoinConfig& config) : world_(world), config_(config) {}
  Status run(std::unique_ptr<Node>* out);

 private:
  Status stages();
  Status meet();
  Status conclude(const Status& mine);
  Status identify();
  Card own_card();
  void find_members();
  [[nodiscard]] Status names_are_told_apart() const;
  void count_cpus();
  void lay_out();
  Status create();
  Status create_memory(bool keep_name, std::string* path);
  void write_tables(std::byte* base) const;
  [[nodiscard]] bool tables_are_right() const;
  Status reach();
  Status map();
  Status reach_by_socket(uint32_t missing);
  Status reach_by_file();
  Status verify();
  Status prove();
  void probe_cma();
  [[nodiscard]] bool wants_module(uint32_t index) const;
  [[nodiscard]] bool wants_module() const;
  void join_module();
  void probe_module();
  Status compute_levels();
  void time_lines();
  void read_levels();
  void finish();
  void open_pidfds();
  void describe();

  /// The machine's ranks tell how `stage` went: the first failure (lowest rank) becomes that of all of them.
  Status agree(JoinStage stage, Status mine);
  Status exchange(const Vote& mine);
  [[nodiscard]] Status or_injected(JoinStage stage, const Status& mine) const;
  [[nodiscard]] Vote vote_of(JoinStage stage, const Status& mine) const;
  Status first_failure();
  [[nodiscard]] const Card& card(uint32_t index) const { return cards_[places_[index]]; }
  [[nodiscard]] const Vote& told(uint32_t index) const { return votes_[places_[index]]; }
  [[nodiscard]] int leader() const { return node_->world_of_local_[0]; }
  [[nodiscard]] bool is_leader() const { return node_->self_ == 0; }
  [[nodiscard]] Bootstrap& group() { return machine_ != nullptr ? *machine_ : world_; }

  Bootstrap& world_;
  const JoinConfig& config_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<uint64_t> private_token_;
  Roster roster_;
  uint64_t key_ = 0;
  std::unique_ptr<Bootstrap> machine_;  // null: the world serves
  std::vector<int> ranks_;              // world ranks in group(), ascending
  std::vector<uint32_t> places_;        // in group(), by index on the node
  std::vector<Card> cards_;             // by place in group()
  std::vector<Vote> votes_;             // ..., of the last stage
  int culprit_ = -1;                    // world rank whose failure ended the stages
  os::Descriptor segment_;
  HeaderShm header_{};
  std::unique_ptr<Measurers> measurers_;  // of this node; none if it measures nothing
  std::string memory_kind_;
  std::string reach_way_;
  std::string notes_;
  std::string cma_reason_;
  bool cma_refused_ = false;
  os::CopyModule::Secret secret_{};  // the leader's
  uint32_t member_ = 0;
};

}  // namespace zh::node
