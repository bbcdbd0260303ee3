#include "os/loaded_symbols.h"

#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace zh::os {
namespace {

struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  uint32_t count = 0;
};

/// Number of symbols by a DT_GNU_HASH table: those that it leaves out come first, then the members of its chains, of
/// which the last has its lowest bit set.
uint32_t count_by_gnu_hash(const uint32_t* table) {
  const uint32_t n_buckets = table[0];
  const uint32_t first = table[1];
  const uint32_t* buckets = table + 4 + static_cast<size_t>(table[2]) * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  uint32_t last = 0;
  for (uint32_t i = 0; i < n_buckets; ++i) last = std::max(last, buckets[i]);
  if (last < first) return first;
  const uint32_t* chains = buckets + n_buckets;
  while ((chains[last - first] & 1) == 0) ++last;
  return last + 1;
}

Tables tables_of(const link_map& object) {
  Tables found;
  // Most libcs have relocated these addresses.
  const auto place = [&object](ElfW(Addr) address) {
    return reinterpret_cast<const void*>(address < object.l_addr ? address + object.l_addr : address);
  };
  for (const ElfW(Dyn)* entry = object.l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    const void* there = place(entry->d_un.d_ptr);
    if (entry->d_tag == DT_SYMTAB) found.symbols = static_cast<const ElfW(Sym)*>(there);
    if (entry->d_tag == DT_STRTAB) found.names = static_cast<const char*>(there);
    if (entry->d_tag == DT_HASH) found.count = static_cast<const uint32_t*>(there)[1];
    if (entry->d_tag == DT_GNU_HASH) found.count = count_by_gnu_hash(static_cast<const uint32_t*>(there));
  }
  return found;
}

}  // namespace

const link_map* object_of(const void* address) {
  Dl_info info;
  void* map = nullptr;
  return dladdr1(address, &info, &map, RTLD_DL_LINKMAP) != 0 ? static_cast<const link_map*>(map) : nullptr;
}

bool any_symbol(const link_map& object, SymbolVisit visit, void* context) {
  const Tables tables = tables_of(object);
  if (tables.symbols == nullptr || tables.names == nullptr) return false;
  for (uint32_t i = 1; i < tables.count; ++i) {
    const ElfW(Sym)& symbol = tables.symbols[i];
    if (visit(tables.names + symbol.st_name, symbol.st_shndx != SHN_UNDEF, context)) return true;
  }
  return false;
}

bool imports(const link_map& object, const char* name) {
  const auto is_it = [](const char* symbol, bool defined, void* wanted) {
    return !defined && std::strcmp(symbol, static_cast<const char*>(wanted)) == 0;
  };
  return any_symbol(object, is_it, const_cast<char*>(name));
}

}  // namespace zh::os
