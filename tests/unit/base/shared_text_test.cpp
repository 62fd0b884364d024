// SPDX-License-Identifier: MIT
#include "verbena/base/shared_text.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace verbena {
namespace {

TEST(shared_text, default_text_is_empty) {
  const shared_text none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.view(), "");
}

TEST(shared_text, text_of_a_literal_refers_to_the_literal) {
  static constexpr char literal[] = "ibv_reg_mr";
  const shared_text text(literal);
  EXPECT_EQ(text.view().data(), static_cast<const char*>(literal));
  EXPECT_EQ(text.view(), "ibv_reg_mr");
}

TEST(shared_text, text_of_a_string_is_a_copy) {
  std::string source = "queue pair 0x11 on soft0";
  const shared_text text(source);
  source[0] = 'Q';
  EXPECT_EQ(text, "queue pair 0x11 on soft0");
  EXPECT_EQ(text.string(), "queue pair 0x11 on soft0");
}

TEST(shared_text, text_of_a_buffer_is_a_copy_up_to_its_zero) {
  char buffer[16] = "rxe0";  // NOLINT(*-avoid-c-arrays)
  const shared_text text(buffer);
  buffer[0] = 'X';
  EXPECT_EQ(text, "rxe0");
}

TEST(shared_text, copies_share_one_text) {
  const shared_text first(std::string(100, 'x'));
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): the test is about copies
  const shared_text second = first;
  const shared_text third{text_argument(first)};
  EXPECT_EQ(first.view().data(), second.view().data());
  EXPECT_EQ(first.view().data(), third.view().data());
}

TEST(shared_text, moved_from_text_is_empty) {
  shared_text from(std::string(100, 'x'));
  const shared_text to = std::move(from);
  EXPECT_TRUE(from.empty());  // NOLINT(bugprone-use-after-move,*.Move)
  EXPECT_EQ(to.view().size(), 100U);
}

TEST(shared_text, assignment_replaces_the_text_and_shares_the_new_one) {
  const shared_text source(std::string(100, 'x'));
  shared_text target(std::string(50, 'y'));
  target = source;
  EXPECT_EQ(target.view().data(), source.view().data());
  target = shared_text("literal");
  EXPECT_EQ(target, "literal");
  EXPECT_EQ(source.view(), std::string(100, 'x'));
}

TEST(shared_text, assignment_to_itself_keeps_the_text) {
  shared_text text(std::string(100, 'x'));
  const shared_text& same = text;
  text = same;
  EXPECT_EQ(text.view(), std::string(100, 'x'));
}

TEST(shared_text, text_exists_as_long_as_any_copy) {
  std::optional<shared_text> first(std::string(100, 'x'));
  const shared_text second = *first;
  first.reset();
  EXPECT_EQ(second.view(), std::string(100, 'x'));
}

TEST(shared_text, copies_may_be_made_and_destroyed_by_several_threads) {
  const shared_text text(std::string(100, 'x'));
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([copy = text] {
      for (int i = 0; i < 10'000; ++i) EXPECT_EQ(shared_text(copy).view().size(), 100U);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(text.view(), std::string(100, 'x'));
}

}  // namespace
}  // namespace verbena
