// What an ELF file on disk says of itself. Called by `zerohop doctor`, which looks at programs and libraries before
// they run; loads nothing, and refuses to know what the names mean (those of loaded objects: loaded_symbols.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace zh::os {

struct ElfFile {
  bool valid = false;         ///< a 64-bit ELF file that could be read
  bool same_machine = false;  ///< for this kind of processor
  bool shared = false;        ///< a library, if it has no loader either
  std::string loader;         ///< of a dynamically linked program: what maps its libraries
  std::string soname;
  std::vector<std::string> needed;  ///< names of the libraries it asks for
};
[[nodiscard]] ElfFile read_elf(const std::string& path);

/// Told of a symbol, and whether the file defines it or takes it from elsewhere. True ends the walk.
using ElfVisit = std::function<bool(const std::string& name, bool defined)>;
/// Whether `visit` answered true for a global symbol of the file, dynamic or not.
bool any_symbol(const std::string& path, const ElfVisit& visit);

}  // namespace zh::os
