// Copy loops by SIMD width and kind of store, chosen once at run time by CPU. Called by every path that moves payload.
#pragma once

#include <cstddef>
#include <cstdint>

namespace zh::copy {

/// How the destination's lines are written. Non-temporal stores push lines past the writer's cache: right for a sender
/// whose reader sits behind another cache (measured), wrong when both share one.
enum class Store : uint8_t { kTemporal, kNonTemporal };

/// Copies n bytes; the ranges must not overlap. A non-temporal copy ends with a store fence, so a later release store
/// publishes it.
void copy_bytes(void* dst, const void* src, size_t n, Store store);

/// Name of the kernel set in use, for `zerohop info` ("avx512", "avx2", "generic", ...).
[[nodiscard]] const char* kernel_name();

}  // namespace zh::copy
