// The MPI libraries that zerohop serves, by their names and by what they say of themselves, and the module for each.
// Used by the preloaded library when the program calls MPI, and by `zerohop doctor` before. Knows no MPI type;
// allocates nothing.
#pragma once

#include <cstdlib>
#include <cstring>

namespace zh::mpi {

inline constexpr char kMpichModule[] = "libzerohop-mpich.so";
inline constexpr char kOpenMpiModule[] = "libzerohop-ompi.so";
inline constexpr char kAbiModule[] = "libzerohop-abi.so";
inline constexpr const char* kModules[] = {kMpichModule, kOpenMpiModule, kAbiModule};

/// The usual names. Libraries under other names are asked what they are.
struct HostKind {
  const char* soname;
  const char* module;
};
inline constexpr HostKind kHosts[] = {
    {"libmpi.so.12", kMpichModule},
    {"libmpich.so.12", kMpichModule},
    {"libmpi.so.40", kOpenMpiModule},
    {"libmpi_abi.so.1", kAbiModule},
};

inline const HostKind* host_called(const char* soname) {
  for (const HostKind& kind : kHosts) {
    if (std::strcmp(soname, kind.soname) == 0) return &kind;
  }
  return nullptr;
}

/// Open MPI 1.10 has the name of MPICH's library. `is_open_mpi`: it defines this object.
inline constexpr char kOpenMpiObject[] = "ompi_mpi_comm_world";
inline bool is_what_it_is_called(const char* module, bool is_open_mpi) {
  return module == kAbiModule || is_open_mpi == (module == kOpenMpiModule);
}

/// A version, "3.4" as {3, 4}, behind the first `mark` in `text`.
struct Version {
  long major = 0;
  long minor = 0;
};
inline bool version_behind(const char* text, const char* mark, Version* out) {
  const char* at = std::strstr(text, mark);
  if (at == nullptr) return false;
  at += std::strlen(mark);
  at += std::strspn(at, " \t:v");
  char* end = nullptr;
  out->major = std::strtol(at, &end, 10);
  out->minor = *end == '.' ? std::strtol(end + 1, nullptr, 10) : 0;
  return true;
}

/// The module for a library that says `text` of itself (MPI_Get_library_version); null if it is none that is known.
inline const char* module_for(const char* text, bool is_open_mpi) {
  Version version;
  if (is_open_mpi) {
    return version_behind(text, "Open MPI", &version) && version.major >= 3 ? kOpenMpiModule : nullptr;
  }
  // From 3.1 on MPICH and what is made from it have one binary interface; only MPICH itself is older anywhere.
  if (version_behind(text, "MPICH Version", &version)) {
    return version.major > 3 || (version.major == 3 && version.minor >= 1) ? kMpichModule : nullptr;
  }
  const bool derived = std::strstr(text, "MPICH") != nullptr || std::strstr(text, "Intel(R) MPI") != nullptr;
  return derived ? kMpichModule : nullptr;
}

}  // namespace zh::mpi
