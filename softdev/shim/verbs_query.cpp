// SPDX-License-Identifier: MIT
// Queries: attributes of the device and the port, GID and P_Key tables, clock.
#include <infiniband/verbs.h>

#include <endian.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "softdev/host/device_clock.hpp"
#include "softdev/host/page_fault.hpp"
#include "softdev/shim/address.hpp"
#include "softdev/shim/answers.hpp"
#include "softdev/shim/efa.hpp"
#include "softdev/shim/functions.hpp"
#include "softdev/shim/not_supported.hpp"
#include "softdev/shim/operations.hpp"

#undef ibv_query_port

namespace verbena::softdev {
namespace {

constexpr std::uint8_t physical_polling = 2;
constexpr std::uint8_t physical_disabled = 3;
constexpr std::uint8_t physical_link_up = 5;
constexpr std::uint8_t width_4x = 2;

// Sets the attributes of EFA: no atomics, shared receive queues or multicast; small requests.
void look_like_efa(ibv_device_attr& attr) {
  attr.vendor_id = efa_identity::vendor_id;
  attr.vendor_part_id = efa_identity::vendor_part_id;
  attr.max_qp_wr = efa_identity::max_send_wr;
  attr.device_cap_flags = 0;
  attr.max_sge = efa_identity::max_send_sge;
  attr.max_sge_rd = efa_identity::max_rdma_sge;
  attr.max_qp_rd_atom = attr.max_qp_init_rd_atom = attr.max_res_rd_atom = 0;
  attr.atomic_cap = IBV_ATOMIC_NONE;
  attr.max_srq = attr.max_srq_wr = attr.max_srq_sge = 0;
  attr.max_mcast_grp = attr.max_mcast_qp_attach = attr.max_total_mcast_qp_attach = 0;
}

ibv_device_attr device_attributes(host& home) {
  ibv_device_attr attr{};
  const std::uint32_t max_queue_pairs = home.core().numbers().limit();
  std::strncpy(attr.fw_ver, VERBENA_VERSION, sizeof attr.fw_ver - 1);
  std::memcpy(&attr.node_guid, process_persona().node_guid.data(), sizeof attr.node_guid);
  attr.sys_image_guid = attr.node_guid;
  attr.max_mr_size = ~std::uint64_t{0};
  attr.page_size_cap = ~std::uint64_t{4095};  // every power of two from 4 KiB on
  attr.vendor_id = device_identity::vendor_id;
  attr.vendor_part_id = device_identity::vendor_part_id;
  attr.hw_ver = device_identity::hardware_version;
  attr.max_qp = static_cast<int>(max_queue_pairs);
  attr.max_qp_wr = limits::max_work_requests;
  attr.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID |
                          IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE;
  attr.max_sge = limits::max_sges;
  attr.max_sge_rd = limits::max_sges;
  attr.max_cq = object_limits::max_cq;
  attr.max_cqe = limits::max_completions;
  attr.max_mr = limits::max_regions;
  attr.max_pd = object_limits::max_pd;
  attr.max_ah = object_limits::max_ah;
  attr.max_mcast_grp = limits::max_groups;
  attr.max_mcast_qp_attach = limits::max_group_members;
  attr.max_total_mcast_qp_attach = limits::max_groups * limits::max_group_members;
  attr.max_qp_rd_atom = limits::max_rd_atomic;
  attr.max_qp_init_rd_atom = limits::max_rd_atomic;
  attr.max_res_rd_atom = static_cast<int>(limits::max_rd_atomic * max_queue_pairs);
  attr.atomic_cap = IBV_ATOMIC_HCA;
  attr.max_srq = object_limits::max_srq;
  attr.max_srq_wr = limits::max_work_requests;
  attr.max_srq_sge = limits::max_sges;
  attr.max_pkeys = static_cast<std::uint16_t>(home.persona().pkeys.size());
  attr.phys_port_cnt = home.core().port().count();
  if (home.persona().kind == persona_kind::efa) look_like_efa(attr);
  return attr;
}

constexpr std::uint16_t most_moderated = 0xffff;

// Software supports on-demand paging anyway, but needs a way to check pages without a fatal signal.
ibv_odp_caps on_demand_paging() {
  if (!can_fault_in()) return {};
  constexpr std::uint32_t messages = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV;
  constexpr std::uint32_t datagrams = messages | IBV_ODP_SUPPORT_SRQ_RECV;
  return {.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
          .per_transport_caps = {.rc_odp_caps = datagrams | IBV_ODP_SUPPORT_WRITE |
                                                IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC,
                                 .uc_odp_caps = messages | IBV_ODP_SUPPORT_WRITE,
                                 .ud_odp_caps = datagrams}};
}

ibv_port_attr port_attributes(host& home, std::uint8_t port) {
  const bool up = home.core().port().up(port);
  ibv_port_attr attr{};
  attr.state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attr.max_mtu = IBV_MTU_4096;
  attr.active_mtu = active_mtu(home);
  attr.gid_tbl_len = home.persona().gid_count();
  attr.port_cap_flags = IBV_PORT_CM_SUP;
  attr.max_msg_sz = limits::max_message_bytes;
  attr.pkey_tbl_len = static_cast<std::uint16_t>(home.persona().pkeys.size());
  attr.bad_pkey_cntr = home.core().port().bad_pkeys();
  attr.qkey_viol_cntr = home.core().port().bad_qkeys();
  attr.max_vl_num = 1;
  attr.active_width = width_4x;
  attr.active_speed = home.adapter().speed();
  attr.phys_state = up ? physical_link_up : physical_disabled;
  attr.link_layer = IBV_LINK_LAYER_ETHERNET;
  if (home.persona().kind == persona_kind::roce) {
    attr.port_cap_flags |= IBV_PORT_IP_BASED_GIDS;
    return attr;
  }
  if (home.persona().kind == persona_kind::efa) {
    attr.port_cap_flags = 0;
    attr.max_msg_sz = limits::max_reliable_datagram_bytes;
    attr.lmc = 1;
    attr.link_layer = IBV_LINK_LAYER_UNSPECIFIED;
    return attr;
  }
  attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
  attr.phys_state = up ? physical_link_up : physical_polling;
  attr.lid = home.core().port().lid();
  attr.sm_lid = home.adapter().sm_lid();
  attr.subnet_timeout = 18;  // the value that subnet managers set
  return attr;
}

bool has_port(ibv_context* context, std::uint32_t port) noexcept {
  return object_of(context).host->core().port().has(port);
}

int gid_count(ibv_context* context) noexcept {
  return object_of(context).host->persona().gid_count();
}

bool is_roce(ibv_context* context) noexcept {
  return object_of(context).host->persona().kind == persona_kind::roce;
}

std::uint32_t gid_type_of(ibv_context* context) noexcept {
  return is_roce(context) ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_IB;
}

struct gid_place {
  std::uint32_t port = 1;
  std::uint32_t index = 0;
  std::uint32_t type = IBV_GID_TYPE_ROCE_V2;
};

void fill_entry(const gid_place& where, const gid_entry& from, ibv_gid_entry& to) noexcept {
  to = {};
  std::memcpy(to.gid.raw, from.gid.data(), sizeof to.gid.raw);
  to.gid_index = where.index;
  to.port_num = where.port;
  to.gid_type = where.type;
  to.ndev_ifindex = from.interface_index;
}

}  // namespace

int query_port(ibv_context* context, std::uint8_t port_num, ibv_port_attr* attributes,
               std::size_t size) {
  if (!working(object_of(context))) return errno;
  if (!has_port(context, port_num)) return EINVAL;
  copy_sized(port_attributes(*object_of(context).host, port_num), attributes, size);
  return 0;
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attributes, std::size_t size) {
  if (!working(object_of(context))) return errno;
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  if (size < sizeof(ibv_device_attr)) return EINVAL;
  ibv_device_attr_ex attr{};
  attr.orig_attr = device_attributes(*object_of(context).host);
  if (object_of(context).host->persona().kind != persona_kind::efa) {
    attr.odp_caps = on_demand_paging();
    attr.completion_timestamp_mask = device_clock::mask;
    attr.hca_core_clock = device_clock::khz;
    attr.cq_mod_caps = {.max_cq_count = most_moderated, .max_cq_period = most_moderated};
  }
  attr.device_cap_flags_ex = attr.orig_attr.device_cap_flags;
  attr.phys_port_cnt_ex = object_of(context).host->core().port().count();
  copy_sized(attr, attributes, size);
  return 0;
}

int query_rt_values(ibv_context* context, ibv_values_ex* values) {
  if (!working(object_of(context))) return errno;
  if (is_efa(*context)) return refuse(refusals::clock_of_efa);
  if ((values->comp_mask & ~std::uint32_t{IBV_VALUES_MASK_RAW_CLOCK}) != 0) return EINVAL;
  // The struct is one of seconds, but contains ticks, in tv_nsec only, as in rdma-core's mlx5.
  if (values->comp_mask != 0)
    values->raw_clock = {.tv_sec = 0, .tv_nsec = static_cast<long>(device_clock::now())};
  return 0;
}

}  // namespace verbena::softdev

