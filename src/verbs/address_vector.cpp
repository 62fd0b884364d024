// SPDX-License-Identifier: MIT
#include "verbena/verbs/address_vector.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "src/base/hash.hpp"
#include "verbena/base/assert.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

constexpr std::uint32_t largest_flow_label = 0xf'ffff;

}  // namespace

std::string to_string(const address_vector& way) {
  std::string text;
  if (way.lid != lid()) text += fmt::format("lid {:#x}, ", way.lid.value());
  if (way.gid)
    text +=
        fmt::format("gid {} by gid index {}, ", to_string(*way.gid), way.source_gid_index.value());
  text += fmt::format("port {}", way.port.value());
  if (way.service_level != 0) text += fmt::format(", service level {}", way.service_level);
  if (way.traffic_class != 0) text += fmt::format(", traffic class {}", way.traffic_class);
  if (way.flow_label != 0) text += fmt::format(", flow label {:#x}", way.flow_label);
  if (way.source_path_bits != 0) text += fmt::format(", source path bits {}", way.source_path_bits);
  return text;
}

namespace detail {

result<void> check_address(const address_vector& way, std::string_view call,
                           const std::string& object) {
  const auto refuse = [&](std::string_view diagnosis) {
    return error::invalid_argument(call, object, diagnosis);
  };
  if (way.service_level > 15)
    return refuse(fmt::format("service level {} exceeds 15 (4 bits)", way.service_level));
  if (way.flow_label > largest_flow_label)
    return refuse(fmt::format("flow label {:#x} exceeds 0xfffff (20 bits)", way.flow_label));
  if (way.source_path_bits > 127)
    return refuse(fmt::format("source path bits {} exceed 127 (7 bits)", way.source_path_bits));
  if (way.port == port_number(0)) return refuse("port 0 does not exist: ports count from 1");
  return {};
}

ibv_ah_attr native_address(const address_vector& way) {
  VERBENA_ASSERT(way.service_level <= 15, "the service level of an address_vector exceeds 15");
  VERBENA_ASSERT(way.flow_label <= largest_flow_label,
                 "the flow label of an address_vector exceeds 0xfffff");
  VERBENA_ASSERT(way.source_path_bits <= 127,
                 "the source path bits of an address_vector exceed 127");
  ibv_ah_attr out{};
  out.dlid = way.lid.value();
  out.sl = way.service_level;
  out.src_path_bits = way.source_path_bits;
  out.static_rate = static_cast<std::uint8_t>(way.rate);
  out.port_num = way.port.value();
  if (way.gid) {
    out.is_global = 1;
    std::memcpy(out.grh.dgid.raw, way.gid->bytes().data(), sizeof out.grh.dgid.raw);
    out.grh.flow_label = way.flow_label;
    out.grh.sgid_index = way.source_gid_index.value();
    out.grh.hop_limit = way.hop_limit;
    out.grh.traffic_class = way.traffic_class;
  }
  return out;
}

address_vector from_native(const ibv_ah_attr& native) noexcept {
  address_vector way{.lid = lid(native.dlid),
                     .port = port_number(native.port_num),
                     .service_level = native.sl,
                     .source_path_bits = native.src_path_bits,
                     .rate = static_cast<static_rate>(native.static_rate)};
  if (native.is_global == 0) return way;
  std::array<std::uint8_t, 16> bytes;
  std::memcpy(bytes.data(), native.grh.dgid.raw, bytes.size());
  way.gid = gid(bytes);
  way.source_gid_index = gid_index(native.grh.sgid_index);
  way.flow_label = native.grh.flow_label;
  way.hop_limit = native.grh.hop_limit;
  way.traffic_class = native.grh.traffic_class;
  return way;
}

}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI

std::size_t std::hash<verbena::address_vector>::operator()(
    const verbena::address_vector& of) const noexcept {
  return verbena::detail::hash_members(of.lid, of.gid, of.source_gid_index, of.port,
                                       of.service_level, of.traffic_class, of.hop_limit,
                                       of.flow_label, of.source_path_bits, of.rate);
}
