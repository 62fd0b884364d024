// SPDX-License-Identifier: MIT
// Peers that are killed: at random moments of traffic, and at every step (every system call) of
// getting a channel. The survivor ends within its bound with an error that says something, has all
// its buffers back, and makes a new channel. A campaign kills more.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <future>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/channel/mixed_traffic.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::test {
namespace {

using namespace std::chrono_literals;

enum class tracing : std::uint8_t { no, yes };

/// A process of victim.cpp. What traces is one thread: the one that made it.
class victim {
 public:
  victim(meeting_way way, meeting_side side, std::uint16_t port, tracing traced) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
    said_.reset(ends[0]);
    const unique_fd theirs(ends[1]);
    const std::string number = std::to_string(port);
    const std::array<const char*, 6> words{VERBENA_CHANNEL_VICTIM,
                                           way == meeting_way::stream ? "stream" : "manager",
                                           side == meeting_side::asks ? "asks" : "answers",
                                           number.c_str(),
                                           traced == tracing::yes ? "stopping" : nullptr,
                                           nullptr};
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::dup2(theirs.get(), STDOUT_FILENO);
    if (traced == tracing::yes && ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(98);
    ::execv(words[0], const_cast<char* const*>(words.data()));
    ::_exit(99);
  }
  victim(const victim&) = delete;
  victim& operator=(const victim&) = delete;
  ~victim() { kill(); }

  /// The port that it answers at; nothing when it is gone. Any thread.
  [[nodiscard]] std::optional<std::uint16_t> port() const {
    std::string text;
    for (char each = 0; ::read(said_.get(), &each, 1) == 1;) {
      if (each == '\n') return static_cast<std::uint16_t>(std::stoi(text));
      text += each;
    }
    return std::nullopt;
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  /// Lets it come to where it stops for the first time; false if it does not.
  [[nodiscard]] bool begin() {
    int status = 0;
    if (::waitpid(pid_, &status, 0) != pid_ || !WIFSTOPPED(status)) return false;  // execv
    ::ptrace(PTRACE_SETOPTIONS, pid_, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    for (int signal = 0; resume(PTRACE_CONT, signal, status);) {
      if (WSTOPSIG(status) == SIGSTOP) return true;
      signal = WSTOPSIG(status);
    }
    return false;
  }
  /// Lets it go on until it has entered and left system calls `most` times, or has its channel.
  /// How often it has.
  int step(int most) {
    int status = 0;
    int signal = 0;
    for (int steps = 0; steps < most;) {
      if (!resume(PTRACE_SYSCALL, signal, status) || WSTOPSIG(status) == SIGSTOP) return steps;
      signal = WSTOPSIG(status) == (SIGTRAP | 0x80) ? 0 : WSTOPSIG(status);
      if (signal == 0) ++steps;
    }
    return most;
  }

 private:
  bool resume(int how, int signal, int& status) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg): ptrace is one
    if (::ptrace(static_cast<__ptrace_request>(how), pid_, nullptr, signal) != 0) return false;
    if (::waitpid(pid_, &status, 0) == pid_ && WIFSTOPPED(status)) return true;
    pid_ = 0;  // it has ended by itself
    return false;
  }

