// SPDX-License-Identifier: MIT
// What calls cost in a process with many peers or queue pairs, compared with few: they do not visit
// those that they are not about. Counted in instructions.
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "bench/profile/instruction_trace.hpp"
#include "tests/unit/softdev/fabric/device_pair.hpp"

namespace verbena::softdev::testing {
namespace {

using std::chrono::milliseconds;

// The instructions of `measured(state)` after `prepare()` made the state, in one child process.
template <class State>
std::optional<std::uint64_t> instructions(const std::function<std::unique_ptr<State>()>& prepare,
                                          const std::function<void(State&)>& measured) {
  std::unique_ptr<State> made;
  const auto counted =
      bench::count_instructions([&] { made = prepare(); }, [&] { measured(*made); });
  if (!counted) return std::nullopt;
  return counted->all;
}

link_options for_many_links() {
  link_options options;
  options.links_per_process = 100;
  return options;
}

// Links of this process that are peers of the first one.
struct link_star {
  explicit link_star(std::size_t peers) : own(open_link(for_many_links())) {
    for (std::size_t i = 0; i < peers; ++i) {
      others.push_back(open_link(for_many_links()));
      const auto to = own->connect(others.back()->slot());
      const bool paired = drive({own.get(), others.back().get()},
                                [&] { return to->state() == peer_state::paired; });
      if (!paired) ::_exit(1);
    }
    for (int i = 0; i < 3; ++i) {
      own->service(clock::now());
      own->receive(take_all, 100);
    }
    own->sleeper().announce_sleep_unseen();
    own->sleeper().announce_awake();
    static_cast<void>(own->sleeper().announce_sleep(now));  // looks at all
    own->sleeper().announce_awake();
  }
  clock::time_point now = clock::now();
  std::unique_ptr<link> own;
  std::vector<std::unique_ptr<link>> others;
};

constexpr std::size_t few = 10;  // more than are looked at one by one
constexpr std::size_t many = 50;

class cost_with_many_peers : public ::testing::Test {
 protected:
  // Expects that 40 more peers cost less than `each` instructions for each of them.
  static void expect_at_most(double each, const std::function<void(link_star&)>& measured) {
    const auto star = [](std::size_t peers) {
      return [peers] { return std::make_unique<link_star>(peers); };
    };
    const auto with_few = instructions<link_star>(star(few), measured);
    if (!with_few) GTEST_SKIP() << "ptrace is not permitted, or this is not x86-64";
    const auto with_many = instructions<link_star>(star(many), measured);
    ASSERT_TRUE(with_many.has_value());
    const double more = static_cast<double>(*with_many) - static_cast<double>(*with_few);
    EXPECT_LE(more / (many - few), each)
        << *with_few << " with few, " << *with_many << " with many";
  }
};

TEST_F(cost_with_many_peers, last_look_before_sleep_visits_none) {
  expect_at_most(1, [](link_star& star) {
    static_cast<void>(star.own->sleeper().announce_sleep(star.now + milliseconds(1)));
  });
}

TEST_F(cost_with_many_peers, service_without_events_visits_none) {
  expect_at_most(1, [](link_star& star) { star.own->service(star.now); });
}

TEST_F(cost_with_many_peers, fence_reads_one_word_of_each_that_entered_no_section) {
  expect_at_most(30,
                 [](link_star& star) { static_cast<void>(star.own->fence(deadline::never())); });
}

// Two devices with `queue_pairs` connections.
struct many_connections : device_pair {
  explicit many_connections(std::size_t queue_pairs, const link_options& options = {})
      : device_pair(options) {
    connect_ends();
    for (std::size_t i = 1; i < queue_pairs; ++i) {
      end_point& one = left.make();
      end_point& other = right.make();
      connect(*one.qp, connection_to(other.qp->number()));
      connect(*other.qp, connection_to(one.qp->number()));
    }
    settle();
    const bool is_paired =
        left.peer_link->find(right.peer_link->slot())->state() == peer_state::paired;
    if (!is_paired) ::_exit(1);
  }
  std::unique_ptr<shared_buffer> from;
  std::unique_ptr<shared_buffer> to;
};

constexpr std::size_t few_connections = 62;
constexpr std::size_t more_connections = 182;

void expect_equal_cost(const std::function<std::unique_ptr<many_connections>(std::size_t)>& make,
                       const std::function<void(many_connections&)>& measured, double each) {
  const auto prepare = [&](std::size_t count) { return [&make, count] { return make(count); }; };
  const auto with_few = instructions<many_connections>(prepare(few_connections), measured);
  if (!with_few) GTEST_SKIP() << "ptrace is not permitted, or this is not x86-64";
  const auto with_many = instructions<many_connections>(prepare(more_connections), measured);
  ASSERT_TRUE(with_many.has_value());
  const double more = static_cast<double>(*with_many) - static_cast<double>(*with_few);
  EXPECT_LE(more / (more_connections - few_connections), each)
      << *with_few << " with few, " << *with_many << " with many";
}

TEST(cost_with_many_queue_pairs, progress_does_not_run_those_whose_ring_is_full) {
  const auto make = [](std::size_t count) {
    link_options options;
    options.ring_bytes = min_ring_bytes;
    auto made = std::make_unique<many_connections>(count, options);
    made->from = std::make_unique<shared_buffer>(made->left, memory_kind::shareable, 4096, 1);
    // The first one fills the ring, then each has a request that waits.
    for (int i = 0; i < 16; ++i)
      static_cast<void>(post(*made->left.ends[0]->qp, {.wr_id = 1}, {made->from->slice(0, 1024)}));
    for (auto& each : made->left.ends)
      static_cast<void>(post(*each->qp, {.wr_id = 1}, {made->from->slice(0, 1024)}));
    made->left.path->progress();
    made->left.path->progress();
    return made;
  };
  expect_equal_cost(make, [](many_connections& all) { all.left.path->progress(); }, 1);
}

TEST(cost_with_many_queue_pairs, message_beside_those_that_wait_for_the_rnr_timer) {
  const auto send_one = [](many_connections& all) {
    // Without lists on the heap: what an allocation costs depends on those before it.
    const sge sink = all.to->slice(0, 8);
    const sge source = all.from->slice(0, 8);
    all.b->qp->receives().open();
    const int received = all.b->qp->receives().add(2, {&sink, 1});
    all.b->qp->receives().close();
    all.a->qp->sends().open();
    const int sent = all.a->qp->sends().add({.wr_id = 1, .flags = signaled}, {&source, 1});
    all.a->qp->sends().submit();
    if (received != 0 || sent != 0) ::_exit(1);
    all.right.core->progress();
    all.right.path->progress();
    all.left.core->progress();
    all.left.path->progress();
    std::array<completion, 2> room;
    if (all.a->sent->poll(room) != 1) ::_exit(1);
  };
  const auto make = [&](std::size_t count) {
    auto made = std::make_unique<many_connections>(count);
    made->from = std::make_unique<shared_buffer>(made->left, memory_kind::shareable, 4096, 1);
    made->to = std::make_unique<shared_buffer>(made->right, memory_kind::shareable, 4096, 2);
    // The receivers of all but one have posted nothing. The virtual time does not pass.
    for (std::size_t i = 1; i < made->left.ends.size(); ++i)
      static_cast<void>(post(*made->left.ends[i]->qp, {.wr_id = 1}, {made->from->slice(0, 8)}));
    made->settle();
    return made;
  };
  expect_equal_cost(make, send_one, 1);
}

TEST(cost_with_many_queue_pairs, event_of_another_process_visits_none) {
  const auto make = [](std::size_t count) { return std::make_unique<many_connections>(count); };
  expect_equal_cost(make, [](many_connections& all) { all.left.path->after_service(); }, 1);
}

}  // namespace
}  // namespace verbena::softdev::testing
