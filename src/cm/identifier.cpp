// SPDX-License-Identifier: MIT
#include "verbena/cm/identifier.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <mutex>
#include <vector>

#include "src/cm/event_texts.hpp"
#include "src/cm/names.hpp"
#include "src/cm/states.hpp"
#include "src/sys/missing_verb.hpp"
#include "src/verbs/iwarp.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/base/log.hpp"
#include "verbena/cm/event_channel.hpp"
#include "verbena/sys/layouts.hpp"
#include "verbena/verbs/detail/call.hpp"
#include "verbena/verbs/detail/native_state.hpp"

namespace verbena::inline VERBENA_ABI::cm {
namespace {

using detail::call_failed;

// Removes const: the C functions do not change the address, but their parameter is not const.
sockaddr* without_const(const socket_address& address) noexcept {
  return const_cast<sockaddr*>(address.native());
}

int milliseconds(std::chrono::nanoseconds timeout) noexcept {
  const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(timeout);
  return static_cast<int>(
      std::clamp<std::int64_t>(rounded.count(), 1, std::numeric_limits<int>::max()));
}

result<void> done(verbena::detail::verb_status status, std::string_view call,
                  const identifier& on) {
  if (!status.failed) return {};
  error failed = call_failed(status.code, call, on.name());
  const std::string missing = sys::explain_missing(on.provider(), call);
  return missing.empty() ? failed : std::move(failed).with_diagnosis(missing);
}

const char* words(message of) noexcept {
  switch (of) {
    case message::request:
      return "request";
    case message::reply:
      return "reply";
    case message::reject:
      return "rejection";
  }
  return "message";
}

result<void> check_private_data(const identifier& id, message of, std::size_t bytes) {
  const std::size_t limit = private_data_limit(id.space(), of);
  if (bytes <= limit) return {};
  return error::invalid_argument(
      words(of), id.name(),
      fmt::format("private data of a {} in the port space {} has at most "
                  "{} bytes, not {}; send the rest after connecting",
                  words(of), to_string(id.space()), limit, bytes));
}

// Older headers only declare ibv_ece.
ibv_ece* native_of(sys::ece_layout& options) noexcept {
  return reinterpret_cast<ibv_ece*>(&options);
}

rdma_conn_param native_parameters(const connection_parameters& from) noexcept {
  rdma_conn_param native{};
  native.private_data = from.private_data.empty() ? nullptr : from.private_data.data();
  native.private_data_len = static_cast<std::uint8_t>(from.private_data.size());
  native.responder_resources = from.responder_resources;
  native.initiator_depth = from.initiator_depth;
  native.flow_control = from.flow_control ? 1 : 0;
  native.retry_count = from.retry_count;
  native.rnr_retry_count = from.rnr_retry_count;
  native.srq = from.shared_receive_queue ? 1 : 0;
  native.qp_num = from.queue_pair.value();
  return native;
}

result<void> has_device(const identifier& id) {
  if (id.native()->verbs != nullptr) return {};
  return error::unavailable(0, "context", id.name(),
                            "no device is bound; resolve an address, or bind to an address "
                            "that is not the wildcard");
}

template <class Verb>
result<void> propose(const Verb& verb, const identifier& id, message of,
                     const connection_parameters& with) {
  VERBENA_TRY_VOID(has_device(id));
  VERBENA_TRY_VOID(check_private_data(id, of, with.private_data.size()));
  auto parameters = native_parameters(with);
  return done(verbena::detail::call(verb, id.native(), &parameters), verb.name(), id);
}

template <class Verb>
result<void> refuse(const Verb& verb, const identifier& id, std::span<const std::byte> said) {
  VERBENA_TRY_VOID(check_private_data(id, message::reject, said.size()));
  return done(verbena::detail::call(verb, id.native(), static_cast<const void*>(said.data()),
                                    static_cast<std::uint8_t>(said.size())),
              verb.name(), id);
}

// The contexts of the connection manager. They stay open until the process ends, because this class
// keeps the lists of rdma_get_devices(3). Threads: thread-safe.
class open_devices {
 public:
  [[nodiscard]] bool contains(const identifier& id) {
    const std::lock_guard lock(mutex_);
    if (known(id)) return true;
    const auto& calls = *id.provider().cm;
    int count = 0;
    const auto list = verbena::detail::call_create(calls.get_devices, &count);
    if (!list) return false;
    for (int i = 0; i < count; ++i) open_.push_back({&id.provider(), list.native[i]});
    held_.push_back(list.native);  // never freed, so the devices stay open
    return known(id);
  }

