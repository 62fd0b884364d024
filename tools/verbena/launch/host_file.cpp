// SPDX-License-Identifier: MIT
#include "tools/verbena/launch/host_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <optional>

#include "verbena/base/fd.hpp"
#include "verbena/net/membership.hpp"

namespace verbena::tool {
namespace {

constexpr std::size_t max_name_bytes = 253;
constexpr std::string_view blanks = " \t\r";

// Returns whether `text` is a valid name. A leading `-` is invalid, because ssh would take the name
// as an option.
bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= max_name_bytes && text.front() != '-' &&
         std::ranges::all_of(text, [](unsigned char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '.' || c == '-' || c == '_' || c == ':' || c == '%';
         });
}

std::optional<std::uint32_t> number_of(std::string_view text, std::uint32_t most) {
  std::uint32_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc() || stop != end || value == 0 || value > most) return std::nullopt;
  return value;
}

std::string_view next_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
  const auto word = line.substr(0, line.find_first_of(blanks));
  line.remove_prefix(word.size());
  return word;
}

struct place {
  std::string_view file;
  std::size_t line = 0;

  [[nodiscard]] error refuse(const std::string& why) const {
    return error::invalid_argument("verbena launch", std::string(file) + ":" + std::to_string(line),
                                   why);
  }
};

result<std::uint32_t> read_number(const place& at, std::string_view key, std::string_view value,
                                  std::uint32_t most) {
  const auto number = number_of(value, most);
  if (number) return *number;
  return at.refuse(std::string(key) + "=" + std::string(value) + " is not a number from 1 to " +
                   std::to_string(most));
}

result<void> read_word(const place& at, std::string_view word, launch_host& host,
                       std::uint32_t& most_slots) {
  const auto sign = word.find('=');
  const auto key = word.substr(0, sign);
  const auto value = sign == std::string_view::npos ? std::string_view() : word.substr(sign + 1);
  if (key == "slots") {
    VERBENA_TRY(host.slots, read_number(at, key, value, net::max_ranks));
  } else if (key == "max_slots" || key == "max-slots") {
    VERBENA_TRY(most_slots, read_number(at, key, value, 1U << 30U));
  } else if (key == "port") {
    VERBENA_TRY(const auto port, read_number(at, key, value, 65535));
    host.port = static_cast<std::uint16_t>(port);
  } else if (key == "user") {
    if (!is_name(value)) return at.refuse("user=" + std::string(value) + " is not a user name");
    host.user = value;
  } else {
    return at.refuse("'" + std::string(word) +
                     "' is not slots=N, max_slots=N, user=USER or port=PORT");
  }
  return {};
}

result<launch_host> read_line(const place& at, std::string_view first, std::string_view rest) {
  launch_host host;
  if (const auto sign = first.find('@'); sign != std::string_view::npos) {
    host.user = first.substr(0, sign);
    if (!is_name(host.user)) return at.refuse("'" + host.user + "' is not a user name");
    first.remove_prefix(sign + 1);
  }
  if (!is_name(first))
    return at.refuse("'" + std::string(first) +
                     "' is not a host: a name, or an IP address without brackets");
  host.name = first;
  for (auto word = next_word(rest); !word.empty(); word = next_word(rest))
    VERBENA_TRY_VOID(read_word(at, word, host, host.most_slots));
  return host;
}

result<void> add(const place& at, std::vector<launch_host>& to, launch_host host) {
  auto known = std::ranges::find_if(to, [&](const launch_host& each) {
    return each.name == host.name && each.user == host.user && each.port == host.port;
  });
  if (known == to.end()) {
    known = to.insert(to.end(), std::move(host));
  } else {
    known->slots += host.slots;
    known->most_slots = std::min(known->most_slots, host.most_slots);
  }
  if (known->slots > known->most_slots)
    return at.refuse("slots=" + std::to_string(known->slots) +
                     " exceeds max_slots=" + std::to_string(known->most_slots));
  return {};
}

}  // namespace

result<std::vector<launch_host>> parse_hosts(std::string_view text, std::string_view name) {
  std::vector<launch_host> hosts;
  std::uint64_t slots = 0;
  for (place at{name, 1}; !text.empty(); ++at.line) {
    const auto end = std::min(text.find('\n'), text.size());
    auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find('#'));
    const auto first = next_word(line);
    if (first.empty()) continue;
    VERBENA_TRY(auto host, read_line(at, first, line));
    slots += host.slots;
    if (slots > net::max_ranks)
      return at.refuse("more than " + std::to_string(net::max_ranks) + " slots in this file");
    VERBENA_TRY_VOID(add(at, hosts, std::move(host)));
  }
  if (hosts.empty())
    return error::invalid_argument("verbena launch", std::string(name), "the file has no hosts");
  return hosts;
}

result<std::vector<launch_host>> read_hosts(const std::string& file) {
  constexpr std::size_t most = std::size_t{4} << 20U;
  const auto failed = [&](int code) {
    return error::from_errno(code, "read", file, "the list of hosts could not be read");
  };
  const unique_fd in(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!in) return failed(errno);
  std::string text;
  std::array<char, 4096> part;
  ssize_t bytes = 0;
  while ((bytes = ::read(in.get(), part.data(), part.size())) > 0) {
    text.append(part.data(), static_cast<std::size_t>(bytes));
    if (text.size() > most) return failed(EFBIG);
  }
  if (bytes < 0) return failed(errno);
  return parse_hosts(text, file);
}

result<std::vector<launch_host>> place_ranks(std::vector<launch_host> hosts, std::uint32_t ranks,
                                             std::string_view name) {
  if (ranks == 0) return hosts;
  std::uint32_t placed = 0;
  for (auto& each : hosts) {
    each.slots = std::min(each.slots, ranks - placed);
    placed += each.slots;
  }
  if (placed < ranks)
    return error::invalid_argument("verbena launch", std::string(name),
                                   std::to_string(ranks) + " ranks exceed the " +
                                       std::to_string(placed) +
                                       " slots of the hosts; add hosts, or raise slots=N");
  std::erase_if(hosts, [](const launch_host& each) { return each.slots == 0; });
  return hosts;
}

}  // namespace verbena::tool
