// SPDX-License-Identifier: MIT
#include "tools/verbena/devinfo/absence.hpp"

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "verbena/sys/provider.hpp"
#include "verbena/verbs/device_list.hpp"

namespace verbena::tool {
namespace {

// Returns the reason why a provider lists no devices, or "devices are listed".
std::string explain_list(result<const provider*> from, std::string_view empty) {
  if (!from) return from.error().message();
  const auto devices = list_devices(**from);
  if (!devices) return devices.error().message();
  return devices->empty() ? std::string(empty) : "devices are listed";
}

std::string explain_hardware(std::string_view mode) {
  if (mode == "only") return "VERBENA_SOFTDEV=only hides hardware: unset the variable";
  std::error_code failed;
  const bool has_kernel_part = std::filesystem::exists("/sys/class/infiniband", failed);
  return explain_list(
      system_provider(),
      has_kernel_part ? "no adapter: `rdma link` lists the devices of the kernel; their driver for "
                        "libibverbs may be missing (apt install ibverbs-providers)"
                      : "no adapter: the kernel has no RDMA device (load the module of "
                        "the adapter; /sys/class/infiniband then lists it)");
}

std::string explain_soft_device(std::string_view mode) {
  if (mode == "off") return "VERBENA_SOFTDEV=off disables soft0: unset the variable";
  return explain_list(soft_provider(), "no device is listed");
}

}  // namespace

std::string explain_absence() {
  const char* const value = std::getenv("VERBENA_SOFTDEV");  // NOLINT(concurrency-mt-unsafe)
  const std::string_view mode = value != nullptr ? value : "";
  return "  hardware: " + explain_hardware(mode) + "\n  soft0: " + explain_soft_device(mode) + "\n";
}

}  // namespace verbena::tool
