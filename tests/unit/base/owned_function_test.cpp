// SPDX-License-Identifier: MIT
#include "verbena/base/owned_function.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "verbena/base/function_ref.hpp"

namespace verbena {
namespace {

int negated(int value) { return -value; }

TEST(owned_function, keeps_what_it_calls) {
  auto number = std::make_unique<int>(5);
  owned_function<int(int)> add([number = std::move(number)](int more) { return *number + more; });
  EXPECT_EQ(add(2), 7);
  auto other = std::move(add);
  EXPECT_EQ(other(3), 8);
}

TEST(owned_function, functions_and_references_are_called) {
  EXPECT_EQ(owned_function<int(int)>(negated)(4), -4);
  EXPECT_EQ(owned_function<int(int)>(&negated)(4), -4);
  const function_ref<int(int)> reference(negated);
  EXPECT_EQ(owned_function<int(int)>(reference)(4), -4);
}

TEST(owned_function, empty_callables_make_an_empty_function) {
  using function = owned_function<int(int)>;
  EXPECT_FALSE(function());
  EXPECT_FALSE(function(function_ref<int(int)>()));
  int (*const none)(int) = nullptr;
  EXPECT_FALSE(function(none));
  EXPECT_TRUE(function(negated));
}

TEST(owned_function, destroys_what_it_keeps) {
  const auto kept = std::make_shared<int>(1);
  {
    const owned_function<int()> use([kept] { return *kept; });
    EXPECT_EQ(kept.use_count(), 2);
  }
  EXPECT_EQ(kept.use_count(), 1);
}

}  // namespace
}  // namespace verbena
