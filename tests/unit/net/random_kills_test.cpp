// SPDX-License-Identifier: MIT
// Repeatedly kills a rank at random times, restarts it, and readmits it. On the survivors, each
// operation must fail with an error that names the killed rank; they call shrink(), work without
// the rank, and then work with its new process. The campaign `net_kills` repeats this with many
// seeds.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/net/group_work.hpp"
#include "tests/unit/net/ranks.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::test {
namespace {

constexpr std::uint32_t size = 4;
constexpr int kills = 20;

const char* name_of(net::connect_mode mode) {
  return mode == net::connect_mode::at_join ? "at_join" : "on_first_use";
}

/// A process of killed_rank.cpp that calls work().
class worker {
 public:
  /// The process leaves the group after `steps` calls of work().
  worker(std::uint16_t port, std::uint32_t rank, const char* entry, unsigned steps,
         net::connect_mode mode) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
    output_.reset(ends[0]);
    const unique_fd theirs(ends[1]);
    const std::array<std::string, 7> words{
        "work", std::to_string(port),  std::to_string(rank), std::to_string(size),
        entry,  std::to_string(steps), name_of(mode)};
    std::array<const char*, 9> arguments{VERBENA_NET_KILLED_RANK};
    for (std::size_t i = 0; i < words.size(); ++i) arguments[i + 1] = words[i].c_str();
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::dup2(theirs.get(), STDOUT_FILENO);
    ::execv(arguments[0], const_cast<char* const*>(arguments.data()));
    ::_exit(99);
  }
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;
  ~worker() { kill(); }

  /// Waits for the next letter that the process prints: 'm' when the process is a member, 'l'
  /// before it leaves. Returns 0 if the process has ended.
  [[nodiscard]] char next() const {
    char each = 0;
    return ::read(output_.get(), &each, 1) == 1 ? each : '\0';
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  /// Waits until the process exits, and returns its status.
  [[nodiscard]] int wait() {
    int status = -1;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return status;
  }

 private:
  pid_t pid_ = 0;
  unique_fd output_;
};

/// Runs a surviving rank, which is a thread of the test process.
void survive(joined_rank& here, std::uint32_t killed, const std::atomic<bool>& is_over) {
  auto memory = here.pd.allocate(work_bytes, access::local_write).value();
  rank_list others;
  for (std::uint32_t each = 0; each < size; ++each)
    if (each != killed) others.push_back(each);
  const auto until = [] { return deadline::after(20s); };
  const std::string name = "rank " + std::to_string(killed);
  while (true) {
    auto worked = work(here.group, memory, is_over ? 1 : 0, until());
    if (worked.has_value() && *worked) return;
    if (worked.has_value()) continue;
    const std::string why = worked.error().message();
    EXPECT_TRUE(why.find(name) != std::string::npos || why.find("called shrink()") != why.npos)
        << why;
    EXPECT_EQ(why.find("deadline"), std::string::npos) << why;
    here.group.shrink(until()).value();
    EXPECT_EQ(members_of(here.group), others);
    EXPECT_FALSE(work(here.group, memory, 0, until()).value());
    const rank_list back{killed};
    auto readmitted = here.group.readmit(back, until());
    // The rank was killed again before readmit() ended.
    while (!readmitted && readmitted.error().is(std::errc::connection_aborted)) {
      EXPECT_EQ(members_of(here.group), others);
      readmitted = here.group.readmit(back, until());
    }
    if (!readmitted) {
      ADD_FAILURE() << readmitted.error().message();
      return;
    }
    EXPECT_EQ(here.group.members().size(), size);
  }
}

void wait_for(std::chrono::microseconds time) {
  const auto until = deadline::after(time);
  while (!until.expired()) std::this_thread::yield();
}

class random_kills : public ::testing::TestWithParam<net::connect_mode> {};
INSTANTIATE_TEST_SUITE_P(all, random_kills,
                         ::testing::Values(net::connect_mode::at_join,
                                           net::connect_mode::on_first_use),
                         [](const auto& of) { return std::string(name_of(of.param)); });

TEST_P(random_kills, survivors_continue_and_take_the_rank_back) {
  const net::connect_mode mode = GetParam();
  std::mt19937 random(static_cast<unsigned>(::testing::UnitTest::GetInstance()->random_seed()) + 1);
  const auto below = [&](unsigned limit) {
    return std::uniform_int_distribution<unsigned>(0, limit - 1)(random);
  };
  const test_store store;
  const std::uint32_t killed = below(size);
  const std::uint16_t port = store.address().port;
  std::atomic<bool> is_over = false;
  std::array<int, 3> count{};  // number of kills by time
  std::optional<worker> process(std::in_place, port, killed, "joins", 1'000'000, mode);
  std::thread survivors([&] {
    for_each_rank(size, [&](std::uint32_t rank) {
      if (rank == killed) return;
      joined_rank here(store.member(rank, size), net::group_options{.connect = mode});
      survive(here, killed, is_over);
    });
  });
  EXPECT_EQ(process->next(), 'm');
  for (int i = 0; i < kills; ++i) {
    const unsigned moment = i == 0 ? 1 : below(3);
    if (moment == 0) {
      wait_for(std::chrono::microseconds(below(60'000)));  // while it starts or joins
    } else {
      EXPECT_EQ(i == 0 ? 'm' : process->next(), 'm');  // in exchanges and collective operations
      if (moment == 2) {
        EXPECT_EQ(process->next(), 'l');  // while it leaves
      }
      wait_for(std::chrono::microseconds(below(moment == 1 ? 6000 : 1500)));
    }
    ++count[moment];
    process->kill();
    process.emplace(port, killed, "rejoins", 1 + below(12), mode);
    if (i + 1 == kills) process.emplace(port, killed, "rejoins", 1'000'000, mode);
  }
  EXPECT_EQ(process->next(), 'm');
  is_over = true;
  survivors.join();
  EXPECT_EQ(process->wait(), 0);
  std::cout << count[0] << " kills of rank " << killed << " while it joined, " << count[1]
            << " while it worked, " << count[2] << " while it left\n";
}

}  // namespace
}  // namespace verbena::test
