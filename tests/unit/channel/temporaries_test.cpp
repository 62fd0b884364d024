// SPDX-License-Identifier: MIT
// Views of temporary objects do not compile: their memory would be reused or freed at once.
#include <gtest/gtest.h>

#include <concepts>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "tests/unit/channel/message_pair.hpp"
#include "verbena/channel/operation_scope.hpp"
#include "verbena/channel/pending_operation.hpp"
#include "verbena/channel/received_message.hpp"
#include "verbena/memory/buffer.hpp"
#include "verbena/verbs/memory_region.hpp"

namespace verbena::test {
namespace {

using namespace std::chrono_literals;

template <class T>
concept has_bytes = requires(T of) { std::forward<T>(of).bytes(); };
template <class T>
concept has_slice = requires(T of) { std::forward<T>(of).slice(); };
template <class T>
concept has_part = requires(T of) { std::forward<T>(of).slice(std::size_t{0}, std::size_t{8}); };
static_assert(has_bytes<received_message&> && has_bytes<const received_message&>);
static_assert(!has_bytes<received_message>);
static_assert(has_slice<const buffer&> && !has_slice<buffer>);
static_assert(has_bytes<memory_region&> && has_slice<memory_region&> && has_part<memory_region&>);
static_assert(!has_bytes<memory_region> && !has_slice<memory_region> && !has_part<memory_region>);

template <class Operation>
constexpr bool returns_results_of_temporaries_by_value =
    std::same_as<decltype(std::declval<Operation>().wait()), operation_result> &&
    std::same_as<decltype(std::declval<Operation&>().wait()), const operation_result&> &&
    std::same_as<decltype(std::declval<Operation>().poll()), std::optional<operation_result>> &&
    std::same_as<decltype(std::declval<Operation>().wait(deadline::never())),
                 std::optional<operation_result>>;
static_assert(returns_results_of_temporaries_by_value<pending_operation>);
static_assert(returns_results_of_temporaries_by_value<scoped_operation>);

TEST(temporaries, text_of_a_received_message_is_copied) {
  message_pair pair;
  ASSERT_TRUE(pair.a().send(std::as_bytes(std::span("hello", 5))));
  const auto text = pair.b().receive(deadline::after(20s)).value().text();
  static_assert(std::same_as<decltype(text), const std::string>);
  EXPECT_EQ(text, "hello");
}

TEST(temporaries, result_of_a_posted_operation_is_copied) {
  message_pair pair;
  auto prepared = pair.pd().create_channel().value();
  const auto end = prepared.endpoint();
  auto channel = std::move(prepared).handshake(end).value();  // to itself
  auto arrived =
      channel.post_receive(buffer::of(pair.pd().allocate(64, access::local_write).value()));
  const auto sent =
      channel.post_send(buffer::of(pair.pd().allocate(64, access::local_write).value())).wait();
  static_assert(std::same_as<decltype(sent), const operation_result>);
  EXPECT_TRUE(sent);
  EXPECT_TRUE(arrived.wait());
}

}  // namespace
}  // namespace verbena::test
