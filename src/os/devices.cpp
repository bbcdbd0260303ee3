#include "os/devices.h"

#include <link.h>

#include <string_view>

namespace zh::os {

std::string loaded_device_driver() {
  std::string found;
  const auto look = [](dl_phdr_info* info, size_t, void* out) -> int {
    const std::string_view path = info->dlpi_name;
    const std::string_view name = path.substr(path.rfind('/') + 1);
    for (const std::string_view driver : {"libcuda.so", "libamdhip64.so", "libze_loader.so"}) {
      if (!name.starts_with(driver)) continue;
      *static_cast<std::string*>(out) = name;
      return 1;
    }
    return 0;
  };
  dl_iterate_phdr(look, &found);
  return found;
}

}  // namespace zh::os
