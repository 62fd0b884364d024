// SPDX-License-Identifier: MIT
#include "softdev/host/permitted_addresses.hpp"

#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <span>

#include "softdev/wire/socket/udp_socket.hpp"

namespace verbena::softdev {
namespace {

/// Returns whether a look-up failed with `code` because there is no such interface.
bool is_without_interface(int code) noexcept { return code == ENXIO || code == ENODEV; }

}  // namespace

std::optional<address_prefix> address_prefix::from_text(const std::string& text) {
  const std::size_t slash = std::min(text.find('/'), text.size());
  const auto address = wire::from_text(text.substr(0, slash));
  if (!address) return std::nullopt;
  address_prefix made{.address = *address};
  if (slash == text.size()) return made;
  const unsigned before = wire::is_ipv4(*address) ? 96 : 0;
  unsigned length = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, wrong] = std::from_chars(text.data() + slash + 1, end, length);
  if (wrong != std::errc() || stop != end || length > made.bits - before) return std::nullopt;
  made.bits = before + length;
  return made;
}

bool address_prefix::contains(const wire::network_address& which) const noexcept {
  const std::size_t whole = bits / 8;
  if (!std::equal(which.begin(), which.begin() + whole, address.begin())) return false;
  if (bits % 8 == 0) return true;
  return ((which[whole] ^ address[whole]) >> (8 - bits % 8)) == 0;
}

void order_by_list(std::span<gid_entry> addresses, const std::vector<std::string>& list) {
  struct listed_part {
    std::optional<address_prefix> prefix;
    std::uint32_t interface;  ///< without a prefix; 0: no interface has the name
  };
  std::vector<listed_part> parts;
  parts.reserve(list.size());
  for (const std::string& each : list) {
    const auto prefix = address_prefix::from_text(each);
    parts.push_back({prefix, prefix ? 0 : ::if_nametoindex(each.c_str())});
  }
  const auto place_of = [&parts](const gid_entry& which) {
    const bool is_loopback = wire::is_ipv4(which.gid) && which.gid[12] == 127;
    const auto found = std::ranges::find_if(parts, [&](const listed_part& each) {
      if (each.prefix) return each.prefix->contains(which.gid);
      return each.interface != 0 && each.interface == which.interface_index;
    });
    return is_loopback ? parts.size() : static_cast<std::size_t>(found - parts.begin());
  };
  // Sorts by insertion: std::stable_sort of libstdc++ 12 uses a function that clang reports.
  for (auto next = addresses.begin(); next != addresses.end(); ++next)
    std::rotate(std::ranges::upper_bound(addresses.begin(), next, place_of(*next), {}, place_of),
                next, next + 1);
}

permitted_addresses::permitted_addresses(const std::vector<std::string>& only,
                                         const gid_table& gids)
    : gids_(gids), all_(only.empty()) {
  for (const std::string& each : only) {
    if (const auto address = address_prefix::from_text(each))
      addresses_.push_back(*address);
    else
      interfaces_.push_back(each);
  }
  indexes_.resize(interfaces_.size());
}

bool permitted_addresses::contains(const wire::network_address& own) const noexcept {
  return all_ || std::ranges::any_of(
                     addresses_, [&](const address_prefix& each) { return each.contains(own); });
}

std::optional<std::vector<std::uint32_t>> permitted_addresses::listed_interfaces() const {
  std::vector<std::uint32_t> found;
  for (const std::string& each : interfaces_) {
    const unsigned index = ::if_nametoindex(each.c_str());
    if (index != 0)
      found.push_back(index);
    else if (!is_without_interface(errno))
      return std::nullopt;
  }
  return found;
}

bool permitted_addresses::permits(const gid_entry& own) const noexcept {
  return find_permission(own).value_or(false);
}

/// Returns nullopt if the kernel cannot be asked now, for example because the process has no free
/// descriptor.
std::optional<bool> permitted_addresses::find_permission(const gid_entry& own) const noexcept {
  if (contains(own.gid)) return true;
  if (interfaces_.empty()) return false;
  std::array<char, IF_NAMESIZE> name{};
  if (::if_indextoname(own.interface_index, name.data()) != nullptr)
    return std::ranges::find(interfaces_, name.data()) != interfaces_.end();
  return is_without_interface(errno) ? std::optional(false) : std::nullopt;
}

/// Reads the permitted addresses from the GID table, if the table has changed. If the kernel cannot
/// be asked for all of them, they are read again in the next call.
void permitted_addresses::read_table() noexcept {
  // The version first: a change in between is read at the next call.
  const std::uint64_t now = gids_.version();
  if (now == version_) return;
  bool complete = true;
  count_ = 0;
  for (const gid_entry& each : gids_.all()) {
    if (each.empty()) continue;
    const std::optional<bool> permitted = find_permission(each);
    complete = complete && permitted.has_value();
    if (!permitted.value_or(false)) continue;
    receiving_[count_] = each.gid;
    receiving_at_[count_++] = each.interface_index;
  }
  for (std::size_t i = 0; i < interfaces_.size(); ++i) {
    indexes_[i] = ::if_nametoindex(interfaces_[i].c_str());
    complete = complete && (indexes_[i] != 0 || is_without_interface(errno));
  }
  if (complete) version_ = now;
}

bool permitted_addresses::receives_groups_at(std::uint32_t interface) noexcept {
  read_table();
  const auto known = std::span(receiving_at_).first(count_);
  return std::ranges::find(known, interface) != known.end();
}

std::vector<std::uint32_t> permitted_addresses::interfaces_for_groups(bool ipv4) const {
  std::vector<std::uint32_t> found;
  for (const gid_entry& each : gids_.all()) {
    const bool fits = !each.empty() && wire::is_ipv4(each.gid) == ipv4 &&
                      each.interface_index != wire::loopback_interface && permits(each);
    if (fits && std::ranges::find(found, each.interface_index) == found.end())
      found.push_back(each.interface_index);
  }
  return found;
}

bool permitted_addresses::receives(const wire::network_address& own,
                                   std::uint32_t interface) noexcept {
  read_table();
  const auto known = std::span(receiving_).first(count_);
  if (std::ranges::find(known, own) == known.end()) return false;
  return contains(own) || interface == wire::loopback_interface ||
         std::ranges::find(indexes_, interface) != indexes_.end();
}

std::uint32_t permitted_addresses::interface_of(const wire::network_address& own) const noexcept {
  const gid_table::entries all = gids_.all();
  const auto found = std::ranges::find(all, own, &gid_entry::gid);
  return found != all.end() ? found->interface_index : 0;
}

}  // namespace verbena::softdev
