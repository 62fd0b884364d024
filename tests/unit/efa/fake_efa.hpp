// SPDX-License-Identifier: MIT
// The software device with fake functions of libefa, which record their arguments and create UD
// queue pairs. It tests the creation of queue pairs, not their use.
#pragma once

#include <infiniband/efadv.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <memory>

#include "verbena/efa/device_attributes.hpp"
#include "verbena/sys/efa_table.hpp"
#include "verbena/sys/provider.hpp"

namespace verbena::test {

/// At most one object exists at a time. It must outlive the objects that are created through it.
class fake_efa {
 public:
  fake_efa() {
    instance = this;
    attributes.max_sq_wr = 256;
    attributes.max_rq_wr = 512;
    attributes.max_sq_sge = 2;
    attributes.max_rq_sge = 3;
    attributes.inline_buf_size = 32;
    attributes.max_rdma_size = 1U << 30;
    attributes.device_caps = EFADV_DEVICE_ATTR_CAPS_RDMA_READ;
    sys::efa_table table = *provider_.efa;
    table.query_device.set(&query_device);
    table.query_ah.set(&query_ah);
    table.create_qp_ex.set(&create_qp);
    provider_.efa = std::make_shared<const sys::efa_table>(table);
  }
  fake_efa(const fake_efa&) = delete;
  fake_efa& operator=(const fake_efa&) = delete;
  ~fake_efa() { instance = nullptr; }

  [[nodiscard]] const provider& get() const noexcept { return provider_; }

  int code = 0;                     ///< errno of creation and queries; 0: success
  efadv_device_attr attributes{};   ///< attributes that the device reports
  ibv_qp_init_attr_ex requested{};  ///< attributes of the last creation
  efadv_qp_init_attr kind{};
  std::uint32_t size = 0;  ///< size of the last structure that a call passed

 private:
  static int query_device(ibv_context* /*device*/, efadv_device_attr* out, std::uint32_t bytes) {
    instance->size = bytes;
    *out = instance->attributes;
    return instance->code;
  }
  static int query_ah(ibv_ah* /*way*/, efadv_ah_attr* out, std::uint32_t bytes) {
    instance->size = bytes;
    out->ahn = 77;
    return instance->code;
  }
  static ibv_qp* create_qp(ibv_context* device, ibv_qp_init_attr_ex* requested,
                           efadv_qp_init_attr* kind, std::uint32_t bytes) {
    instance->requested = *requested;
    instance->kind = *kind;
    instance->size = bytes;
    const auto has = efa::device_attributes(instance->attributes).operations().mask();
    errno = instance->code != 0 ? instance->code : EOPNOTSUPP;
    if (instance->code != 0 || (requested->send_ops_flags & ~has) != 0) return nullptr;
    ibv_qp_init_attr_ex datagrams = *requested;
    datagrams.qp_type = IBV_QPT_UD;
    datagrams.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    ibv_qp* const made = soft_provider().value()->verbs.create_qp_ex(device, &datagrams);
    requested->cap = datagrams.cap;
    return made;
  }

  static inline fake_efa* instance = nullptr;
  provider provider_ = *soft_provider().value();
};

}  // namespace verbena::test
