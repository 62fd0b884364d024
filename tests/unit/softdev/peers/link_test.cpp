// SPDX-License-Identifier: MIT
// Links within one process: pairing, records, wake-ups, grants. link_process_test.cpp tests links
// between processes.
#include "softdev/peers/link.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <thread>
#include <vector>

#include "tests/unit/softdev/descriptor_limit.hpp"
#include "tests/unit/softdev/peers/link_pair.hpp"

namespace verbena::softdev {
namespace {

using namespace testing;
using namespace std::chrono_literals;

TEST(link, invalid_options_are_refused) {
  link_options odd;
  odd.ring_bytes = 100'000;
  EXPECT_EQ(link::open(odd).error().kind(), error_kind::invalid_argument);
  odd.ring_bytes = max_ring_bytes * 2;
  EXPECT_EQ(link::open(odd).error().kind(), error_kind::invalid_argument);
  EXPECT_EQ(parse_route_policy("auto").value(), route_policy::automatic);
  EXPECT_EQ(parse_route_policy("no_cma").value(), route_policy::no_cma);
  EXPECT_EQ(parse_route_policy("ring").value(), route_policy::ring);
  EXPECT_EQ(parse_route_policy("fast").error().kind(), error_kind::invalid_argument);
  EXPECT_EQ(parse_route_policy("").error().kind(), error_kind::invalid_argument);
}

TEST(link, environment_selects_the_route) {
  ::setenv("VERBENA_SOFTDEV_ROUTE", "ring", 1);
  EXPECT_EQ(link_options::from_environment().value().route, route_policy::ring);
  ::setenv("VERBENA_SOFTDEV_ROUTE", "nonsense", 1);
  EXPECT_FALSE(link_options::from_environment());
  ::unsetenv("VERBENA_SOFTDEV_ROUTE");
  EXPECT_EQ(link_options::from_environment().value().route, route_policy::automatic);
}

TEST(link, slots_of_live_links_differ) {
  const auto a = open_link();
  const auto b = open_link();
  EXPECT_NE(a->slot(), b->slot());
  EXPECT_LT(a->slot(), slot_count);
}

TEST(link, pairing_does_not_block_and_both_sides_see_the_peer) {
  linked_pair pair;
  EXPECT_EQ(pair.to_right->pid(), ::getpid());
  EXPECT_EQ(pair.to_right->slot(), pair.right->slot());
  EXPECT_EQ(pair.left->connect(pair.right->slot()), pair.to_right) << "one peer per process";
  EXPECT_EQ(pair.right->connect(pair.left->slot()), pair.to_left);
  EXPECT_TRUE(pair.to_right->process().routes().read);
  EXPECT_TRUE(pair.to_right->process().routes().write);
}

TEST(link, connect_during_adoption_creates_one_peer) {
  for (int round = 0; round < 100; ++round) {
    const auto left = open_link();
    const auto right = open_link();
    const auto b = right->connect(left->slot());
    right->service(clock::now());  // its hello message is pending at `left`
    std::shared_ptr<peer> a;
    std::thread connecting([&] { a = left->connect(right->slot()); });
    left->service(clock::now());
    connecting.join();
    ASSERT_TRUE(drive({left.get(), right.get()}, [&] {
      return a->state() != peer_state::connecting && b->state() != peer_state::connecting;
    }));
    ASSERT_EQ(a->state(), peer_state::paired) << describe(a->end());
    ASSERT_EQ(left->find(right->slot()), a)
        << "connect() returned another peer than the paired one";
  }
}

TEST(link, simultaneous_connects_create_one_peer_in_any_interleaving) {
  for (int round = 0; round < 20; ++round) {
    const auto left = open_link();
    const auto right = open_link();
    const auto a = left->connect(right->slot());
    const auto b = right->connect(left->slot());
    // The order of calls determines the interleaving.
    for (int turn = 0; turn < round % 5; ++turn) left->service(clock::now());
    for (int turn = 0; turn < round / 5; ++turn) right->service(clock::now());
    ASSERT_TRUE(drive({left.get(), right.get()}, [&] {
      return a->state() != peer_state::connecting && b->state() != peer_state::connecting;
    }));
    ASSERT_EQ(a->state(), peer_state::paired) << describe(a->end());
    ASSERT_EQ(b->state(), peer_state::paired) << describe(b->end());
    ASSERT_TRUE(send_record(*a, 1, 8, 1));
    ASSERT_TRUE(send_record(*b, 1, 8, 1));
    EXPECT_EQ(right->receive(take_all, 9), 1U);
    EXPECT_EQ(left->receive(take_all, 9), 1U);
    for (int turn = 0; turn < 5; ++turn) {
      left->service(clock::now());
      right->service(clock::now());
    }
    EXPECT_EQ(a->state(), peer_state::paired);
    EXPECT_EQ(b->state(), peer_state::paired);
  }
}

TEST(link, connect_to_empty_or_own_slot_fails_immediately) {
  const auto a = open_link();
  const auto own = a->connect(a->slot());
  EXPECT_EQ(own->state(), peer_state::dead);
  auto gone = open_link();
  const std::uint32_t slot = gone->slot();
  gone.reset();
  const auto nobody = a->connect(slot);
  EXPECT_TRUE(a->service_due());
  a->service(clock::now());
  EXPECT_EQ(nobody->state(), peer_state::dead);
  EXPECT_EQ(nobody->end(), peer_end::no_process);
  EXPECT_EQ(a->find(slot), nullptr);
  EXPECT_EQ(a->find(slot_count), nullptr);
}

TEST(link, silent_peer_is_overdue_and_is_paired_when_it_answers) {
  const auto silent = open_link();  // is not served
  const auto a = open_link();
  const auto start = clock::now();
  const auto waiting = a->connect(silent->slot());
  const auto first = a->service(start);
  EXPECT_EQ(waiting->state(), peer_state::connecting);
  EXPECT_FALSE(waiting->is_overdue());
  ASSERT_TRUE(first.next);
  EXPECT_LE(*first.next, start + a->options().pairing_timeout);
  EXPECT_EQ(a->service(start + a->options().pairing_timeout + 1ms).events, 1U);
  EXPECT_EQ(waiting->state(), peer_state::connecting);
  EXPECT_TRUE(waiting->is_overdue());
  // The connection waits in the backlog. Whoever takes it is paired, so both must be.
  std::shared_ptr<peer> seen;
  EXPECT_TRUE(drive({silent.get(), a.get()}, [&] {
    seen = silent->find(a->slot());
    return seen && waiting->state() == peer_state::paired;
  }));
  EXPECT_EQ(seen->state(), peer_state::paired) << describe(seen->end());
  EXPECT_EQ(silent->counters().peers_lost, 0U);
  ASSERT_TRUE(send_record(*seen, 1, 8, 1));
  EXPECT_TRUE(drive({a.get()}, [&] { return a->receive(take_all, 1) == 1; }));
}

TEST(link_death, rule_violation_stops_the_program) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";  // links cannot be used after fork
  const auto a = open_link();
  EXPECT_DEATH(static_cast<void>(a->connect(slot_count)), "a slot is less than 3904");
  linked_pair pair;
  ASSERT_TRUE(send_record(*pair.to_right, 1, 1, 1));
  const auto calls_service = [&](peer&, const ring_record&) {
    pair.right->service(clock::now());
    return handled::consumed;
  };
  EXPECT_DEATH(pair.right->receive(calls_service, 1), "a receive handler must not call");
}

TEST(link, records_arrive_in_order_from_several_threads) {
  linked_pair pair;
  constexpr int per_thread = 2000;
  std::array<std::thread, 3> senders;
  for (std::size_t who = 0; who < senders.size(); ++who) {
    senders[who] = std::thread([&, who] {
      for (int sent = 0; sent < per_thread;) {
        const auto lock = pair.to_right->lock_sends();
        const auto record =
            pair.to_right->try_reserve(static_cast<std::uint16_t>(who), sizeof sent);
        if (record.status != ring_status::ok) continue;
        std::memcpy(record.payload.data(), &sent, sizeof sent);
        pair.to_right->commit();
        pair.to_right->announce();
        ++sent;
      }
    });
  }
  std::array<int, 3> next{};
  int received = 0;
  while (received < per_thread * 3) {
    pair.right->receive(
        [&](peer& from, const ring_record& record) {
          EXPECT_EQ(&from, pair.to_left.get());
          int value = -1;
          std::memcpy(&value, record.payload.data(), sizeof value);
          EXPECT_EQ(value, next[record.type]++);
          ++received;
          return handled::consumed;
        },
        64);
  }
  for (auto& each : senders) each.join();
  EXPECT_FALSE(finds_records(*pair.right));
}

TEST(link, deferred_record_stays_first_and_does_not_prevent_sleep) {
  linked_pair pair;
  ASSERT_TRUE(send_record(*pair.to_right, 1, 4, 1));
  ASSERT_TRUE(send_record(*pair.to_right, 2, 4, 1));
  EXPECT_TRUE(finds_records(*pair.right));
  const auto keep = [](peer&, const ring_record& r) {
    EXPECT_EQ(r.type, 1);
    return handled::keep;
  };
  EXPECT_EQ(pair.right->receive(keep, 10), 0U);
  EXPECT_FALSE(finds_records(*pair.right)) << "no new record";
  ASSERT_TRUE(send_record(*pair.to_right, 3, 4, 1));
  EXPECT_TRUE(finds_records(*pair.right)) << "a new record";
  EXPECT_EQ(pair.right->receive(take_all, 10), 3U);
}

TEST(link, poll_budget_is_respected_and_peers_are_served_in_turn) {
  const auto hub = open_link();
  const auto one = open_link();
  const auto two = open_link();
  const auto a = one->connect(hub->slot());
  const auto b = two->connect(hub->slot());
  ASSERT_TRUE(drive({hub.get(), one.get(), two.get()}, [&] {
    return a->state() == peer_state::paired && b->state() == peer_state::paired;
  }));
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(send_record(*a, 1, 4, 1));
    ASSERT_TRUE(send_record(*b, 2, 4, 1));
  }
  std::array<int, 3> seen{};
  const auto count = [&](peer&, const ring_record& r) {
    ++seen[r.type];
    return handled::consumed;
  };
  EXPECT_EQ(hub->receive(count, 5), 5U);
  EXPECT_EQ(hub->receive(count, 5), 5U);
  EXPECT_EQ(seen[1], 5);
  EXPECT_EQ(seen[2], 5);
}

