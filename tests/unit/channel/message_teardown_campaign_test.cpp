// SPDX-License-Identifier: MIT
// Destroys all objects of message channels in all orders: with messages in flight, unread messages,
// messages and buffers that the program keeps, and credits that were not sent. A campaign executes
// more orders.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>

#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/channel/channel_pair.hpp"
#include "tests/unit/channel/teardown_fixture.hpp"
#include "verbena/channel/message_channel.hpp"
#include "verbena/channel/prepared_message_channel.hpp"

namespace verbena::test {
namespace {

constexpr std::array<std::byte, 256> message_of_teardown{};

// Two pairs with one pool, one with credits and one without; a prepared channel; a received
// message, a buffer to fill and a buffer to send.
class every_message {
 public:
  explicit every_message(verbena::context opened) : context_(std::move(opened)) {
    pd_ = context_->allocate_pd().value();
    pool_ = buffer_pool::create(*pd_, {.classes = {{.bytes = 256, .count = 32}}}).value();
    connect(a_, b_, credits::required);
    connect(c_, d_, credits::off);
    prepared_ = message_channel::prepare(*pd_, *pool_, options(credits::required)).value();
    // Sends in both directions until the windows are full. b does not return the credits of the
    // messages that it takes.
    while (a_->try_send(message_of_teardown)) {
    }
    while (b_->try_send(message_of_teardown)) {
    }
    arrived_ = b_->receive(long_deadline()).value();
    kept_ = std::move(*a_->receive(long_deadline())).take_buffer();
    // More messages than c has receives: the adapter retries them.
    while (d_->try_send(message_of_teardown)) {
    }
    empty_ = d_->take_buffer();
    if (!empty_) empty_ = c_->take_buffer();
  }

  static constexpr std::size_t count = 11;
  // Objects that keep others alive come first.
  void drop(std::size_t index) {
    const std::array<std::function<void()>, count> drops{
        [&] { a_.reset(); },     [&] { b_.reset(); },       [&] { c_.reset(); },
        [&] { d_.reset(); },     [&] { arrived_.reset(); }, [&] { kept_.reset(); },
        [&] { pool_.reset(); },  [&] { pd_.reset(); },      [&] { prepared_.reset(); },
        [&] { empty_.reset(); }, [&] { context_.reset(); }};
    drops.at(index)();
  }

 private:
  static message_channel_options options(credits credit) {
    return {.message_bytes = 256,
            .queues = {.max_send_wr = 4, .max_recv_wr = 4},
            .credits = credit,
            .reliability = {.rnr_retry_count = 7}};
  }
  void connect(std::optional<message_channel>& one, std::optional<message_channel>& other,
               credits credit) const {
    auto first = message_channel::prepare(*pd_, *pool_, options(credit)).value();
    auto second = message_channel::prepare(*pd_, *pool_, options(credit)).value();
    const auto to_first = first.endpoint();
    const auto to_second = second.endpoint();
    one = std::move(first).handshake(to_second).value();
    other = std::move(second).handshake(to_first).value();
  }

  std::optional<verbena::context> context_;
  std::optional<protection_domain> pd_;
  std::optional<buffer_pool> pool_;
  std::optional<message_channel> a_;
  std::optional<message_channel> b_;
  std::optional<message_channel> c_;
  std::optional<message_channel> d_;
  std::optional<prepared_message_channel> prepared_;
  std::optional<received_message> arrived_;
  std::optional<buffer> kept_;
  std::optional<buffer> empty_;
};

class message_teardown_campaign : public teardown_fixture<every_message> {};

TEST_F(message_teardown_campaign, channels_and_messages_are_destroyed_in_all_orders) {
  drop_in_all_orders<7>(static_cast<std::size_t>(campaign_size(4, 7)));
}

TEST_F(message_teardown_campaign, objects_are_destroyed_in_random_orders) {
  drop_in_random_orders(campaign_size(50, 2000), campaign_seed(8));
}

}  // namespace
}  // namespace verbena::test
