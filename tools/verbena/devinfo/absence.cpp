// SPDX-License-Identifier: MIT
#include "tools/verbena/devinfo/absence.hpp"

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "verbena/sys/provider.hpp"
#include "verbena/verbs/device_list.hpp"

namespace verbena::tool {
namespace {

// Why a provider's list is empty, or that it is not.
std::string explain_list(result<const provider*> from, std::string_view empty) {
  if (!from) return from.error().message();
  const auto devices = list_devices(**from);
  if (!devices) return devices.error().message();
  return devices->empty() ? std::string(empty) : "it has devices";
}

std::string explain_hardware(std::string_view mode) {
  if (mode == "only") return "VERBENA_SOFTDEV=only hides it: unset the variable";
  std::error_code failed;
  const bool has_kernel_part = std::filesystem::exists("/sys/class/infiniband", failed);
  return explain_list(system_provider(),
                      has_kernel_part
                          ? "no adapter: `rdma link` lists what the kernel has; its driver in "
                            "libibverbs may be missing (apt install ibverbs-providers)"
                          : "no adapter: the kernel has no RDMA devices (load the adapter's "
                            "module; /sys/class/infiniband would list it)");
}

std::string explain_soft_device(std::string_view mode) {
  if (mode == "off") return "VERBENA_SOFTDEV=off switches it off: unset the variable";
  return explain_list(soft_provider(), "it lists no device");
}

}  // namespace

std::string explain_absence() {
  const char* const value = std::getenv("VERBENA_SOFTDEV");  // NOLINT(concurrency-mt-unsafe)
  const std::string_view mode = value != nullptr ? value : "";
  return "  hardware: " + explain_hardware(mode) + "\n  soft0: " + explain_soft_device(mode) + "\n";
}

}  // namespace verbena::tool