TEST(link, doorbell_identifies_one_of_many_peers) {
  link_options options;
  options.scan_limit = 2;
  options.ring_bytes = min_ring_bytes;
  const auto hub = open_link(options);
  std::vector<std::unique_ptr<link>> others;
  std::vector<std::shared_ptr<peer>> hubs;
  for (int i = 0; i < 12; ++i) {
    others.push_back(open_link(options));
    hubs.push_back(others.back()->connect(hub->slot()));
    ASSERT_TRUE(drive({hub.get(), others.back().get()},
                      [&] { return hubs.back()->state() == peer_state::paired; }));
    hub->receive(take_all, 100);
  }
  for (int round = 0; round < 200; ++round) {
    std::vector<std::size_t> sent;
    for (std::size_t i = 0; i < hubs.size(); ++i) {
      if ((round * 7 + static_cast<int>(i) * 3) % 5 != 0) continue;
      ASSERT_TRUE(send_record(*hubs[i], static_cast<std::uint16_t>(i), 8, 1));
      sent.push_back(i);
    }
    std::vector<std::size_t> seen;
    const auto note = [&](peer& from, const ring_record& r) {
      EXPECT_EQ(from.slot(), others[r.type]->slot());
      seen.push_back(r.type);
      return handled::consumed;
    };
    // Without service(), only doorbells identify the rings. The budget splits the records.
    while (hub->receive(note, 3) != 0) {
    }
    std::ranges::sort(seen);
    ASSERT_EQ(seen, sent) << "round " << round;
  }
}