  pid_t pid_ = 0;
  unique_fd said_;
};

std::set<std::string> shared_memory_of_the_library() {
  std::set<std::string> names;
  for (const auto& each : std::filesystem::directory_iterator("/dev/shm"))
    if (each.path().string().find("verbena") != std::string::npos) names.insert(each.path());
  return names;
}

// A channel in the domain of one that failed.
void expect_a_new_channel(const met& of) {
  auto prepared = of.pd.create_channel({.access = access::remote_write}).value();
  const auto self = prepared.endpoint();
  auto made = std::move(prepared).handshake(self).value();
  EXPECT_TRUE(
      made.write(source(of.region, 0, 8), of.region.remote().slice(8, 8), mixed_traffic::bound()));
}

// The end of a channel whose peer is gone.
void expect_all_given_back(met& between, mixed_traffic& traffic, const operation_result& failed) {
  EXPECT_NE(failed.end(), operation_end::success);
  EXPECT_NE(failed.end(), operation_end::refused) << failed.error().message();
  EXPECT_GT(between.over.describe(failed).message().size(), 40U);
  traffic.end();
  between.over.flush();
  EXPECT_EQ(between.over.in_flight(), 0U);
  EXPECT_EQ(between.pool.taken(), 0U);
  expect_a_new_channel(between);
}

class killed_peers : public ::testing::Test {
 protected:
  static meeting_side other(meeting_side side) {
    return side == meeting_side::asks ? meeting_side::answers : meeting_side::asks;
  }
  static std::string text_of(meeting_way way, meeting_side side) {
    return std::string(way == meeting_way::stream ? "by a stream" : "by the manager") +
           (side == meeting_side::asks ? ", which asks" : ", which answers");
  }
};

constexpr std::array ways{meeting_way::stream, meeting_way::manager};
constexpr std::array sides{meeting_side::asks, meeting_side::answers};

TEST_F(killed_peers, at_random_moments_of_traffic) {
  std::mt19937 random(campaign_seed(11));
  const auto before = shared_memory_of_the_library();
  for (int round = 0; round < campaign_size(1, 64); ++round)
    for (const auto way : ways)
      for (const auto side : sides) {
        SCOPED_TRACE(text_of(way, side) + ", round " + std::to_string(round));
        std::optional<meeting_place> place;
        if (side == meeting_side::asks) place.emplace(way);
        victim peer(way, side, place ? place->port() : std::uint16_t{0}, tracing::no);
        const auto until = deadline::after(20s);
        auto between = place ? place->accept(until, until) : ask(way, peer.port().value(), until);
        ASSERT_TRUE(between) << between.error().message();
        mixed_traffic traffic(*between, random());
        std::optional<operation_result> failed;
        for (auto left = random() % 300; left > 0 && !failed; --left) failed = traffic.step();
        ASSERT_FALSE(failed) << failed->error().message();
        peer.kill();
        const auto bound = deadline::after(20s);
        while (!failed && !bound.expired()) failed = traffic.step();
        ASSERT_TRUE(failed) << "the survivor has not noticed";
        expect_all_given_back(*between, traffic, *failed);
        ASSERT_FALSE(HasFailure());
      }
  EXPECT_EQ(shared_memory_of_the_library(), before);
}

// What becomes of who meets a peer that is killed meanwhile.
void survive(meeting_way way, meeting_place* place, const victim& peer,
             const std::atomic<bool>& killed) {
  const auto meet = [&]() -> result<met> {
    if (place == nullptr) {
      const auto port = peer.port();
      if (!port) return error::unavailable(0, "victim", {}, "it did not come so far as to listen");
      return ask(way, *port, deadline::after(3s));
    }
    // It comes before it is killed, or not at all.
    for (;;) {
      const bool last = killed;
      auto found = place->accept(deadline::after(20ms), deadline::after(3s));
      if (found || last || found.error().kind() != error_kind::timed_out) return found;
    }
  };
  const auto begun = deadline::clock::now();
  auto between = meet();
  if (!between) {
    EXPECT_GT(between.error().message().size(), 20U);
  } else {
    mixed_traffic traffic(*between, 1);
    std::optional<operation_result> failed;
    const auto bound = deadline::after(20s);
    while (!failed && !bound.expired()) failed = traffic.step();
    ASSERT_TRUE(failed) << "the survivor has not noticed";
    expect_all_given_back(*between, traffic, *failed);
  }
  EXPECT_LT(deadline::clock::now() - begun, 40s);
}

// Kills the peer after so many steps of getting a channel; how many it has made.
int kill_after(int steps, meeting_way way, meeting_side side) {
  std::optional<meeting_place> place;
  if (side == meeting_side::asks) place.emplace(way);
  victim peer(way, side, place ? place->port() : std::uint16_t{0}, tracing::yes);
  if (!peer.begin()) {
    ADD_FAILURE() << "the peer cannot be traced";
    return 0;
  }
  std::atomic<bool> killed{false};
  auto survivor = std::async(std::launch::async,
                             [&] { survive(way, place ? &*place : nullptr, peer, killed); });
  const int made = peer.step(steps);
  peer.kill();
  killed = true;
  survivor.get();
  return made;
}

TEST_F(killed_peers, at_every_step_of_getting_a_channel) {
  std::mt19937 random(campaign_seed(5));
  const auto before = shared_memory_of_the_library();
  for (const auto way : ways)
    for (const auto side : sides) {
      SCOPED_TRACE(text_of(way, side));
      const int all = kill_after(std::numeric_limits<int>::max(), way, side);
      EXPECT_GT(all, 20);
      RecordProperty(text_of(way, side), all);
      // A campaign takes every 4th step, and in four rounds all of them.
      const int stride = is_campaign() ? 4 : all;
      for (int step = static_cast<int>(random() % static_cast<unsigned>(stride)); step < all;
           step += stride) {
        SCOPED_TRACE("step " + std::to_string(step) + " of " + std::to_string(all));
        static_cast<void>(kill_after(step, way, side));
        ASSERT_FALSE(HasFailure());
      }
    }
  EXPECT_EQ(shared_memory_of_the_library(), before);
}

}  // namespace
}  // namespace verbena::test
