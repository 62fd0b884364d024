// SPDX-License-Identifier: MIT
// Option types with the same fields have the same defaults.
#include <gtest/gtest.h>

#include "verbena/channel/channel_options.hpp"
#include "verbena/channel/message_channel_options.hpp"
#include "verbena/cm/connection_parameters.hpp"
#include "verbena/cm/session_options.hpp"
#include "verbena/verbs/queue_pair_options.hpp"

namespace verbena {
namespace {

template <class Options>
constexpr bool has_default_queues = Options{}.queues == queue_sizes{};
template <class Options>
constexpr bool has_default_depths = Options{}.queues == queue_depths{};
template <class Options>
constexpr bool has_default_route = Options{}.route == route{};
template <class Options>
constexpr bool has_default_local_port = Options{}.route == datagram_route{};
template <class Options>
constexpr bool has_default_reliability = Options{}.reliability == reliability{};

TEST(options, share_their_default_queue_sizes) {
  static_assert(has_default_queues<queue_pair_options<rc>>);
  static_assert(has_default_queues<queue_pair_options<uc>>);
  static_assert(has_default_queues<queue_pair_options<ud>>);
  static_assert(has_default_queues<channel_options>);
  EXPECT_EQ(cm::session_options{}.queues, queue_sizes{});
  static_assert(has_default_depths<message_channel_options>);
  static_assert(queue_depths{}.max_send_wr == queue_sizes{}.max_send_wr);
  static_assert(queue_depths{}.max_recv_wr == queue_sizes{}.max_recv_wr);
}

TEST(options, share_their_default_route) {
  static_assert(has_default_route<queue_pair_options<rc>>);
  static_assert(has_default_route<queue_pair_options<uc>>);
  static_assert(has_default_route<channel_options>);
  static_assert(has_default_route<message_channel_options>);
  static_assert(has_default_local_port<queue_pair_options<ud>>);
  static_assert(datagram_route{}.port == route{}.port);
  static_assert(datagram_route{}.gid_index == route{}.gid_index);
  static_assert(datagram_route{}.pkey_index == route{}.pkey_index);
}

TEST(options, share_their_default_reliability) {
  static_assert(has_default_reliability<queue_pair_options<rc>>);
  static_assert(has_default_reliability<channel_options>);
  static_assert(has_default_reliability<message_channel_options>);
  EXPECT_EQ(cm::session_options{}.reliability, reliability{});
  static_assert(cm::connection_parameters{}.retry_count == reliability{}.retry_count);
  static_assert(cm::connection_parameters{}.rnr_retry_count ==
                reliability::default_rnr_retry_count);
}

// 7 means retries without a limit; on rxe also for `retry_count`.
TEST(options, limit_retries_by_default) {
  static_assert(reliability{}.retry_count == 6);
  static_assert(reliability::default_rnr_retry_count == 6);
  static_assert(!reliability{}.rnr_retry_count.has_value());
  static_assert(!reliability{}.timeout.is_infinite());
}

}  // namespace
}  // namespace verbena