TEST(link, busy_peer_does_not_keep_others_out_in_doorbell_mode) {
  link_options options;
  options.scan_limit = 2;
  const auto hub = open_link(options);
  std::vector<std::unique_ptr<link>> others;
  std::map<std::uint32_t, std::shared_ptr<peer>> hubs;  // by the slot of the sender
  for (int i = 0; i < 10; ++i) {
    others.push_back(open_link(options));
    const auto to_hub = others.back()->connect(hub->slot());
    hubs[others.back()->slot()] = to_hub;
    ASSERT_TRUE(drive({hub.get(), others.back().get()},
                      [&] { return to_hub->state() == peer_state::paired; }));
  }
  while (hub->receive(take_all, 100) != 0) {
  }
  const auto& [busy, from_busy] = *hubs.begin();
  const auto& [last, from_last] = *hubs.rbegin();
  ASSERT_TRUE(send_record(*from_busy, 1, 4, 1));
  ASSERT_TRUE(send_record(*from_last, 1, 4, 1));
  bool served = false;
  const auto refill = [&](peer& from, const ring_record&) {
    served = served || from.slot() == last;
    EXPECT_TRUE(from.slot() != busy || send_record(*from_busy, 1, 4, 1));
    return handled::consumed;
  };
  for (int pass = 0; pass < 20 && !served; ++pass) EXPECT_NE(hub->receive(refill, 256), 0U);
  EXPECT_TRUE(served);
}

