// SPDX-License-Identifier: MIT
#include "verbena/verbs/address_handle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "src/base/hash.hpp"
#include "src/verbs/address_diagnosis.hpp"
#include "src/verbs/creation.hpp"
#include "src/verbs/multicast.hpp"
#include "src/verbs/ports.hpp"
#include "src/verbs/protection_domain_creation.hpp"
#include "verbena/verbs/completion.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/extended_completion_queue.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

address_handle make_handle(ibv_ah* native, const protection_domain& pd, ownership owner) {
  return detail::make_child<address_handle, detail::address_handle_state>(native, pd, owner,
                                                                          "address handle");
}

// The fields of a completion that identify the sender of a datagram.
struct sender {
  verbena::lid lid;
  std::uint8_t service_level = 0;
  std::uint8_t path_bits = 0;
  bool has_header = false;
};

constexpr std::uint8_t next_is_infiniband = 0x1b;
constexpr std::uint8_t next_is_udp = 17;

// Returns the type of the GID table entry to which a datagram with this header was sent.
result<gid_type> type_of(const global_route_header& header, const std::string& object) {
  if (header.version == global_route_header::form::ipv4 || header.next_header == next_is_udp)
    return gid_type::roce_v2;
  if (header.next_header == next_is_infiniband) return gid_type::infiniband;
  return error::invalid_argument("sender_address", object,
                                 fmt::format("the next header of the GRH is {}, which is neither "
                                             "UDP (17, RoCE v2) nor InfiniBand (27)",
                                             header.next_header));
}

// Returns the index of the datagram's destination GID in the port's GID table.
result<gid_index> receiving_entry(const protection_domain& pd, port_number port,
                                  const global_route_header& header) {
  const auto refuse = [&](const std::string& diagnosis) {
    return error::invalid_argument("sender_address", pd.name(), diagnosis);
  };
  if (detail::is_multicast(header.destination))
    return refuse(
        fmt::format("the datagram was sent to the multicast group {}, which is not a "
                    "local GID; make an address_vector with the source GID of the GRH",
                    to_string(header.destination)));
  VERBENA_TRY(const auto type, type_of(header, pd.name()));
  VERBENA_TRY(const auto table, pd.context().gid_table());
  const auto found = std::ranges::find_if(table, [&](const gid_entry& entry) {
    // With InfiniBand and RoCE v1 entries, an InfiniBand header follows the GRH.
    const bool same_type = (entry.type == gid_type::roce_v2) == (type == gid_type::roce_v2);
    return entry.port == port && entry.gid == header.destination && same_type;
  });
  if (found == table.end())
    return refuse(
        fmt::format("the GRH's destination GID {} is not in the GID table of port {}; "
                    "check the port number and the GRH",
                    to_string(header.destination), port.value()));
  return found->index;
}

result<address_vector> way_back(const protection_domain& pd, const sender& from, port_number port,
                                const std::optional<global_route_header>& header) {
  address_vector way{.lid = from.lid,
                     .port = port,
                     .service_level = from.service_level,
                     .source_path_bits = from.path_bits};
  if (!from.has_header) return way;
  if (!header)
    return error::invalid_argument("sender_address", pd.name(),
                                   "the datagram has a GRH, but no GRH was passed; decode the "
                                   "first 40 bytes of the receive");
  VERBENA_TRY(way.source_gid_index, receiving_entry(pd, port, *header));
  way.gid = header->source;
  way.traffic_class = header->traffic_class;
  way.hop_limit = header->hop_limit;
  way.flow_label = header->flow_label;
  return way;
}

error no_sender(const protection_domain& pd) {
  return error::invalid_argument("sender_address", pd.name(), "a failed completion has no sender");
}

}  // namespace

result<address_handle> protection_domain::create_ah(const address_vector& to) const {
  const auto& verb = provider().verbs.create_ah;
  VERBENA_TRY_VOID(detail::check_address(to, "create_ah", name()));
  ibv_ah_attr asked = detail::native_address(to);
  const auto made = detail::call_create(verb, native(), &asked);
  if (made)
    return detail::make_owner(provider().verbs, made.native, [&](ibv_ah* owned) {
      return make_handle(owned, *this, ownership::take);
    });
  error failed = detail::creation_error(made.code, verb.name(), name());
  std::string diagnosis;
  if (made.code == ETIMEDOUT || made.code == ENETUNREACH || made.code == EHOSTUNREACH)
    diagnosis = detail::explain_route(made.code, {&provider(), native()->context}, to);
  else if (made.code == EINVAL || made.code == ENODATA)
    diagnosis = detail::explain_address({&provider(), native()->context}, to);
  return diagnosis.empty() ? failed : std::move(failed).with_diagnosis(diagnosis);
}

result<address_vector> protection_domain::sender_address(
    const completion& received, port_number port,
    const std::optional<global_route_header>& header) const {
  if (!received.ok()) return no_sender(*this);
  const ibv_wc& from = received.native();
  return way_back(*this,
                  {.lid = lid(from.slid),
                   .service_level = from.sl,
                   .path_bits = from.dlid_path_bits,
                   .has_header = (from.wc_flags & IBV_WC_GRH) != 0},
                  port, header);
}

result<address_vector> protection_domain::sender_address(
    const lazy_completion& received, port_number port,
    const std::optional<global_route_header>& header) const {
  if (!received.ok()) return no_sender(*this);
  sender from{.lid = {}, .has_header = (received.flags().mask() & IBV_WC_GRH) != 0};
  VERBENA_TRY(const auto attributes, context().query_port(port));
  // Without LIDs the completion queue may have been created without these fields.
  if (detail::is_addressed_by_gid(attributes)) {
    if (!from.has_header)
      return error::invalid_argument(
          "sender_address", name(),
          fmt::format("the datagram has no GRH, and port {} has no LID, so the completion "
                      "does not identify the sender; on EFA use efa::known_sender() "
                      "and efa::completion_queue::source_gid()",
                      port.value()));
  } else {
    from.lid = received.source_lid();
    from.service_level = received.service_level();
    from.path_bits = received.destination_path_bits();
  }
  return way_back(*this, from, port, header);
}

result<address_vector> protection_domain::sender_address(const completion& received,
                                                         port_number port) const {
  return sender_address(received, port, std::nullopt);
}

result<address_vector> protection_domain::sender_address(const lazy_completion& received,
                                                         port_number port) const {
  return sender_address(received, port, std::nullopt);
}

address_handle address_handle::adopt(ibv_ah* native, const protection_domain& pd, ownership owner) {
  VERBENA_ASSERT(native != nullptr, "address_handle::adopt() with a null pointer");
  VERBENA_ASSERT(native->pd == pd.native(),
                 "address_handle::adopt() with another protection domain");
  return make_handle(native, pd, owner);
}

close_result<address_handle> address_handle::close() && { return close_handle(std::move(*this)); }

}  // namespace verbena::inline VERBENA_ABI

std::size_t std::hash<verbena::destination>::operator()(
    const verbena::destination& of) const noexcept {
  return verbena::detail::hash_members(of.native(), of.number(), of.key());
}
