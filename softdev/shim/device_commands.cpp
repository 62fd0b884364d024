// SPDX-License-Identifier: MIT
// Commands that change the device or its port, and raise the event of the change.
#include <array>
#include <cerrno>
#include <cstdint>
#include <string_view>

#include "softdev/host/device_clock.hpp"
#include "softdev/host/host.hpp"
#include "softdev/host/settings.hpp"
#include "softdev/shim/command.hpp"

namespace verbena::softdev {
namespace {

// The numeric arguments of a command.
struct arguments {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
};

// Each command returns 0 or an errno.
int change_port(host& home, const arguments& to) {
  const bool up = to.first != 0;
  const auto port = static_cast<std::uint8_t>(to.second);
  if (!home.core().port().has(port)) return ENOENT;
  if (home.core().port().set_up(port, up))
    home.adapter().listeners().raise(
        {.what = up ? device_event::port_active : device_event::port_error, .port = port});
  return 0;
}

int change_speed(host& home, const arguments& /*none*/) {
  home.adapter().set_speed(home.adapter().speed() == port_speed::edr ? port_speed::hdr
                                                                     : port_speed::edr);
  home.adapter().listeners().raise(device_event::speed_change);
  return 0;
}

int change_gids(host& home, const arguments& /*none*/) {
  if (!home.adapter().refresh_gids()) home.adapter().listeners().raise(device_event::gid_change);
  return 0;
}

// Personas other than RoCE have one address, whose index does not change.
int move_gids(host& home, const arguments& /*none*/) {
  if (home.persona().kind == persona_kind::roce) {
    home.adapter().move_gids();
  } else {
    home.adapter().listeners().raise(device_event::gid_change);
  }
  return 0;
}

int change_lid(host& home, const arguments& to) {
  if (home.persona().kind == persona_kind::infiniband)
    home.core().port().set_lid(static_cast<std::uint16_t>(to.first));
  home.adapter().listeners().raise(device_event::lid_change);
  return 0;
}

// Without arguments, restores the initial table.
int change_pkeys(host& home, const arguments& /*none*/) {
  const auto& table = home.persona().pkeys;
  for (std::size_t i = 0; i < table.size(); ++i) home.core().port().set_pkey(i, table[i]);
  home.adapter().listeners().raise(device_event::pkey_change);
  return 0;
}

int change_partition(host& home, const arguments& to) {
  if (to.first >= home.persona().pkeys.size()) return EINVAL;
  home.core().port().set_pkey(to.first, static_cast<std::uint16_t>(to.second));
  home.adapter().listeners().raise(device_event::pkey_change);
  return 0;
}

// Moves the subnet manager to the port's own LID, or back.
int change_manager(host& home, const arguments& /*none*/) {
  const std::uint16_t first = home.persona().sm_lid;
  if (first != 0)
    home.adapter().set_sm_lid(home.adapter().sm_lid() == first ? home.persona().lid : first);
  home.adapter().listeners().raise(device_event::sm_change);
  return 0;
}

int set_clock(host& /*home*/, const arguments& to) {
  device_clock::set(to.first);
  return 0;
}

template <device_event What>
int only_notify(host& home, const arguments& /*none*/) {
  home.adapter().listeners().raise(What);
  return 0;
}

using action = int (*)(host& home, const arguments& to);

command bind(action act, const arguments& to) {
  return [act, to](host& home) { return act(home, to); };
}

constexpr std::array port_states = {named<std::uint64_t>{"up", 1}, named<std::uint64_t>{"down", 0}};

command read_port(word_reader& words) {
  const std::uint64_t port = words.number(1, current_settings().ports);
  return bind(&change_port, {.first = words.choose(port_states), .second = port});
}

command read_lid(word_reader& words) {
  constexpr std::uint64_t highest_unicast = 0xbfff;
  return bind(&change_lid, {.first = words.number(1, highest_unicast)});
}

command read_partition(word_reader& words) {
  if (words.at_end()) return bind(&change_pkeys, {});
  arguments to;
  to.first = words.number(0, port_state::max_pkeys - 1);
  to.second = words.number(0, 0xffff);
  return bind(&change_partition, to);
}

command read_clock(word_reader& words) {
  return bind(&set_clock, {.first = words.number(0, device_clock::mask)});
}

template <action Act>
command read_none(word_reader& /*words*/) {
  return bind(Act, {});
}

constexpr std::array device_rows = {
    named<command (*)(word_reader&)>{"port", &read_port},
    named<command (*)(word_reader&)>{"gid-change", &read_none<&change_gids>},
    named<command (*)(word_reader&)>{"gid-move", &read_none<&move_gids>},
    named<command (*)(word_reader&)>{"lid-change", &read_lid},
    named<command (*)(word_reader&)>{"pkey-change", &read_partition},
    named<command (*)(word_reader&)>{"sm-change", &read_none<&change_manager>},
    named<command (*)(word_reader&)>{"client-reregister",
                                     &read_none<&only_notify<device_event::client_reregister>>},
    named<command (*)(word_reader&)>{"speed-change", &read_none<&change_speed>},
    named<command (*)(word_reader&)>{"device-fatal", &read_none<&only_notify<device_event::fatal>>},
    named<command (*)(word_reader&)>{"clock", &read_clock},
};

command read_device_command(word_reader& words) {
  for (const auto& row : device_rows)
    if (words.accept(row.name)) return row.value(words);
  return {};
}

}  // namespace

command_family device_commands() noexcept {
  return {&read_device_command, [] { return names_of(device_rows); }};
}

}  // namespace verbena::softdev