TEST(link, deferred_record_is_offered_again_in_doorbell_mode) {
  link_options options;
  options.scan_limit = 0;
  linked_pair pair(options);
  pair.right->receive(take_all, 10);
  ASSERT_TRUE(send_record(*pair.to_right, 1, 4, 1));
  const auto keep = [](peer&, const ring_record&) { return handled::keep; };
  EXPECT_EQ(pair.right->receive(keep, 10), 0U);
  EXPECT_EQ(pair.right->receive(take_all, 10), 1U);
}

TEST(link, lost_doorbell_delays_but_loses_no_record) {
  link_options options;
  options.scan_limit = 0;
  linked_pair pair(options);
  pair.right->receive(take_all, 10);  // checks all rings, as after each pairing
  pair.right->receive(take_all, 10);
  {
    // A peer that never rings the doorbell.
    const auto lock = pair.to_right->lock_sends();
    ASSERT_EQ(pair.to_right->try_reserve(1, 4).status, ring_status::ok);
    pair.to_right->commit();
  }
  EXPECT_EQ(pair.right->receive(take_all, 10), 0U);
  pair.right->service(clock::now() + 1s);
  EXPECT_EQ(pair.right->receive(take_all, 10), 1U);
}

TEST(link, last_look_of_a_process_with_many_peers_finds_a_record_that_rang) {
  link_options options;
  options.scan_limit = 0;
  linked_pair pair(options);
  const auto now = clock::now();
  ASSERT_TRUE(pair.right->sleeper().announce_sleep(now));
  pair.right->sleeper().announce_awake();
  ASSERT_TRUE(send_record(*pair.to_right, 1, 4, 1));
  EXPECT_FALSE(pair.right->sleeper().announce_sleep(now));
  EXPECT_EQ(pair.right->receive(take_all, 10), 1U);
  EXPECT_TRUE(pair.right->sleeper().announce_sleep(now));
  pair.right->sleeper().announce_awake();
  while (send_record(*pair.to_right, 1, 1000, 1)) {
  }
  EXPECT_TRUE(pair.left->sleeper().announce_sleep(clock::now()));
  pair.left->sleeper().announce_awake();
  EXPECT_GT(pair.right->receive(take_all, 4), 0U);
  EXPECT_FALSE(pair.left->sleeper().announce_sleep(clock::now())) << "room came back";
  EXPECT_TRUE(pair.left->sleeper().announce_sleep(clock::now()));
  pair.left->sleeper().announce_awake();
}

