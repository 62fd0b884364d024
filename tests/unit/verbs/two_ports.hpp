// SPDX-License-Identifier: MIT
// An adapter with two ports. soft0 has one port, so a provider presents it as port 2 and moves its
// GIDs behind empty entries of the GID table.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <span>

#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/sys/provider.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::testing_support {

/// A provider that presents soft0 as port 2 of an adapter whose port 1 is down. At most one exists
/// at a time.
class adapter_of_two_ports {
 public:
  static constexpr std::uint32_t holes = 3;  // empty entries at the beginning of the GID table

  adapter_of_two_ports() : of_soft0_(soft_provider().value()->verbs) {
    real = &of_soft0_;
    auto& verbs = provider_.verbs;
    verbs.query_device.set([](ibv_context* context, ibv_device_attr* out) {
      const int failed = real->query_device(context, out);
      out->phys_port_cnt = 2;
      return failed;
    });
    verbs.query_device_ex.set([](ibv_context* context, ibv_device_attr_ex* out) {
      const int failed = real->query_device_ex(context, out);
      out->orig_attr.phys_port_cnt = 2;
      return failed;
    });
    verbs.query_port.set([](ibv_context* context, std::uint8_t port, ibv_port_attr* out) {
      if (port > 2) return EINVAL;
      const int failed = real->query_port(context, 1, out);
      if (port == 1) out->state = IBV_PORT_DOWN;
      out->gid_tbl_len += static_cast<int>(holes);
      out->active_mtu = IBV_MTU_1024;
      return failed;
    });
    verbs.query_pkey.set([](ibv_context* context, std::uint8_t /*port*/, int index, __be16* out) {
      return real->query_pkey(context, 1, index, out);
    });
    verbs.create_ah.set([](ibv_pd* pd, ibv_ah_attr* given) {
      EXPECT_EQ(given->port_num, 2);
      EXPECT_GE(given->grh.sgid_index, holes);
      ibv_ah_attr changed = *given;
      changed.port_num = 1;
      changed.grh.sgid_index = static_cast<std::uint8_t>(given->grh.sgid_index - holes);
      return real->create_ah(pd, &changed);
    });
    set_addresses(verbs);
    set_queue_pairs(verbs);
  }
  adapter_of_two_ports(const adapter_of_two_ports&) = delete;
  adapter_of_two_ports& operator=(const adapter_of_two_ports&) = delete;
  ~adapter_of_two_ports() { real = nullptr; }

  [[nodiscard]] context open() const { return open_soft(provider_).value(); }

 private:
  static void set_addresses(sys::verbs_table& verbs) {
    verbs.query_gid.set([](ibv_context* context, std::uint8_t port, int index, ibv_gid* out) {
      *out = {};
      const int there = index - static_cast<int>(holes);
      return port == 2 && there >= 0 ? real->query_gid(context, 1, there, out) : 0;
    });
    verbs.query_gid_ex.set([](ibv_context* context, std::uint32_t port, std::uint32_t index,
                              ibv_gid_entry* out, std::uint32_t flags, std::size_t bytes) {
      if (port != 2 || index < holes) return ENODATA;
      const int failed = real->query_gid_ex(context, 1, index - holes, out, flags, bytes);
      out->port_num = 2;
      out->gid_index = index;
      return failed;
    });
    verbs.query_gid_table.set([](ibv_context* context, ibv_gid_entry* out, std::size_t most,
                                 std::uint32_t flags, std::size_t bytes) {
      const ssize_t count = real->query_gid_table(context, out, most, flags, bytes);
      for (auto& each : std::span(out, count > 0 ? static_cast<std::size_t>(count) : 0)) {
        each.port_num = 2;
        each.gid_index += holes;
      }
      return count;
    });
  }
  static void set_queue_pairs(sys::verbs_table& verbs) {
    verbs.modify_qp.set([](ibv_qp* queue, ibv_qp_attr* given, int mask) {
      ibv_qp_attr changed = *given;
      if ((mask & IBV_QP_PORT) != 0) {
        EXPECT_EQ(given->port_num, 2);
        changed.port_num = 1;
      }
      if ((mask & IBV_QP_AV) != 0) {
        EXPECT_EQ(given->ah_attr.port_num, 2);
        EXPECT_GE(given->ah_attr.grh.sgid_index, holes);
        changed.ah_attr.port_num = 1;
        changed.ah_attr.grh.sgid_index -= holes;
      }
      if ((mask & IBV_QP_PATH_MTU) != 0) {
        EXPECT_EQ(given->path_mtu, IBV_MTU_1024);
      }
      return real->modify_qp(queue, &changed, mask);
    });
  }

  static inline const sys::verbs_table* real = nullptr;
  sys::verbs_table of_soft0_;
  provider provider_ = *soft_provider().value();
};

}  // namespace verbena::testing_support
