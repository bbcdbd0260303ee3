// Loaded objects and the names in their dynamic symbol tables. Called by the preloaded library and by `zerohop run`,
// which look for profilers; refuses to know what the names mean. Allocates nothing.
#pragma once

#include <link.h>

namespace zh::os {

/// The object that holds an address; null if none does.
[[nodiscard]] const link_map* object_of(const void* address);

/// Told of a symbol, and whether the object defines it or takes it from elsewhere. True ends the walk.
using SymbolVisit = bool (*)(const char* name, bool defined, void* context);
/// Whether `visit` answered true for a symbol of the object.
bool any_symbol(const link_map& object, SymbolVisit visit, void* context);
/// Whether the object takes that function from elsewhere.
[[nodiscard]] bool imports(const link_map& object, const char* name);

}  // namespace zh::os
