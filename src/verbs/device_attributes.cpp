// SPDX-License-Identifier: MIT
#include "verbena/verbs/device_attributes.hpp"

#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "src/verbs/text.hpp"

namespace verbena::inline VERBENA_ABI {

std::string to_string(atomic_scope scope) {
  switch (scope) {
    case atomic_scope::none:
      return "none";
    case atomic_scope::device:
      return "device";
    case atomic_scope::global:
      return "global";
  }
  return detail::unknown_value(static_cast<std::int64_t>(scope));
}

std::string device_attributes::firmware_version() const {
  const char* begin = native_.fw_ver;
  std::string text(begin, ::strnlen(begin, sizeof native_.fw_ver));
  for (char& letter : text)
    if (letter < ' ' || letter > '~') letter = '?';
  return text;
}

std::optional<std::chrono::nanoseconds> extended_device_attributes::duration_of(
    device_ticks ticks) const noexcept {
  constexpr std::int64_t ns_per_ms = 1'000'000;
  constexpr std::int64_t longest = std::numeric_limits<std::int64_t>::max();
  // 10 THz. A higher frequency is not plausible and would overflow the product below.
  constexpr std::uint64_t implausible_khz = 10'000'000'000;
  if (clock_khz() == 0 || clock_khz() > implausible_khz) return std::nullopt;
  const auto khz = static_cast<std::int64_t>(clock_khz());
  const std::int64_t ms = ticks.value() / khz;
  if (ms >= longest / ns_per_ms) return std::chrono::nanoseconds::max();
  if (ms <= -(longest / ns_per_ms)) return std::chrono::nanoseconds::min();
  return std::chrono::nanoseconds(ms * ns_per_ms + ticks.value() % khz * ns_per_ms / khz);
}

std::string to_string(const device_attributes& device) {
  using detail::add_line;
  const auto number = [](std::uint64_t value) { return std::to_string(value); };
  std::string text;
  add_line(text, "node GUID", to_string(device.node_guid()));
  add_line(text, "system image GUID", to_string(device.system_image_guid()));
  add_line(text, "firmware", device.firmware_version());
  add_line(text, "vendor", fmt::format("{:#x}", device.vendor_id()));
  add_line(text, "part", std::to_string(device.vendor_part_id()));
  add_line(text, "hardware version", fmt::format("{:#x}", device.hardware_version()));
  add_line(text, "ports", std::to_string(device.port_count()));
  add_line(text, "max queue pairs", std::to_string(device.max_queue_pairs()));
  add_line(text, "max work requests", std::to_string(device.max_work_requests()));
  add_line(text, "max slices", std::to_string(device.max_sge()));
  add_line(text, "max completion queues", std::to_string(device.max_completion_queues()));
  add_line(text, "max completions", std::to_string(device.max_completions()));
  add_line(text, "max memory regions", std::to_string(device.max_memory_regions()));
  add_line(text, "max memory region bytes", number(device.max_memory_region_bytes()));
  add_line(text, "max protection domains", std::to_string(device.max_protection_domains()));
  add_line(text, "max reads as target", std::to_string(device.max_responder_resources()));
  add_line(text, "max reads as initiator", std::to_string(device.max_initiator_depth()));
  add_line(text, "atomics", to_string(device.atomics()));
  return text;
}

std::string to_string(const extended_device_attributes& device) {
  using detail::add_line;
  std::string text = to_string(device.basic());
  add_line(text, "completion timestamp mask",
           fmt::format("{:#x}", device.completion_timestamp_mask()));
  add_line(text, "clock kHz", std::to_string(device.clock_khz()));
  add_line(text, "on-demand paging", device.has_on_demand_paging() ? "yes" : "no");
  add_line(text, "device memory bytes", std::to_string(device.device_memory_bytes()));
  return text;
}

}  // namespace verbena::inline VERBENA_ABI
