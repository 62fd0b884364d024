// SPDX-License-Identifier: MIT
#include "verbena/verbs/device.hpp"

#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "src/verbs/creation.hpp"
#include "src/verbs/diagnosis.hpp"
#include "src/verbs/text.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/verbs/detail/call.hpp"

namespace verbena::inline VERBENA_ABI {

std::string to_string(transport_type type) {
  switch (type) {
    case transport_type::unknown:
      return "unknown";
    case transport_type::infiniband:
      return "InfiniBand";
    case transport_type::iwarp:
      return "iWARP";
    case transport_type::usnic:
      return "usNIC";
    case transport_type::usnic_udp:
      return "usNIC UDP";
    case transport_type::unspecified:
      return "unspecified";
  }
  return detail::unknown_value(static_cast<std::int64_t>(type));
}

device::device(ibv_device* native, const verbena::provider& from,
               std::shared_ptr<const void> keep_alive) noexcept
    : native_(native), provider_(&from), keep_alive_(std::move(keep_alive)) {}

device device::borrow(ibv_device* native, const verbena::provider& from,
                      std::shared_ptr<const void> keep_alive) {
  VERBENA_ASSERT(native != nullptr, "device::borrow() with a null pointer");
  return {native, from, std::move(keep_alive)};
}

std::string device::name() const {
  const char* name = provider_->verbs.get_device_name(native_);
  return name != nullptr ? name : "";
}

verbena::guid device::guid() const {
  return verbena::guid::from_network_order(provider_->verbs.get_device_guid(native_));
}

std::optional<std::uint32_t> device::index() const {
  const auto& verb = provider_->verbs.get_device_index;
  const int index = verb.available() ? verb(native_) : -1;
  if (index < 0) return std::nullopt;
  return static_cast<std::uint32_t>(index);
}

transport_type device::transport() const noexcept {
  return static_cast<transport_type>(native_->transport_type);
}

std::optional<unsigned> device::numa_node() const {
  const char* const folder = native_->ibdev_path;
  std::ifstream file(std::string(folder, ::strnlen(folder, sizeof native_->ibdev_path)) +
                     "/device/numa_node");
  int node = -1;
  if (!(file >> node) || node < 0) return std::nullopt;
  return static_cast<unsigned>(node);
}

result<context> device::open() const {
  const auto& verb = provider_->verbs.open_device;
  const auto made = detail::call_create(verb, native_);
  if (!made)
    return error::from_errno(made.code, verb.name(), name(), detail::explain_opening(made.code));
  return detail::make_owner(provider_->verbs, made.native, [&](ibv_context* owned) {
    return context::adopt(owned, *provider_, ownership::take);
  });
}

std::string to_string(const device& of) {
  const auto guid = of.guid();
  const std::string guid_text = guid.is_reserved() ? std::string() : to_string(guid) + ", ";
  return fmt::format("{} ({}, {}{})", of.name(), to_string(of.transport()), guid_text,
                     to_string(of.origin()));
}

}  // namespace verbena::inline VERBENA_ABI
