// SPDX-License-Identifier: MIT
#include "src/cm/event_texts.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>

namespace verbena::inline VERBENA_ABI::cm {
namespace {

struct reason_text {
  int reason;
  std::string_view text;
};

// Reasons of REJ messages. Source: InfiniBand Architecture Specification 12.6.7.2, as in the
// kernel's enum ib_cm_rej_reason.
constexpr std::array<reason_text, 31> reasons = {{
    {1, "no QP is available at the peer"},
    {2, "no EE context is available at the peer"},
    {3, "no resources are available at the peer"},
    {4, "timeout at the peer: it waited too long for an answer"},
    {5, "the peer does not support the request"},
    {6, "invalid communication ID: the peer has no such connection"},
    {7, "invalid communication instance: the communication IDs of the connection are invalid"},
    {8, "no program listens at this port of the peer"},
    {9, "the peer does not support this transport"},
    {10,
     "the peer still has an older connection of this queue pair, because one side was restarted; "
     "connect again"},
    {11, "the peer has no such reliable datagram channel"},
    {12, "the GID does not belong to the peer"},
    {13, "the LID does not belong to the peer"},
    {14, "the peer does not accept the service level"},
    {15, "the peer does not accept the traffic class"},
    {16, "the peer does not accept the hop limit"},
    {17, "the peer does not accept the packet rate"},
    {18, "the alternate GID does not belong to the peer"},
    {19, "the alternate LID does not belong to the peer"},
    {20, "the peer does not accept the alternate service level"},
    {21, "the peer does not accept the alternate traffic class"},
    {22, "the peer does not accept the alternate hop limit"},
    {23, "the peer does not accept the alternate packet rate"},
    {24, "port and CM redirection: connect to another port and GID"},
    {25, "port redirection: connect to another port"},
    {26, "the peer does not support this path MTU"},
    {27, "the peer has too few responder resources"},
    {28, "the peer's program rejected the request"},
    {29, "the peer does not accept the RNR retry count"},
    {30, "the communication ID is in use"},
    {31, "the peer does not support this version of the protocol"},
}};

std::string_view cause_of(int code) noexcept {
  switch (code) {
    case ENODEV:
      return "no RDMA device serves this address: give one of an interface that has an RDMA device "
             "(`verbena devinfo` lists them)";
    case EADDRNOTAVAIL:
      return "the address is not one of this host's RDMA interfaces (`verbena devinfo` lists them)";
    case EADDRINUSE:
      return "another identifier uses the address and port; choose another port (0: any free one), "
             "or call allow_address_reuse() on both";
    case EACCES:
      return "the port is below 1024 and needs CAP_NET_BIND_SERVICE, or this user cannot open "
             "/dev/infiniband/rdma_cm";
    case EPERM:
      return "the kernel's connection manager is not accessible; load the module rdma_ucm and "
             "check the permissions of /dev/infiniband/rdma_cm";
    case ENOENT:
      return "/dev/infiniband/rdma_cm does not exist; load the module rdma_ucm, or pass the device "
             "to the container";
    case ETIMEDOUT:
      return "the peer's address was not resolved in time; check that the host is up and on this "
             "network";
    case EHOSTUNREACH:
    case ENETUNREACH:
      return "there is no route to the address, or the neighbour does not answer; check with "
             "`ip route get` and `ping`";
    case EINVAL:
      return "the call is invalid in the identifier's state, or an argument exceeds a limit of the "
             "device";
    case EAFNOSUPPORT:
      return "the two addresses are of different families";
    case ECONNREFUSED:
      return "the peer rejected the request, or no program listens at this port";
    case ENOTCONN:
      return "the identifier is not connected";
    default:
      return {};
  }
}

}  // namespace

bool rejection::is_consumer_reject() const noexcept {
  return status == consumer_reject || status == -ECONNREFUSED || status == -ECONNRESET;
}

std::string describe_rejection(int status) {
  if (status < 0) {
    if (status == -ECONNREFUSED)
      return fmt::format("{}, the peer rejected the request, or no program listens at this port",
                         status);
    if (status == -ECONNRESET) return fmt::format("{}, the peer closed the connection", status);
    return fmt::format("{}, {}", status, error::from_errno(-status, "the peer").message());
  }
  for (const auto& [reason, text] : reasons)
    if (reason == status) return fmt::format("{}, {}", status, text);
  return fmt::format("{}, an unknown reason", status);
}

namespace detail {

error call_failed(int code, std::string_view call, std::string_view object) {
  return error::from_errno(code, call, object, cause_of(code));
}

std::string explain(event_kind kind, int status) {
  const std::string_view cause = status < 0 ? cause_of(-status) : std::string_view();
  switch (kind) {
    case event_kind::rejected:
      return fmt::format("the request was rejected with status {}", describe_rejection(status));
    case event_kind::unreachable:
      return "the peer does not answer; check that its host is up, that UDP port 4791 is open in "
             "both directions, and that both sides have a RoCE v2 GID";
    case event_kind::device_removal:
      return "the device was removed; destroy the identifier and all objects of the device";
    case event_kind::multicast_error:
      return "the multicast group cannot be joined or was lost; check the subnet manager or the "
             "network";
    case event_kind::address_error:
    case event_kind::route_error:
    case event_kind::connect_error:
    case event_kind::address_info_error:
      return std::string(cause);
    default:
      return {};
  }
}

}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI::cm
