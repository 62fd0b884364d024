// SPDX-License-Identifier: MIT
// A key-value store with one-sided reads: coroutines of a client have 64 reads in flight. The
// server closes by a notice to its clients, and cancels those that do not leave in time. The
// connection manager connects them.
//   async_key_value [ADDRESS]                 a server and its clients in one process
//   async_key_value server ADDRESS:PORT CLIENTS SECONDS    closes after so many seconds
//   async_key_value client ADDRESS:PORT       reads until the server closes
#include <verbena/async.hpp>
#include <verbena/verbena.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "examples/own_address.hpp"

namespace {

using namespace std::chrono_literals;
namespace async = verbena::async;
namespace cm = verbena::cm;
using verbena::deadline;

struct entry {
  std::uint64_t key;
  std::array<char, 56> value;
};
constexpr std::size_t entry_count = 4096;
constexpr std::size_t reads_in_flight = 64;
constexpr std::size_t table_bytes = entry_count * sizeof(entry);
constexpr std::size_t notice_at = reads_in_flight * sizeof(entry);  // in the memory of a client
constexpr std::size_t region_bytes = verbena::remote_region::encoded_size;

deadline time_limit() { return deadline::after(30s); }

std::string value_of(std::uint64_t key) { return "value " + std::to_string(key); }

/// The device of one side, and the loop of its thread.
class side {
 public:
  explicit side(const verbena::context& device)
      : pd(device.allocate_pd().value()),
        engine(async::engine::create(device, {.operations = 512}).value()),
        pool_(verbena::buffer_pool::create(pd, {}).value()) {}

  verbena::protection_domain pd;
  async::engine engine;

  [[nodiscard]] verbena::prepared_channel prepare(verbena::port_number port) const {
    return pd
        .create_channel(engine.hub(),
                        {.queues = {.max_send_wr = reads_in_flight, .max_recv_wr = 1},
                         .access = verbena::access::remote_read | verbena::access::remote_write,
                         .route = {.port = port}})
        .value();
  }
  /// Returns a function that posts the receive for the first message of the peer, before the peer
  /// can send. iWARP does not repeat a message that finds no receive.
  [[nodiscard]] auto receives_first(std::optional<verbena::pending_operation>& receive) const {
    return [this, &receive](verbena::channel& made) -> verbena::result<void> {
      receive.emplace(made.post_receive(pool_.take(region_bytes).value()));
      return {};
    };
  }
  /// Sends a region as the first message.
  void send_region(verbena::channel& to, const verbena::remote_region& region) const {
    auto message = pool_.take(region_bytes).value();
    std::ranges::copy(region.encode(), message.bytes().begin());
    auto sent = to.post_send(std::move(message), {.length = region_bytes});
    sent.wait(time_limit())->value();
  }
  /// Returns the region in the first message of the peer.
  [[nodiscard]] static verbena::remote_region region_in(verbena::pending_operation& receive) {
    receive.wait(time_limit())->value();
    const auto message = receive.take_buffer();
    return verbena::remote_region::decode(message.bytes().first(region_bytes)).value();
  }

 private:
  verbena::buffer_pool pool_;
};

/// The server: its clients read the table without its thread.
class server {
 public:
  explicit server(cm::listener& at) : here_(at.id().context().value()) {
    for (std::uint64_t key = 0; key < entry_count; ++key) {
      entry one{.key = key, .value = {}};
      value_of(key).copy(one.value.data(), one.value.size() - 1);
      std::memcpy(table_.bytes().data() + key * sizeof one, &one, sizeof one);
    }
    messages_.bytes()[0] = std::byte{1};  // the notice
  }
  void accept(cm::listener& at) {
    auto request = at.accept(time_limit()).value();
    auto prepared = here_.prepare(request.port());
    std::optional<verbena::pending_operation> first;
    auto channel = std::move(prepared)
                       .accept(std::move(request), {}, time_limit(), here_.receives_first(first))
                       .value();
    const auto notice = side::region_in(*first);
    here_.send_region(channel, table_.remote());
    clients_.push_back({.channel = {here_.engine, std::move(channel)}, .notice = notice});
  }
  void serve(std::chrono::milliseconds duration) {
    here_.engine.run(close_after(duration));
    std::printf("server: %d clients left, %d cancelled\n", left_, cancelled_);
  }
  [[nodiscard]] int left() const { return left_; }
  [[nodiscard]] int cancelled() const { return cancelled_; }

 private:
  struct served_client {
    async::channel channel;
    verbena::remote_region notice;
  };