TEST(link, sender_on_full_ring_is_woken_when_room_returns) {
  link_options options;
  options.ring_bytes = min_ring_bytes;
  linked_pair pair(options);
  int sent = 0;
  while (send_record(*pair.to_right, 1, 1000, 1)) ++sent;
  EXPECT_GT(sent, 10);
  EXPECT_FALSE(pair.to_right->may_have_room());
  EXPECT_TRUE(pair.left->sleeper().announce_sleep(clock::now()));
  EXPECT_FALSE(readable(pair.left->service_fd()));
  EXPECT_EQ(pair.right->receive(take_all, 4), 4U);
  EXPECT_TRUE(readable(pair.left->service_fd()))
      << "the sleeping sender is woken when the ring has room";
  pair.left->sleeper().announce_awake();
  EXPECT_TRUE(pair.to_right->may_have_room());
  while (send_record(*pair.to_right, 1, 1000, 1)) {
  }
  EXPECT_FALSE(pair.to_right->may_have_room()) << "it was full again, and nothing was consumed";
}

TEST(link, returned_ring_space_prevents_sleep) {
  link_options options;
  options.ring_bytes = min_ring_bytes;
  linked_pair pair(options);
  while (send_record(*pair.to_right, 1, 1000, 1)) {
  }
  EXPECT_EQ(pair.right->receive(take_all, 4), 4U);
  EXPECT_FALSE(pair.left->sleeper().announce_sleep(clock::now()));
  EXPECT_TRUE(pair.left->sleeper().announce_sleep(clock::now()))
      << "unused room does not prevent sleep forever";
  pair.left->sleeper().announce_awake();
  EXPECT_TRUE(pair.to_right->may_have_room());
  pair.left->sleeper().announce_awake();
}

TEST(link, sleeping_peer_is_woken_once_per_sleep) {
  linked_pair pair;
  ASSERT_TRUE(send_record(*pair.to_right, 1, 4, 1));
  EXPECT_FALSE(readable(pair.right->service_fd())) << "the peer is awake";
  EXPECT_FALSE(pair.right->sleeper().announce_sleep(clock::now())) << "a record prevents sleep";
  EXPECT_EQ(pair.right->receive(take_all, 10), 1U);
  ASSERT_TRUE(pair.right->sleeper().announce_sleep(clock::now()));
  ASSERT_TRUE(send_record(*pair.to_right, 1, 4, 1));
  EXPECT_TRUE(readable(pair.right->service_fd()));
  EXPECT_EQ(pair.right->service(clock::now()).events, 0U) << "a wake-up is no event";
  ASSERT_TRUE(send_record(*pair.to_right, 1, 4, 1));
  EXPECT_FALSE(readable(pair.right->service_fd())) << "one signal per sleep";
  pair.right->sleeper().announce_awake();
  EXPECT_EQ(pair.right->receive(take_all, 10), 2U);
  ASSERT_TRUE(pair.right->sleeper().announce_sleep(clock::now()));
  ASSERT_TRUE(send_record(*pair.to_right, 1, 4, 1));
  EXPECT_TRUE(readable(pair.right->service_fd())) << "each sleep is signaled";
  pair.right->sleeper().announce_awake();
}

