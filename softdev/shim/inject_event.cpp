// SPDX-License-Identifier: MIT
// verbena_soft_inject_event: makes happen what happens to adapters now and then, for tests and
// demonstrations. A command is words with one space between them; one that makes no sense changes
// nothing.
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "softdev/host/device_clock.hpp"
#include "softdev/host/host.hpp"
#include "softdev/shim/functions.hpp"
#include "softdev/shim/inject_event.hpp"
#include "softdev/shim/objects.hpp"

namespace verbena::softdev {
namespace {

constexpr std::size_t longest_command = 80;

struct words {
  std::array<std::string_view, 3> list;
  std::size_t count = 0;
};

// Nothing when there are none, too many, or an empty one.
std::optional<words> split(std::string_view text) noexcept {
  words found;
  while (true) {
    const auto end = text.find(' ');
    const std::string_view word = text.substr(0, end);
    if (word.empty() || found.count == found.list.size()) return std::nullopt;
    found.list[found.count++] = word;
    if (end == std::string_view::npos) return found;
    text.remove_prefix(end + 1);
  }
}

// A number from `least` to `most`, decimal or with 0x.
std::optional<std::uint64_t> number(std::string_view text, std::uint64_t least,
                                    std::uint64_t most) noexcept {
  const bool hexadecimal = text.substr(0, 2) == "0x";
  if (hexadecimal) text.remove_prefix(2);
  std::uint64_t value = 0;
  const auto [end, failed] =
      std::from_chars(text.data(), text.data() + text.size(), value, hexadecimal ? 16 : 10);
  if (failed != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value >= least && value <= most ? std::optional(value) : std::nullopt;
}

// Each command: 0 or an errno. The number of its words was checked.
int change_port(host& home, const words& command) {
  const std::string_view to = command.list[2];
  if (!number(command.list[1], 1, 1) || (to != "up" && to != "down")) return EINVAL;
  const bool up = to == "up";
  if (home.core().port().set_up(up))
    home.listeners().raise(up ? device_event::port_active : device_event::port_error);
  return 0;
}

int change_speed(host& home, const words& /*command*/) {
  home.set_speed(home.speed() == port_speed::edr ? port_speed::hdr : port_speed::edr);
  home.listeners().raise(device_event::speed_change);
  return 0;
}

int change_gids(host& home, const words& /*command*/) {
  if (!home.refresh_gids()) home.listeners().raise(device_event::gid_change);
  return 0;
}

// Where there is one address, it stays at its index.
int move_gids(host& home, const words& /*command*/) {
  if (home.looks().kind == persona_kind::roce) {
    home.move_gids();
  } else {
    home.listeners().raise(device_event::gid_change);
  }
  return 0;
}

int change_lid(host& home, const words& command) {
  constexpr std::uint64_t highest_unicast = 0xbfff;
  const auto lid = number(command.list[1], 1, highest_unicast);
  if (!lid) return EINVAL;
  if (home.looks().kind == persona_kind::infiniband)
    home.core().port().set_lid(static_cast<std::uint16_t>(*lid));
  home.listeners().raise(device_event::lid_change);
  return 0;
}

// Without numbers, the table becomes what it was at first.
int change_partitions(host& home, const words& /*command*/) {
  const auto& table = home.looks().partitions;
  for (std::size_t i = 0; i < table.size(); ++i) home.core().port().set_partition(i, table[i]);
  home.listeners().raise(device_event::pkey_change);
  return 0;
}

int change_partition(host& home, const words& command) {
  const auto index = number(command.list[1], 0, home.looks().partitions.size() - 1);
  const auto key = number(command.list[2], 0, 0xffff);
  if (!index || !key) return EINVAL;
  home.core().port().set_partition(*index, static_cast<std::uint16_t>(*key));
  home.listeners().raise(device_event::pkey_change);
  return 0;
}

// Another host of the subnet takes over, and back.
int change_manager(host& home, const words& /*command*/) {
  const std::uint16_t first = home.looks().sm_lid;
  if (first != 0) home.set_sm_lid(home.sm_lid() == first ? home.looks().lid : first);
  home.listeners().raise(device_event::sm_change);
  return 0;
}

int set_clock(host& /*home*/, const words& command) {
  const auto ticks = number(command.list[1], 0, device_clock::mask);
  if (!ticks) return EINVAL;
  device_clock::set(*ticks);
  return 0;
}

template <device_event What>
int only_tell(host& home, const words& /*command*/) {
  home.listeners().raise(What);
  return 0;
}

struct command_row {
  std::string_view name;
  std::size_t length;
  int (*act)(host& home, const words& command);
};
constexpr std::array commands = {
    command_row{"port", 3, &change_port},
    command_row{"gid-change", 1, &change_gids},
    command_row{"gid-move", 1, &move_gids},
    command_row{"lid-change", 2, &change_lid},
    command_row{"pkey-change", 1, &change_partitions},
    command_row{"pkey-change", 3, &change_partition},
    command_row{"sm-change", 1, &change_manager},
    command_row{"client-reregister", 1, &only_tell<device_event::client_reregister>},
    command_row{"speed-change", 1, &change_speed},
    command_row{"device-fatal", 1, &only_tell<device_event::fatal>},
    command_row{"clock", 2, &set_clock},
};

}  // namespace

int inject_event(host& home, std::string_view text) {
  const auto command = split(text);
  if (!command) return EINVAL;
  for (const command_row& row : commands)
    if (row.name == command->list[0] && row.length == command->count)
      return row.act(home, *command);
  return EINVAL;
}

}  // namespace verbena::softdev

using namespace verbena::softdev;

extern "C" int verbena_soft_inject_event(ibv_context* context, const char* command) {
  if (context == nullptr || command == nullptr) return EINVAL;
  const context_object& object = object_of(context);
  if (!usable(object)) return ENODEV;
  const std::size_t length = strnlen(command, longest_command + 1);
  if (length > longest_command) return EINVAL;
  return inject_event(*object.host, {command, length});
}
