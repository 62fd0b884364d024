// SPDX-License-Identifier: MIT
#include "verbena/bringup/advertisement.hpp"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <map>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::inline VERBENA_ABI::bringup {
namespace {

constexpr std::uint32_t magic_of_advertisements = 0x5642'4144;  // "VBAD"
constexpr std::uint8_t version_of_advertisements = 1;
constexpr std::size_t region_at = 12;
constexpr std::size_t name_at = region_at + remote_region::encoded_size + 3;
static_assert(name_at + max_buffer_name == advertisement_bytes);

struct access_bit {
  access flag;
  unsigned bit;
};
constexpr std::array<access_bit, 3> access_bits = {
    {{access::remote_read, 1}, {access::remote_write, 2}, {access::remote_atomic, 4}}};
constexpr unsigned all_access_bits = 7;

unsigned bits_of(access_flags access) {
  unsigned bits = 0;
  for (const auto& [flag, bit] : access_bits)
    if (access.contains(flag)) bits |= bit;
  return bits;
}

access_flags access_of(unsigned bits) {
  access_flags access;
  for (const auto& [flag, bit] : access_bits)
    if ((bits & bit) != 0) access |= flag;
  return access;
}

bool is_name(std::string_view text) {
  return text.size() <= max_buffer_name &&
         std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
}

struct taken_message {
  advertisement_kind kind;
  advertised_buffer what;
};

advertisement_message encode(advertisement_kind kind, const advertised_buffer& what) {
  advertisement_message out{};
  store_network_order(out.data(), magic_of_advertisements);
  out[4] = std::byte{version_of_advertisements};
  out[5] = static_cast<std::byte>(kind);
  out[6] = static_cast<std::byte>(bits_of(what.access));
  out[7] = static_cast<std::byte>(what.name.size());
  store_network_order(out.data() + 8, what.number);
  if (kind == advertisement_kind::advertised)
    std::ranges::copy(what.region.encode(), out.begin() + region_at);
  std::ranges::copy(bytes_of(what.name), out.begin() + name_at);
  return out;
}

error broken(std::string_view what) {
  return error::protocol("take", {}, std::string("the peer's advertisement message ").append(what));
}

result<taken_message> decode(std::span<const std::byte> bytes) {
  byte_reader reader(bytes);
  if (bytes.size() != advertisement_bytes ||
      reader.take<std::uint32_t>().value_or(0) != magic_of_advertisements)
    return error::protocol("take", {},
                           "expected an advertisement message from the peer, received a different "
                           "message; both sides must send and receive in the same order");
  const auto version = reader.take<std::uint8_t>().value_or(0);
  const auto kind = reader.take<std::uint8_t>().value_or(0);
  const unsigned access = reader.take<std::uint8_t>().value_or(0xff);
  const std::size_t length = reader.take<std::uint8_t>().value_or(0xff);
  const auto number = reader.take<std::uint32_t>().value_or(0);
  if (version != version_of_advertisements)
    return broken("has version " + std::to_string(version) + "; this side supports version 1");
  if (kind < 1 || kind > 3 || access > all_access_bits || length > max_buffer_name || number == 0)
    return broken("has invalid fields");
  taken_message out{.kind = static_cast<advertisement_kind>(kind), .what = {}};
  out.what.number = number;
  out.what.access = access_of(access);
  for (const auto byte : bytes.subspan(name_at, length))
    out.what.name += std::to_integer<char>(byte);
  if (out.kind == advertisement_kind::advertised) {
    VERBENA_TRY(out.what.region,
                remote_region::decode(bytes.subspan(region_at, remote_region::encoded_size)));
    if (out.what.region.length() == 0 || out.what.access.empty() || !is_name(out.what.name))
      return broken("has invalid fields");
  }
  // The encoding is unique: the decoded message must encode to the received bytes.
  if (!std::ranges::equal(encode(out.kind, out.what), bytes) ||
      (out.kind != advertisement_kind::advertised && (access != 0 || length != 0)))
    return broken("has nonzero reserved bytes");
  return out;
}

error unknown_buffer(std::string_view call, std::uint32_t number) {
  return error::from_errno(ENOENT, call, "buffer " + std::to_string(number),
                           "it is not advertised, or was released");
}

}  // namespace

namespace detail {

struct known_buffers {
  struct own_buffer {
    std::string name;
    bool revoked = false;
  };
  struct peer_buffer {
    advertised_buffer what;
    bool revoked = false;
  };

  advertisement_limits limits;
  std::uint32_t last_number = 0;
  std::map<std::uint32_t, own_buffer> own = {};
  std::map<std::uint32_t, peer_buffer> peers = {};
  std::deque<std::uint32_t> arrived = {};
};

// NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the sole_owner calls it
void destroy(known_buffers& known) noexcept { delete &known; }

}  // namespace detail

advertisement_table::advertisement_table(advertisement_limits limits)
    : known_(new detail::known_buffers{.limits = limits}) {}

advertisement_table::advertisement_table(const advertisement_table& other)
    : known_(new detail::known_buffers(other.known())) {}

advertisement_table& advertisement_table::operator=(const advertisement_table& other) {
  if (this != &other) *this = advertisement_table(other);
  return *this;
}

