// SPDX-License-Identifier: MIT
#include "verbena/verbs/device_attributes.hpp"

#include <cstring>
#include <limits>

#include "src/verbs/text.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

void line(std::string& text, const char* name, const std::string& value) {
  text += text.empty() ? "" : "\n";
  text += std::string(name) + ": " + value;
}

}  // namespace

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
  // Ten terahertz: what lies beyond is no clock, and does not fit into the product below.
  constexpr std::uint64_t implausible_khz = 10'000'000'000;
  if (clock_khz() == 0 || clock_khz() > implausible_khz) return std::nullopt;
  const auto khz = static_cast<std::int64_t>(clock_khz());
  const std::int64_t ms = ticks.value() / khz;
  if (ms >= longest / ns_per_ms) return std::chrono::nanoseconds::max();
  if (ms <= -(longest / ns_per_ms)) return std::chrono::nanoseconds::min();
  return std::chrono::nanoseconds(ms * ns_per_ms + ticks.value() % khz * ns_per_ms / khz);
}

std::string to_string(const device_attributes& device) {
  const auto number = [](std::uint64_t value) { return std::to_string(value); };
  std::string text;
  line(text, "node GUID", to_string(device.node_guid()));
  line(text, "system image GUID", to_string(device.system_image_guid()));
  line(text, "firmware", device.firmware_version());
  line(text, "vendor", detail::hexadecimal(device.vendor_id()));
  line(text, "part", std::to_string(device.vendor_part_id()));
  line(text, "hardware version", detail::hexadecimal(device.hardware_version()));
  line(text, "ports", std::to_string(device.port_count()));
  line(text, "max queue pairs", std::to_string(device.max_queue_pairs()));
  line(text, "max work requests", std::to_string(device.max_work_requests()));
  line(text, "max slices", std::to_string(device.max_slices()));
  line(text, "max completion queues", std::to_string(device.max_completion_queues()));
  line(text, "max completions", std::to_string(device.max_completions()));
  line(text, "max memory regions", std::to_string(device.max_memory_regions()));
  line(text, "max memory region bytes", number(device.max_memory_region_bytes()));
  line(text, "max protection domains", std::to_string(device.max_protection_domains()));
  line(text, "max reads as target", std::to_string(device.max_reads_as_target()));
  line(text, "max reads as initiator", std::to_string(device.max_reads_as_initiator()));
  line(text, "atomics", to_string(device.atomics()));
  return text;
}

std::string to_string(const extended_device_attributes& device) {
  std::string text = to_string(device.basic());
  line(text, "completion timestamp mask", detail::hexadecimal(device.completion_timestamp_mask()));
  line(text, "clock kHz", std::to_string(device.clock_khz()));
  line(text, "on-demand paging", device.has_on_demand_paging() ? "yes" : "no");
  line(text, "device memory bytes", std::to_string(device.device_memory_bytes()));
  return text;
}

}  // namespace verbena::inline VERBENA_ABI
