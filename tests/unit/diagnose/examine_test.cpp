// SPDX-License-Identifier: MIT
// Facts made by hand, and what is concluded from them.
#include "verbena/diagnose/examine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::diagnose {
namespace {

const finding* find(const std::vector<finding>& all, std::string_view topic) {
  const auto found = std::ranges::find(all, topic, &finding::topic);
  return found != all.end() ? &*found : nullptr;
}

void expect_finding(const std::vector<finding>& all, std::string_view topic, severity level,
                    std::string_view words) {
  const finding* const found = find(all, topic);
  ASSERT_NE(found, nullptr) << topic;
  EXPECT_STREQ(to_string(found->level), to_string(level)) << found->meaning;
  EXPECT_NE(found->meaning.find(words), std::string::npos) << found->meaning;
}

void expect_command(const std::vector<finding>& all, std::string_view topic,
                    std::string_view words) {
  const finding* const found = find(all, topic);
  ASSERT_NE(found, nullptr) << topic;
  EXPECT_TRUE(std::ranges::any_of(found->commands, [&](const std::string& each) {
    return each.find(words) != std::string::npos;
  })) << words;
}

ibv_port_attr ethernet_port(ibv_port_state state = IBV_PORT_ACTIVE) {
  ibv_port_attr port{};
  port.state = state;
  port.phys_state = state == IBV_PORT_ACTIVE ? 5 : 3;
  port.max_mtu = IBV_MTU_4096;
  port.active_mtu = IBV_MTU_1024;
  port.link_layer = IBV_LINK_LAYER_ETHERNET;
  return port;
}

gid_entry entry(std::uint8_t index, const char* address, gid_type type = gid_type::roce_v2) {
  return {.gid = parse_gid(address).value(),
          .index = gid_index(index),
          .port = port_number(1),
          .type = type};
}

device_facts adapter(const char* name, const ibv_port_attr& port, std::vector<gid_entry> gids,
                     provider_origin origin = provider_origin::system) {
  device_facts device{.name = name, .origin = origin, .transport = transport_type::infiniband};
  device.ports.push_back({.attributes = port_attributes(port_number(1), port),
                          .gids = std::move(gids),
                          .tried = port.state == IBV_PORT_ACTIVE});
  return device;
}

devices_facts with(device_facts hardware) {
  devices_facts devices;
  devices.system.devices.push_back(std::move(hardware));
  return devices;
}

TEST(examine, best_port_prefers_hardware_and_soft0_last) {
  host_facts host;
  host.devices = {{.name = "rxe0", .emulated = true}, {.name = "mlx5_0"}};
  auto devices = with(adapter("rxe0", ethernet_port(), {entry(0, "10.0.0.1")}));
  devices.soft.devices.push_back(
      adapter("soft0", ethernet_port(), {entry(0, "10.0.0.1")}, provider_origin::soft));
  EXPECT_EQ(best_usable(host, devices)->device, "rxe0");
  devices.system.devices.push_back(adapter("mlx5_0", ethernet_port(), {entry(0, "10.0.0.2")}));
  EXPECT_EQ(best_usable(host, devices)->kind, device_kind::hardware);
  devices.system.devices[1].ports[0].trial_failure = error(error_kind::os, 0, "polling");
  EXPECT_EQ(best_usable(host, devices)->kind, device_kind::kernel);
  devices.system = {};
  EXPECT_EQ(best_usable(host, devices)->kind, device_kind::soft);
  devices.soft = {};
  EXPECT_FALSE(best_usable(host, devices));
}

TEST(examine, chosen_gid_is_reported_with_reason_and_other_gids) {
  const auto found = examine_ports(
      {}, with(adapter("mlx5_0", ethernet_port(),
                       {entry(0, "fe80::1", gid_type::roce_v1), entry(1, "fe80::1"),
                        entry(2, "192.0.2.7", gid_type::roce_v1), entry(3, "192.0.2.7")})));
  expect_finding(found, "gid", severity::ok, "index 3 ::ffff:192.0.2.7 (IPv4): RoCE v2 over IPv4");
  expect_finding(found, "gid", severity::ok, "not 0 fe80::1 (RoCE v1), 1 fe80::1 (link-local)");
}

TEST(examine, unroutable_gids_are_reported) {
  expect_finding(examine_ports({}, with(adapter("a", ethernet_port(), {}))), "gid",
                 severity::problem, "the GID table is empty");
  expect_finding(examine_ports({}, with(adapter("a", ethernet_port(), {entry(0, "127.0.0.1")}))),
                 "gid", severity::note, "this host only");
  const auto link = examine_ports({}, with(adapter("a", ethernet_port(), {entry(0, "fe80::2")})));
  expect_finding(link, "gid", severity::warning, "this link only");
  expect_command(link, "gid", "ip address add");
  expect_finding(examine_ports({}, with(adapter("a", ethernet_port(),
                                                {entry(0, "192.0.2.1", gid_type::roce_v1)}))),
                 "gid", severity::warning, "the peer must also use RoCE v1");
}

TEST(examine, port_that_is_down_reports_the_reason) {
  const auto down = examine_ports({}, with(adapter("a", ethernet_port(IBV_PORT_DOWN), {})));
  expect_finding(down, "port", severity::problem, "an Ethernet port follows its network interface");
  expect_command(down, "port", "ip link set");
  EXPECT_EQ(find(down, "message"), nullptr) << "a port that is down is not tried";
  ibv_port_attr infiniband = ethernet_port(IBV_PORT_INIT);
  infiniband.link_layer = IBV_LINK_LAYER_INFINIBAND;
  infiniband.phys_state = 5;
  const auto waiting = examine_ports({}, with(adapter("a", infiniband, {})));
  expect_finding(waiting, "port", severity::problem, "no subnet manager has configured it");
  expect_command(waiting, "port", "opensm");
}

TEST(examine, infiniband_port_reports_its_lid) {
  ibv_port_attr port = ethernet_port();
  port.link_layer = IBV_LINK_LAYER_INFINIBAND;
  expect_finding(examine_ports({}, with(adapter("a", port, {}))), "gid", severity::problem,
                 "no subnet manager has assigned a LID");
  port.lid = 17;
  expect_finding(examine_ports({}, with(adapter("a", port, {}))), "gid", severity::ok, "LID 17");
}

TEST(examine, iwarp_port_is_addressed_by_ip_and_not_tested) {
  auto iwarp = adapter("siw0", ethernet_port(), {entry(0, "1aa6::", gid_type::infiniband)});
  iwarp.transport = transport_type::iwarp;
  iwarp.ports[0].tried = false;
  const auto found = examine_ports({}, with(iwarp));
  expect_finding(found, "gid", severity::ok, "addressed by the IP address");
  expect_finding(found, "message", severity::note, "connection manager");
}

TEST(examine, small_interface_mtu_is_reported_with_the_command) {
  // Every machine has the loopback interface, index 1. Its name comes from the kernel.
  auto local = entry(0, "192.0.2.7");
  local.interface_index = 1;
  const std::string name = local.interface_name().value();
  host_facts host;
  host.interfaces = {{.name = name, .mtu = 1500, .up = true, .running = true, .ethernet = true}};
  const auto small = examine_ports(host, with(adapter("a", ethernet_port(), {local})));
  expect_finding(small, "mtu", severity::note, "1024 bytes of at most 4096");
  expect_command(small, "mtu", "ip link set " + name + " mtu 4192");
  host.interfaces[0].mtu = 1000;
  expect_finding(examine_ports(host, with(adapter("a", ethernet_port(), {local}))), "mtu",
                 severity::warning, "which is too small");
  host.interfaces[0].up = false;
  const auto off = examine_ports(host, with(adapter("a", ethernet_port(), {local})));
  expect_finding(off, "gid", severity::warning, "is down");
  expect_command(off, "gid", "ip link set " + name + " up");
}

TEST(examine, lost_test_message_is_a_problem_with_its_error) {
  auto devices = with(adapter("mlx5_0", ethernet_port(), {entry(0, "192.0.2.7")}));
  devices.system.devices[0].ports[0].trial_failure =
      error::timed_out("polling", "completion queue of mlx5_0", "never completed");
  expect_finding(examine_ports({}, devices), "message", severity::problem, "never completed");
}

TEST(examine, device_file_that_cannot_be_opened_is_a_problem) {
  host_facts host;
  host.has_infiniband_class = true;
  host.has_connection_manager = true;
  host.devices = {{.name = "mlx5_0", .node = "/dev/infiniband/uverbs0", .node_error = EACCES}};
  devices_facts devices = with(adapter("mlx5_0", ethernet_port(), {}));
  auto found = examine_kernel(host, devices);
  expect_finding(found, "permission", severity::problem, "Permission denied");
  expect_command(found, "permission", "chmod 666 /dev/infiniband/uverbs0");
  EXPECT_EQ(find(found, "driver"), nullptr);
  host.devices[0].node_error = ENOENT;
  host.container = "docker";
  found = examine_kernel(host, devices);
  expect_finding(found, "permission", severity::problem,
                 "it is not passed to this container (docker)");
  expect_command(found, "permission", "--device=/dev/infiniband");
  host.devices[0].node.clear();
  expect_command(examine_kernel(host, devices), "permission", "modprobe ib_uverbs");
}

TEST(examine, device_without_libibverbs_driver_is_a_problem) {
  host_facts host;
  host.devices = {{.name = "mlx5_0", .node = "/dev/infiniband/uverbs0"}};
  const auto found = examine_kernel(host, {});
  expect_finding(found, "driver", severity::problem, "libibverbs found no driver for it");
  expect_command(found, "driver", "IBV_SHOW_WARNINGS=1");
  expect_finding(found, "rdma_cm", severity::note,
                 "connection manager of the kernel is not loaded");
}

TEST(examine, adapter_without_rdma_device_names_its_module) {
  host_facts host;
  host.adapters = {{.address = "0000:01:00.0", .maker = "NVIDIA (Mellanox)", .module = "mlx5_ib"}};
  expect_finding(examine_kernel(host, {}), "module", severity::warning, "is not loaded");
  expect_command(examine_kernel(host, {}), "module", "modprobe mlx5_ib");
  host.loaded = {"mlx5_ib"};
  expect_command(examine_kernel(host, {}), "module", "dmesg");
}

TEST(examine, missing_or_hidden_libibverbs_is_reported) {
  devices_facts devices;
  devices.system.failure = error::unavailable(ENOENT, "dlopen", "libibverbs.so.1", "not found");
  expect_finding(examine_kernel({}, devices), "libibverbs", severity::note, "not found");
  expect_command(examine_kernel({}, devices), "libibverbs", "apt install libibverbs1");
  devices.system = {.hidden = true};
  expect_command(examine_kernel({}, devices), "libibverbs", "unset VERBENA_SOFTDEV");
  devices.mode_failure = error::invalid_argument("list_devices", "VERBENA_SOFTDEV", "it is 'x'");
  expect_finding(examine_kernel({}, devices), "libibverbs", severity::problem, "it is 'x'");
}

TEST(examine, memlock_limit_matters_only_with_kernel_devices) {
  host_facts host;
  host.locked_memory = limit{.soft = 65536, .hard = 65536};
  expect_finding(examine_process(host), "memlock", severity::note, "soft0 does not pin memory");
  host.devices = {{.name = "mlx5_0"}};
  expect_finding(examine_process(host), "memlock", severity::warning, "65536 bytes");
  expect_command(examine_process(host), "memlock", "memlock unlimited");
  host.locked_memory = limit{.soft = 0, .hard = {}};
  expect_finding(examine_process(host), "memlock", severity::problem, "hard limit unlimited");
  expect_command(examine_process(host), "memlock", "ulimit -l hard");
  host.may_lock_memory = true;
  expect_finding(examine_process(host), "memlock", severity::ok, "CAP_IPC_LOCK");
  host.may_lock_memory = false;
  host.locked_memory = limit{};
  expect_finding(examine_process(host), "memlock", severity::ok, "unlimited");
}

TEST(examine, exhausted_control_group_is_a_problem) {
  host_facts host;
  host.group_limits = {{.file = "/sys/fs/cgroup/x/rdma.max",
                        .device = "mlx5_0",
                        .resource = "hca_handle",
                        .allowed = 2,
                        .used = 1}};
  expect_finding(examine_process(host), "cgroup", severity::note, "allows 2 hca_handle");
  host.group_limits[0].used = 2;
  expect_finding(examine_process(host), "cgroup", severity::problem, "ENOMEM");
  expect_command(examine_process(host), "cgroup", "mlx5_0 hca_handle=max");
}

TEST(examine, fork_finding_depends_on_kernel_and_environment) {
  host_facts host;
  host.kernel_release = "6.1.0";
  expect_finding(examine_process(host), "fork", severity::ok,
                 "copies registered pages for a child");
  host.fork_variable = "RDMAV_FORK_SAFE=1";
  expect_finding(examine_process(host), "fork", severity::note, "only slows registration down");
  host.kernel_release = "5.4.0";
  expect_finding(examine_process(host), "fork", severity::ok, "RDMAV_FORK_SAFE=1 makes libibverbs");
  host.fork_variable.clear();
  host.devices = {{.name = "mlx5_0"}};
  expect_finding(examine_process(host), "fork", severity::warning, "before Linux 5.12");
  expect_command(examine_process(host), "fork", "export RDMAV_FORK_SAFE=1");
}

TEST(examine, container_is_a_note_with_the_command) {
  host_facts host;
  expect_finding(examine_process(host), "container", severity::ok, "no container");
  host.container = "docker";
  host.in_user_namespace = true;
  host.has_seccomp_filter = true;
  expect_finding(examine_process(host), "container", severity::note, "a seccomp filter");
  expect_command(examine_process(host), "container", "--ulimit memlock=-1");
}

TEST(examine, software_device_reports_what_is_missing) {
  devices_facts devices;
  expect_finding(examine_software({}, devices), "soft0", severity::ok, "can share memory");
  devices.shared_memory_error = EPERM;
  expect_finding(examine_software({}, devices), "soft0", severity::problem, "memfd_create(2)");
  devices.remote_copy_error = EPERM;
  expect_finding(examine_software({}, devices), "soft0-copy", severity::note, "seccomp");
  devices.remote_copy_error = 0;
  host_facts host;
  host.ptrace_scope = 1;
  expect_command(examine_software(host, devices), "soft0-copy", "ptrace_scope=0");
  devices.soft.failure =
      error::unavailable(EPROTO, "verbena_soft_entry", "libverbena-soft.so.0", "another version");
  expect_finding(examine_software({}, devices), "soft0", severity::problem, "another version");
  devices.soft = {.hidden = true};
  expect_finding(examine_software({}, devices), "soft0", severity::note, "disables soft0");
}

TEST(examine, settings_for_other_hosts_say_whether_packets_are_authenticated) {
  const devices_facts devices;
  host_facts host;
  for (const finding& each : examine_software(host, devices)) EXPECT_NE(each.topic, "soft0-wire");
  host.wire.key_file = "soft0-key";
  expect_finding(examine_software(host, devices), "soft0-wire", severity::note, "has no effect");
  host.wire.on = true;
  expect_finding(examine_software(host, devices), "soft0-wire", severity::ok,
                 "'soft0-key'; the file is usable");
  host.wire.key_problem = "open: EACCES: other users have access to it";
  expect_finding(examine_software(host, devices), "soft0-wire", severity::problem, "not usable");
  host.wire = {.on = true};
  expect_finding(examine_software(host, devices), "soft0-wire", severity::note,
                 "not authenticated");
}

TEST(examine, attach_commands_name_the_interfaces_of_the_host) {
  host_facts host;
  host.interfaces = {{.name = "lo", .mtu = 65536, .up = true},
                     {.name = "eth7", .mtu = 1500, .up = true, .running = true, .ethernet = true},
                     {.name = "eth8", .mtu = 1500, .ethernet = true}};
  host.available = {"rdma_rxe", "siw"};
  auto found = examine_software(host, {});
  expect_command(found, "attach", "type rxe netdev eth7");
  expect_command(found, "attach", "type siw netdev eth7");
  expect_command(found, "attach", "apt install iproute2");
  expect_finding(found, "attach", severity::note, "this kernel has rdma_rxe and siw");
  for (const auto& command : find(found, "attach")->commands) {
    EXPECT_EQ(command.find("netdev lo"), std::string::npos);
    EXPECT_EQ(command.find("eth8"), std::string::npos) << "it is down";
  }
  host.interfaces.clear();
  host.available.clear();
  found = examine_software(host, {});
  expect_command(found, "attach", "type veth");
  expect_finding(found, "attach", severity::note, "modules of this kernel are not visible");
  host.devices = {{.name = "rxe0", .emulated = true}};
  EXPECT_EQ(
      find(examine_software(host, with(adapter("rxe0", ethernet_port(), {entry(0, "192.0.2.7")}))),
           "attach"),
      nullptr)
      << "a software device of the kernel exists";
}

TEST(examine, peer_endpoint_is_compared_with_the_best_port) {
  auto local = entry(0, "192.0.2.7");
  local.interface_index = 1;
  const auto devices = with(adapter("a", ethernet_port(), {local}));
  host_facts host;
  const endpoint peer{
      .queue_pair = queue_pair_number(17), .gid = parse_gid("192.0.2.9"), .mtu = mtu::bytes_4096};
  auto found = examine_peer(host, devices, peer);
  expect_finding(found, "peer-mtu", severity::ok, "the connection uses 1024");
  expect_finding(found, "peer-address", severity::note, "the route table has no entry");
  expect_finding(found, "peer-reads", severity::note, "no RDMA READ and no atomic");
  host.routes = {{.destination = 0, .mask = 0, .interface = "eth9"}};
  expect_finding(examine_peer(host, devices, peer), "peer-address", severity::warning, "uses eth9");
  host.routes.push_back({.destination = 0xc0000200U,
                         .mask = 0xffffff00U,
                         .interface = local.interface_name().value()});
  expect_finding(examine_peer(host, devices, peer), "peer-address", severity::ok,
                 "like the chosen local GID");
  expect_finding(examine_peer(host, devices, {.gid = local.gid, .responder_resources = 1}),
                 "peer-address", severity::ok, "which is this port");
  expect_finding(examine_peer(host, devices, {.lid = lid(3)}), "peer-address", severity::problem,
                 "the peer has no GID");
  expect_finding(examine_peer(host, devices, {.gid = parse_gid("2001:db8::1")}), "peer-address",
                 severity::warning, "use IPv4 on both sides");
  expect_finding(examine_peer(host, {}, peer), "peer", severity::problem,
                 "no port of this host works");
}

TEST(examine, peer_of_another_host_is_a_problem_on_soft0) {
  devices_facts devices;
  devices.soft.devices.push_back(
      adapter("soft0", ethernet_port(), {entry(0, "192.0.2.7")}, provider_origin::soft));
  expect_finding(examine_peer({}, devices, {.gid = parse_gid("192.0.2.9")}), "peer-address",
                 severity::problem, "soft0 reaches processes of this");
}

TEST(examine, every_finding_has_topic_check_and_meaning) {
  const auto all = examine({}, {});
  EXPECT_GE(all.size(), 7U);
  for (const auto& each : all) {
    EXPECT_NE(each.topic, "");
    EXPECT_NE(each.looked_at, "") << each.topic;
    EXPECT_NE(each.meaning, "") << each.topic;
  }
}

}  // namespace
}  // namespace verbena::diagnose
