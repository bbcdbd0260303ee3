// Devices with memory of their own. Called by the shim.
#pragma once

#include <string>

namespace zh::os {

/// The file of a driver library by which this process reaches memory of a GPU (CUDA, HIP, Level Zero); "": none is
/// loaded now.
[[nodiscard]] std::string loaded_device_driver();

}  // namespace zh::os
