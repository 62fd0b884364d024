// SPDX-License-Identifier: MIT
#include "verbena/channel/resume_token.hpp"

#include <gtest/gtest.h>

#include "tests/unit/base/map_keys.hpp"

namespace verbena {
namespace {

TEST(resume_token, tokens_and_identities_are_keys_that_differ_by_each_member) {
  test::expect_different_keys<connection_identity>(
      {{}, {.channel = 1}, {.connection = 1}, {.channel = 1, .connection = 2}, {2, 1}});
  const connection_identity self{.channel = 7, .connection = 2};
  using past = resume_token::past;
  test::expect_different_keys<resume_token>(
      {{},
       {.self = self},
       {.self = {.channel = 8, .connection = 2}},
       {.self = {.channel = 7, .connection = 3}},
       {.self = self, .before = past{}},
       {.self = self, .before = past{.connection = 1}},
       {.self = self, .before = past{.peer = {.channel = 1}}},
       {.self = self, .before = past{.peer = {.connection = 1}}},
       {.self = self, .before = past{.received = 0}},
       {.self = self, .before = past{.received = 1}}});
}

}  // namespace
}  // namespace verbena