TEST(link, no_wakeup_is_lost_between_sleeper_and_sender) {
  // The sleeper waits without a timeout: a lost wake-up makes the test reach its deadline.
  linked_pair pair;
  ASSERT_TRUE(pair.right->sleeper().wakes().watch(pair.right->service_fd(), 1));
  std::atomic<bool> stop = false;
  std::atomic<int> received = 0;
  std::atomic<int> lost = 0;
  std::thread sleeper([&] {
    while (!stop) {
      received += static_cast<int>(pair.right->receive(take_all, 64));
      if (!pair.right->sleeper().announce_sleep(clock::now())) continue;
      const auto woken = pair.right->sleeper().wakes().wait(10s);
      if (!woken.signaled && woken.watched == 0) {
        ++lost;
        stop = true;
      }
      pair.right->service(clock::now());
      pair.right->sleeper().announce_awake();
    }
  });
  const auto end = clock::now() + 500ms;
  constexpr int least = 10;  // also on a loaded host
  int sent = 0;
  while ((clock::now() < end || sent <= least) && !stop) {
    if (!send_record(*pair.to_right, 1, 8, 1)) continue;
    ++sent;
    // Waits for the record, so that the sleeper sleeps before each record.
    while (received != sent && !stop) std::this_thread::yield();
  }
  stop = true;
  pair.right->sleeper().wakes().signal();
  sleeper.join();
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(received, sent);
  EXPECT_GT(sent, least);
}

TEST(link, wake_channel_is_fetched_on_first_use_and_cached) {
  linked_pair pair;
  const auto channel = pair.right->channels().create().value();
  EXPECT_FALSE(pair.to_right->signal_channel(channel.id)) << "the channel is not cached";
  EXPECT_TRUE(readable(pair.right->service_fd())) << "the progress thread is woken instead";
  EXPECT_FALSE(readable(channel.receiver->fd()));
  ASSERT_TRUE(
      drive({pair.right.get(), pair.left.get()}, [&] { return readable(channel.receiver->fd()); }));
  EXPECT_TRUE(channel.receiver->take());
  EXPECT_TRUE(pair.to_right->signal_channel(channel.id));
  EXPECT_TRUE(readable(channel.receiver->fd()));
  EXPECT_FALSE(pair.to_right->signal_channel(0)) << "0 is not a channel";
}

TEST(link, wake_channel_that_was_refused_for_lack_of_descriptors_is_fetched_later) {
  linked_pair pair;
  const auto channel = pair.right->channels().create().value();
  {
    const descriptor_limit full(0);
    EXPECT_FALSE(pair.to_right->signal_channel(channel.id));
    ASSERT_TRUE(drive({pair.right.get(), pair.left.get()}, [&] {
      return !readable(pair.right->service_fd()) && !readable(pair.left->service_fd());
    }));
  }
  EXPECT_FALSE(pair.to_right->signal_channel(channel.id)) << "the peer refused";
  ASSERT_TRUE(drive({pair.right.get(), pair.left.get()},
                    [&] { return pair.to_right->signal_channel(channel.id); }));
  EXPECT_TRUE(readable(channel.receiver->fd()));
}

TEST(link, each_of_64_wake_channels_is_signaled_directly) {
  // The numbers differ by more than 64, so that a table of 64 places would not do.
  linked_pair pair;
  std::vector<wake_channels::created> all;
  all.reserve(200);
  for (int i = 0; i < 200; ++i) all.push_back(pair.right->channels().create().value());
  std::vector<wake_channels::created> used;
  for (std::size_t i = 0; i < all.size(); i += 4) used.push_back(all[i]);
  for (const auto& each : used) static_cast<void>(pair.to_right->signal_channel(each.id));
  for (const auto& each : used) {
    ASSERT_TRUE(
        drive({pair.right.get(), pair.left.get()}, [&] { return readable(each.receiver->fd()); }));
    EXPECT_TRUE(each.receiver->take());
  }
  for (const auto& each : used) EXPECT_TRUE(pair.to_right->signal_channel(each.id));
  for (const auto& each : used) EXPECT_TRUE(each.receiver->take());
}

TEST(link, reused_wake_channel_id_refers_to_the_new_channel) {
  linked_pair pair;
  const auto first = pair.right->channels().create().value();
  EXPECT_TRUE(pair.right->channels().destroy(first.id));
  EXPECT_FALSE(pair.right->channels().destroy(first.id));
  const auto second = pair.right->channels().create().value();
  EXPECT_NE(first.id, second.id);
  EXPECT_FALSE(pair.to_right->signal_channel(first.id));
  EXPECT_FALSE(pair.to_right->signal_channel(second.id));
  ASSERT_TRUE(
      drive({pair.right.get(), pair.left.get()}, [&] { return readable(second.receiver->fd()); }));
}