using namespace verbena::softdev;

extern "C" {

int ibv_query_device(ibv_context* context, ibv_device_attr* device_attr) {
  if (!working(object_of(context))) return errno;
  *device_attr = device_attributes(*object_of(context).host);
  return 0;
}

// The struct of the exported function is shorter than that of the inline one: it ends with `flags`.
int ibv_query_port(ibv_context* context, std::uint8_t port_num,
                   struct _compat_ibv_port_attr* port_attr) {
  return query_port(context, port_num, reinterpret_cast<ibv_port_attr*>(port_attr),
                    offsetof(ibv_port_attr, port_cap_flags2));
}

int ibv_query_gid(ibv_context* context, std::uint8_t port_num, int index, ibv_gid* gid) {
  if (!usable(object_of(context))) return -1;
  if (!has_port(context, port_num) || index < 0 || index >= gid_count(context)) {
    errno = EINVAL;
    return -1;
  }
  const gid_entry found =
      object_of(context).host->adapter().gids().at(static_cast<std::size_t>(index));
  std::memcpy(gid->raw, found.gid.data(), sizeof gid->raw);
  return 0;
}

int verbena_soft_reaches_hosts(ibv_context* context, std::uint8_t port_num, int index) {
  if (!usable(object_of(context))) return 0;
  if (!has_port(context, port_num) || index < 0 || index >= gid_count(context)) return 0;
  const host& home = *object_of(context).host;
  return home.wire().reaches_hosts_from(home.adapter().gids().at(static_cast<std::size_t>(index)));
}

int ibv_query_gid_type(ibv_context* context, std::uint8_t port_num, unsigned int index, int* type) {
  if (!usable(object_of(context))) return -1;
  if (!has_port(context, port_num) || index >= static_cast<unsigned>(gid_count(context))) {
    errno = EINVAL;
    return -1;
  }
  const bool is_roce_v2 =
      is_roce(context) && !object_of(context).host->adapter().gids().at(index).empty();
  *type = is_roce_v2 ? 1 : 0;
  return 0;
}

int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port_num, std::uint32_t gid_index,
                      ibv_gid_entry* entry, std::uint32_t flags, std::size_t entry_size) {
  if (!usable(object_of(context))) return ENODEV;
  if (!has_port(context, port_num) || gid_index >= static_cast<unsigned>(gid_count(context)) ||
      flags != 0)
    return EINVAL;
  const gid_entry known = object_of(context).host->adapter().gids().at(gid_index);
  if (known.empty()) return ENODATA;
  ibv_gid_entry found;
  fill_entry({port_num, gid_index, gid_type_of(context)}, known, found);
  copy_sized(found, entry, entry_size);
  return 0;
}

