// SPDX-License-Identifier: MIT
// Hostile processes: invalid and random messages, claims of other slots, misuse of wake-up ends.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <random>
#include <string>

#include "softdev/ipc/wake_sockets.hpp"
#include "softdev/peers/link.hpp"
#include "softdev/peers/pairing_message.hpp"
#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/softdev/peers/link_pair.hpp"
#include "tests/unit/softdev/peers/peer_process.hpp"

namespace verbena::softdev {
namespace {

using namespace testing;
using namespace std::chrono_literals;

/// Sends one message with given descriptors to a slot and returns the connection.
unique_fd say(std::uint32_t slot, const link_message& message, std::span<const int> descriptors) {
  auto made = connect_to_slot(slot);
  EXPECT_EQ(made.error, 0);
  EXPECT_EQ(send_message(made.socket.get(), message, descriptors), send_status::sent);
  return std::move(made.socket);
}

TEST(hostile_process, hello_with_invalid_descriptors_is_refused) {
  const auto own = open_link();
  const auto wakes = wake_receiver::create().value();
  const unique_fd wake = wakes->admit(nullptr).value();
  auto segment = create_sealed("x", public_segment_bytes, sealed_for::owner_only).value();
  auto open_segment = create_sealed("x", public_segment_bytes, sealed_for::everybody).value();
  auto pair = create_sealed("x", pair_ring_offset + min_ring_bytes, sealed_for::owner_only).value();
  auto bell = create_sealed("x", segment_page, sealed_for::everybody).value();
  const unique_fd unsealed(::memfd_create("x", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(unsealed.get(), segment_page), 0);
  const auto claim = slot_claim::take().value();
  const std::uint32_t slot = claim.slot();
  link_message hello{.kind = message_kind::hello};
  hello.version = layout_version;
  hello.slot = slot;
  hello.generation = 1;
  hello.ring_bytes = min_ring_bytes;
  const int good[4] = {segment.fd.get(), pair.fd.get(), bell.fd.get(), wake.get()};
  std::uint64_t broken = 0;
  const auto refused = [&](link_message message, std::array<int, 4> descriptors) {
    const auto socket = say(own->slot(), message, descriptors);
    own->service(clock::now());
    own->service(clock::now());
    EXPECT_EQ(own->counters().broken_messages, ++broken);
    EXPECT_EQ(own->find(slot), nullptr);
  };
  refused(hello, {open_segment.fd.get(), good[1], good[2], good[3]});
  refused(hello, {good[0], good[0], good[2], good[3]});
  refused(hello, {good[0], good[1], unsealed.get(), good[3]});
  refused(hello, {good[0], good[1], good[2], good[2]});
  const unique_fd counter(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  refused(hello, {good[0], good[1], good[2], counter.get()});
  const unique_fd datagrams(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  refused(hello, {good[0], good[1], good[2], datagrams.get()});
  refused(hello, {good[3], good[2], good[1], good[0]});
  refused(hello, {good[0], good[1], good[2], good[3]});  // the segment does not have a header
  auto wrong = hello;
  wrong.ring_bytes = min_ring_bytes + 1;
  refused(wrong, {good[0], good[1], good[2], good[3]});
  wrong.ring_bytes = 0x8000'0000U;
  refused(wrong, {good[0], good[1], good[2], good[3]});
  wrong = hello;
  wrong.slot = own->slot();
  refused(wrong, {good[0], good[1], good[2], good[3]});
  wrong.slot = 0xffff'ffffU;
  refused(wrong, {good[0], good[1], good[2], good[3]});
}

TEST(hostile_process, peer_writing_random_bytes_corrupts_only_its_own_pairing) {
  for (const unsigned seed : {1U, 2U, 3U, 4U, 5U, 6U}) {
    // The peer pairs correctly. Then it fills its ring, its words and the doorbell page with random
    // bytes, and sends unrequested messages.
    child hostile([seed](int to_parent) {
      const auto segment = public_segment::create(1023, 7).value();
      auto pair = create_sealed("x", pair_ring_offset + min_ring_bytes, sealed_for::owner_only);
      auto bell = create_sealed("x", segment_page, sealed_for::everybody);
      const auto wakes = wake_receiver::create().value();
      const unique_fd wake = wakes->admit(nullptr).value();
      auto& header = *pair->map.at<pair_header>(0);
      header.magic = segment_magic;
      auto claim = slot_claim::take().value();
      send_value(to_parent, claim.slot());
      unique_fd socket;
      while (!socket) socket = claim.accept();
      link_message hello{.kind = message_kind::hello};
      hello.version = layout_version;
      hello.slot = claim.slot();
      hello.generation = 7;
      hello.ring_bytes = min_ring_bytes;
      const std::array<int, 4> fds = {segment->fd(), pair->fd.get(), bell->fd.get(), wake.get()};
      if (send_message(socket.get(), hello, fds) != send_status::sent) return 1;
      std::mt19937_64 random(test::campaign_seed(seed));
      for (;;) {
        for (int i = 0; i < 200; ++i) {
          const std::size_t at = random() % (pair->map.size() - 64) / 8 * 8 + 64;
          *pair->map.at<std::uint64_t>(at) =
              seed % 2 == 0 ? random() : (std::uint64_t{0xb1ad} << 48) | (random() & 0xfff);
        }
        segment->header().sleeping = static_cast<std::uint32_t>(random());
        segment->header().doorbells = static_cast<std::uint32_t>(random());
        if (seed > 3) {
          link_message odd{.kind = static_cast<message_kind>(random() % 9 + 1),
                           .id = random() % 99};
          const int fd = wake.get();
          static_cast<void>(send_message(socket.get(), odd, std::span(&fd, random() % 2)));
        }
      }
      return 0;
    });
    link_options options;
    options.scan_limit = seed % 3;
    const auto own = open_link(options);
    const auto other = own->connect(hostile.read<std::uint32_t>());
    bool paired = false;
    clock::time_point end = clock::now() + test_timeout;
    while (clock::now() < end && other->state() != peer_state::dead) {
      own->service(clock::now());
      own->receive(take_all, 64);
      static_cast<void>(finds_records(*own));
      if (other->state() != peer_state::paired) continue;
      if (!std::exchange(paired, true)) end = clock::now() + 100ms;  // of random bytes
      send_record(*other, 1, 100, 1);
      static_cast<void>(other->may_have_room());
      const auto section = other->enter();
      static_cast<void>(other->map(seed, 0, 8, map_access::read_write));
    }
    EXPECT_TRUE(paired || other->end() == peer_end::broken_protocol) << describe(other->end());
    hostile.send(SIGKILL);
    EXPECT_EQ(own->fence(deadline::after(test_timeout)), fence_outcome::clear);
  }
}

TEST(hostile_process, hello_with_the_slot_of_another_process_is_refused) {
  const auto own = open_link();
  malicious_peer hostile(*own);
  child echo(echo_peer);
  const auto slot = echo.read<std::uint32_t>();
  std::uint64_t broken = 0;
  const auto claim = [&](std::uint32_t forged) {
    auto hello = hostile.hello();
    hello.slot = forged;
    const auto socket = say(own->slot(), hello, hostile.descriptors());
    EXPECT_TRUE(drive({own.get()}, [&] { return own->counters().broken_messages == broken + 1; }));
    ++broken;
    EXPECT_EQ(own->find(forged), nullptr);
    char byte = 0;
    EXPECT_EQ(::recv(socket.get(), &byte, 1, MSG_DONTWAIT), 0) << "the connection is closed";
  };
  claim(slot);
  claim(slot);
  auto unused = slot_claim::take().value();
  const std::uint32_t free = unused.slot();
  unused.close();
  claim(free);
  EXPECT_EQ(hostile.seen_as->state(), peer_state::paired);

  const auto other = pair_with(*own, slot);
  EXPECT_EQ(other->pid(), echo.pid());
  auto hello = hostile.hello();
  hello.slot = slot;
  const auto socket = say(own->slot(), hello, hostile.descriptors());
  char byte = 0;
  EXPECT_TRUE(
      drive({own.get()}, [&] { return ::recv(socket.get(), &byte, 1, MSG_DONTWAIT) == 0; }));
  EXPECT_EQ(own->find(slot), other);
  ASSERT_TRUE(send_record(*other, 1, 8, 1));
  EXPECT_TRUE(drive({own.get()}, [&] { return own->receive(take_all, 1) == 1; }));
}

TEST(hostile_process, one_process_gets_a_limited_number_of_pairings) {
  link_options options;
  options.links_per_process = 3;
  const auto own = open_link(options);
  const auto dead = [&](const malicious_peer& which) {
    return drive({own.get()}, [&] { return which.seen_as->state() == peer_state::dead; });
  };
  malicious_peer first(*own);
  malicious_peer second(*own);
  {
    malicious_peer third(*own);
    EXPECT_EQ(third.seen_as->state(), peer_state::paired);
    own->service(clock::now());
    third.connection.reset();
    EXPECT_TRUE(dead(third));
    own->service(clock::now());
  }
  // A pairing that ended counts while the process may be within a section.
  malicious_peer fourth(*own);
  EXPECT_EQ(fourth.seen_as->state(), peer_state::paired);
  fourth.words().lanes_used = 1;
  fourth.words().lanes[0].word = 1;
  fourth.connection.reset();
  EXPECT_TRUE(dead(fourth));
  own->service(clock::now());
  const malicious_peer fifth(*own, peer_state::dead);
  EXPECT_EQ(own->find(fifth.claim.slot()), nullptr);
  // Another process is not affected.
  child echo(echo_peer);
  const auto other = pair_with(*own, echo.read<std::uint32_t>());
  EXPECT_EQ(other->pid(), echo.pid());
  // The limit also holds for a process to which this one connects.
  auto claimed = slot_claim::take().value();
  const auto asked = own->connect(claimed.slot());
  unique_fd connection;
  ASSERT_TRUE(drive({own.get()}, [&] { return bool(connection = claimed.accept()); }));
  auto hello = first.hello();
  hello.slot = claimed.slot();
  ASSERT_EQ(send_message(connection.get(), hello, first.descriptors()), send_status::sent);
  EXPECT_TRUE(drive({own.get()}, [&] { return asked->state() == peer_state::dead; }));
  EXPECT_EQ(asked->end(), peer_end::too_many_links);
}

TEST(hostile_process, silent_connections_of_one_process_do_not_keep_others_out) {
  const auto own = open_link();
  const auto now = clock::now();
  std::vector<unique_fd> silent;
  for (int i = 0; i < 100; ++i) {
    silent.push_back(std::move(connect_to_slot(own->slot()).socket));
    ASSERT_TRUE(silent.back());
    own->service(now);  // always the same time: the connections do not expire
  }
  child other([slot = own->slot()](int) {
    const auto mine = open_link();
    const auto to = mine->connect(slot);
    if (!drive({mine.get()}, [&] { return to->state() != peer_state::connecting; })) return 1;
    return to->state() == peer_state::paired ? 0 : 2;
  });
  int status = 0;
  const auto end = clock::now() + test_timeout;
  while (::waitpid(other.pid(), &status, WNOHANG) == 0 && clock::now() < end) own->service(now);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(hostile_process, cleared_doorbell_of_a_peer_delays_its_record_by_10_ms) {
  link_options options;
  options.scan_limit = 0;  // peers ring
  const auto own = open_link(options);
  const malicious_peer silent(*own);
  const auto now = clock::now();
  for (int i = 0; i < 2; ++i) own->receive(take_all, 1);  // looks at all, as after each pairing
  ASSERT_TRUE(own->sleeper().announce_sleep(now));
  EXPECT_FALSE(own->sleeper().next_look().has_value()) << "it has looked at all peers";
  own->sleeper().announce_awake();

  const shared_u64 consumed = 0;
  ring_producer producer(
      std::span(silent.pair.map.data() + pair_ring_offset, std::size_t{min_ring_bytes}),
      silent.words().published, consumed);
  ASSERT_EQ(producer.try_reserve(1, 8).status, ring_status::ok);
  producer.commit();
  producer.announce();  // and the bit that the peer would set was cleared by another one
  ASSERT_TRUE(own->sleeper().announce_sleep(now + 1ms)) << "it looks only at peers that rang";
  ASSERT_TRUE(own->sleeper().next_look().has_value());
  EXPECT_LE(*own->sleeper().next_look(), now + 10ms);
  own->sleeper().announce_awake();
  EXPECT_FALSE(own->sleeper().announce_sleep(*own->sleeper().next_look()));
  EXPECT_EQ(own->receive(take_all, 10), 1U);
  ASSERT_TRUE(own->sleeper().announce_sleep(now + 30ms));
  EXPECT_FALSE(own->sleeper().next_look().has_value()) << "it may sleep without a limit";
  own->sleeper().announce_awake();
}

// Does to an end of wake-ups all that its holder can do.
void misuse(int end) {
  char byte = 0;
  EXPECT_EQ(::fcntl(end, F_SETFL, 0), 0);
  while (::send(end, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1) {
  }
  while (::recv(end, &byte, 1, MSG_DONTWAIT) == 1) {
  }
}

TEST(hostile_process, peer_that_wakes_without_end_delays_nobody) {
  const auto own = open_link();
  malicious_peer hostile(*own);
  child echo(echo_peer);
  const auto other = pair_with(*own, echo.read<std::uint32_t>());

  // The sleeping owner is signaled by the hostile peer without end, and by another one.
  const auto wake_without_end = [&] {
    const link_message wake{.kind = message_kind::wake};
    while (send_message(hostile.connection.get(), wake, {}) == send_status::sent) {
    }
  };
  ASSERT_TRUE(own->sleeper().announce_sleep(clock::now()));
  wake_without_end();
  ASSERT_TRUE(readable(own->service_fd()));
  own->sleeper().announce_awake();
  while (readable(own->service_fd())) EXPECT_EQ(own->service(clock::now()).events, 0U);
  EXPECT_EQ(hostile.seen_as->state(), peer_state::paired);
  ASSERT_TRUE(send_record(*other, 1, 8, 1));
  ASSERT_TRUE(drive({own.get()}, [&] { return finds_records(*own); }));
  EXPECT_EQ(own->receive(take_all, 1), 1U);
  ASSERT_TRUE(own->sleeper().announce_sleep(clock::now()));
  wake_without_end();
  while (readable(own->service_fd())) own->service(clock::now());
  ASSERT_TRUE(send_record(*other, 1, 8, 1));
  pollfd wait{own->service_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&wait, 1, 20'000), 1) << "the wake-up of the other peer was lost";
  own->sleeper().announce_awake();

  // The owner signals the hostile peer, whose socket is full and blocking: each sleep asks for one.
  misuse(hostile.connection.get());
  for (std::uint32_t sleep = 1; sleep < 99; sleep += 2) {
    hostile.segment->header().sleeping = sleep;
    ASSERT_TRUE(send_record(*hostile.seen_as, 1, 8, 1));
  }
}

TEST(hostile_process, peer_that_misuses_the_end_of_a_channel_delays_nobody) {
  const auto own = open_link();
  malicious_peer hostile(*own);
  const auto channel = own->channels().create().value();
  const link_message ask{.kind = message_kind::ask_channel, .id = channel.id};
  ASSERT_EQ(send_message(hostile.connection.get(), ask, {}), send_status::sent);
  received_message got;
  ASSERT_TRUE(drive({own.get()}, [&] {
    got = receive_message(hostile.connection.get());
    return got.status != receive_status::empty;
  }));
  ASSERT_EQ(got.message.kind, message_kind::give_channel);
  misuse(got.descriptors[0].get());
  EXPECT_TRUE(channel.receiver->take());
  while (channel.receiver->take()) {
  }
  EXPECT_FALSE(readable(channel.receiver->fd()));
  // A pairing that ended signals nothing, although the process keeps the end.
  hostile.connection.reset();
  ASSERT_TRUE(drive({own.get()}, [&] { return hostile.seen_as->state() == peer_state::dead; }));
  own->service(clock::now());
  signal_wake_socket(got.descriptors[0].get());
  EXPECT_FALSE(readable(channel.receiver->fd()));
  EXPECT_FALSE(readable(own->service_fd()));
}

TEST(hostile_process, hello_messages_with_random_fields_pair_only_as_their_own_slot) {
  std::mt19937_64 random(test::campaign_seed(17));
  const auto own = open_link();
  malicious_peer hostile(*own);
  const auto others = hostile.descriptors();
  int pairings = 0;
  for (int round = 0; round < 300; ++round) {
    const auto claim = slot_claim::take().value();
    auto hello = hostile.hello();
    hello.slot = claim.slot();
    switch (random() % 5) {
      case 0:
        hello.slot = static_cast<std::uint32_t>(random() % (slot_count + 2));
        break;
      case 1:
        hello.slot = static_cast<std::uint32_t>(random());
        break;
      case 2:
        hello.ring_bytes = static_cast<std::uint32_t>(random()) >> (random() % 32);
        break;
      case 3:
        hello.generation = random();
        break;
      default:
        hello.probe = {.source_address = random(), .source_value = random(), .sink_address = 8};
    }
    std::array<int, 3> descriptors = others;
    for (int& each : descriptors) {
      if (random() % 4 == 0) each = others[random() % others.size()];
    }
    const auto socket = say(own->slot(), hello, descriptors);
    own->service(clock::now());
    own->service(clock::now());
    // The process of this test holds two slots besides the link's own.
    for (std::uint32_t slot = 0; slot < slot_count; ++slot) {
      const bool held = slot == claim.slot() || slot == hostile.claim.slot();
      ASSERT_TRUE(held || own->find(slot) == nullptr || own->find(slot)->end() != peer_end::none)
          << "round " << round << ", slot " << slot;
    }
    if (const auto paired = own->find(claim.slot())) {
      ++pairings;
      EXPECT_TRUE(paired->enter());
      EXPECT_TRUE(send_record(*paired, 1, 8, 1));
    }
  }
  EXPECT_GT(pairings, 0);
  EXPECT_LT(pairings, 300);
  EXPECT_EQ(hostile.seen_as->state(), peer_state::paired);
}

TEST(hostile_process, invalid_bytes_on_a_peer_socket_end_only_that_pairing) {
  child echo(echo_peer);
  const auto own = open_link();
  const auto other = pair_with(*own, echo.read<std::uint32_t>());
  for (int i = 0; i < 100; ++i) {
    auto made = connect_to_slot(own->slot());
    ASSERT_EQ(made.error, 0);
    const char nonsense[] = "GET / HTTP/1.0";
    ASSERT_GT(::send(made.socket.get(), nonsense, sizeof nonsense, MSG_NOSIGNAL), 0);
    own->service(clock::now());
  }
  EXPECT_EQ(own->counters().broken_messages, 100U);
  ASSERT_TRUE(send_record(*other, 1, 8, 1));
  EXPECT_TRUE(drive({own.get()}, [&] { return own->receive(take_all, 1) == 1; }));
}

TEST(hostile_process, silent_connections_are_limited_and_expire) {
  const auto own = open_link();
  std::vector<unique_fd> silent;
  for (int i = 0; i < 100; ++i) {
    auto made = connect_to_slot(own->slot());
    ASSERT_EQ(made.error, 0);
    silent.push_back(std::move(made.socket));
    own->service(clock::now());
  }
  EXPECT_GT(own->counters().refused_connections, 0U);
  own->service(clock::now() + 3s);
  child echo(echo_peer);
  const auto other = pair_with(*own, echo.read<std::uint32_t>());
  EXPECT_EQ(other->state(), peer_state::paired);
}

TEST(hostile_process, process_of_another_version_is_refused_with_a_reason) {
  const auto own = open_link();
  auto made = connect_to_slot(own->slot());
  ASSERT_EQ(made.error, 0);
  std::array<std::byte, 128> hello{};
  const std::uint64_t magic = segment_magic;
  std::memcpy(hello.data(), &magic, sizeof magic);
  hello[8] = std::byte{77};
  hello[12] = std::byte{1};
  ASSERT_EQ(::send(made.socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL), 128);
  own->service(clock::now());
  const auto answer = receive_message(made.socket.get());
  ASSERT_EQ(answer.status, receive_status::received);
  EXPECT_EQ(answer.message.kind, message_kind::refuse_version);
  EXPECT_EQ(answer.message.id, layout_version);

  // The connection in the other direction.
  auto claim = slot_claim::take().value();
  const auto other = own->connect(claim.slot());
  own->service(clock::now());
  const auto socket = claim.accept();
  ASSERT_TRUE(socket);
  EXPECT_EQ(receive_message(socket.get()).message.kind, message_kind::hello);
  ASSERT_EQ(send_message(socket.get(), {.kind = message_kind::refuse_version, .id = 77}, {}),
            send_status::sent);
  EXPECT_TRUE(drive({own.get()}, [&] { return other->state() == peer_state::dead; }));
  EXPECT_EQ(other->end(), peer_end::other_version);
}

}  // namespace
}  // namespace verbena::softdev
