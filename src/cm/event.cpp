// SPDX-License-Identifier: MIT
#include "verbena/cm/event.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <utility>

#include "src/cm/event_texts.hpp"
#include "src/cm/names.hpp"
#include "src/cm/states.hpp"
#include "src/verbs/text.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/base/enum_bits.hpp"

namespace verbena::inline VERBENA_ABI::cm {
namespace {

// Indexed by rdma_cm_event_type.
constexpr std::array<std::string_view, 20> kind_names = {
    "ADDR_RESOLVED",     "ADDR_ERROR",       "ROUTE_RESOLVED", "ROUTE_ERROR",
    "CONNECT_REQUEST",   "CONNECT_RESPONSE", "CONNECT_ERROR",  "UNREACHABLE",
    "REJECTED",          "ESTABLISHED",      "DISCONNECTED",   "DEVICE_REMOVAL",
    "MULTICAST_JOIN",    "MULTICAST_ERROR",  "ADDR_CHANGE",    "TIMEWAIT_EXIT",
    "ADDRINFO_RESOLVED", "ADDRINFO_ERROR",   "USER",           "INTERNAL"};
static_assert(kind_names[RDMA_CM_EVENT_TIMEWAIT_EXIT] == "TIMEWAIT_EXIT");

std::vector<std::byte> copy(const void* data, std::size_t bytes) {
  if (data == nullptr) return {};
  const auto* const from = static_cast<const std::byte*>(data);
  return {from, from + bytes};
}

connection_parameters parameters_of(const rdma_conn_param& native) {
  return {.private_data = {},
          .responder_resources = native.responder_resources,
          .initiator_depth = native.initiator_depth,
          .flow_control = native.flow_control != 0,
          .retry_count = native.retry_count,
          .rnr_retry_count = native.rnr_retry_count,
          .shared_receive_queue = native.srq != 0,
          .queue_pair = queue_pair_number(native.qp_num & queue_pair_number::max)};
}

datagram_parameters parameters_of(const rdma_ud_param& native) {
  return {.address = verbena::detail::from_native(native.ah_attr),
          .queue_pair = queue_pair_number(native.qp_num & queue_pair_number::max),
          .key = queue_key(native.qkey)};
}

bool is_of_multicast(event_kind kind) noexcept {
  return kind == event_kind::multicast_join || kind == event_kind::multicast_error;
}

bool is_handshake(event_kind kind) noexcept {
  return kind == event_kind::connect_request || kind == event_kind::connect_response ||
         kind == event_kind::established;
}

}  // namespace

std::string to_string(event_kind kind) {
  const auto index = static_cast<std::uint32_t>(kind);
  return index < kind_names.size() ? std::string(kind_names[index])
                                   : verbena::detail::unknown_value(index);
}

bool is_failure(event_kind kind) noexcept {
  switch (kind) {
    case event_kind::address_error:
    case event_kind::route_error:
    case event_kind::connect_error:
    case event_kind::unreachable:
    case event_kind::rejected:
    case event_kind::device_removal:
    case event_kind::multicast_error:
    case event_kind::address_info_error:
      return true;
    default:
      return false;
  }
}

event::event(const rdma_cm_event& pending, std::shared_ptr<detail::identifier_state> request)
    : kind_(enum_from_bits<event_kind>(pending.event)),
      status_(pending.status),
      id_(pending.id),
      listener_(kind_ == event_kind::connect_request ? pending.listen_id : nullptr),
      object_(detail::name_of(*pending.id)),
      request_(std::move(request)) {
  if (pending.id->qp_type == IBV_QPT_UD || is_of_multicast(kind_)) {
    const auto& native = pending.param.ud;
    // In multicast events, `private_data` is the context pointer of rdma_join_multicast(3).
    if (!is_of_multicast(kind_)) private_data_ = copy(native.private_data, native.private_data_len);
    has_datagram_ = kind_ == event_kind::established || kind_ == event_kind::multicast_join;
    if (has_datagram_) datagram_ = parameters_of(native);
  } else {
    const auto& native = pending.param.conn;
    private_data_ = copy(native.private_data, native.private_data_len);
    has_connection_ = is_handshake(kind_);
    if (has_connection_) connection_ = parameters_of(native);
  }
}

event::event(event&&) noexcept = default;

event& event::operator=(event&& other) noexcept {
  if (this == &other) return *this;
  drop_request();
  kind_ = other.kind_;
  status_ = other.status_;
  id_ = other.id_;
  listener_ = other.listener_;
  object_ = std::move(other.object_);
  private_data_ = std::move(other.private_data_);
  has_connection_ = other.has_connection_;
  has_datagram_ = other.has_datagram_;
  connection_ = other.connection_;
  datagram_ = other.datagram_;
  request_ = std::move(other.request_);
  return *this;
}

event::~event() { drop_request(); }

void event::drop_request() noexcept {
  if (!request_.is_valid()) return;
  // The result does not matter: if the rejection cannot be sent, the peer has ended.
  request_.provider().cm->reject(request_.native(), nullptr, 0);
  request_ = identifier(nullptr);
}

bool event::concerns(const identifier& id) const {
  return id.native() == id_ || id.native() == listener_;
}

result<identifier> event::take_request() {
  if (kind_ != event_kind::connect_request)
    return error::invalid_argument(
        "take_request", object_,
        fmt::format("the event is {}; only CONNECT_REQUEST has a new identifier",
                    to_string(kind_)));
  if (!request_.is_valid())
    return error::invalid_argument("take_request", object_,
                                   "the request was already taken; an event has one request");
  return std::exchange(request_, identifier(nullptr));
}

std::optional<connection_parameters> event::connection() const noexcept {
  if (!has_connection_) return std::nullopt;
  auto parameters = connection_;
  parameters.private_data = private_data_;
  return parameters;
}

std::optional<datagram_parameters> event::datagram() const noexcept {
  if (!has_datagram_) return std::nullopt;
  return datagram_;
}

std::optional<rejection> event::rejected() const {
  if (kind_ != event_kind::rejected) return std::nullopt;
  return rejection{.status = status_, .private_data = private_data_};
}

error event::failure(std::string_view call) const {
  VERBENA_ASSERT(is_failure(kind_),
                 "failure() of an event that is not a failure: check is_failure() first");
  const std::string words = detail::explain(kind_, status_);
  const std::string text =
      fmt::format("{}{}{}", to_string(kind_), words.empty() ? "" : ": ", words);
  switch (kind_) {
    case event_kind::rejected:
      return error::from_errno(ECONNREFUSED, call, object_, text);
    case event_kind::unreachable:
      return error::from_errno(status_ < 0 ? -status_ : EHOSTUNREACH, call, object_, text);
    case event_kind::device_removal:
      return error::from_errno(ENODEV, call, object_, text);
    default:
      return error::from_errno(status_ < 0 ? -status_ : EIO, call, object_, text);
  }
}

std::string to_string(const event& of) {
  std::string text = fmt::format("{} of {}", to_string(of.kind()), of.object());
  if (of.kind() == event_kind::rejected)
    text += fmt::format(", status {}", describe_rejection(of.status()));
  else if (of.status() != 0)
    text += fmt::format(", status {}", of.status());
  return text;
}

}  // namespace verbena::inline VERBENA_ABI::cm