// `entry_size` is the distance between entries. Returns the number of entries, or a negative errno.
ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t max_entries,
                             std::uint32_t flags, std::size_t entry_size) {
  if (!usable(object_of(context))) return -ENODEV;
  const gid_table::entries table = object_of(context).host->adapter().gids().all();
  const auto is_there = [](const gid_entry& entry) { return !entry.empty(); };
  const std::uint32_t ports = object_of(context).host->core().port().count();
  const auto count =
      ports * static_cast<std::size_t>(std::count_if(table.begin(), table.end(), is_there));
  if (flags != 0 || entry_size == 0 || max_entries < count) return -EINVAL;
  auto* out = reinterpret_cast<char*>(entries);
  for (std::uint32_t place = 0; place < ports * table.size(); ++place) {
    const auto index = static_cast<std::uint32_t>(place % table.size());
    if (table[index].empty()) continue;
    const auto port = static_cast<std::uint32_t>(1 + place / table.size());
    ibv_gid_entry found;
    fill_entry({port, index, gid_type_of(context)}, table[index], found);
    copy_sized(found, out, entry_size);
    out += entry_size;
  }
  return static_cast<ssize_t>(count);
}

int ibv_query_pkey(ibv_context* context, std::uint8_t port_num, int index, __be16* pkey) {
  if (!usable(object_of(context))) return -1;
  host& home = *object_of(context).host;
  if (!has_port(context, port_num) || index < 0 ||
      static_cast<std::size_t>(index) >= home.persona().pkeys.size()) {
    errno = EINVAL;
    return -1;
  }
  *pkey = htobe16(home.core().port().pkey(static_cast<std::size_t>(index)));
  return 0;
}

int ibv_get_pkey_index(ibv_context* context, std::uint8_t port_num, __be16 pkey) {
  if (!usable(object_of(context))) return -1;
  host& home = *object_of(context).host;
  const std::size_t count =
      has_port(context, port_num) && pkey != 0 ? home.persona().pkeys.size() : 0;
  for (std::size_t index = 0; index < count; ++index)
    if (htobe16(home.core().port().pkey(index)) == pkey) return static_cast<int>(index);
  errno = EINVAL;
  return -1;
}

}  // extern "C"
