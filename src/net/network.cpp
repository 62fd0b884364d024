// SPDX-License-Identifier: MIT
#include "verbena/net/network.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/bringup/own_names.hpp"
#include "src/net/network_text.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::inline VERBENA_ABI::net {
namespace detail {

error network_place::refuse(const std::string& why) const {
  return error::invalid_argument(
      "network", line == 0 ? std::string(file) : fmt::format("{}:{}", file, line), why);
}

namespace {

std::string shown(const network_value& of) {
  if (const auto* const number = std::get_if<std::int64_t>(&of)) return std::to_string(*number);
  if (const auto* const text = std::get_if<std::string>(&of)) return fmt::format("\"{}\"", *text);
  return std::string(std::get<other_value>(of).kind);
}

template <class T>
result<void> set(std::optional<T>& member, const std::string& name, network_value&& value,
                 const network_place& at) {
  if (member) return at.refuse(name + " occurs twice");
  auto* const of_type = std::get_if<T>(&value);
  if (of_type == nullptr)
    return at.refuse(fmt::format("{} is {}; it must be {}", name, shown(value),
                                 std::is_same_v<T, std::string> ? "a string" : "an integer"));
  member.emplace(std::move(*of_type));
  return {};
}

}  // namespace

std::string name_of_key(bool is_peer, std::size_t index, std::string_view key) {
  if (!is_peer) return fmt::format("hosts[{}].{}", index, key);
  return key == "port" ? "rrddmma.port" : fmt::format("peers[{}]", index);
}

result<void> set_member(network_entry& entry, std::size_t index, std::string_view key,
                        network_value value, const network_place& at) {
  const auto name = name_of_key(entry.is_peer, index, key);
  if (key == "rankid") return set(entry.rank, name, std::move(value), at);
  if (key == "port") return set(entry.port, name, std::move(value), at);
  if (key == "hostname") return set(entry.host, name, std::move(value), at);
  if (key == "ibdev") return set(entry.device, name, std::move(value), at);
  if (key == "comment") return set(entry.comment, name, std::move(value), at);
  return {};
}

}  // namespace detail

namespace {

using detail::network_entry;
using detail::network_place;

constexpr std::size_t max_file_bytes = std::size_t{4} << 20U;

/// A host and its position for errors. Hosts from network::create() have no line.
struct placed_host {
  network_host host;
  network_place at;
  std::size_t index;
  bool is_peer = false;

