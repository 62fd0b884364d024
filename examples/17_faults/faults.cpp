// SPDX-License-Identifier: MIT
// An application that survives failures. The program injects them into soft0: the 100th message of
// each queue pair fails, some messages arrive and their acknowledgements are lost, and once the
// port goes down and returns with its addresses at other indexes. After each failure both sides
// reconnect. The receiver gets each message once, in order.
#include <verbena/verbena.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t messages = 250;
constexpr std::uint32_t flap_at = 50;  // the port goes down after this message
constexpr std::size_t window = 8;
// While the port is down, a message fails after about 70 ms.
const verbena::channel_options options{
    .counts_messages = true,
    .reliability = {.timeout = verbena::ack_timeout::at_least(8ms), .retry_count = 5}};
// The port may be down during a reconnection.
const verbena::bringup::negotiation_options reconnecting{.port_timeout = 10s};

// [faults]
void inject_faults(const verbena::context& context) {
  verbena::inject_failure(context, verbena::completion_status::retries_exceeded,
                          {.operations = verbena::send_operation::send, .at = 100})
      .value();
  verbena::inject_lost_acknowledgement(
      context, {.operations = verbena::send_operation::send, .probability = 0.01})
      .value();
}

void flap_the_link(const verbena::context& context) {
  verbena::inject_faults(context, {{.kind = verbena::fault_kind::port_down},
                                   {.kind = verbena::fault_kind::gid_move},
                                   {.kind = verbena::fault_kind::port_up, .after = 300ms}})
      .value();
}
// [/faults]

verbena::buffer_pool make_pool(const verbena::protection_domain& pd) {
  return verbena::buffer_pool::create(pd, {.classes = {{.bytes = 4096, .count = 64}}}).value();
}

class sender {
 public:
  sender(const verbena::bringup::address& to, verbena::deadline until) : to_(to), until_(until) {}

  // Returns the number of reconnections.
  unsigned send_all() {
    inject_faults(context_);
    std::uint32_t next = 1;
    unsigned reconnections = 0;
    while (next <= messages || !flight_.empty()) {
      while (next <= messages && flight_.size() < window) post(next++);
      const auto* const done = flight_.front().operation.wait(until_);
      if (done == nullptr) verbena::raise(timed_out());
      if (!*done) {
        std::printf("message %u: %s\n", flight_.front().number, done->error().message().c_str());
        reconnect();
        ++reconnections;
        continue;
      }
      if (flight_.front().number == flap_at) flap_the_link(context_);
      flight_.pop_front();
    }
    return reconnections;
  }

 private:
  struct posted {
    std::uint32_t number;
    verbena::pending_operation operation;
  };

  static verbena::error timed_out() {
    return verbena::error::timed_out("pending_operation::wait", "the sender",
                                     "the receiver did not take the message in time");
  }
  void post(std::uint32_t number) {
    auto outbox = *pool_.take(sizeof number);
    std::memcpy(outbox.bytes().data(), &number, sizeof number);
    flight_.push_back({number, channel_.post_send(std::move(outbox), {.length = sizeof number})});
  }
  // [reconnect]
  // Sends the messages again that have not arrived.
  void reconnect() {
    auto stream = verbena::bringup::stream::connect(to_, until_).value();
    const auto again = channel_.reconnect(stream, until_, reconnecting).value();
    auto old = std::exchange(flight_, {});
    for (auto& each : old) {
      const auto delivery = again.reconcile(*each.operation.poll());
      if (delivery == verbena::delivery::unknown) verbena::raise(each.operation.poll()->error());
      if (delivery == verbena::delivery::not_done) post(each.number);
    }
  }
  // [/reconnect]

  const verbena::bringup::address to_;
  const verbena::deadline until_;
  verbena::context context_ = verbena::open_device("soft0").value();
  verbena::protection_domain pd_ = context_.allocate_pd().value();
  verbena::buffer_pool pool_ = make_pool(pd_);
  verbena::channel channel_ = [this] {
    auto stream = verbena::bringup::stream::connect(to_, until_).value();
    return pd_.create_channel(options).value().connect(stream, until_).value();
  }();
  std::deque<posted> flight_;
};

class receiver {
 public:
  receiver(verbena::bringup::listener& listening, verbena::deadline until)
      : listening_(listening), until_(until) {}

  // Returns whether each message has arrived once, in order.
  bool receive_all() {
    fill_window();
    while (expected_ <= messages && !until_.expired()) {
      if (receives_.front().wait(verbena::deadline::after(10ms)) != nullptr && take_first()) {
        fill_window();
      } else if (auto stream = listening_.accept(verbena::deadline::after(0ns))) {
        channel_.reconnect(*stream, until_, reconnecting).value();
        while (!receives_.empty())
          if (!take_first()) receives_.pop_front();  // flushed: no message has arrived
        fill_window();
      }
    }
    return in_order_ && expected_ == messages + 1;
  }

 private:
  void fill_window() {
    while (receives_.size() < window)
      receives_.push_back(channel_.post_receive(*pool_.take(sizeof expected_)));
  }
  // Takes the message of the first receive, which has completed. Returns false if it failed.
  bool take_first() {
    const auto* const done = receives_.front().poll();
    if (!*done) return false;
    std::uint32_t number = 0;
    const auto inbox = receives_.front().take_buffer();
    std::memcpy(&number, inbox.bytes().data(), sizeof number);
    in_order_ = in_order_ && number == expected_++;
    receives_.pop_front();
    return true;
  }

  verbena::bringup::listener& listening_;
  const verbena::deadline until_;
  verbena::context context_ = verbena::open_device("soft0").value();
  verbena::protection_domain pd_ = context_.allocate_pd().value();
  verbena::buffer_pool pool_ = make_pool(pd_);
  verbena::channel channel_ = [this] {
    auto stream = listening_.accept(until_).value();
    return pd_.create_channel(options).value().connect(stream, until_).value();
  }();
  std::deque<verbena::pending_operation> receives_;
  std::uint32_t expected_ = 1;
  bool in_order_ = true;
};

}  // namespace

int main() {
  const auto until = verbena::deadline::after(40s);
  auto listening = verbena::bringup::listener::open({.host = "127.0.0.1"}).value();
  bool complete = false;
  std::thread receiving([&] { complete = receiver(listening, until).receive_all(); });
  const unsigned reconnections = sender(listening.local_address(), until).send_all();
  receiving.join();
  std::printf("%u messages, %u reconnections: %s\n", messages, reconnections,
              complete ? "each message arrived once" : "messages were lost");
  return complete && reconnections >= 2 ? 0 : 1;
}
