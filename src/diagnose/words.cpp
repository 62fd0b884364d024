// SPDX-License-Identifier: MIT
#include "src/diagnose/words.hpp"

#include <algorithm>
#include <system_error>

namespace verbena::inline VERBENA_ABI::diagnose {

const char* to_string(severity of) noexcept {
  static constexpr const char* names[] = {"ok", "note", "warning", "problem"};
  return names[static_cast<std::size_t>(of)];
}

const char* to_string(device_kind of) noexcept {
  static constexpr const char* names[] = {"software device", "software device of the kernel",
                                          "hardware"};
  return names[static_cast<std::size_t>(of)];
}

namespace detail {

std::string port_name(const device_facts& device, port_number port) {
  return device.name + " port " + std::to_string(port.value());
}

std::string reason_of(const error& failed) { return failed.message(); }

std::string system_error_text(int code) { return std::generic_category().message(code); }

const net_interface* find_interface(const host_facts& host, std::string_view name) {
  const auto found = std::ranges::find(host.interfaces, name, &net_interface::name);
  return found != host.interfaces.end() ? &*found : nullptr;
}

device_kind kind_of(const host_facts& host, const device_facts& device) {
  if (device.origin == provider_origin::soft) return device_kind::soft;
  const auto found = std::ranges::find(host.devices, device.name, &kernel_device::name);
  return found != host.devices.end() && found->emulated ? device_kind::kernel
                                                        : device_kind::hardware;
}

bool works(const port_facts& port) {
  return port.attributes.state() == port_state::active && !port.trial_failure;
}

chosen_port choose_port(const host_facts& host, const devices_facts& devices) {
  chosen_port best;
  for (const side_facts* const side : {&devices.system, &devices.soft})
    for (const auto& device : side->devices)
      for (const auto& port : device.ports) {
        const device_kind kind = kind_of(host, device);
        if (works(port) && (best.device == nullptr || kind > best.kind))
          best = {.device = &device, .port = &port, .kind = kind};
      }
  return best;
}

}  // namespace detail

std::optional<usable_port> best_usable(const host_facts& host, const devices_facts& devices) {
  const auto best = detail::choose_port(host, devices);
  if (best.device == nullptr) return std::nullopt;
  return usable_port{
      .device = best.device->name, .port = best.port->attributes.number(), .kind = best.kind};
}

std::vector<finding> examine(const host_facts& host, const devices_facts& devices) {
  std::vector<finding> all;
  const auto add = [&all](std::vector<finding> more) {
    all.insert(all.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
  };
  add(examine_kernel(host, devices));
  add(examine_ports(host, devices));
  add(examine_process(host));
  add(examine_software(host, devices));
  return all;
}

}  // namespace verbena::inline VERBENA_ABI::diagnose
