// SPDX-License-Identifier: MIT
#include "verbena/verbs/context.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>
#include <string_view>

#include "src/verbs/creation.hpp"
#include "src/verbs/diagnosis.hpp"
#include "src/verbs/gid_query.hpp"
#include "src/verbs/ports.hpp"
#include "src/verbs/protection_domain_creation.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/verbs/device_attributes.hpp"
#include "verbena/verbs/gid_table.hpp"
#include "verbena/verbs/port_attributes.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

std::shared_ptr<detail::context_state> make_state(ibv_context* native, const provider& from,
                                                  ownership owner,
                                                  std::shared_ptr<const void> keep_alive) {
  VERBENA_ASSERT(native != nullptr, "context::adopt() or context::borrow() with a null pointer");
  const char* name = from.verbs.get_device_name(native->device);
  return std::make_shared<detail::context_state>(detail::context_state::arguments{
      .provider = &from,
      .native = native,
      .owner = owner,
      .name = name != nullptr ? name : "a device without a name",
      .parents = {.keep_alive = std::move(keep_alive)},
  });
}

std::string port_of(port_number port, const std::string& device) {
  return fmt::format("port {} of {}", port.value(), device);
}

// Returns the name of the man page. Some functions of verbs.h are inline and call one with an
// underscore.
std::string_view public_name(std::string_view name) {
  if (name.starts_with('_')) name.remove_prefix(1);
  return name;
}

gid_entry entry_of(const sys::gid_entry_layout& native) {
  std::array<std::uint8_t, 16> bytes;
  std::copy(std::begin(native.gid.raw), std::end(native.gid.raw), bytes.begin());
  return {.gid = gid(bytes),
          .index = gid_index(static_cast<std::uint8_t>(native.gid_index)),
          .port = port_number(static_cast<std::uint8_t>(native.port_num)),
          .type = static_cast<gid_type>(native.gid_type),
          .interface_index = native.interface_index};
}

// Returns why an entry of a port's table cannot be read: the port or the index does not exist.
std::string explain_entry(int code, const context& device, port_number port, std::uint32_t index,
                          std::uint32_t (*length_of)(const port_attributes&)) {
  if (code == ENODATA) return "this entry of the table is empty";
  const auto attributes = device.query_port(port);
  if (!attributes) return detail::explain_port(code, {&device.provider(), device.native()}, port);
  const std::uint32_t length = length_of(*attributes);
  if (index < length) return {};
  return fmt::format("index {} is outside the table of length {}", index, length);
}

}  // namespace

context context::adopt(ibv_context* native, const verbena::provider& from, ownership owner) {
  return context(make_state(native, from, owner, nullptr));
}

context context::borrow(ibv_context* native, const verbena::provider& from,
                        std::shared_ptr<const void> keep_alive) {
  return context(make_state(native, from, ownership::borrow, std::move(keep_alive)));
}

std::uint32_t context::completion_vectors() const {
  return static_cast<std::uint32_t>(std::max(0, native()->num_comp_vectors));
}

result<device_attributes> context::query() const {
  ibv_device_attr attributes{};
  const auto& verb = provider().verbs.query_device;
  if (const auto status = detail::call(verb, native(), &attributes); status.failed)
    return error::from_errno(status.code, verb.name(), name());
  return device_attributes(attributes);
}

result<extended_device_attributes> context::query_extended() const {
  ibv_device_attr_ex attributes{};
  const auto& verb = provider().verbs.query_device_ex;
  const auto status = detail::call(verb, native(), &attributes);
  if (!status.failed) return extended_device_attributes(attributes);
  if (status.code != EOPNOTSUPP && status.code != ENOSYS)
    return error::from_errno(status.code, verb.name(), name());
  VERBENA_TRY(const auto basic, query());
  ibv_device_attr_ex basic_only{};
  basic_only.orig_attr = basic.native();
  return extended_device_attributes(basic_only);
}

