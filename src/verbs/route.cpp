// SPDX-License-Identifier: MIT
#include "verbena/verbs/route.hpp"

#include "src/base/hash.hpp"

std::size_t std::hash<verbena::route>::operator()(const verbena::route& of) const noexcept {
  return verbena::detail::hash_members(of.port, of.gid_index, of.path_mtu, of.service_level,
                                       of.traffic_class, of.hop_limit, of.pkey_index);
}

std::size_t std::hash<verbena::datagram_route>::operator()(
    const verbena::datagram_route& of) const noexcept {
  return verbena::detail::hash_members(of.port, of.gid_index, of.pkey_index);
}