 private:
  struct device {
    const verbena::provider* from;
    const ibv_context* native;
  };
  [[nodiscard]] bool known(const identifier& id) const {
    return std::ranges::any_of(open_, [&](const device& each) {
      return each.from == &id.provider() && each.native == id.native()->verbs;
    });
  }

  std::mutex mutex_;
  std::vector<device> open_;
  std::vector<ibv_context**> held_;
};

open_devices& devices() {
  static auto* const all = new open_devices;  // never destroyed, but reachable for leak checkers
  return *all;
}

}  // namespace

namespace detail {

std::optional<socket_address> known_address(const sockaddr& inside) {
  auto address = socket_address::from_native(inside);
  if (!address || (address->is_any() && address->port() == 0)) return std::nullopt;
  return *std::move(address);
}

std::string name_of(const rdma_cm_id& id) {
  const auto here = known_address(id.route.addr.src_addr);
  const auto there = known_address(id.route.addr.dst_addr);
  const std::string device =
      id.verbs != nullptr ? fmt::format(" on {}", static_cast<const char*>(id.verbs->device->name))
                          : std::string();
  if (there && here)
    return fmt::format("connection {} -> {}{}", to_string(*here), to_string(*there), device);
  if (there) return fmt::format("connection to {}{}", to_string(*there), device);
  if (here) return fmt::format("identifier at {}{}", to_string(*here), device);
  return fmt::format("identifier of the port space {}", to_string(static_cast<port_space>(id.ps)));
}

identifier_state::~identifier_state() {
  const auto status = verbena::detail::call(calls().destroy_id, native_);
  if (!status.failed) return;
  log(log_level::error,
      fmt::format("{}; the identifier and its channel are kept until the process ends",
                  call_failed(status.code, calls().destroy_id.name(), "identifier").message()));
  verbena::detail::abandon(std::move(channel_));
}

}  // namespace detail

result<identifier> identifier::create(const event_channel& channel, port_space space) {
  rdma_cm_id* made = nullptr;
  const auto& calls = *channel.provider().cm;
  const auto status =
      verbena::detail::call(calls.create_id, channel.native(), &made, static_cast<void*>(nullptr),
                            static_cast<rdma_port_space>(space));
  if (status.failed)
    return call_failed(status.code, calls.create_id.name(), "port space " + to_string(space));
  return identifier(detail::own_identifier(channel.state(), made));
}

detail::identifier_state& identifier::state() const {
  VERBENA_ASSERT(state_ != nullptr, "a moved-from identifier was used");
  return *state_;
}

result<void> identifier::bind(const socket_address& to) {
  const auto& verb = state().calls().bind_addr;
  const auto status = verbena::detail::call(verb, native(), without_const(to));
  if (!status.failed) return {};
  return call_failed(status.code, verb.name(), "address " + to_string(to));
}

result<void> identifier::listen(int backlog) {
  const auto& verb = state().calls().listen;
  return done(verbena::detail::call(verb, native(), backlog), verb.name(), *this);
}

result<void> identifier::begin_resolve_address(const socket_address& to,
                                               std::chrono::nanoseconds timeout,
                                               const std::optional<socket_address>& from) {
  const auto& verb = state().calls().resolve_addr;
  const auto status = verbena::detail::call(verb, native(), from ? without_const(*from) : nullptr,
                                            without_const(to), milliseconds(timeout));
  if (!status.failed) return {};
  return call_failed(status.code, verb.name(), "address " + to_string(to));
}

result<void> identifier::begin_resolve_route(std::chrono::nanoseconds timeout) {
  // librdmacm dereferences the device without a check.
  VERBENA_TRY_VOID(has_device(*this));
  const auto& verb = state().calls().resolve_route;
  return done(verbena::detail::call(verb, native(), milliseconds(timeout)), verb.name(), *this);
}

result<void> identifier::connect(const connection_parameters& with) {
  return propose(state().calls().connect, *this, message::request, with);
}

result<void> identifier::accept(const connection_parameters& with) {
  return propose(state().calls().accept, *this, message::reply, with);
}

result<void> identifier::reject(std::span<const std::byte> private_data) {
  return refuse(state().calls().reject, *this, private_data);
}

result<void> identifier::reject_ece(std::span<const std::byte> private_data) {
  return refuse(state().calls().reject_ece, *this, private_data);
}

result<void> identifier::establish() {
  const auto& verb = state().calls().establish;
  return done(verbena::detail::call(verb, native()), verb.name(), *this);
}

result<void> identifier::disconnect() {
  VERBENA_TRY_VOID(has_device(*this));
  const auto& verb = state().calls().disconnect;
  return done(verbena::detail::call(verb, native()), verb.name(), *this);
}

result<void> identifier::notify(async_event_kind kind) {
  const auto& verb = state().calls().notify;
  return done(verbena::detail::call(verb, native(), static_cast<ibv_event_type>(kind)), verb.name(),
              *this);
}

result<void> identifier::set_option(int option, void* value, std::size_t bytes) {
  const auto& verb = state().calls().set_option;
  return done(verbena::detail::call(verb, native(), int{RDMA_OPTION_ID}, option, value, bytes),
              verb.name(), *this);
}

result<void> identifier::set_type_of_service(std::uint8_t value) {
  return set_option(RDMA_OPTION_ID_TOS, &value, sizeof value);
}

result<void> identifier::allow_address_reuse() {
  int on = 1;
  return set_option(RDMA_OPTION_ID_REUSEADDR, &on, sizeof on);
}

result<void> identifier::limit_to_address_family() {
  int on = 1;
  return set_option(RDMA_OPTION_ID_AFONLY, &on, sizeof on);
}

result<void> identifier::set_ack_timeout(ack_timeout timeout) {
  std::uint8_t exponent = timeout.exponent();
  return set_option(RDMA_OPTION_ID_ACK_TIMEOUT, &exponent, sizeof exponent);
}

result<queue_pair_attributes> identifier::attributes(queue_pair_state state_to_reach) const {
  VERBENA_TRY_VOID(has_device(*this));
  ibv_qp_attr attributes{};
  attributes.qp_state = static_cast<ibv_qp_state>(state_to_reach);
  int mask = 0;
  const auto& verb = state().calls().init_qp_attr;
  VERBENA_TRY_VOID(
      done(verbena::detail::call(verb, native(), &attributes, &mask), verb.name(), *this));
  // Old kernels set bits in the mask that ibv_modify_qp(3) does not support.
  constexpr std::uint32_t of_the_kernel = 0x1e0'0000;
  return queue_pair_attributes(attributes, queue_pair_attribute_mask::from_mask(
                                               static_cast<std::uint32_t>(mask) & ~of_the_kernel));
}

result<void> identifier::migrate(const event_channel& to) {
  const auto& verb = state().calls().migrate_id;
  VERBENA_TRY_VOID(done(verbena::detail::call(verb, native(), to.native()), verb.name(), *this));
  state().set_channel(to.state());
  return {};
}

result<void> identifier::join_multicast(const socket_address& group, membership as) {
  VERBENA_TRY_VOID(has_device(*this));
  rdma_cm_join_mc_attr_ex wanted{};
  wanted.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
  wanted.join_flags = static_cast<std::uint32_t>(as);
  wanted.addr = without_const(group);
  const auto& verb = state().calls().join_multicast_ex;
  return done(verbena::detail::call(verb, native(), &wanted, static_cast<void*>(nullptr)),
              verb.name(), *this);
}

result<void> identifier::leave_multicast(const socket_address& group) {
  const auto& verb = state().calls().leave_multicast;
  return done(verbena::detail::call(verb, native(), without_const(group)), verb.name(), *this);
}

result<void> identifier::set_local_ece(const ece& offered) {
  sys::ece_layout native_ece{
      .vendor_id = offered.vendor, .options = offered.options, .comp_mask = 0};
  const auto& verb = state().calls().set_local_ece;
  return done(verbena::detail::call(verb, native(), native_of(native_ece)), verb.name(), *this);
}

result<ece> identifier::remote_ece() const {
  sys::ece_layout native_ece{};
  const auto& verb = state().calls().get_remote_ece;
  VERBENA_TRY_VOID(
      done(verbena::detail::call(verb, native(), native_of(native_ece)), verb.name(), *this));
  return ece{.vendor = native_ece.vendor_id, .options = native_ece.options};
}

port_space identifier::space() const { return static_cast<port_space>(native()->ps); }

std::optional<socket_address> identifier::local_address() const {
  return detail::known_address(native()->route.addr.src_addr);
}

std::optional<socket_address> identifier::peer_address() const {
  return detail::known_address(native()->route.addr.dst_addr);
}

std::optional<port_number> identifier::port() const {
  if (native()->verbs == nullptr) return std::nullopt;
  return port_number(native()->port_num);
}

bool identifier::is_iwarp() const {
  const ibv_context* const device = native()->verbs;
  return device != nullptr && verbena::detail::is_iwarp(*device);
}

result<context> identifier::context() const {
  VERBENA_TRY_VOID(has_device(*this));
  const bool stays_open = devices().contains(*this);
  return verbena::context::borrow(native()->verbs, provider(), stays_open ? nullptr : state_);
}

rdma_cm_id* identifier::native() const { return state().native(); }

const verbena::provider& identifier::provider() const { return state().provider(); }

std::string identifier::name() const { return detail::name_of(*native()); }

}  // namespace verbena::inline VERBENA_ABI::cm
