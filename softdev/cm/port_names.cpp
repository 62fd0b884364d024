// SPDX-License-Identifier: MIT
#include "softdev/cm/port_names.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "softdev/cm/port_addresses.hpp"
#include "softdev/ipc/name_table.hpp"
#include "verbena/base/log.hpp"
#include "verbena/base/random.hpp"

namespace verbena::softdev::cm {
namespace {

constexpr int backlog = 1024;  // limited by net.core.somaxconn
constexpr int accepts_per_turn = 64;
constexpr int attempts_to_bind = 8;
constexpr std::uint32_t ports_of_space = 65536;

local_name name_of(const char* kind, unsigned first, unsigned second) noexcept {
  return local_name("verbena-cm-%s.%u.%x.%u", kind, static_cast<unsigned>(::geteuid()), first,
                    second);
}

local_name port_name(port_space space, std::uint16_t port) noexcept {
  return name_of("port", static_cast<unsigned>(space), port);
}

local_name name_of(const name_token& token) noexcept {
  return local_name("verbena-cm-port.%u.%016llx%016llx", static_cast<unsigned>(::geteuid()),
                    static_cast<unsigned long long>(token.high),
                    static_cast<unsigned long long>(token.low));
}

std::uint32_t entry_of(port_space space, std::uint16_t port) noexcept {
  std::uint32_t index = 0;
  switch (space) {
    case port_space::ipoib:
      break;
    case port_space::tcp:
      index = 1;
      break;
    case port_space::udp:
      index = 2;
      break;
    case port_space::ib:
      index = 3;
      break;
  }
  return name_entries::ports + index * ports_of_space + port;
}

socket_or_error bound_to(const local_name& where) noexcept {
  socket_or_error made = new_local_socket();
  if (made.socket && ::bind(made.socket.get(), where.get(), where.length()) != 0)
    return {{}, errno};
  return made;
}

port_claim failed(int code) { return {.socket = {}, .entry = {}, .error = code}; }

/// Claims a port by the table: while the entry is locked, no other process that has this table
/// claims the port. Processes without this table claim the port by its public name.
port_claim claim_by_table(name_table table, port_space space, std::uint16_t port) {
  const std::uint32_t entry = entry_of(space, port);
  if (const int held = table.lock(entry); held != 0) return failed(held);
  name_token token;
  socket_or_error made = bound_to(port_name(space, port));
  if (made.error == EADDRINUSE) {
    const name_holder found = find_holder(port_name(space, port));
    if (found.error == 0 && found.process.same_user) return failed(EADDRINUSE);
    for (int attempt = 0; made.error == EADDRINUSE && attempt < attempts_to_bind; ++attempt) {
      token = name_token::draw();
      made = bound_to(name_of(token));
    }
  }
  if (made.error != 0) return failed(made.error);
  // An entry without a token means that the port has its public name.
  if (const int unknown = table.publish(entry, token); unknown != 0) return failed(unknown);
  return {.socket = std::move(made.socket), .entry = std::move(table).release(), .error = 0};
}

void explain_refusal(port_space space, std::uint16_t port, const std::string& no_table) {
  const name_holder found = find_holder(port_name(space, port));
  if (found.error != 0 || found.process.same_user) return;
  log(log_level::warning,
      "soft0: connection manager: user " + std::to_string(found.process.user) + " (pid " +
          std::to_string(found.process.pid) + ") holds the name of port " + std::to_string(port) +
          " of this user; there are no names that other users cannot take: " + no_table);
}

/// Returns the table for look-ups, or nullptr if it does not exist yet. The table is never closed,
/// because any thread can be using it.
const name_table* shared_table() {
  static std::atomic<const name_table*> known = nullptr;
  if (const name_table* const open = known.load(std::memory_order_acquire)) return open;
  auto opened = name_table::open(if_missing::fail);
  if (!opened) return nullptr;
  auto* const made = new name_table(*std::move(opened));
  const name_table* none = nullptr;
  if (known.compare_exchange_strong(none, made, std::memory_order_acq_rel)) return made;
  delete made;
  return none;
}

}  // namespace

port_claim claim_port(port_space space, std::uint16_t port) {
  auto table = name_table::open(if_missing::create);
  if (table) return claim_by_table(*std::move(table), space, port);
  if (is_lack_of_resources(table.error().code())) return failed(table.error().code());
  socket_or_error made = bound_to(port_name(space, port));
  if (made.error == EADDRINUSE) explain_refusal(space, port, table.error().message());
  return {.socket = std::move(made.socket), .entry = {}, .error = made.error};
}

int open_port(int socket) noexcept { return ::listen(socket, backlog) == 0 ? 0 : errno; }

socket_or_error accept_peer(int socket) noexcept {
  return accept_own_user(socket, accepts_per_turn);
}

socket_or_error connect_to_port(port_space space, const address& to) {
  // Names with an address belong to later holders of the port; the first holder has the name
  // without an address.
  socket_or_error own = connect_to_address(space, to);
  if (own.error != ECONNREFUSED) return own;
  const name_table* const table = shared_table();
  const name_token token = table != nullptr ? table->find(entry_of(space, to.port)) : name_token();
  if (token) {
    socket_or_error made = connect_to_name(name_of(token));
    // The process that had the name may have exited.
    if (made.error != ECONNREFUSED && made.error != EACCES) return made;
  }
  return connect_to_name(port_name(space, to.port));
}

std::uint16_t ephemeral_ports::take_from(block& from) noexcept {
  if (from.taken == ~std::uint64_t{0}) return 0;
  // Continues after the last number, so that a freed number is not used again at once.
  while (((from.taken >> from.next) & 1U) != 0)
    from.next = static_cast<std::uint16_t>((from.next + 1U) % block_ports);
  const std::uint16_t index = from.next;
  from.taken |= std::uint64_t{1} << index;
  from.next = static_cast<std::uint16_t>((index + 1U) % block_ports);
  return static_cast<std::uint16_t>(first + from.number * block_ports + index);
}

std::uint16_t ephemeral_ports::take() {
  for (block& each : blocks_) {
    if (const std::uint16_t port = take_from(each)) return port;
  }
  block found = free_block();
  if (!found.holder) return 0;
  blocks_.push_back(std::move(found));
  return take_from(blocks_.back());
}

ephemeral_ports::block ephemeral_ports::free_block() {
  const std::uint32_t start = random_u32();
  for (std::uint16_t step = 0; step < public_blocks; ++step) {
    const auto number = static_cast<std::uint16_t>((start + step) % public_blocks);
    socket_or_error held = bound_to(name_of("block", 0, number));
    if (held.error == EADDRINUSE) continue;
    if (held.error != 0) return {};
    return {.holder = std::move(held.socket), .number = number};
  }
  auto table = name_table::open(if_missing::create);
  if (!table) {
    log(log_level::warning, "soft0: connection manager: the names of the port numbers are taken: " +
                                table.error().message());
    return {};
  }
  constexpr std::uint16_t private_blocks = block_count - public_blocks;
  for (std::uint16_t step = 0; step < private_blocks; ++step) {
    const auto number = static_cast<std::uint16_t>(public_blocks + (start + step) % private_blocks);
    if (table->lock(name_entries::port_blocks + number) != 0) continue;
    return {.holder = std::move(*table).release(), .number = number};
  }
  return {};
}

void ephemeral_ports::give_back(std::uint16_t port) noexcept {
  if (port < first) return;
  const auto number = static_cast<std::uint16_t>((port - first) / block_ports);
  const auto found = std::ranges::find(blocks_, number, &block::number);
  if (found != blocks_.end()) found->taken &= ~(std::uint64_t{1} << ((port - first) % block_ports));
}

}  // namespace verbena::softdev::cm
