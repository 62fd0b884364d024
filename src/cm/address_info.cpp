// SPDX-License-Identifier: MIT
#include "verbena/cm/address_info.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <memory>

#include "src/cm/event_texts.hpp"
#include "verbena/sys/cm_table.hpp"

namespace verbena::inline VERBENA_ABI::cm {
namespace {

int flags_of(const address_query& query) noexcept {
  return (query.passive ? RAI_PASSIVE : 0) | (query.numeric_host ? RAI_NUMERICHOST : 0) |
         (query.no_route ? RAI_NOROUTE : 0) | (query.family ? RAI_FAMILY : 0);
}

std::optional<socket_address> address_of(const sockaddr* native) {
  if (native == nullptr) return std::nullopt;
  auto address = socket_address::from_native(*native);
  if (!address) return std::nullopt;
  return *std::move(address);
}

address_info info_of(const rdma_addrinfo& native) {
  const auto* const route = static_cast<const std::byte*>(native.ai_route);
  return {.source = address_of(native.ai_src_addr),
          .destination = address_of(native.ai_dst_addr),
          .space = static_cast<port_space>(native.ai_port_space),
          .canonical_name = native.ai_dst_canonname != nullptr ? native.ai_dst_canonname : "",
          .route = route != nullptr ? std::vector<std::byte>(route, route + native.ai_route_len)
                                    : std::vector<std::byte>()};
}

// rdma_getaddrinfo(3) returns the code of getaddrinfo(3), or -1 with an errno.
error not_found(int outcome, int code, const address_query& query) {
  const std::string what =
      query.service.empty() ? query.node : fmt::format("{}:{}", query.node, query.service);
  if (outcome == -1) return detail::call_failed(code, "rdma_getaddrinfo", what);
  return error::unavailable(EHOSTUNREACH, "rdma_getaddrinfo", what, ::gai_strerror(outcome));
}

}  // namespace

result<std::vector<address_info>> resolve(const address_query& query,
                                          const verbena::provider& from) {
  VERBENA_TRY(const sys::cm_table* const calls, cm_functions(from));
  rdma_addrinfo hints{};
  hints.ai_flags = flags_of(query);
  hints.ai_family = query.family.value_or(0);
  hints.ai_port_space = static_cast<int>(query.space);
  hints.ai_qp_type = has_datagrams(query.space) ? IBV_QPT_UD : IBV_QPT_RC;
  if (query.source) {
    hints.ai_src_len = query.source->native_length();
    hints.ai_src_addr = const_cast<sockaddr*>(query.source->native());
  }
  rdma_addrinfo* list = nullptr;
  errno = 0;
  const int outcome =
      calls->getaddrinfo(query.node.empty() ? nullptr : query.node.c_str(),
                         query.service.empty() ? nullptr : query.service.c_str(), &hints, &list);
  if (outcome != 0) return not_found(outcome, errno, query);
  const auto free_list = [calls](rdma_addrinfo* made) { calls->freeaddrinfo(made); };
  const std::unique_ptr<rdma_addrinfo, decltype(free_list)> owner(list, free_list);
  std::vector<address_info> found;
  for (const rdma_addrinfo* each = list; each != nullptr; each = each->ai_next)
    found.push_back(info_of(*each));
  return found;
}

}  // namespace verbena::inline VERBENA_ABI::cm
