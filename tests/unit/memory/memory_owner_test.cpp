// SPDX-License-Identifier: MIT
#include "verbena/memory/memory_owner.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace verbena {
namespace {

static_assert(std::is_convertible_v<std::shared_ptr<const void>, memory_owner>);
static_assert(std::is_convertible_v<std::unique_ptr<std::byte[]>, memory_owner>);
static_assert(std::is_convertible_v<std::vector<std::byte>, memory_owner>);
static_assert(!std::is_convertible_v<std::vector<std::byte>&, memory_owner>, "a copy is elsewhere");
static_assert(!std::is_convertible_v<const std::vector<std::byte>&, memory_owner>);
static_assert(std::is_convertible_v<const std::shared_ptr<int>&, memory_owner>);
static_assert(!std::is_convertible_v<std::byte*, memory_owner>, "a pointer owns nothing");
static_assert(!std::is_convertible_v<const std::unique_ptr<int>&, memory_owner>);

/// Counts the destructions of objects that were not moved from.
class counted {
 public:
  explicit counted(int& destroyed) : destroyed_(&destroyed) {}
  counted(counted&& other) noexcept : destroyed_(std::exchange(other.destroyed_, nullptr)) {}
  counted& operator=(counted&&) = delete;
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;
  ~counted() {
    if (destroyed_ != nullptr) ++*destroyed_;
  }

 private:
  int* destroyed_;
};

TEST(memory_owner, object_is_destroyed_once_with_the_last_owner) {
  int destroyed = 0;
  {
    memory_owner first = counted(destroyed);
    EXPECT_TRUE(static_cast<bool>(first));
    const memory_owner second = std::move(first);
    // NOLINTNEXTLINE(bugprone-use-after-move): a moved-from owner is empty
    EXPECT_FALSE(static_cast<bool>(first));
    EXPECT_TRUE(static_cast<bool>(second));
    EXPECT_EQ(destroyed, 0);
  }
  // NOLINTNEXTLINE(*.NewDeleteLeaks): clang-tidy does not follow the pointer to the deleting lambda
  EXPECT_EQ(destroyed, 1);
}

TEST(memory_owner, copy_of_shared_pointer_keeps_its_object) {
  auto shared = std::make_shared<int>(7);
  const std::weak_ptr<int> watch = shared;
  {
    const memory_owner owner = shared;
    shared.reset();
    EXPECT_FALSE(watch.expired());
  }
  // NOLINTNEXTLINE(*.NewDeleteLeaks): clang-tidy does not follow the pointer to the deleting lambda
  EXPECT_TRUE(watch.expired());
}

TEST(memory_owner, null_pointers_make_empty_owner) {
  EXPECT_FALSE(static_cast<bool>(memory_owner(nullptr)));
  EXPECT_FALSE(static_cast<bool>(memory_owner(std::shared_ptr<const void>())));
  EXPECT_FALSE(static_cast<bool>(memory_owner(std::unique_ptr<int>())));
}

}  // namespace
}  // namespace verbena
