// SPDX-License-Identifier: MIT
// An echo server with senders and receivers: one thread serves 1,000 clients, each with a message
// channel, and sleeps while none of them sends. 18_coroutines and 19_asio are the same server in
// other forms.
//   senders [--clients N] [--host ADDRESS]
#include <verbena/async.hpp>
#include <verbena/verbena.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "examples/echo_clients.hpp"

namespace {

using namespace std::chrono_literals;
namespace async = verbena::async;
namespace execution = verbena::async::execution;
using verbena::deadline;

// [receiver]
/// Calls `(of->*Then)(result)` when an operation of `Owner` has ended. No stop is requested.
template <class Owner, auto Then>
struct calls {
  using receiver_concept = execution::receiver_t;

  template <class Result>
  void set_value(Result result) && noexcept {
    (of->*Then)(std::move(result));  // may destroy this receiver
  }
  void set_stopped() && noexcept {}

  Owner* of;
};

/// A place for one operation at a time. Operation states cannot be moved.
template <class Sender, class Receiver>
class place_for {
 public:
  void start(Sender what, Receiver to) {
    state_.emplace(connected{what, to});
    execution::start(*state_);
  }

 private:
  using state = execution::connect_result_t<Sender, Receiver>;
  struct connected {
    Sender& what;
    Receiver& to;
    // NOLINTNEXTLINE(google-explicit-constructor): emplace() constructs the state from it
    operator state() { return execution::connect(std::move(what), to); }
  };
  std::optional<state> state_;
};
// [/receiver]

class server;

// [echo]
// Returns each message to its sender, until an empty message or a failure of the channel.
class session {
 public:
  session(server& of, async::message_channel channel) : of_(&of), channel_(std::move(channel)) {}
  void receive() { receiving_.start(channel_.receive(), {this}); }

  std::list<session>::iterator place;

 private:
  void answer(verbena::receive_result message) {
    if (!message || message->length() == 0) return leave();
    message_ = std::move(message);
    sending_.start(channel_.send(message_->bytes()), {this});
  }
  void continue_after(verbena::send_result sent) {
    if (!sent) return leave();
    ++count_;
    receive();
  }
  void leave();  // destroys the session

  server* of_;
  async::message_channel channel_;
  verbena::receive_result message_;
  std::uint64_t count_ = 0;
  place_for<decltype(channel_.receive()), calls<session, &session::answer>> receiving_;
  place_for<decltype(channel_.send(std::span<const std::byte>())),
            calls<session, &session::continue_after>>
      sending_;
};
// [/echo]

// [serve]
// Accepts `count` clients and serves them concurrently. Calls finish() with the number of messages.
class server {
 public:
  server(async::message_listener listener, std::uint32_t count)
      : listener_(std::move(listener)), left_(count) {}
  server(const server&) = delete;
  server& operator=(const server&) = delete;
  virtual ~server() = default;
  void accept() {
    if (left_ > 0)
      accepting_.start(listener_.accept(deadline::after(60s)), {this});
    else
      finish_after_last();
  }
  void remove(std::list<session>::iterator which, std::uint64_t count) {
    sum_ += count;
    clients_.erase(which);
    finish_after_last();
  }

 private:
  virtual void finish(std::uint64_t sum) = 0;
  void welcome(verbena::result<async::message_channel> client) {
    left_ = client ? left_ - 1 : 0;
    if (client) {
      const auto place = clients_.emplace(clients_.end(), *this, *std::move(client));
      place->place = place;
      place->receive();
    }
    accept();
  }
  void finish_after_last() {
    if (left_ == 0 && clients_.empty() && !std::exchange(has_ended_, true)) finish(sum_);
  }

  async::message_listener listener_;
  std::uint32_t left_;
  std::uint64_t sum_ = 0;
  bool has_ended_ = false;
  std::list<session> clients_;
  place_for<decltype(listener_.accept()), calls<server, &server::welcome>> accepting_;
};

void session::leave() { of_->remove(place, count_); }

// The server as a sender, which sends the number of messages.
class serve {
 public:
  using sender_concept = execution::sender_t;
  using completion_signatures =
      execution::completion_signatures<execution::set_value_t(std::uint64_t)>;

  serve(async::message_listener listener, std::uint32_t count)
      : listener_(std::move(listener)), count_(count) {}
  template <class Receiver>
  [[nodiscard]] auto connect(Receiver to) && {
    return state<Receiver>(std::move(listener_), count_, std::move(to));
  }

 private:
  template <class Receiver>
  class state : private server {
   public:
    using operation_state_concept = execution::operation_state_t;
    state(async::message_listener listener, std::uint32_t count, Receiver to)
        : server(std::move(listener), count), to_(std::move(to)) {}
    void start() noexcept { accept(); }

   private:
    void finish(std::uint64_t sum) override { execution::set_value(std::move(to_), sum); }
    Receiver to_;
  };

  async::message_listener listener_;
  std::uint32_t count_;
};
// [/serve]

}  // namespace

int main(int argc, char** argv) {
  const examples::echo_settings settings = examples::settings_of(argc, argv);
  const std::uint32_t count = settings.clients;
  auto context = verbena::open_device().value();
  auto pd = context.allocate_pd().value();
  // [engine]
  // Each channel reserves a place of the engine for each operation that it can have in flight.
  const std::uint32_t places = count * examples::places_per_channel;
  auto engine = async::engine::create(context, {.operations = places}).value();
  // [/engine]
  // [listen]
  auto listener = async::listen(engine, pd, {.host = settings.host, .port = 0},
                                {.channels = examples::small_messages})
                      .value();
  // [/listen]
  const verbena::bringup::address server{.host = settings.host, .port = listener.port()};
  return examples::serve_clients(context, pd, server, count, [&] {
    // [run]
    return std::get<0>(engine.run(serve(std::move(listener), count)).value());
    // [/run]
  });
}
