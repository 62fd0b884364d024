// SPDX-License-Identifier: MIT
#include "verbena/verbs/access.hpp"

#include <gtest/gtest.h>

namespace verbena {
namespace {

// parity: ibverbs-147, ibverbs-149, ibverbs-tests-19
TEST(access_flags, print_their_names) {
  EXPECT_EQ(to_string(access_flags()), "none");
  EXPECT_EQ(to_string(access::local_write | access::remote_read), "local_write | remote_read");
  EXPECT_EQ(to_string(access::remote_write | access::remote_atomic | access::memory_window_bind),
            "remote_write | remote_atomic | memory_window_bind");
  EXPECT_EQ(to_string(access::flush_global | access::flush_persistent),
            "flush_global | flush_persistent");
  EXPECT_EQ(to_string(access::zero_based | access::on_demand | access::huge_pages |
                      access::relaxed_ordering),
            "zero_based | on_demand | huge_pages | relaxed_ordering");
}

// parity: ibverbs-tests-19, ibverbs-148
TEST(access_flags, print_unknown_bits_in_hexadecimal) {
  EXPECT_EQ(to_string(access_flags::from_mask(0x40000001)), "local_write | 0x40000000");
}

// parity: ibverbs-tests-17
TEST(access_flags, survive_the_conversion_to_a_mask) {
  for (unsigned bit = 0; bit < 32; ++bit) {
    const auto flags = access_flags::from_mask(1U << bit) | access::local_write;
    EXPECT_EQ(access_flags::from_mask(flags.mask()), flags) << bit;
    EXPECT_EQ(flags.mask(), 1U << bit | 1U) << bit;
  }
}

// parity: ibverbs-tests-17, ibverbs-145, rrddmma-36
TEST(access_flags, have_the_values_of_verbs) {
  EXPECT_EQ(
      (access::local_write | access::remote_write | access::remote_read | access::remote_atomic)
          .mask(),
      0xfU);
  EXPECT_EQ((access::memory_window_bind | access::zero_based | access::on_demand |
             access::huge_pages | access::flush_global | access::flush_persistent)
                .mask(),
            0x3f0U);
  EXPECT_EQ(access_flags(access::relaxed_ordering).mask(), 1U << 20);
}

}  // namespace
}  // namespace verbena