detail::known_buffers& advertisement_table::known() const {
  VERBENA_ASSERT(known_.get() != nullptr, "a moved-from advertisement_table was used");
  return *known_;
}

bool advertisement_table::is_advertised(std::uint32_t number) const noexcept {
  return known().own.contains(number);
}

std::size_t advertisement_table::pending() const noexcept { return known().arrived.size(); }

result<void> advertisement_table::check_new(const advertised_buffer& what) const {
  const auto refuse = [&](std::string_view why) {
    return error::invalid_argument("advertise", "buffer '" + what.name + "'", why);
  };
  if (what.region.length() == 0) return refuse("the buffer is empty; advertise at least one byte");
  if (what.access.empty() || access_of(bits_of(what.access)) != what.access)
    return refuse(
        "its access flags must be a non-empty set of remote_read, remote_write and remote_atomic");
  if (!is_name(what.name))
    return refuse("the name must be printable and have at most " + std::to_string(max_buffer_name) +
                  " characters");
  const bool taken = !what.name.empty() && std::ranges::any_of(known().own, [&](const auto& each) {
    return each.second.name == what.name;
  });
  if (taken) return refuse("another advertised buffer has this name; choose another one");
  if (known().own.size() >= known().limits.own_buffers)
    return error::from_errno(ENOSPC, "advertise", "buffer '" + what.name + "'",
                             "the peer has " + std::to_string(known().own.size()) +
                                 " buffers of this side, the limit; revoke some");
  return {};
}

result<std::uint32_t> advertisement_table::advertise(const remote_region& region,
                                                     access_flags access, std::string_view name,
                                                     advertisement_message& out) {
  const advertised_buffer what{.number = known().last_number + 1,
                               .name = std::string(name),
                               .region = region,
                               .access = access};
  VERBENA_TRY_VOID(check_new(what));
  if (what.number == 0)
    return error::from_errno(EOVERFLOW, "advertise", "buffer '" + what.name + "'",
                             "all buffer numbers of this connection are used; reconnect");
  known().last_number = what.number;
  known().own.emplace(what.number, detail::known_buffers::own_buffer{.name = what.name});
  out = encode(advertisement_kind::advertised, what);
  return what.number;
}

result<advertisement_message> advertisement_table::revoke(std::uint32_t number) {
  const auto found = known().own.find(number);
  if (found == known().own.end()) return unknown_buffer("revoke", number);
  if (std::exchange(found->second.revoked, true))
    return error::from_errno(EALREADY, "revoke", "buffer " + std::to_string(number),
                             "it was revoked before, and the peer has not released it");
  return encode(advertisement_kind::revoked, {.number = number});
}

result<void> advertisement_table::note_arrival(advertised_buffer what) {
  if (known().peers.size() >= known().limits.buffers_of_peer)
    return broken("exceeds the limit: this side has " + std::to_string(known().peers.size()) +
                  " buffers of the peer");
  const bool twice =
      known().peers.contains(what.number) ||
      (!what.name.empty() && std::ranges::any_of(known().peers, [&](const auto& each) {
        return each.second.what.name == what.name;
      }));
  if (twice) return broken("advertises a number or a name that is in use");
  const auto number = what.number;
  // Both or neither, even if an allocation fails.
  std::map<std::uint32_t, detail::known_buffers::peer_buffer> added;
  added.emplace(number, detail::known_buffers::peer_buffer{.what = std::move(what)});
  known().arrived.push_back(number);
  known().peers.merge(added);
  return {};
}

result<advertisement_update> advertisement_table::take(std::span<const std::byte> message) {
  VERBENA_TRY(auto taken, decode(message));
  const advertisement_update news{.kind = taken.kind, .number = taken.what.number};
  switch (taken.kind) {
    case advertisement_kind::advertised:
      VERBENA_TRY_VOID(note_arrival(std::move(taken.what)));
      break;
    case advertisement_kind::revoked: {
      const auto found = known().peers.find(news.number);
      // This side released the buffer while the message was in flight.
      if (found == known().peers.end()) break;
      if (std::exchange(found->second.revoked, true))
        return broken("revokes a buffer that is revoked");
      std::erase(known().arrived, news.number);
      break;
    }
    case advertisement_kind::released:
      if (known().own.erase(news.number) == 0)
        return broken("releases a buffer that it does not have");
      break;
  }
  return news;
}

std::optional<advertised_buffer> advertisement_table::next() {
  if (known().arrived.empty()) return std::nullopt;
  const auto number = known().arrived.front();
  known().arrived.pop_front();
  return known().peers.find(number)->second.what;
}

std::optional<advertised_buffer> advertisement_table::find(std::string_view name) const {
  for (const auto& [number, each] : known().peers)
    if (!each.revoked && each.what.name == name) return each.what;
  return std::nullopt;
}

bool advertisement_table::is_usable(std::uint32_t number) const noexcept {
  const auto found = known().peers.find(number);
  return found != known().peers.end() && !found->second.revoked;
}

result<advertisement_message> advertisement_table::release(std::uint32_t number) {
  if (known().peers.erase(number) == 0) return unknown_buffer("release", number);
  std::erase(known().arrived, number);
  return encode(advertisement_kind::released, {.number = number});
}

}  // namespace verbena::inline VERBENA_ABI::bringup