TEST(link, shareable_memory_is_mapped_on_first_use) {
  linked_pair pair;
  auto* memory = static_cast<std::byte*>(
      pair.right->arenas().allocate(1'000'000, arena_registry::pages::normal).value());
  const auto place = pair.right->arenas().acquire(memory, 1'000'000).value();
  const auto look = [&] {
    const auto section = pair.to_right->enter();
    EXPECT_TRUE(section);
    return pair.to_right->map(place.arena, place.offset, 100, map_access::read_write);
  };
  EXPECT_EQ(look().status, map_status::pending);
  EXPECT_EQ(look().status, map_status::pending);
  ASSERT_TRUE(drive({pair.right.get(), pair.left.get()},
                    [&] { return look().status == map_status::ready; }));
  *look().address = std::byte{77};
  EXPECT_EQ(memory[0], std::byte{77});
  // A nonexistent arena is rejected.
  const auto wrong = [&] {
    const auto section = pair.to_right->enter();
    return pair.to_right->map(place.arena + 1000, 0, 1, map_access::read_only).status;
  };
  EXPECT_EQ(wrong(), map_status::pending);
  EXPECT_TRUE(drive({pair.right.get(), pair.left.get()},
                    [&] { return wrong() == map_status::unavailable; }));
  // After the arena is freed, the mapping is removed.
  pair.right->arenas().release(memory);
  ASSERT_EQ(pair.right->arenas().free(memory), 0);
  EXPECT_TRUE(drive({pair.right.get(), pair.left.get()},
                    [&] { return look().status != map_status::ready; }));
}

TEST(link, route_policy_disables_routes) {
  link_options options;
  options.route = route_policy::no_cma;
  linked_pair no_cma(options);
  EXPECT_FALSE(no_cma.to_right->process().routes().read);
  EXPECT_FALSE(no_cma.to_right->process().routes().write);
  int value = 0;
  const iovec local{&value, sizeof value};
  EXPECT_EQ(no_cma.to_right->process().read({&local, 1}, {&local, 1}).status,
            copy_status::not_permitted);
  options.route = route_policy::ring;
  linked_pair ring(options);
  EXPECT_FALSE(ring.to_right->process().routes().read);
  const auto section = ring.to_right->enter();
  EXPECT_EQ(ring.to_right->map(1, 0, 1, map_access::read_only).status, map_status::unavailable);
}

TEST(link, fence_waits_only_for_sections_that_began_before_it) {
  linked_pair pair;
  EXPECT_EQ(pair.right->fence(deadline::after(0s)), fence_outcome::clear);
  {
    const auto section = pair.to_right->enter();
    ASSERT_TRUE(section);
    EXPECT_EQ(pair.right->fence(deadline::after(1ms)), fence_outcome::timed_out);
    EXPECT_EQ(pair.left->fence(deadline::after(0s)), fence_outcome::clear)
        << "the section belongs to the target";
  }
  EXPECT_EQ(pair.right->fence(deadline::after(0s)), fence_outcome::clear);
  // Sections that begin after the fence do not delay it.
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    while (!stop) {
      const auto one = pair.to_right->enter();
      const auto two = pair.to_right->enter();
    }
  });
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(pair.right->fence(deadline::after(10s)), fence_outcome::clear);
  }
  stop = true;
  busy.join();
}

TEST(link, section_without_free_lane_is_empty) {
  linked_pair pair;
  std::vector<active_section> sections;
  for (std::uint32_t i = 0; i < lane_count; ++i) {
    sections.push_back(pair.to_right->enter());
    ASSERT_TRUE(sections.back());
  }
  EXPECT_FALSE(pair.to_right->enter());
  sections.back().leave();
  EXPECT_TRUE(pair.to_right->enter());
}

