// SPDX-License-Identifier: MIT
#include "verbena/bringup/agreement.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <tuple>
#include <utility>

#include "src/bringup/disagreement.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/verbs/gid_scope.hpp"

namespace verbena::inline VERBENA_ABI::bringup {
namespace {

constexpr unsigned bits_of_byte = 8;

bool have_equal_bits(const gid& one, const gid& other, unsigned bits) {
  for (unsigned i = 0; i < one.bytes().size() && bits > 0; ++i) {
    const unsigned here = std::min(bits, bits_of_byte);
    const unsigned mask = 0xff00U >> here & 0xffU;
    if (((one.bytes()[i] ^ other.bytes()[i]) & mask) != 0) return false;
    bits -= here;
  }
  return true;
}

// Returns whether both addresses are in one subnet. The longer of the two prefixes applies, so each
// host considers the other's address to be in its own subnet.
bool in_one_subnet(const offered_gid& one, const offered_gid& other) {
  if (one.gid == other.gid) return true;
  const auto bits = std::max(one.prefix_bits, other.prefix_bits);
  return bits != 0 && have_equal_bits(one.gid, other.gid, bits);
}

// The offers whose GIDs can be chosen.
struct both_sides {
  const offer& ours;
  const offer& theirs;

  [[nodiscard]] bool one_host() const { return ours.host == theirs.host; }
  [[nodiscard]] bool any_explicit() const { return ours.explicit_gid || theirs.explicit_gid; }
};

bool has_wide_address(const offer& of, gid_type type) {
  return std::ranges::any_of(of.gids, [&](const offered_gid& each) {
    const auto scope = scope_of(each.gid);
    return each.type == type && (scope == gid_scope::ipv4 || scope == gid_scope::ipv6);
  });
}

// Link-local addresses are used only if a side has no other address of this type. If both sides
// have other addresses, but in different subnets, they are probably not on one link.
std::optional<reach> reach_on_link(const both_sides& of, gid_type type) {
  if (has_wide_address(of.ours, type) && has_wide_address(of.theirs, type)) return std::nullopt;
  return reach::link_local;
}

std::optional<reach> reach_by_rule(const both_sides& of, const offered_gid& one,
                                   const offered_gid& other) {
  const bool route = one.type == gid_type::roce_v2 && one.routed && other.routed;
  const bool close = in_one_subnet(one, other);
  switch (scope_of(one.gid)) {
    case gid_scope::ipv4:
      if (close) return reach::same_subnet_ipv4;
      return route ? std::optional(reach::routed_ipv4) : std::nullopt;
    case gid_scope::ipv6:
      if (close) return reach::same_subnet_ipv6;
      return route ? std::optional(reach::routed_ipv6) : std::nullopt;
    case gid_scope::loopback:
      return of.one_host() && one.gid.is_ipv4_mapped() == other.gid.is_ipv4_mapped()
                 ? std::optional(reach::loopback)
                 : std::nullopt;
    case gid_scope::link_local:
      return reach_on_link(of, one.type);
  }
  return std::nullopt;
}

// Returns how `one` of this side reaches `other` of the peer; nullopt if it does not.
std::optional<reach> reach_of(const both_sides& of, const offered_gid& one,
                              const offered_gid& other) {
  if (one.type != other.type) return std::nullopt;
  // If two hosts have the same address, packets to it stay on the sending host.
  if (one.gid == other.gid && !of.one_host()) return std::nullopt;
  if (scope_of(one.gid) == scope_of(other.gid))
    if (const auto found = reach_by_rule(of, one, other)) return found;
  return of.any_explicit() ? std::optional(reach::user_selected) : std::nullopt;
}

struct chosen_pair {
  std::size_t ours;
  std::size_t theirs;
  bringup::reach reach;
};

// Returns the best pair. Both sides order the pairs equally, so they choose the same pair.
std::optional<chosen_pair> choose_pair(const both_sides& of, bool ours_comes_first) {
  const auto key = [&](const chosen_pair& pair) {
    const auto& one = of.ours.gids[pair.ours];
    const auto& other = of.theirs.gids[pair.theirs];
    const int older = one.type == gid_type::roce_v2 ? 0 : 1;
    const int differ = one.gid == other.gid ? 0 : 1;
    const int loose = 128 - std::min(one.prefix_bits, other.prefix_bits);
    return std::tuple(older, pair.reach, differ, loose, pair.ours + pair.theirs,
                      ours_comes_first ? pair.ours : pair.theirs);
  };
  std::optional<chosen_pair> best;
  for (std::size_t i = 0; i < of.ours.gids.size(); ++i)
    for (std::size_t j = 0; j < of.theirs.gids.size(); ++j) {
      const auto found = reach_of(of, of.ours.gids[i], of.theirs.gids[j]);
      if (!found) continue;
      const chosen_pair pair{.ours = i, .theirs = j, .reach = *found};
      if (!best || key(pair) < key(*best)) best = pair;
    }
  return best;
}

bool has_type(const offer& of, gid_type type) {
  return std::ranges::find(of.gids, type, &offered_gid::type) != of.gids.end();
}

bool has_v1_only(const offer& of) {
  return std::ranges::all_of(
      of.gids, [](const offered_gid& each) { return each.type == gid_type::roce_v1; });
}

bool share_a_type(const offer& one, const offer& other) {
  return std::ranges::any_of(one.gids,
                             [&](const offered_gid& each) { return has_type(other, each.type); });
}

bool share_an_address(const offer& one, const offer& other) {
  return std::ranges::any_of(one.gids, [&](const offered_gid& each) {
    const auto scope = scope_of(each.gid);
    const bool wide = scope == gid_scope::ipv4 || scope == gid_scope::ipv6;
    return wide && std::ranges::find(other.gids, each.gid, &offered_gid::gid) != other.gids.end();
  });
}

std::optional<side> side_of(bool ours, bool theirs) {
  if (ours) return theirs ? side::both : side::ours;
  return theirs ? std::optional(side::theirs) : std::nullopt;
}

using found_mismatch = std::pair<mismatch, side>;

found_mismatch why_no_pair(const both_sides& of) {
  const auto& [ours, theirs] = of;
  if (const auto whose = side_of(ours.gids.empty(), theirs.gids.empty()))
    return {mismatch::no_gid, *whose};
  if (!share_a_type(ours, theirs))
    return {mismatch::gid_type,
            side_of(has_v1_only(ours), has_v1_only(theirs)).value_or(side::both)};
  if (!of.one_host() && share_an_address(ours, theirs)) return {mismatch::same_address, side::both};
  return {mismatch::no_common_subnet, side::both};
}

bool partitions_meet(std::uint16_t one, std::uint16_t other) {
  constexpr unsigned full_member = 0x8000;
  return ((one ^ other) & 0x7fffU) == 0 && ((one | other) & full_member) != 0 &&
         (one & 0x7fffU) != 0;
}

// Returns the first mismatch that does not depend on addresses.
std::optional<found_mismatch> find_mismatch(const offer& ours, const offer& theirs) {
  const auto both = [](mismatch reason) { return found_mismatch(reason, side::both); };
  if (ours.transport != theirs.transport) return both(mismatch::transport);
  if (const auto whose = side_of(ours.fabric == fabric::iwarp, theirs.fabric == fabric::iwarp))
    return found_mismatch(mismatch::iwarp, *whose);
  if (const auto whose = side_of(!ours.port_up, !theirs.port_up))
    return found_mismatch(mismatch::port_down, *whose);
  if (ours.link_layer != theirs.link_layer) return both(mismatch::link_layer);
  if (const auto whose =
          side_of(ours.fabric == fabric::this_host, theirs.fabric == fabric::this_host)) {
    if (ours.fabric == fabric::network || theirs.fabric == fabric::network)
      return found_mismatch(mismatch::fabric, *whose);
    if (ours.host != theirs.host) return found_mismatch(mismatch::host, *whose);
  }
  if (!partitions_meet(ours.partition_key, theirs.partition_key)) return both(mismatch::partition);
  return std::nullopt;
}

bool in_one_infiniband_subnet(const offer& ours, const offer& theirs) {
  return ours.gids.empty() || theirs.gids.empty() ||
         ours.gids[0].gid.subnet_prefix() == theirs.gids[0].gid.subnet_prefix();
}

// Addresses an InfiniBand peer by its LID, and also by a GID if a side chose one.
std::optional<found_mismatch> address_by_lid(const both_sides& of, agreement& into) {
  const auto& [ours, theirs] = of;
  if (const auto whose = side_of(ours.lid == lid(0), theirs.lid == lid(0)))
    return found_mismatch(mismatch::no_lid, *whose);
  if (of.any_explicit()) {
    if (const auto whose = side_of(ours.gids.empty(), theirs.gids.empty()))
      return found_mismatch(mismatch::no_gid, *whose);
    into.reach = reach::user_selected;
    into.our_gid = into.their_gid = 0;
    return std::nullopt;
  }
  into.reach = reach::lid;
  if (in_one_infiniband_subnet(ours, theirs)) return std::nullopt;
  return found_mismatch(mismatch::no_common_subnet, side::both);
}

std::optional<found_mismatch> address_by_gid(const both_sides& of, agreement& into) {
  const bool ours_comes_first = of.ours.encode() < of.theirs.encode();
  const auto pair = choose_pair(of, ours_comes_first);
  if (!pair) return why_no_pair(of);
  into.reach = pair->reach;
  into.our_gid = pair->ours;
  into.their_gid = pair->theirs;
  return std::nullopt;
}

agreed_direction direction(const offered_reliability& from, const offered_reliability& to) {
  agreed_direction out{.reads = std::min(from.initiator_depth, to.responder_resources),
                       .timeout = from.timeout};
  const auto needed = std::min(to.ack_delay_exponent, longest_raised_timeout_exponent);
  if (!from.timeout.is_infinite() && from.timeout.exponent() < needed)
    out.timeout = ack_timeout::from_exponent(needed);
  return out;
}

}  // namespace

std::string to_string(reach of) {
  switch (of) {
    case reach::same_subnet_ipv4:
    case reach::same_subnet_ipv6:
      return "same subnet";
    case reach::routed_ipv4:
    case reach::routed_ipv6:
      return "routed";
    case reach::loopback:
      return "loopback";
    case reach::link_local:
      return "link-local";
    case reach::user_selected:
      return "user-selected";
    case reach::lid:
      return "LID";
  }
  return "unknown (" + std::to_string(static_cast<unsigned>(of)) + ")";
}

decision::decision(agreement made) noexcept : agreed_(true), made_(made) {}

decision::decision(disagreement why) noexcept : agreed_(false), why_(std::move(why)) {}

const agreement& decision::value() const {
  VERBENA_ASSERT(agreed_, "value() of a decision with a mismatch: check has_value() first");
  return made_;
}

const disagreement& decision::error() const {
  VERBENA_ASSERT(!agreed_, "error() of a decision without a mismatch: check has_value() first");
  return why_;
}

decision decide(const offer& ours, const offer& theirs) {
  const both_sides of{.ours = ours, .theirs = theirs};
  agreement made;
  auto found = find_mismatch(ours, theirs);
  if (!found)
    found = ours.link_layer == link_layer::infiniband ? address_by_lid(of, made)
                                                      : address_by_gid(of, made);
  if (found)
    return disagreement{.reason = found->first,
                        .whose = found->second,
                        .text = detail::words_of(found->first, found->second, ours, theirs)};
  made.mtu = std::min(ours.mtu, theirs.mtu);
  made.inline_bytes = std::min(ours.inline_bytes, theirs.inline_bytes);
  made.ours = direction(ours.reliability, theirs.reliability);
  made.theirs = direction(theirs.reliability, ours.reliability);
  made.probe = ours.probe && theirs.probe;
  return made;
}

std::string to_string(const agreement& made, const offer& ours, const offer& theirs) {
  std::string text;
  if (made.our_gid && made.their_gid) {
    const auto& from = ours.gids[*made.our_gid];
    text = to_string(from.type) + " " + to_string(from.gid) + " to " +
           to_string(theirs.gids[*made.their_gid].gid);
  } else {
    text = "InfiniBand LID " + std::to_string(ours.lid.value()) + " to " +
           std::to_string(theirs.lid.value());
  }
  text += " (" + to_string(made.reach) + "), MTU " + to_string(made.mtu);
  if (ours.transport == offered_transport::rc)
    text += ", reads " + std::to_string(made.ours.reads) + " and " +
            std::to_string(made.theirs.reads) + ", ACK timeout " + to_string(made.ours.timeout) +
            " and " + to_string(made.theirs.timeout);
  if (made.inline_bytes != 0) text += ", inline " + std::to_string(made.inline_bytes);
  return text;
}

error to_error(const disagreement& why, std::string_view object) {
  int code = ENETUNREACH;
  switch (why.reason) {
    case mismatch::transport:
      code = EPROTOTYPE;
      break;
    case mismatch::iwarp:
    case mismatch::link_layer:
    case mismatch::fabric:
      code = EOPNOTSUPP;
      break;
    case mismatch::port_down:
      code = ENETDOWN;
      break;
    case mismatch::partition:
      code = EACCES;
      break;
    case mismatch::no_gid:
    case mismatch::no_lid:
      code = EADDRNOTAVAIL;
      break;
    case mismatch::host:
    case mismatch::gid_type:
    case mismatch::same_address:
    case mismatch::no_common_subnet:
      break;
  }
  return error::from_errno(code, "connect_queue_pair", object, why.text);
}

}  // namespace verbena::inline VERBENA_ABI::bringup
