// SPDX-License-Identifier: MIT
// Checks every row of the table of decisions. This file has the rows that need no device.
#include "tests/unit/bringup/decisions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "tests/unit/bringup/offers.hpp"
#include "verbena/bringup/agreement.hpp"

namespace decisions {
namespace {

using namespace offers;

constexpr auto v1 = gid_type::roce_v1;

/// Returns the decision for two offers, or the mismatch, as text. Both sides must decide equally.
std::string decision_text(const offer& ours, const offer& theirs) {
  const auto decided = bringup::decide(ours, theirs);
  EXPECT_EQ(decided.has_value(), bringup::decide(theirs, ours).has_value());
  return decided ? to_string(*decided, ours, theirs) : decided.error().text;
}

offer here(std::vector<offered_gid> gids) { return adapter(1, std::move(gids)); }
offer there(std::vector<offered_gid> gids) { return adapter(2, std::move(gids)); }

/// Returns the decision for two adapters of one subnet whose offers `change` has modified.
template <class Change>
std::string decision_text_of_changed_offers(Change&& change) {
  offer ours = here({entry("10.0.0.1/24")});
  offer theirs = there({entry("10.0.0.2/24")});
  change(ours, theirs);
  return decision_text(ours, theirs);
}

}  // namespace

std::string one_ipv4_subnet() {
  return decision_text(here({entry("fe80::1"), entry("2001:db8::1/64"), entry("10.0.0.1/24")}),
                       there({entry("fe80::2"), entry("10.0.0.2/24"), entry("2001:db8::2/64")}));
}
std::string one_ipv6_subnet() {
  return decision_text(here({entry("10.1.0.1/24"), entry("2001:db8::1/64"), entry("fe80::1")}),
                       there({entry("10.2.0.1/24"), entry("2001:db8::2/64"), entry("fe80::2")}));
}
std::string second_subnet() {
  return decision_text(here({entry("10.1.0.1/24"), entry("10.2.0.1/24")}),
                       there({entry("10.3.0.1/24"), entry("10.2.0.2/24")}));
}
std::string narrowest_subnet() {
  return decision_text(here({entry("10.0.0.1/8"), entry("10.1.0.1/24")}),
                       there({entry("10.0.0.2/8"), entry("10.1.0.2/24")}));
}
std::string both_types() {
  return decision_text(here({entry("10.0.0.1/24", v1), entry("10.0.0.1/24")}),
                       there({entry("10.0.0.2/24", v1), entry("10.0.0.2/24")}));
}
std::string only_v1_on_both_sides() {
  return decision_text(here({entry("10.0.0.1/24", v1)}), there({entry("10.0.0.2/24", v1)}));
}
std::string routed_subnets() {
  return decision_text(here({routed(entry("10.1.0.1/24"))}), there({routed(entry("10.2.0.1/24"))}));
}
std::string common_bridge_address_and_subnet() {
  return decision_text(here({entry("172.17.0.1/16"), entry("10.0.0.1/24")}),
                       there({entry("172.17.0.1/16"), entry("10.0.0.2/24")}));
}
std::string one_host() {
  const offer side = here({entry("fe80::1"), entry("10.0.0.1/24"), entry("10.0.0.9/24")});
  return decision_text(side, side);
}
std::string loopback_of_one_host() {
  const offer side = here({entry("127.0.0.1/8")});
  return decision_text(side, side);
}
std::string link_local_only() {
  return decision_text(here({entry("fe80::1"), entry("10.0.0.1/24")}), there({entry("fe80::2")}));
}
std::string explicit_gid_on_one_side() {
  offer ours = here({entry("2001:db8::1/64")});
  ours.explicit_gid = true;
  return decision_text(ours,
                       there({entry("10.0.0.2/24"), entry("fe80::2"), entry("2001:db8::2/64")}));
}
std::string explicit_gid_on_both_sides() {
  offer ours = here({entry("10.1.0.1/24")});
  offer theirs = there({entry("10.2.0.1/24")});
  ours.explicit_gid = theirs.explicit_gid = true;
  return decision_text(ours, theirs);
}

std::string by_lid() { return decision_text(infiniband(1, 3), infiniband(2, 7, "fe80::2")); }
std::string by_gid_and_lid() {
  offer ours = infiniband(1, 3);
  ours.explicit_gid = true;
  return decision_text(ours, infiniband(2, 7, "fe80::2"));
}

std::string smaller_mtu_of_peer() {
  return decision_text_of_changed_offers(
      [](offer&, offer& theirs) { theirs.mtu = mtu::bytes_1024; });
}
std::string mtu_option() {
  return decision_text_of_changed_offers([](offer& ours, offer&) { ours.mtu = mtu::bytes_512; });
}
std::string read_depths() {
  return decision_text_of_changed_offers([](offer&, offer& theirs) {
    theirs.reliability.initiator_depth = 4;
    theirs.reliability.responder_resources = 8;
  });
}
std::string ack_delay() {
  return decision_text_of_changed_offers(
      [](offer&, offer& theirs) { theirs.reliability.ack_delay_exponent = 16; });
}
std::string inline_bytes() {
  return decision_text_of_changed_offers([](offer& ours, offer& theirs) {
    ours.inline_bytes = 220;
    theirs.inline_bytes = 64;
  });
}

std::string rc_and_uc() {
  return decision_text_of_changed_offers(
      [](offer&, offer& theirs) { theirs.transport = bringup::offered_transport::uc; });
}
std::string peer_is_iwarp() {
  return decision_text_of_changed_offers(
      [](offer&, offer& theirs) { theirs.fabric = bringup::fabric::iwarp; });
}
std::string local_device_is_iwarp() {
  return decision_text_of_changed_offers(
      [](offer& ours, offer&) { ours.fabric = bringup::fabric::iwarp; });
}
std::string peer_port_is_down() {
  return decision_text_of_changed_offers([](offer&, offer& theirs) { theirs.port_up = false; });
}
std::string local_port_is_down() {
  return decision_text_of_changed_offers([](offer& ours, offer&) { ours.port_up = false; });
}
std::string other_link_layer() {
  return decision_text(here({entry("10.0.0.1/24")}), infiniband(2, 7));
}
std::string soft0_and_adapter() {
  return decision_text_of_changed_offers(
      [](offer& ours, offer&) { ours.fabric = bringup::fabric::this_host; });
}
std::string soft0_on_two_hosts() {
  return decision_text_of_changed_offers(
      [](offer& ours, offer& theirs) { ours.fabric = theirs.fabric = bringup::fabric::this_host; });
}
std::string soft0_wire_on_one_host_only() {
  return decision_text_of_changed_offers([](offer& ours, offer& theirs) {
    ours.fabric = bringup::fabric::soft_network;
    theirs.fabric = bringup::fabric::this_host;
  });
}
std::string soft0_with_wire_on_two_hosts() {
  return decision_text_of_changed_offers([](offer& ours, offer& theirs) {
    ours.fabric = theirs.fabric = bringup::fabric::soft_network;
  });
}
std::string soft0_with_wire_and_adapter() {
  return decision_text_of_changed_offers(
      [](offer& ours, offer&) { ours.fabric = bringup::fabric::soft_network; });
}
std::string soft0_wire_on_one_side_of_a_host() {
  return decision_text_of_changed_offers([](offer& ours, offer& theirs) {
    ours.fabric = bringup::fabric::soft_network;
    theirs.fabric = bringup::fabric::this_host;
    theirs.host = ours.host;
    theirs.gids = ours.gids;
  });
}
std::string other_partition() {
  return decision_text_of_changed_offers([](offer& ours, offer& theirs) {
    ours.partition_key = 0x8001;
    theirs.partition_key = 0x8002;
  });
}
std::string limited_members() {
  return decision_text_of_changed_offers(
      [](offer& ours, offer& theirs) { ours.partition_key = theirs.partition_key = 0x0001; });
}
std::string no_subnet_manager() { return decision_text(infiniband(1, 3), infiniband(2, 0)); }
std::string no_address() {
  return decision_text_of_changed_offers([](offer& ours, offer&) { ours.gids.clear(); });
}
std::string peer_has_only_v1() {
  return decision_text(here({entry("10.0.0.1/24")}), there({entry("10.0.0.2/24", v1)}));
}
std::string local_side_has_only_v1() {
  return decision_text(here({entry("10.0.0.1/24", v1)}), there({entry("10.0.0.2/24")}));
}
std::string two_subnets() {
  return decision_text(here({entry("10.1.0.1/24")}),
                       there({entry("10.2.0.1/24"), entry("fe80::2")}));
}
std::string two_infiniband_subnets() {
  return decision_text(infiniband(1, 3), infiniband(2, 7, "fec0:0:0:1::2"));
}
std::string only_bridge_address_is_common() {
  return decision_text(here({entry("172.17.0.1/16")}), there({entry("172.17.0.1/16")}));
}

namespace {

struct row {
  const char* name;
  std::string (*decision_text)();
  const char* words;
};

#define GROUP(title)
#define ROW(name, situation, words) {#name, &name, words},
constexpr row table[] = {
#include "tests/unit/bringup/decisions.inc"
};
#undef ROW
#undef GROUP

TEST(table_of_decisions, each_row_results_in_the_listed_text) {
  for (const row& each : table)
    EXPECT_THAT(each.decision_text(), testing::HasSubstr(each.words)) << each.name;
}

}  // namespace
}  // namespace decisions
