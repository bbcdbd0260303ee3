// See elf_file.h. Sizes and places are the file's word and are believed only where they lie inside the file.
#include "os/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "os/segment.h"

namespace zh::os {
namespace {

constexpr uint64_t kMostBytes = uint64_t{256} << 20;  // of one table

#if defined(__aarch64__)
constexpr uint16_t kThisMachine = EM_AARCH64;
#else
constexpr uint16_t kThisMachine = EM_X86_64;
#endif

class Reader {
 public:
  explicit Reader(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat info {};
    if (fd_.valid() && fstat(fd_.get(), &info) == 0 && S_ISREG(info.st_mode))
      bytes_ = static_cast<uint64_t>(info.st_size);
    valid_ = read(0, sizeof header_, &header_) && std::memcmp(header_.e_ident, ELFMAG, SELFMAG) == 0 &&
             header_.e_ident[EI_CLASS] == ELFCLASS64 && header_.e_ident[EI_DATA] == ELFDATA2LSB;
  }
  [[nodiscard]] bool valid() const { return valid_; }
  [[nodiscard]] const Elf64_Ehdr& header() const { return header_; }

  template <typename T>
  [[nodiscard]] std::vector<T> table(uint64_t at, uint64_t count) const {
    std::vector<T> out;
    if (count == 0 || count > kMostBytes / sizeof(T) || at > bytes_ || count * sizeof(T) > bytes_ - at) return out;
    out.resize(count);
    if (!read(at, count * sizeof(T), out.data())) out.clear();
    return out;
  }
  [[nodiscard]] std::vector<Elf64_Phdr> segments() const {
    return header_.e_phentsize == sizeof(Elf64_Phdr) ? table<Elf64_Phdr>(header_.e_phoff, header_.e_phnum)
                                                     : std::vector<Elf64_Phdr>{};
  }
  [[nodiscard]] std::vector<Elf64_Shdr> sections() const {
    return header_.e_shentsize == sizeof(Elf64_Shdr) ? table<Elf64_Shdr>(header_.e_shoff, header_.e_shnum)
                                                     : std::vector<Elf64_Shdr>{};
  }

 private:
  bool read(uint64_t at, uint64_t n, void* out) const {
    auto* to = static_cast<char*>(out);
    for (uint64_t done = 0; done < n;) {
      const ssize_t got = fd_.valid() ? pread(fd_.get(), to + done, n - done, static_cast<off_t>(at + done)) : -1;
      if (got <= 0) return false;
      done += static_cast<uint64_t>(got);
    }
    return true;
  }

  Descriptor fd_;
  uint64_t bytes_ = 0;
  bool valid_ = false;
  Elf64_Ehdr header_{};
};

/// The text at `at` of a table of strings, without its end; "" outside of it.
std::string text_at(const std::vector<char>& strings, uint64_t at) {
  if (at >= strings.size()) return "";
  return {strings.data() + at, strnlen(strings.data() + at, strings.size() - at)};
}

/// Place in the file of an address; ~0 if no segment holds it.
uint64_t place_of(const std::vector<Elf64_Phdr>& segments, uint64_t address) {
  for (const Elf64_Phdr& s : segments) {
    if (s.p_type == PT_LOAD && address >= s.p_vaddr && address - s.p_vaddr < s.p_filesz) {
      return s.p_offset + (address - s.p_vaddr);
    }
  }
  return ~uint64_t{0};
}

}  // namespace

ElfFile read_elf(const std::string& path) {
  ElfFile out;
  const Reader file(path);
  if (!file.valid()) return out;
  out.valid = true;
  out.same_machine = file.header().e_machine == kThisMachine;
  out.shared = file.header().e_type == ET_DYN;
  const std::vector<Elf64_Phdr> segments = file.segments();
  for (const Elf64_Phdr& s : segments) {
    if (s.p_type == PT_INTERP) out.loader = text_at(file.table<char>(s.p_offset, s.p_filesz), 0);
    if (s.p_type != PT_DYNAMIC) continue;
    uint64_t strings_at = ~uint64_t{0};
    uint64_t strings_bytes = 0;
    const std::vector<Elf64_Dyn> entries = file.table<Elf64_Dyn>(s.p_offset, s.p_filesz / sizeof(Elf64_Dyn));
    for (const Elf64_Dyn& d : entries) {
      if (d.d_tag == DT_STRTAB) strings_at = place_of(segments, d.d_un.d_ptr);
      if (d.d_tag == DT_STRSZ) strings_bytes = d.d_un.d_val;
      if (d.d_tag == DT_FLAGS_1 && (d.d_un.d_val & DF_1_PIE) != 0) out.shared = false;
    }
    const std::vector<char> strings = file.table<char>(strings_at, strings_bytes);
    for (const Elf64_Dyn& d : entries) {
      if (d.d_tag == DT_NULL) break;
      if (d.d_tag == DT_SONAME) out.soname = text_at(strings, d.d_un.d_val);
      if (d.d_tag == DT_NEEDED) out.needed.push_back(text_at(strings, d.d_un.d_val));
    }
  }
  return out;
}

bool any_symbol(const std::string& path, const ElfVisit& visit) {
  const Reader file(path);
  if (!file.valid()) return false;
  const std::vector<Elf64_Shdr> sections = file.sections();
  for (const Elf64_Shdr& section : sections) {
    if ((section.sh_type != SHT_DYNSYM && section.sh_type != SHT_SYMTAB) || section.sh_link >= sections.size())
      continue;
    const Elf64_Shdr& names = sections[section.sh_link];
    const std::vector<char> strings = file.table<char>(names.sh_offset, names.sh_size);
    for (const Elf64_Sym& symbol : file.table<Elf64_Sym>(section.sh_offset, section.sh_size / sizeof(Elf64_Sym))) {
      if (ELF64_ST_BIND(symbol.st_info) == STB_LOCAL) continue;
      if (visit(text_at(strings, symbol.st_name), symbol.st_shndx != SHN_UNDEF)) return true;
    }
  }
  return false;
}

}  // namespace zh::os