result<port_attributes> context::query_port(port_number port) const {
  ibv_port_attr attributes{};
  const auto& verb = provider().verbs.query_port;
  if (const auto status = detail::call(verb, native(), port.value(), &attributes); status.failed)
    return error::from_errno(status.code, verb.name(), port_of(port, name()),
                             detail::explain_port(status.code, {&provider(), native()}, port));
  return port_attributes(port, attributes);
}

result<std::vector<gid_entry>> context::gid_table() const {
  VERBENA_TRY(const auto ports, detail::query_ports(*this));
  std::size_t capacity = 0;
  for (const auto& port : ports) capacity += port.gid_table_length();
  std::vector<sys::gid_entry_layout> entries(capacity);
  const auto count = detail::read_gid_table({&provider(), native()}, entries);
  if (count < 0) {
    const auto& verb = provider().verbs.query_gid_table;
    return error::from_errno(static_cast<int>(-count), public_name(verb.name()), name());
  }
  entries.resize(std::min(static_cast<std::size_t>(count), capacity));

  std::vector<gid_entry> table;
  table.reserve(entries.size());
  for (const auto& entry : entries)
    // Address vectors have 8 bits for ports and for indices, so other entries cannot be used.
    if (entry.gid_index <= std::numeric_limits<std::uint8_t>::max() &&
        entry.port_num <= std::numeric_limits<std::uint8_t>::max())
      table.push_back(entry_of(entry));
  return table;
}

result<gid_entry> context::query_gid(port_number port, gid_index index) const {
  sys::gid_entry_layout entry{};
  const auto& verb = provider().verbs.query_gid_ex;
  const auto status = detail::read_gid({&provider(), native()}, port.value(), index.value(), entry);
  if (status.failed)
    return error::from_errno(
        status.code, public_name(verb.name()),
        fmt::format("GID {} of {}", index.value(), port_of(port, name())),
        explain_entry(status.code, *this, port, index.value(),
                      [](const port_attributes& of) { return of.gid_table_length(); }));
  return entry_of(entry);
}

result<gid_entry> context::routable_gid(port_number port) const {
  VERBENA_TRY(auto entries, gid_table());
  std::erase_if(entries, [port](const gid_entry& entry) { return entry.port != port; });
  if (const auto best = choose_routable(entries)) return *best;
  std::string diagnosis = detail::explain_port(EINVAL, {&provider(), native()}, port);
  if (diagnosis.empty())
    diagnosis = "the port's GID table is empty: its network interface is down or has no address";
  return error::unavailable(ENODATA, "routable_gid", port_of(port, name()), diagnosis);
}

result<partition_key> context::query_pkey(port_number port, std::uint16_t index) const {
  __be16 pkey = 0;
  const auto& verb = provider().verbs.query_pkey;
  const auto status = detail::call(verb, native(), port.value(), int{index}, &pkey);
  if (status.failed)
    return error::from_errno(
        status.code, verb.name(), fmt::format("P_Key {} of {}", index, port_of(port, name())),
        explain_entry(status.code, *this, port, index, [](const port_attributes& of) {
          return std::uint32_t{of.pkey_table_length()};
        }));
  return partition_key(network_order(std::uint16_t{pkey}));
}

result<protection_domain> context::allocate_pd() const {
  const auto& verb = provider().verbs.alloc_pd;
  const auto made = detail::call_create(verb, native());
  if (!made)
    return error::from_errno(made.code, verb.name(), name(),
                             detail::explain_pd(made.code, {&provider(), native()}));
  return detail::internals::make<protection_domain>(
      detail::make_owner(provider().verbs, made.native, [&](ibv_pd* owned) {
        return detail::make_protection_domain_state(owned, shared_state(), ownership::take);
      }));
}

close_result<context> context::close() && { return close_handle(std::move(*this)); }

}  // namespace verbena::inline VERBENA_ABI