  [[nodiscard]] std::string name_of(std::string_view key) const {
    return detail::name_of_key(is_peer, index, key);
  }
};

result<network_host> host_of(const network_entry& from, const network_place& at,
                             std::size_t index) {
  const auto refuse = [&](std::string_view key, std::string_view why) {
    const bool has_line = key == "port" && from.port_line != 0;
    return network_place{at.file, has_line ? from.port_line : at.line}.refuse(
        fmt::format("{} {}", detail::name_of_key(from.is_peer, index, key), why));
  };
  if (!from.rank) return refuse("rankid", "is missing");
  if (!from.host) return refuse("hostname", "is missing");
  if (!from.port) return refuse("port", "is missing");
  if (*from.rank < 0 || *from.rank >= std::int64_t{max_ranks})
    return refuse("rankid", fmt::format("is {}; it must be 0 to {}", *from.rank, max_ranks - 1));
  if (*from.port < 1 || *from.port > 65535)
    return refuse("port", fmt::format("is {}; it must be 1 to 65535", *from.port));
  return network_host{.rank = static_cast<std::uint32_t>(*from.rank),
                      .host = *from.host,
                      .port = static_cast<std::uint16_t>(*from.port),
                      .device = from.device.value_or(""),
                      .comment = from.comment.value_or("")};
}

bool is_name(std::string_view text, std::size_t most) {
  return text.size() <= most &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

// Sorts and checks the hosts. Returns the first error in rank order.
result<std::vector<network_host>> checked(std::vector<placed_host> hosts, std::string_view file) {
  if (hosts.empty()) return network_place{file}.refuse("there are no hosts");
  if (hosts.size() > max_ranks)
    return network_place{file}.refuse(
        fmt::format("{} hosts exceed the limit of {}", hosts.size(), max_ranks));
  std::ranges::sort(hosts, {},
                    [](const placed_host& of) { return std::pair(of.host.rank, of.index); });
  std::vector<network_host> sorted;
  for (auto& each : hosts) {
    const auto expected = static_cast<std::uint32_t>(sorted.size());
    const std::uint32_t rank = each.host.rank;
    if (expected != 0 && rank == expected - 1)
      return each.at.refuse(
          fmt::format("rank {} occurs twice; its first host is {}", rank, sorted.back().host));
    if (rank != expected)
      return each.at.refuse(fmt::format("rank {} is missing; the next rank is {} ({})", expected,
                                        rank, each.host.host));
    if (each.host.host.empty() || !is_name(each.host.host, 253))
      return each.at.refuse(each.name_of("hostname") +
                            " must be 1 to 253 printable characters of ASCII without spaces");
    if (!is_name(each.host.device, 63))
      return each.at.refuse(each.name_of("ibdev") +
                            " must be at most 63 printable characters of ASCII without spaces");
    if (each.host.port == 0)
      return each.at.refuse(each.name_of("port") + " is 0; it must be 1 to 65535");
    sorted.push_back(std::move(each.host));
  }
  return sorted;
}

result<std::vector<network_host>> hosts_of(const std::vector<network_entry>& entries,
                                           std::string_view file) {
  std::vector<placed_host> hosts;
  hosts.reserve(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const network_place at{file, entries[i].line};
    VERBENA_TRY(auto host, host_of(entries[i], at, i));
    hosts.push_back({.host = std::move(host), .at = at, .index = i, .is_peer = entries[i].is_peer});
  }
  return checked(std::move(hosts), file);
}

result<std::string> contents_of(const std::string& file) {
  const unique_fd opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!opened) return error::from_errno(errno, "open", file);
  std::string text;
  std::array<char, 16384> piece;
  while (true) {
    const ssize_t count = ::read(opened.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return error::from_errno(errno, "read", file);
    if (count == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(count));
    if (text.size() > max_file_bytes)
      return network_place{file}.refuse("the file exceeds the limit of 4 MiB");
  }
}

}  // namespace

result<network> network::create(std::vector<network_host> hosts) {
  std::vector<placed_host> placed;
  placed.reserve(hosts.size());
  for (std::size_t i = 0; i < hosts.size(); ++i)
    placed.push_back({.host = std::move(hosts[i]), .at = {"hosts"}, .index = i});
  VERBENA_TRY(auto sorted, checked(std::move(placed), "hosts"));
  return network(std::move(sorted));
}

result<network> network::read(const std::filesystem::path& file) {
  VERBENA_TRY(const auto text, contents_of(file.string()));
  return file.extension() == ".toml" ? from_toml(text, file.string())
                                     : from_json(text, file.string());
}

result<network> network::from_json(std::string_view text, std::string_view name) {
  VERBENA_TRY(const auto entries, detail::parse_network_json(text, name));
  VERBENA_TRY(auto hosts, hosts_of(entries, name));
  return network(std::move(hosts));
}

result<network> network::from_toml(std::string_view text, std::string_view name) {
  VERBENA_TRY(const auto entries, detail::parse_network_toml(text, name));
  VERBENA_TRY(auto hosts, hosts_of(entries, name));
  return network(std::move(hosts));
}

network network::first(std::uint32_t count) const {
  VERBENA_ASSERT(count >= 1 && count <= size(), "a network has at least one and at most all hosts");
  return network({hosts_.begin(), hosts_.begin() + count});
}

result<std::uint32_t> network::own_rank() const {
  VERBENA_TRY(const auto names, bringup::detail::own_names());
  const network_host* found = nullptr;
  for (const auto& each : hosts_) {
    if (!names.contains(bringup::detail::usual_text(each.host))) continue;
    if (found != nullptr)
      return error::invalid_argument(
          "network::own_rank", each.host,
          fmt::format("the ranks {} and {} are both on this host; set RANK in the environment of "
                      "each process",
                      found->rank, each.rank));
    found = &each;
  }
  if (found == nullptr)
    return error::invalid_argument("network::own_rank", {},
                                   "no host of the network is an address or the name of this host; "
                                   "compare with `ip address` and `hostname`, or set RANK");
  return found->rank;
}

membership network::membership_of(std::uint32_t rank) const {
  VERBENA_ASSERT(rank < size(), "the rank is not in the network");
  return {.rank = rank,
          .size = size(),
          .store = {.host = hosts_.front().host, .port = hosts_.front().port}};
}

std::string network::to_json() const {
  auto list = nlohmann::ordered_json::array();
  for (const auto& each : hosts_) {
    nlohmann::ordered_json made{{"hostname", each.host}, {"port", each.port}};
    if (!each.device.empty()) made["ibdev"] = each.device;
    made["rankid"] = each.rank;
    if (!each.comment.empty()) made["comment"] = each.comment;
    list.push_back(std::move(made));
  }
  constexpr int spaces = 2;
  // Bytes that are not valid UTF-8 are replaced by U+FFFD.
  return nlohmann::ordered_json{{"hosts", std::move(list)}}.dump(
      spaces, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace verbena::inline VERBENA_ABI::net
