// SPDX-License-Identifier: MIT
#include "src/bringup/disagreement.hpp"

#include <array>
#include <cstdio>
#include "verbena/verbs/gid_scope.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {
namespace {

constexpr std::size_t most_addresses_shown = 4;

std::string name_of(const offer& of) { return of.device.empty() ? "the device" : of.device; }

// Returns `the port of mlx5_0 here is`, `the peer's port (mlx5_1) is` or `both ports are`.
std::string port_is(side whose, const offer& ours, const offer& theirs) {
  switch (whose) {
    case side::ours:
      return "the port of " + name_of(ours) + " here is";
    case side::theirs:
      return "the peer's port (" + name_of(theirs) + ") is";
    case side::both:
      break;
  }
  return "both ports are";
}

// Returns the words at the end of a remedy that name the side.
std::string where(side whose) {
  switch (whose) {
    case side::ours:
      return " here";
    case side::theirs:
      return " at the peer";
    case side::both:
      break;
  }
  return " on both sides";
}

std::string key_text(std::uint16_t key) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "0x%04x", key);
  return text.data();
}

// Returns the first addresses of an offer, each as `::ffff:192.0.2.1/24 (RoCE v2)`.
std::string addresses_of(const offer& of) {
  std::string text;
  for (std::size_t i = 0; i < of.gids.size(); ++i) {
    if (i == most_addresses_shown)
      return text + " and " + std::to_string(of.gids.size() - i) + " more";
    const auto& each = of.gids[i];
    if (!text.empty()) text += ", ";
    text += verbena::to_string(each.gid);
    const unsigned hidden = each.gid.is_ipv4_mapped() ? 96 : 0;
    if (each.prefix_bits >= hidden && each.prefix_bits != 0)
      text += "/" + std::to_string(each.prefix_bits - hidden);
    text += " (" + verbena::to_string(each.type) + ")";
  }
  return text;
}

std::string words_of_partition(const offer& ours, const offer& theirs) {
  const bool limited = ((ours.partition_key ^ theirs.partition_key) & 0x7fffU) == 0;
  std::string text =
      limited ? "two limited members of a partition cannot communicate: " : "no common partition: ";
  return text + "P_Key " + key_text(ours.partition_key) + " here and " +
         key_text(theirs.partition_key) + " at the peer; choose another with .pkey_index";
}

std::string words_of_types(side whose, const offer& ours, const offer& theirs) {
  const std::string remedy =
      "; set both ports to RoCE v2, or choose GIDs of one type with .gid_index";
  if (whose == side::theirs)
    return "the peer offers only RoCE v1, and this side has " + addresses_of(ours) + remedy;
  if (whose == side::ours)
    return "this side has only RoCE v1, and the peer offers " + addresses_of(theirs) + remedy;
  return "the addresses have no type in common: here " + addresses_of(ours) + ", at the peer " +
         addresses_of(theirs) + remedy;
}

std::string words_of_subnets(const offer& ours, const offer& theirs) {
  std::string text =
      "no common subnet: here " + addresses_of(ours) + ", at the peer " + addresses_of(theirs);
  if (ours.link_layer == link_layer::infiniband)
    return text + "; ports of two InfiniBand subnets need a router: choose GIDs with .gid_index";
  return text + "; give both ports addresses of one subnet, or choose GIDs with .gid_index";
}

std::string shared_address(const offer& ours, const offer& theirs) {
  for (const auto& each : ours.gids)
    for (const auto& other : theirs.gids)
      if (each.gid == other.gid && scope_of(each.gid) != gid_scope::link_local &&
          scope_of(each.gid) != gid_scope::loopback)
        return verbena::to_string(each.gid);
  return {};
}

std::string words_of_links(const offer& ours, const offer& theirs) {
  return verbena::to_string(ours.link_layer) + " here (" + name_of(ours) + ") and " +
         verbena::to_string(theirs.link_layer) + " at the peer (" + name_of(theirs) +
         "): these networks are not connected; choose another device or port on one side";
}

std::string words_of_iwarp(side whose, const offer& ours, const offer& theirs) {
  std::string who = "both devices are";
  if (whose == side::ours) who = name_of(ours) + " here is";
  if (whose == side::theirs) who = "the peer's device (" + name_of(theirs) + ") is";
  return who +
         " iWARP: only the connection manager (verbena::cm) connects its queue pairs; use it on "
         "both "
         "sides";
}

}  // namespace

std::string words_of(mismatch reason, side whose, const offer& ours, const offer& theirs) {
  const std::string who = port_is(whose, ours, theirs);
  switch (reason) {
    case mismatch::transport:
      return to_string(ours.transport) + " here and " + to_string(theirs.transport) +
             " at the peer: both sides must create queue pairs of one transport";
    case mismatch::iwarp:
      return words_of_iwarp(whose, ours, theirs);
    case mismatch::port_down:
      return who + " down: `rdma link` shows why; `ip link set NETDEV up` brings it up";
    case mismatch::link_layer:
      return words_of_links(ours, theirs);
    case mismatch::fabric:
      return to_string(ours.fabric) + " here (" + name_of(ours) + ") and " +
             to_string(theirs.fabric) + " at the peer (" + name_of(theirs) +
             "): soft0 reaches adapters only with VERBENA_SOFTDEV_WIRE=on; set it" + where(whose) +
             ", or set VERBENA_SOFTDEV=only or =off on both sides";
    case mismatch::host:
      return "soft0 on two hosts, or in two network namespaces of one host: set "
             "VERBENA_SOFTDEV_WIRE=on" +
             where(whose) + ", and give each host an address of the other's subnet";
    case mismatch::partition:
      return words_of_partition(ours, theirs);
    case mismatch::no_lid:
      return who +
             " without a LID: no subnet manager assigned one; start one, for example `opensm -B`";
    case mismatch::no_gid:
      return who + " without a GID: give the network interface an address with `ip address add`";
    case mismatch::gid_type:
      return words_of_types(whose, ours, theirs);
    case mismatch::same_address:
      return "both hosts have " + shared_address(ours, theirs) +
             ", and no other subnet is common: each host reaches itself at this address; give "
             "both ports addresses of one subnet";
    case mismatch::no_common_subnet:
      return words_of_subnets(ours, theirs);
  }
  return {};
}

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
