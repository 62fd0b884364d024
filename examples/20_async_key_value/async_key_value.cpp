// SPDX-License-Identifier: MIT
// A key-value store with one-sided reads: coroutines of a client have 64 reads in flight. The
// server closes by a notice to its clients, and cancels those that do not leave in time.
//   async_key_value                                  a server and its clients in one process
//   async_key_value server PORT CLIENTS SECONDS      closes after so many seconds
//   async_key_value client HOST:PORT                 reads until the server closes
#include <verbena/async.hpp>
#include <verbena/verbena.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace {

using namespace std::chrono_literals;
namespace async = verbena::async;
using verbena::deadline;

struct entry {
  std::uint64_t key;
  std::array<char, 56> value;
};
constexpr std::size_t entry_count = 4096;
constexpr std::size_t reads_in_flight = 64;
constexpr std::size_t notice_at = reads_in_flight * sizeof(entry);  // in the memory of a client
constexpr verbena::channel_options options{
    .queues = {.max_send_wr = reads_in_flight, .max_recv_wr = 1},
    .access = verbena::access::remote_read};

deadline time_limit() { return deadline::after(30s); }

std::string value_of(std::uint64_t key) { return "value " + std::to_string(key); }

/// The device of one side, and the loop of its thread.
struct side {
  verbena::context context = verbena::open_device().value();
  verbena::protection_domain pd = context.allocate_pd().value();
  async::engine engine = async::engine::create(context).value();

  [[nodiscard]] async::channel connect(verbena::bringup::stream& with) {
    auto prepared = pd.create_channel(engine.hub(), options).value();
    return {engine, std::move(prepared).connect(with, time_limit()).value()};
  }
};

/// The server: its clients read the table without its thread.
class server {
 public:
  server() {
    for (std::uint64_t key = 0; key < entry_count; ++key) {
      entry one{.key = key, .value = {}};
      value_of(key).copy(one.value.data(), one.value.size() - 1);
      std::memcpy(table_.bytes().data() + key * sizeof one, &one, sizeof one);
    }
  }
  void accept(verbena::bringup::listener& at) {
    auto with = at.accept(time_limit()).value();
    clients_.push_back(here_.connect(with));
    with.exchange(table_.remote().encode(), time_limit()).value();
  }
  void serve(std::chrono::milliseconds duration) {
    here_.engine.run(close_after(duration));
    std::printf("server: %d clients left, %d cancelled\n", left_, cancelled_);
  }
  [[nodiscard]] int left() const { return left_; }
  [[nodiscard]] int cancelled() const { return cancelled_; }

 private:
  async::task<void> wait_until_it_leaves(async::channel& client, std::size_t number) {
    const auto message = co_await client.receive(verbena::sink(messages_, 8 * (number + 1), 8));
    ++(message ? left_ : cancelled_);
  }
  // [close]
  async::task<void> close_after(std::chrono::milliseconds duration) {
    async::scope running;
    std::size_t number = 0;
    for (auto& each : clients_) running.spawn(wait_until_it_leaves(each, number++));
    co_await here_.engine.wait_until(deadline::after(duration));
    // A client that has left or failed does not get the notice, which does no harm.
    for (auto& each : clients_)
      static_cast<void>(
          co_await each.send(verbena::source(messages_, 0, 8), verbena::abort_after(1s)));
    const auto grace = deadline::after(2s);
    while (running.running() != 0 && !grace.expired())
      co_await here_.engine.wait_until(deadline::after(5ms));
    // Ends the receives of the clients that have not left.
    for (auto& each : clients_) each.abort();
    co_await running.join();
  }
  // [/close]

  side here_;
  verbena::memory_region table_ =
      here_.pd
          .allocate(entry_count * sizeof(entry),
                    verbena::access::local_write | verbena::access::remote_read)
          .value();
  verbena::memory_region messages_ = here_.pd.allocate(4096, verbena::access::local_write).value();
  std::list<async::channel> clients_;
  int left_ = 0;
  int cancelled_ = 0;
};

/// How a client reacts to the notice of the server.
enum class manner : std::uint8_t { leaves, stays };

class client {
 public:
  client(side& here, verbena::bringup::stream with, manner how)
      : channel_(here.connect(with)),
        memory_(here.pd.allocate(8192, verbena::access::local_write).value()),
        table_(verbena::remote_region::decode(with.exchange({}, time_limit()).value()).value()),
        how_(how) {}

