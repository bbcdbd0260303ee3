// A client of PMI-1, the wire protocol between a process and the hydra launchers (MPICH's, Intel's): what is needed to
// share a value with the job's other ranks. Called by src/mpi/start/launcher.cpp; refuses to know what the values mean.
#pragma once

#include <string>

#include "base/status.h"

namespace zh::os {

class PmiClient {
 public:
  /// Talks over the descriptor that the launcher has left in the environment, which the MPI library will use, too: only
  /// before or after what it does there, never meanwhile. kNotSupported where there is no such launcher.
  Status open();
  /// Others may read it when the MPI library's own barrier in MPI_Init is behind them.
  Status put(const std::string& key, const std::string& value);
  /// `value` becomes empty if nobody has put that key.
  Status get(const std::string& key, std::string* value);

 private:
  Status ask(const std::string& command, const char* expected, std::string* reply) const;

  int fd_ = -1;
  std::string space_;  ///< name of the job's space of keys
};

}  // namespace zh::os
