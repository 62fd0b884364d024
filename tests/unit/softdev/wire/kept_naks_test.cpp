// SPDX-License-Identifier: MIT
#include "softdev/wire/engine/kept_naks.hpp"

#include <gtest/gtest.h>

#include "softdev/wire/engine/sent_requests.hpp"

namespace verbena::softdev::wire {
namespace {

TEST(fatal_nak, is_forgotten_when_its_request_is_complete) {
  constexpr std::uint32_t first = 0xff'fffe;  // PSNs wrap around
  sent_requests requests;
  requests.begin(first);
  requests.push({}, 2);
  requests.push({}, 4);
  requests.set_live(2);
  fatal_nak refused{syndrome_access_error, psn_plus(first, 3)};
  refused.forget_before(requests.first_psn());
  EXPECT_TRUE(refused.exists());
  requests.pop();
  refused.forget_before(requests.first_psn());
  EXPECT_TRUE(refused.exists());
  EXPECT_TRUE(refused.is_within(requests.first_psn(), 4));
  requests.pop();
  refused.forget_before(requests.first_psn());
  EXPECT_FALSE(refused.exists());
  EXPECT_FALSE(refused.is_within(psn_plus(first, 2), 4)) << "the PSNs are used again";
}

}  // namespace
}  // namespace verbena::softdev::wire
