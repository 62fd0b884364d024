// SPDX-License-Identifier: MIT
// Destroys all objects of a channel in all orders, with operations in flight and completed ones: no
// call hangs, and no object remains. A campaign executes more orders.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>

#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/channel/channel_pair.hpp"
#include "tests/unit/channel/teardown_fixture.hpp"
#include "verbena/channel/completion_hub.hpp"

namespace verbena::test {
namespace {

// Handles in all states: a receive and a send in flight that do not complete, a completed operation
// that was inspected, and a completed one that was not.
class everything {
 public:
  explicit everything(verbena::context opened) : context_(std::move(opened)) {
    pd_ = context_->allocate_pd().value();
    region_ = pd_->allocate(4096, all_access).value();
    pool_ = buffer_pool::create(*pd_, {.classes = {{.bytes = 64, .count = 8}}}).value();
    hub_ = completion_hub::create(*context_, 32).value();
    const channel_options options{.queues = {.max_send_wr = 8, .max_recv_wr = 8},
                                  .access = access::remote_write};
    auto first = pd_->create_channel(*hub_, options).value();
    auto second = pd_->create_channel(*hub_, options).value();
    const auto to_first = first.endpoint();
    const auto to_second = second.endpoint();
    a_ = std::move(first).handshake(to_second).value();
    b_ = std::move(second).handshake(to_first).value();
    seen_ = a_->post_write(memory(), region_->remote());
    EXPECT_TRUE(*seen_->wait(long_deadline()));
    unseen_ = a_->post_write(memory(), region_->remote());
    receive_ = a_->post_receive(memory());
    send_ = a_->post_send(memory());
  }

  static constexpr std::size_t count = 11;
  // Objects that keep others alive come first.
  void drop(std::size_t index) {
    const std::array<std::function<void()>, count> drops{
        [&] { hub_.reset(); },     [&] { a_.reset(); },      [&] { b_.reset(); },
        [&] { receive_.reset(); }, [&] { send_.reset(); },   [&] { pool_.reset(); },
        [&] { pd_.reset(); },      [&] { region_.reset(); }, [&] { seen_.reset(); },
        [&] { unseen_.reset(); },  [&] { context_.reset(); }};
    drops.at(index)();
  }

 private:
  [[nodiscard]] buffer memory() const { return std::move(*pool_->take(64)); }

  std::optional<verbena::context> context_;
  std::optional<protection_domain> pd_;
  std::optional<memory_region> region_;
  std::optional<buffer_pool> pool_;
  std::optional<completion_hub> hub_;
  std::optional<channel> a_;
  std::optional<channel> b_;
  std::optional<pending_operation> seen_;
  std::optional<pending_operation> unseen_;
  std::optional<pending_operation> receive_;
  std::optional<pending_operation> send_;
};

class teardown_campaign : public teardown_fixture<everything> {};

TEST_F(teardown_campaign, handles_are_destroyed_in_all_orders) {
  drop_in_all_orders<7>(static_cast<std::size_t>(campaign_size(5, 7)));
}

TEST_F(teardown_campaign, objects_are_destroyed_in_random_orders) {
  drop_in_random_orders(campaign_size(100, 2000), campaign_seed(7));
}

}  // namespace
}  // namespace verbena::test
