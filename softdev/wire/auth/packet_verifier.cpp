// SPDX-License-Identifier: MIT
#include "softdev/wire/auth/packet_verifier.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace verbena::softdev::wire {

result<std::unique_ptr<packet_verifier>> packet_verifier::open(const wire_key& key) {
  VERBENA_TRY(hmac_sha256 derivation, hmac_sha256::open());
  VERBENA_TRY(gmac spare, gmac::open());
  return std::unique_ptr<packet_verifier>(
      new packet_verifier(key, std::move(derivation), std::move(spare)));
}

authenticity packet_verifier::admit(const network_header& around,
                                    std::span<const std::byte> datagram) noexcept {
  auto [what, trailer, from] = compare(around, datagram);
  if (what != authenticity::genuine) return what;
  if (from == nullptr) from = add(trailer.sender);
  if (from == nullptr) return authenticity::failed;  // without memory: as if it were lost
  if (!from->window.accept(trailer.sequence)) return authenticity::replayed;
  from->last = ++admitted_;
  return authenticity::genuine;
}

authenticity packet_verifier::examine(const network_header& around,
                                      std::span<const std::byte> datagram) noexcept {
  return compare(around, datagram).what;
}

/// Compares the tag of a datagram.
packet_verifier::compared packet_verifier::compare(const network_header& around,
                                                   std::span<const std::byte> datagram) noexcept {
  if (!has_trailer(datagram)) return {};
  compared out{.what = authenticity::failed, .trailer = read_trailer(datagram)};
  if (const auto known = senders_.find(out.trailer.sender); known != senders_.end())
    out.from = &known->second;
  else if (!prepare_spare(out.trailer.sender))
    return out;
  packet_tag right;
  if (compute_tag(out.from != nullptr ? out.from->by : *spare_, around, datagram, right) &&
      are_equal(right, out.trailer.tag))
    out.what = authenticity::genuine;
  return out;
}

/// Gives the spare MAC the key of a sender.
bool packet_verifier::prepare_spare(std::uint64_t which) noexcept {
  if (!spare_) {
    try {
      auto made = gmac::open();
      if (!made) return false;
      spare_.emplace(*std::move(made));
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  mac_key key;
  const bool ready = key_.derive_sender(derivation_, which, key) && spare_->set_key(key);
  ::explicit_bzero(key.data(), key.size());
  return ready;
}

/// Makes a sender of the spare MAC. Returns nullptr without memory.
packet_verifier::sender* packet_verifier::add(std::uint64_t which) noexcept {
  if (senders_.size() >= most_senders) forget_oldest();
  try {
    sender made{.by = *std::move(spare_), .window = {}};
    spare_.reset();
    return &senders_.emplace(which, std::move(made)).first->second;
  } catch (const std::bad_alloc&) {
    return nullptr;  // prepare_spare() makes a new one
  }
}

void packet_verifier::forget_oldest() noexcept {
  const auto oldest =
      std::ranges::min_element(senders_, {}, [](const auto& each) { return each.second.last; });
  if (oldest != senders_.end()) senders_.erase(oldest);
}

}  // namespace verbena::softdev::wire