  async::task<void> wait_until_it_leaves(async::channel& client, std::size_t number) {
    const auto message = co_await client.receive(verbena::sink(messages_, 8 * (number + 1), 8));
    ++(message ? left_ : cancelled_);
  }
  // [close]
  async::task<void> close_after(std::chrono::milliseconds duration) {
    async::scope running;
    std::size_t number = 0;
    for (auto& each : clients_) running.spawn(wait_until_it_leaves(each.channel, number++));
    co_await here_.engine.wait_until(deadline::after(duration));
    // A client that has left or failed does not get the notice, which does no harm.
    for (auto& each : clients_)
      static_cast<void>(co_await each.channel.write(verbena::source(messages_, 0, 8), each.notice,
                                                    verbena::abort_after(1s)));
    const auto grace = deadline::after(2s);
    while (running.running() != 0 && !grace.expired())
      co_await here_.engine.wait_until(deadline::after(5ms));
    // Ends the receives of the clients that have not left.
    for (auto& each : clients_) each.channel.abort();
    co_await running.join();
  }
  // [/close]

  side here_;
  verbena::memory_region table_ =
      here_.pd.allocate(table_bytes, verbena::access::local_write | verbena::access::remote_read)
          .value();
  verbena::memory_region messages_ = here_.pd.allocate(4096, verbena::access::local_write).value();
  std::list<served_client> clients_;
  int left_ = 0;
  int cancelled_ = 0;
};

/// How a client reacts to the notice of the server.
enum class manner : std::uint8_t { leaves, stays };

class client {
 public:
  client(side& here, cm::connector& to, manner how)
      : memory_(here.pd
                    .allocate(8192, verbena::read_sink_access(here.pd.context()) |
                                        verbena::access::remote_write)
                    .value()),
        channel_(connect(here, to)),
        how_(how) {}

  // [client]
  async::task<void> run() {
    bool is_connected = true;
    while (is_connected && (how_ == manner::stays || !is_closing()))
      is_connected = co_await read_some();
    // The server counts the client as having left when this message arrives.
    if (is_connected)
      static_cast<void>(co_await channel_.send(verbena::source(memory_, notice_at, 8)));
  }
  // [/client]
  [[nodiscard]] std::uint64_t reads() const { return reads_; }
  [[nodiscard]] std::uint64_t wrong() const { return wrong_; }

 private:
  [[nodiscard]] async::channel connect(side& here, cm::connector& to) {
    std::optional<verbena::pending_operation> first;
    auto channel =
        here.prepare(to.port()).connect(to, {}, time_limit(), here.receives_first(first)).value();
    here.send_region(channel, memory_.remote().slice(notice_at, 8));
    table_ = side::region_in(*first);
    return {here.engine, std::move(channel)};
  }
  /// Returns true if the server has written its notice.
  [[nodiscard]] bool is_closing() {
    return std::atomic_ref(memory_.bytes()[notice_at]).load(std::memory_order_acquire) !=
           std::byte{0};
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

  verbena::memory_region memory_;
  verbena::remote_region table_;
  async::channel channel_;
  manner how_;
  std::uint64_t next_ = 1;
  std::uint64_t reads_ = 0;
  std::uint64_t wrong_ = 0;
};

/// Runs clients on one thread, until the server has closed. Returns the number of wrong entries, or
/// 1 if a client got no entry.
std::uint64_t run_clients(const verbena::bringup::address& at, std::span<const manner> manners) {
  std::list<cm::connector> peers;
  while (peers.size() < manners.size())
    peers.push_back(cm::connector::resolve(at, time_limit()).value());
  side here(peers.front().context().value());
  std::list<client> clients;
  auto peer = peers.begin();
  for (const manner each : manners) clients.emplace_back(here, *peer++, each);
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

int run_both(const std::string& host) {
  auto listener = cm::listener::open({.host = host, .port = 0}).value();
  constexpr std::array manners{manner::leaves, manner::leaves, manner::leaves, manner::stays};
  std::uint64_t wrong = 1;
  std::thread other([&] { wrong = run_clients({.host = host, .port = listener.port()}, manners); });
  server here(listener);
  for (std::size_t i = 0; i < manners.size(); ++i) here.accept(listener);
  here.serve(100ms);
  other.join();
  return wrong == 0 && here.left() == 3 && here.cancelled() == 1 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::span words(argv, static_cast<std::size_t>(argc));
  if (words.size() == 1) return run_both(own_address());
  const std::string_view command = words[1];
  if (command == "server" && words.size() == 5) {
    auto listener = cm::listener::open(verbena::bringup::parse_address(words[2]).value()).value();
    server here(listener);
    for (int left = std::stoi(words[3]); left > 0; --left) here.accept(listener);
    here.serve(std::chrono::seconds(std::stoi(words[4])));
    return 0;
  }
  if (command == "client" && words.size() == 3) {
    constexpr std::array one{manner::leaves};
    return run_clients(verbena::bringup::parse_address(words[2]).value(), one) == 0 ? 0 : 1;
  }
  if (words.size() == 2 && !command.starts_with("-")) return run_both(words[1]);
  std::fputs(
      "usage: async_key_value [ADDRESS | server ADDRESS:PORT CLIENTS SECONDS | client "
      "ADDRESS:PORT]\n",
      stderr);
  return 2;
}
