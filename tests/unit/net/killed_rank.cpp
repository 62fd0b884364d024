// SPDX-License-Identifier: MIT
// A rank that the test kills: `net_killed_rank exchange|connect|barrier PORT RANK SIZE`. The
// process joins the group of the store at PORT up to the given step, prints a line, and waits.
// Before `exchange`, it publishes a value. `net_killed_rank first_use PORT RANK SIZE` joins with
// connect_mode::on_first_use, prints a line, and stops itself. `net_killed_rank work PORT RANK SIZE
// joins|rejoins STEPS at_join|on_first_use` calls work() with the other ranks, at most STEPS times.
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/unit/net/group_work.hpp"
#include "tests/unit/net/ranks.hpp"
#include "verbena/net/store_client.hpp"

namespace {

using namespace verbena;

// Prints a line and waits until the process is killed. `size` is the size of the group.
[[noreturn]] void wait_for_the_end(std::uint32_t size) {
  std::cout << "one of " << size << " ranks is ready\n" << std::flush;
  while (true) ::pause();
}

// Exchanges the addresses, and does not take part in the next exchange.
void connect_half(const protection_domain& pd, const net::membership& who) {
  auto client = net::store_client::connect(who, test::test_deadline()).value();
  const auto channels = net::prepared_multi_channel::create(pd, who.size).value();
  const auto board = pd.allocate(65536, access::local_write | access::remote_write).value();
  std::vector<std::vector<std::byte>> parts;
  for (std::uint32_t each = 0; each < who.size; ++each) {
    const auto local = channels.endpoint(each).encode();
    const auto memory = board.remote().encode();
    auto& part = parts.emplace_back(local.begin(), local.end());
    part.insert(part.end(), memory.begin(), memory.end());
  }
  const std::vector<std::span<const std::byte>> views(parts.begin(), parts.end());
  client.exchange("verbena: endpoints", views, test::test_deadline()).value();
  wait_for_the_end(client.size());
}

// Prints 'm' when the process is a member, and 'l' before it leaves the group. Returns the exit
// status.
int work_until_the_end(const protection_domain& pd, const net::membership& who,
                       std::span<char* const> how) {
  const auto until = test::test_deadline();
  const std::string_view entry = how[0];
  const int steps = std::stoi(how[1]);
  net::group_options options;
  if (std::string_view(how[2]) == "on_first_use") options.connect = net::connect_mode::on_first_use;
  auto entered = entry == "joins" ? net::group::join(pd, who, until, options)
                                  : net::group::rejoin(pd, who, until, options);
  auto group = std::move(entered).value();
  auto memory = pd.allocate(test::work_bytes, access::local_write).value();
  std::cout << 'm' << std::flush;
  bool is_last = false;
  for (int step = 0; step < steps && !is_last; ++step) {
    auto worked = test::work(group, memory, 0, test::test_deadline());
    is_last = std::move(worked).value();
  }
  std::cout << 'l' << std::flush;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // The process is killed when the test process exits.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc != 5 && argc != 8) return 2;
  const std::string_view step = argv[1];
  const net::membership who{
      .rank = static_cast<std::uint32_t>(std::stoi(argv[3])),
      .size = static_cast<std::uint32_t>(std::stoi(argv[4])),
      .store = {.host = "127.0.0.1", .port = static_cast<std::uint16_t>(std::stoi(argv[2]))},
      .host = net::store_host::separate,
      .name = "test"};
  const auto device = testing_support::open_soft();
  const auto pd = device.allocate_pd().value();
  if (argc == 8) return work_until_the_end(pd, who, std::span(argv + 5, 3));
  if (step == "exchange") {
    auto client = net::store_client::connect(who, test::test_deadline()).value();
    client.publish("mine", bytes_of("alive"), test::test_deadline()).value();
    wait_for_the_end(client.size());
  }
  if (step == "connect") connect_half(pd, who);
  if (step == "first_use") {
    const auto group = net::group::join(pd, who, test::test_deadline(),
                                        {.connect = net::connect_mode::on_first_use});
    std::cout << "rank " << group->rank() << " stops\n" << std::flush;
    ::raise(SIGSTOP);
    return 1;
  }
  const auto group = net::group::join(pd, who, test::test_deadline()).value();
  wait_for_the_end(group.size());
}