  // [client]
  async::task<void> run() {
    async::scope running;
    running.spawn(wait_for_notice());
    while (!is_closing_ || how_ == manner::stays)
      if (!co_await read_some()) break;
    static_cast<void>(co_await channel_.send(verbena::source(memory_, notice_at, 8)));
    channel_.abort();  // ends the receive of the notice
    co_await running.join();
  }
  // [/client]
  [[nodiscard]] std::uint64_t reads() const { return reads_; }
  [[nodiscard]] std::uint64_t wrong() const { return wrong_; }

 private:
  async::task<void> wait_for_notice() {
    const auto notice = co_await channel_.receive(verbena::sink(memory_, notice_at, 8));
    if (notice) is_closing_ = true;
  }
  // [reads]
  // Gets 64 keys at once. Returns false if the connection has ended.
  async::task<bool> read_some() {
    std::array<std::uint64_t, reads_in_flight> keys{};
    for (auto& each : keys) each = next_ = (next_ * 5 + 3) % entry_count;
    const auto done = co_await async::when_all(keys, [&](std::uint64_t key, std::size_t i) {
      return channel_.read(verbena::sink(memory_, i * sizeof(entry), sizeof(entry)),
                           table_.slice(key * sizeof(entry), sizeof(entry)));
    });
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!done[i]) co_return false;
      count(keys.at(i), i);
    }
    co_return true;
  }
  // [/reads]
  void count(std::uint64_t key, std::size_t at) {
    entry got{};
    std::memcpy(&got, memory_.bytes().data() + at * sizeof got, sizeof got);
    ++reads_;
    if (got.key != key || got.value.data() != value_of(key)) ++wrong_;
  }

  async::channel channel_;
  verbena::memory_region memory_;
  verbena::remote_region table_;
  manner how_;
  std::uint64_t next_ = 1;
  std::uint64_t reads_ = 0;
  std::uint64_t wrong_ = 0;
  bool is_closing_ = false;
};

/// Runs clients on one thread, until the server has closed. Returns the number of wrong entries, or
/// 1 if a client got no entry.
std::uint64_t run_clients(const verbena::bringup::address& at, std::span<const manner> manners) {
  side here;
  std::list<client> clients;
  for (const manner each : manners)
    clients.emplace_back(here, verbena::bringup::stream::connect(at, time_limit()).value(), each);
  const auto all = [&]() -> async::task<void> {
    async::scope running;
    for (auto& each : clients) running.spawn(each.run());
    co_await running.join();
  };
  here.engine.run(all());
  std::uint64_t gets = 0;
  std::uint64_t wrong = 0;
  for (const auto& each : clients) {
    gets += each.reads();
    wrong += each.reads() == 0 ? 1 : each.wrong();
  }
  std::printf("clients: %llu gets, %llu wrong\n", static_cast<unsigned long long>(gets),
              static_cast<unsigned long long>(wrong));
  return wrong;
}

int run_both() {
  auto listener = verbena::bringup::listener::open({.host = "127.0.0.1"}).value();
  constexpr std::array manners{manner::leaves, manner::leaves, manner::leaves, manner::stays};
  std::uint64_t wrong = 1;
  std::thread other(
      [&] { wrong = run_clients({.host = "127.0.0.1", .port = listener.port()}, manners); });
  server here;
  for (std::size_t i = 0; i < manners.size(); ++i) here.accept(listener);
  here.serve(100ms);
  other.join();
  return wrong == 0 && here.left() == 3 && here.cancelled() == 1 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::span words(argv, static_cast<std::size_t>(argc));
  if (words.size() == 1) return run_both();
  const std::string_view command = words[1];
  if (command == "server" && words.size() == 5) {
    auto listener =
        verbena::bringup::listener::open({.port = static_cast<std::uint16_t>(std::stoi(words[2]))})
            .value();
    server here;
    for (int left = std::stoi(words[3]); left > 0; --left) here.accept(listener);
    here.serve(std::chrono::seconds(std::stoi(words[4])));
    return 0;
  }
  if (command == "client" && words.size() == 3) {
    constexpr std::array one{manner::leaves};
    return run_clients(verbena::bringup::parse_address(words[2]).value(), one) == 0 ? 0 : 1;
  }
  std::fputs("usage: async_key_value [server PORT CLIENTS SECONDS | client HOST:PORT]\n", stderr);
  return 2;
}