TEST(link, no_write_occurs_after_withdraw_and_fence) {
  linked_pair pair;
  std::atomic<std::uint64_t> target = 0;
  std::atomic<bool> stop = false;
  constexpr std::uint32_t key = 4711;
  const region_record region{
      .key = key, .length = 8, .address = reinterpret_cast<std::uintptr_t>(&target)};
  std::thread writer([&] {
    std::uint64_t value = 0;
    while (!stop) {
      const auto section = pair.to_right->enter();
      region_record found;
      if (!section || pair.to_right->segment().find_region(key, found) != lookup::found) continue;
      target.store(++value, std::memory_order_relaxed);
    }
  });
  std::uint64_t last = 0;
  for (int round = 0; round < 60; ++round) {
    ASSERT_TRUE(pair.right->segment().publish_region(region));
    const auto end = clock::now() + test_timeout;
    while (target == last && clock::now() < end) std::this_thread::yield();
    EXPECT_NE(target, last) << "the writer found the region in round " << round;
    ASSERT_TRUE(pair.right->segment().withdraw_region(key));
    ASSERT_EQ(pair.right->fence(deadline::after(10s)), fence_outcome::clear);
    const std::uint64_t after = target;
    last = after;
    for (int i = 0; i < 200; ++i) ASSERT_EQ(target, after) << "round " << round;
  }
  stop = true;
  writer.join();
}

TEST(link, closed_link_reports_peer_exit_after_its_last_records) {
  linked_pair pair;
  ASSERT_TRUE(send_record(*pair.to_left, 5, 10, 1));
  pair.to_left.reset();
  pair.right.reset();
  pair.left->service(clock::now());
  EXPECT_EQ(pair.to_right->state(), peer_state::paired) << "the last record has not been received";
  EXPECT_EQ(pair.left->receive(take_all, 10), 1U);
  ASSERT_TRUE(drive({pair.left.get()}, [&] { return pair.to_right->state() == peer_state::dead; }));
  EXPECT_EQ(pair.to_right->end(), peer_end::exited);
  EXPECT_EQ(pair.left->find(pair.to_right->slot()), nullptr);
  EXPECT_EQ(pair.left->counters().peers_lost, 1U);
  // The mappings exist as long as the reference and can be used.
  EXPECT_TRUE(send_record(*pair.to_right, 1, 10, 1));
  EXPECT_EQ(pair.left->fence(deadline::after(0s)), fence_outcome::clear);
}

TEST(link, unread_records_do_not_hide_peer_death) {
  linked_pair pair;
  ASSERT_TRUE(send_record(*pair.to_left, 5, 10, 1));
  pair.to_left.reset();
  pair.right.reset();
  const auto noticed = clock::now();
  pair.left->service(noticed);
  EXPECT_EQ(pair.to_right->state(), peer_state::paired);
  pair.left->service(noticed + 2s);
  EXPECT_EQ(pair.to_right->state(), peer_state::dead);
}

TEST(link, record_rejected_by_receiver_ends_the_pairing) {
  linked_pair pair;
  ASSERT_TRUE(send_record(*pair.to_right, 1, 4, 1));
  const auto refuse = [](peer&, const ring_record&) { return handled::broken; };
  EXPECT_EQ(pair.right->receive(refuse, 10), 0U);
  EXPECT_EQ(pair.to_left->state(), peer_state::dead);
  EXPECT_EQ(pair.to_left->end(), peer_end::broken_protocol);
  EXPECT_EQ(pair.right->counters().broken_records, 1U);
  EXPECT_TRUE(drive({pair.left.get(), pair.right.get()},
                    [&] { return pair.to_right->state() == peer_state::dead; }));
  // The links can be paired again.
  const auto again = pair.left->connect(pair.right->slot());
  EXPECT_TRUE(drive({pair.left.get(), pair.right.get()},
                    [&] { return again->state() == peer_state::paired; }));
}

}  // namespace
}  // namespace verbena::softdev
