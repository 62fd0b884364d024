// SPDX-License-Identifier: MIT
#include "verbena/verbs/completion.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

namespace verbena {
namespace {

ibv_wc native_success() {
  ibv_wc wc{};
  wc.wr_id = 0x1234'5678'9abc'def0;
  wc.status = IBV_WC_SUCCESS;
  wc.opcode = IBV_WC_RECV;
  wc.byte_len = 5;
  wc.qp_num = 0x1a2b;
  return wc;
}

// parity: rrddmma-56, ibverbs-109
TEST(completion, reads_the_fields_of_the_c_api) {
  const completion done = native_success();
  EXPECT_EQ(done.id(), 0x1234'5678'9abc'def0U);
  EXPECT_TRUE(done.ok());
  EXPECT_TRUE(done.result());
  EXPECT_EQ(done.status(), completion_status::success);
  EXPECT_EQ(done.opcode(), completion_opcode::receive);
  EXPECT_TRUE(done.is_receive());
  EXPECT_EQ(done.byte_length(), 5U);
  EXPECT_EQ(done.queue_pair(), queue_pair_number(0x1a2b));
  EXPECT_EQ(done.native().wr_id, done.id());
}

#ifdef VERBENA_CHECKED
TEST(completion_death, read_of_undefined_member_stops_the_program) {
  ibv_wc wc = native_success();
  wc.status = IBV_WC_LOC_LEN_ERR;
  const completion failed = wc;
  const std::string rule = "a member that a failed completion does not define was read";
  EXPECT_DEATH(static_cast<void>(failed.opcode()), rule);
  EXPECT_DEATH(static_cast<void>(failed.is_receive()), rule);
  EXPECT_DEATH(static_cast<void>(failed.byte_length()), rule);
  EXPECT_EQ(failed.id(), 0x1234'5678'9abc'def0U);
  EXPECT_EQ(failed.queue_pair(), queue_pair_number(0x1a2b));
}
#endif

// parity: ibverbs-rs-53, ibverbs-111, rrddmma-57, rrddmma-56
TEST(completion, immediate_is_in_host_order_or_nullopt) {
  ibv_wc wc = native_success();
  wc.imm_data = htonl(0x01020304);
  EXPECT_EQ(completion(wc).immediate(), std::nullopt);
  wc.wc_flags = IBV_WC_WITH_IMM;
  EXPECT_EQ(completion(wc).immediate(), 0x01020304U);
  EXPECT_TRUE(completion(wc).flags().contains(completion_flag::with_immediate));
  wc.status = IBV_WC_WR_FLUSH_ERR;
  EXPECT_EQ(completion(wc).immediate(), std::nullopt);
}

TEST(completion, every_immediate_value_round_trips) {
  std::mt19937 random(20240612);
  for (int i = 0; i < 1000; ++i) {
    const auto number = static_cast<std::uint32_t>(random());
    const std::array wire{
        static_cast<std::uint8_t>(number >> 24U), static_cast<std::uint8_t>(number >> 16U),
        static_cast<std::uint8_t>(number >> 8U), static_cast<std::uint8_t>(number)};
    ibv_wc wc = native_success();
    wc.wc_flags = IBV_WC_WITH_IMM;
    wc.imm_data = std::bit_cast<std::uint32_t>(wire);
    EXPECT_EQ(completion(wc).immediate(), number);
  }
}

TEST(completion, has_the_source_of_a_datagram) {
  ibv_wc wc = native_success();
  EXPECT_FALSE(completion(wc).has_global_route_header());
  wc.src_qp = 0xff00'1a2b;
  wc.slid = 0x1234;
  wc.sl = 5;
  wc.dlid_path_bits = 3;
  wc.pkey_index = 7;
  wc.wc_flags = IBV_WC_GRH;
  const completion done = wc;
  EXPECT_EQ(done.source_queue_pair(), queue_pair_number(0x1a2b)) << "a number has 24 bits";
  EXPECT_EQ(done.source_lid(), lid(0x1234));
  EXPECT_EQ(done.service_level(), 5);
  EXPECT_EQ(done.destination_path_bits(), 3);
  EXPECT_EQ(done.pkey_index(), 7);
  EXPECT_TRUE(done.has_global_route_header());
}

// parity: ibverbs-115
TEST(completion, invalidated_key_is_returned_or_nullopt) {
  ibv_wc wc = native_success();
  wc.invalidated_rkey = 0x01020304;
  EXPECT_EQ(completion(wc).invalidated_key(), std::nullopt);
  wc.wc_flags = IBV_WC_WITH_INV;
  EXPECT_EQ(completion(wc).invalidated_key(), remote_key(0x01020304));
  EXPECT_EQ(completion(wc).immediate(), std::nullopt);
  wc.status = IBV_WC_WR_FLUSH_ERR;
  EXPECT_EQ(completion(wc).invalidated_key(), std::nullopt);
}

// parity: ibverbs-109, ibverbs-306
TEST(completion, failure_names_request_status_vendor_error_and_cause) {
  ibv_wc wc{};
  wc.wr_id = 42;
  wc.status = IBV_WC_REM_ACCESS_ERR;
  wc.vendor_err = 0x62;
  wc.qp_num = 0x11;
  const auto outcome = completion(wc).result();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().kind(), error_kind::completion);
  EXPECT_EQ(outcome.error().code(), IBV_WC_REM_ACCESS_ERR);
  const std::string message = outcome.error().message();
  EXPECT_TRUE(message.starts_with("work request 42 on queue pair 0x11 completed with status 10"))
      << message;
  for (const char* part :
       {"REM_ACCESS_ERR", "vendor error 0x62", "remote key is wrong or no longer valid"})
    EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
}

// parity: rrddmma-13
TEST(completion, unknown_status_is_a_failure_with_its_number) {
  ibv_wc wc{};
  wc.status = static_cast<ibv_wc_status>(99);
  const auto outcome = completion(wc).result();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code(), 99);
  EXPECT_NE(outcome.error().message().find("unknown (99)"), std::string::npos);
}

TEST(completion, to_string_is_one_line) {
  EXPECT_EQ(to_string(completion(native_success())),
            "work request 1311768467463790320 on queue pair 0x1a2b: RECV of 5 bytes");
  ibv_wc wc = native_success();
  wc.wc_flags = IBV_WC_WITH_IMM;
  wc.imm_data = htonl(7);
  EXPECT_NE(to_string(completion(wc)).find("immediate 0x7"), std::string::npos);
}

}  // namespace
}  // namespace verbena
