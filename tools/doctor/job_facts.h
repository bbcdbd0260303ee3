// What a job that is started from here will meet: the parts of zerohop, the MPI library and its launcher, what is
// preloaded, and the program. Looks and runs nothing but `mpiexec --version` and the loader; `zerohop doctor` judges
// (job.cpp). Refuses to know what is good.
#pragma once

#include <string>
#include <vector>

namespace zh::tools {

/// The library and the modules that are there and are libraries of this machine.
struct Parts {
  std::string library;               ///< "" if it is not beside the command
  bool library_whole = false;        ///< it can be loaded, as far as its file tells
  std::vector<std::string> modules;  ///< names of files
};
[[nodiscard]] Parts look_at_parts();

struct MpiLibrary {
  std::string name;     ///< as programs ask for it
  std::string path;     ///< "" if it cannot be found
  std::string version;  ///< what it says of itself; "" if it does not
  std::string module;   ///< of zerohop, that serves it; "" if none does
};
/// `path` is the file, `name` may be empty: then it is the file's own.
[[nodiscard]] MpiLibrary look_at_library(const std::string& name, const std::string& path);
/// The program of look_at_library(): loads the library, prints what it says of itself, and returns an exit code.
int describe_library(const std::string& path);

struct MpiFacts {
  std::string launcher;          ///< path of the first of mpiexec, mpirun and srun on PATH; "" if there is none
  std::string launcher_version;  ///< what it says of itself, in short
  std::string launcher_module;   ///< for the library that it belongs to; "" where it serves any
  std::vector<MpiLibrary> libraries;
};
[[nodiscard]] MpiFacts look_for_mpi();
/// What a launcher's `--version` says, as launcher_version and launcher_module.
void read_launcher_version(const std::string& text, MpiFacts* facts);

struct Preload {
  std::string entry;
  bool loaded = false;
  bool profiler = false;
  bool other_zerohop = false;  ///< not the library beside this command
};
[[nodiscard]] std::vector<Preload> look_at_preloads(const std::string& library);

struct ProgramFacts {
  std::string name;
  std::string path;
  int error = 0;          ///< of the search along PATH: ENOENT, EACCES
  std::string obstacle;   ///< why nothing can be preloaded; "" if it can
  std::string script_of;  ///< the interpreter of a script
  bool interpreter_missing = false;
  bool other_machine = false;  ///< for another processor
  bool holds_mpi = false;      ///< the MPI library is part of the program
  std::vector<MpiLibrary> mpi;
  std::vector<std::string> missing;    ///< libraries that the loader does not find
  std::vector<std::string> profilers;  ///< linked with it, or part of it
  std::string doubtful_profiler;       ///< one that may call the MPI library past zerohop
  bool sanitizer = false;
};
[[nodiscard]] ProgramFacts look_at_program(const std::string& name);

/// A line of what the loader lists: "libx.so => path", or the path alone; path is "" if it was not found. False if it
/// names no library.
bool read_loader_line(const std::string& line, std::string* name, std::string* path);

}  // namespace zh::tools
