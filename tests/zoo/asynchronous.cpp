// SPDX-License-Identifier: MIT
// Event loops, coroutines and completion handlers. The harmful forms are loops and coroutines that
// programs write over C verbs.
#include <array>
#include <atomic>
#include <coroutine>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/zoo/c_verbs.hpp"
#include "tests/zoo/coroutines.hpp"
#include "tests/zoo/crates.hpp"
#include "tests/zoo/entry.hpp"
#include "tests/zoo/pair.hpp"
#include "verbena/async.hpp"

namespace verbena::zoo {
namespace asynchronous_entries {
namespace {

using async::task;

const std::string first_text(64, '1');
const std::string second_text(64, '2');

// The loop arms the queue once, and waits for an event for each message.
void arm_once() {
  qp_with_channel with;
  with.receives.request_notification(notify::any_completion).value();
  for (const std::uint64_t id : {1, 2}) {
    with.message(id);
    if (!with.channel.wait(short_deadline()).value())
      harmed("the second completion does not generate an event");
    take_successful(with.receives, 1);
  }
}
void arm_for_each_event() {
  qp_with_channel with;
  for (const std::uint64_t id : {1, 2}) {
    with.receives.request_notification(notify::any_completion).value();
    with.message(id);
    require(with.channel.wait(long_deadline()).value().has_value(), "no event was generated");
    take_successful(with.receives, 1);
  }
}
void sleeping_engine_is_woken_by_each_message() {
  coroutines with;
  with.engine.run([](coroutines& of) -> task<void> {
    const auto send = [&]() -> task<void> {
      for (int i = 0; i < 2; ++i) {
        co_await of.engine.wait_until(deadline::after(3ms));
        require((co_await of.send(0)).has_value(), "the send failed");
      }
    };
    async::scope running;
    running.spawn(send());
    for (int i = 0; i < 2; ++i)
      require((co_await of.receive(4096)).has_value(), "no message arrived");
    co_await running.join();
  }(with));
  verified("each message woke the engine");
}

// A receive and its timer both resume the coroutine.
raw_coroutine receive_two(std::coroutine_handle<>& waiting, int& returned) {
  co_await raw_wait{waiting};
  ++returned;
  co_await raw_wait{waiting};
  ++returned;
}
void resume_for_message_and_timer(bool with_timer) {
  pair with;
  for (std::uint64_t id : {1, 2})
    require(c_receive(with.b->queue.native(), id, with.memory.slice(4096 * id, 64)) == 0,
            "the post failed");
  std::coroutine_handle<> waiting;
  int returned = 0;
  const auto coroutine = receive_two(waiting, returned);
  send(with.a->queue, {.id = 3, .signaled = true}, with.memory.slice(0, 64)).value();
  c_take_successful(with.b->receives.native(), 1);
  waiting.resume();
  if (with_timer) waiting.resume();  // the mistake: the timer was not stopped
  if (returned == 2) harmed("the await of the second receive returned before its completion");
  coroutine.handle.destroy();
}
void resume_twice() { resume_for_message_and_timer(true); }
void resume_once() { resume_for_message_and_timer(false); }
void limit_and_message_at_once() {
  coroutines with;
  int returned = 0;
  with.engine.run([](coroutines& of, int& count) -> task<void> {
    const auto limit = deadline::after(100ms);
    const auto receive = [&]() -> task<void> {
      require((co_await of.receive(4096, abort_at(limit))).has_value(), "the message was lost");
      ++count;
      static_cast<void>(co_await of.receive(8192));
      ++count;
    };
    const auto send = [&]() -> task<void> {
      require((co_await of.send(0)).has_value(), "the send failed");
    };
    async::scope running;
    running.spawn(receive());
    running.spawn(send());
    while (!limit.expired()) continue;  // the message has arrived, and the limit has passed
    while (count == 0) co_await of.engine.yield();
    for (int i = 0; i < 100; ++i) co_await of.engine.yield();
    require(count == 1, "the second receive returned without a message");
    require((co_await of.send(0)).has_value(), "the send failed");
    co_await running.join();
  }(with, returned));
  verified("a message and a limit that passed resumed the coroutine once");
}

// A coroutine that waits for a receive is destroyed, and its memory is used again.
raw_coroutine receive_into(std::coroutine_handle<>& waiting) { co_await raw_wait{waiting}; }
void destroy_coroutine_and_reuse_memory(bool waits) {
  pair with;
  require(c_receive(with.b->queue.native(), 1, with.memory.slice(4096, 64)) == 0,
          "the post failed");
  std::coroutine_handle<> waiting;
  const auto coroutine = receive_into(waiting);
  if (waits) {
    send(with.a->queue, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
    c_take_successful(with.b->receives.native(), 1);
    waiting.resume();
  }
  coroutine.handle.destroy();
  put(with.at(4096, 64), second_text);
  if (waits) return;
  put(with.at(0, 64), first_text);
  send(with.a->queue, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
  c_take_successful(with.b->receives.native(), 1);
  if (text_at(with.at(4096, 64), 64) != second_text)
    harmed("a message overwrote memory that was used again after the coroutine was destroyed");
}
void destroy_raw_coroutine() { destroy_coroutine_and_reuse_memory(false); }
void destroy_ended_coroutine() { destroy_coroutine_and_reuse_memory(true); }
// The memory of the receive is used again. The channel has ended, so no message arrives there.
void require_no_later_write(coroutines& with) {
  put(with.at(4096), second_text);
  put(with.at(0), first_text);
  with.engine.run([](coroutines& of) -> task<void> {
    require(!co_await of.a->send(source(of.memory, 0, 64), abort_after(2s)), "a message was sent");
  }(with));
  require(text_at(with.at(4096), 64) == second_text, "the memory was overwritten");
}
raw_coroutine receive_by_channel(coroutines& of) { static_cast<void>(co_await of.receive(4096)); }
void destroy_coroutine_of_channel() {
  coroutines with;
  const auto coroutine = receive_by_channel(with);
  coroutine.handle.destroy();
  require(with.b->get().in_flight() == 0, "a receive is in flight");
  require_no_later_write(with);
  verified("the receive was flushed before its coroutine was gone");
}

// A handler waits for another completion, which its own loop has polled already.
void wait_in_handler(bool in_handler) {
  pair with;
  for (std::uint64_t id : {1, 2})
    require(c_receive(with.b->queue.native(), id, with.memory.slice(4096 * id, 64)) == 0,
            "the post failed");
  for (std::uint64_t id : {3, 4})
    send(with.a->queue, {.id = id, .signaled = true}, with.memory.slice(0, 64)).value();
  take_successful(with.a->sends, 2);
  std::array<ibv_wc, 2> polled{};
  int count = 0;
  for (const auto until = long_deadline(); count < 2 && !until.expired();)
    count += ibv_poll_cq(with.b->receives.native(), 2 - count, &polled.at(std::size_t(count)));
  bool second_came = false;
  const std::map<std::uint64_t, std::function<void()>> handlers = {
      {1,
       [&] {
         if (!in_handler) return;
         ibv_wc one{};
         for (const auto until = short_deadline(); !second_came && !until.expired();)
           if (ibv_poll_cq(with.b->receives.native(), 1, &one) > 0) second_came = true;
         if (!second_came) harmed("the handler waits for a completion that its caller has polled");
       }},
      {2, [&] { second_came = true; }}};
  for (const ibv_wc& each : polled) handlers.at(each.wr_id)();
  require(second_came, "a handler was not called");
}
void block_in_handler() { wait_in_handler(true); }
void do_not_block_in_handler() { wait_in_handler(false); }
void poll_in_a_resumed_coroutine() {
  coroutines with;
  with.engine.run([](coroutines& of) -> task<void> {
    bool second_came = false;
    const auto first = [&]() -> task<void> {
      require((co_await of.receive(4096)).has_value(), "no message arrived");
      for (const auto until = long_deadline(); !second_came && !until.expired();) of.engine.poll();
      require(second_came, "the second message does not arrive");
    };
    const auto second = [&]() -> task<void> {
      require((co_await of.receive(8192)).has_value(), "no message arrived");
      second_came = true;
    };
    const auto send = [&]() -> task<void> {
      require((co_await of.send(0)).has_value(), "the send failed");
    };
    async::scope running;
    running.spawn(first());
    running.spawn(second());
    running.spawn(send());
    running.spawn(send());
    co_await running.join();
  }(with));
  verified("a coroutine that polls gets the completions that were polled with its own");
}

// Coroutines post more requests than the send queue has places, and ignore ENOMEM.
void overfill_send_queue() {
  pair with;
  constexpr std::size_t wanted = 48;
  const auto remote = with.memory.remote();
  for (std::uint64_t id = 0; id < wanted; ++id)
    static_cast<void>(c_send(with.a->queue.native(), id, with.memory.slice(0, 8), IBV_SEND_SIGNALED,
                             [&](ibv_send_wr& request) {
                               request.opcode = IBV_WR_RDMA_WRITE;
                               request.wr.rdma.remote_addr = remote.address() + 4096;
                               request.wr.rdma.rkey = remote.key().value();
                             }));
  const auto ended = c_take(with.a->sends.native(), wanted, short_deadline()).size();
  if (ended < wanted)
    harmed(std::to_string(wanted - ended) + " coroutines wait for requests that were not posted");
}
void operations_wait_for_room() {
  coroutines with;
  std::size_t ended = 0;
  with.engine.run([](coroutines& of, std::size_t& count) -> task<void> {
    const auto write = [&]() -> task<void> {
      const auto there = of.memory.remote().slice(4096, 8);
      require((co_await of.a->write(source(of.memory, 0, 8), there)).has_value(), "a write failed");
      ++count;
    };
    async::scope running;
    for (int i = 0; i < 48; ++i) running.spawn(write());
    co_await running.join();
  }(with, ended));
  verified(std::to_string(ended) + " operations ended in a queue of 16");
}

// A receive is cancelled: its coroutine is resumed, and its memory is used again.
void cancel_without_device(bool cancels) {
  pair with;
  require(c_receive(with.b->queue.native(), 1, with.memory.slice(4096, 64)) == 0,
          "the post failed");
  std::coroutine_handle<> waiting;
  const auto coroutine = receive_into(waiting);
  if (cancels) {
    waiting.resume();  // the mistake: the request is still posted
    put(with.at(4096, 64), second_text);
  }
  put(with.at(0, 64), first_text);
  send(with.a->queue, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
  c_take_successful(with.b->receives.native(), 1);
  if (!cancels) waiting.resume();
  if (cancels && text_at(with.at(4096, 64), 64) != second_text)
    harmed("a cancelled receive overwrote memory that was used again");
  coroutine.handle.destroy();
}
void cancel_in_program_only() { cancel_without_device(true); }
void wait_for_completion() { cancel_without_device(false); }
/// Counts the calls of a receiver.
struct stopped_receiver {
  using receiver_concept = async::execution::receiver_t;
  struct env {
    std::stop_token token;
    [[nodiscard]] std::stop_token query(async::execution::get_stop_token_t) const noexcept {
      return token;
    }
  };
  std::stop_token token;
  int* stops;
  [[nodiscard]] env get_env() const noexcept { return {token}; }
  void set_value(const operation_result&) && noexcept {}
  void set_stopped() && noexcept { ++*stops; }
};
void stop_operation_of_channel() {
  coroutines with;
  std::stop_source source_of_stop;
  int stops = 0;
  auto state = async::execution::connect(with.receive(4096),
                                         stopped_receiver{source_of_stop.get_token(), &stops});
  async::execution::start(state);
  source_of_stop.request_stop();
  for (const auto until = long_deadline(); stops == 0 && !until.expired();) with.engine.poll();
  require(stops == 1 && with.b->get().in_flight() == 0, "the receive was not flushed");
  require_no_later_write(with);
  verified("the operation was stopped after the device had flushed it");
}

// A loop sends all messages from one buffer, and does not wait for completions.
void stream_from_one_buffer(bool waits) {
  pair with;
  const auto post_receives = [&] {
    for (std::uint64_t id : {1, 2})
      with.b->queue.post_receive({.id = id}, with.memory.slice(4096 * id, 64)).value();
  };
  if (waits) post_receives();
  for (const auto& text : {first_text, second_text}) {
    put(with.at(0, 64), text);
    require(c_send(with.a->queue.native(), 3, with.memory.slice(0, 64)) == 0, "the post failed");
    if (waits) c_take_successful(with.a->sends.native(), 1);
  }
  if (!waits) post_receives();
  take_successful(with.b->receives, 2);
  if (text_at(with.at(4096, 64), 64) != first_text)
    harmed("the first message has the bytes of the second one");
}
void reuse_buffer_of_stream() { stream_from_one_buffer(false); }
void wait_before_each_message() { stream_from_one_buffer(true); }
void send_copies_of_messages() {
  messages with;
  with.engine.run([](messages& of) -> task<void> {
    std::string text;
    for (const auto& each : {first_text, second_text}) {
      text = each;
      require((co_await of.sender->send(std::as_bytes(std::span(text)))).has_value(),
              "a message was refused");
    }
    for (const auto& each : {first_text, second_text}) {
      const auto message = (co_await of.receiver->receive(long_deadline())).value();
      require(text_at(message.bytes(), 64) == each, "a message has other bytes");
    }
  }(with));
  verified("each message has the bytes of its send");
}

// A function returns a deferred request, which the caller never starts.
void drop_deferred_request() {
  pair with;
  with.b->queue.post_receive({.id = 1}, with.memory.slice(4096, 64)).value();
  const auto deferred = [&] { return c_send(with.a->queue.native(), 2, with.memory.slice(0, 64)); };
  static_cast<void>(deferred);
  if (c_take(with.b->receives.native(), 1, short_deadline()).empty())
    harmed("the message was never sent, and the peer waits");
}
void await_operation() {
  coroutines with;
  with.engine.run([](coroutines& of) -> task<void> {
    const auto send = [&]() -> task<void> {
      require((co_await of.send(0)).has_value(), "the send failed");
    };
    async::scope running;
    running.spawn(send());
    require((co_await of.receive(4096)).has_value(), "no message arrived");
    co_await running.join();
  }(with));
}

// A queue pair is destroyed while a coroutine waits for one of its requests.
struct alive {
  explicit alive(int& of) : count(of) { ++count; }
  ~alive() { --count; }
  alive(const alive&) = delete;
  alive& operator=(const alive&) = delete;
  int& count;
};
raw_coroutine hold_while_waiting(std::coroutine_handle<>& waiting, int& count) {
  const alive object(count);
  co_await raw_wait{waiting};
}
void destroy_qp_of_suspended_coroutine() {
  pair with;
  require(c_receive(with.b->queue.native(), 1, with.memory.slice(4096, 64)) == 0,
          "the post failed");
  std::coroutine_handle<> waiting;
  int objects = 0;
  hold_while_waiting(waiting, objects);
  const auto cq = with.b->receives;
  with.b.reset();
  for (const auto& each : c_take(cq.native(), 1, short_deadline()))
    if (each.wr_id == 1) waiting.resume();
  if (objects == 1) harmed("the coroutine is never resumed, and its frame is leaked");
}
void destroy_channel_of_suspended_coroutines() {
  coroutines with;
  int objects = 0;
  with.engine.run([](coroutines& of, int& count) -> task<void> {
    const auto receive = [&]() -> task<void> {
      const alive object(count);
      require((co_await of.receive(4096)).end() == operation_end::lost, "a message arrived");
    };
    async::scope running;
    running.spawn(receive());
    require(count == 1, "the receive ended");
    of.b.reset();
    co_await running.join();
  }(with, objects));
  require(objects == 0, "a frame is leaked");
  verified("the coroutine was resumed when its channel was destroyed");
}

// A second thread polls, and thereby continues the coroutine of the first one.
thread_local int current_request = 0;
raw_coroutine use_thread_local(std::coroutine_handle<>& waiting, int& seen) {
  current_request = 42;
  co_await raw_wait{waiting};
  seen = current_request;
}
void poll_with_a_second_thread() {
  pair with;
  require(c_receive(with.b->queue.native(), 1, with.memory.slice(4096, 64)) == 0,
          "the post failed");
  std::coroutine_handle<> waiting;
  int seen = 42;
  const auto coroutine = use_thread_local(waiting, seen);
  send(with.a->queue, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
  std::thread([&] {
    c_take_successful(with.b->receives.native(), 1);
    waiting.resume();
  }).join();
  if (seen != 42)
    harmed("the coroutine continued on another thread, whose thread_local object is 0");
  coroutine.handle.destroy();
}
void poll_engine_with_two_threads() {
  coroutines with;
  const auto poll = [&] {
    for (const auto until = long_deadline(); !until.expired();) with.engine.poll();
  };
  std::thread other(poll);
  poll();
  other.join();
}
void enter_engine() {
  coroutines with;
  std::thread other;
  with.engine.run([](coroutines& of, std::thread& runner) -> task<void> {
    struct on_thread {
      std::thread& into;
      [[nodiscard]] bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> caller) const {
        into = std::thread([caller] { caller.resume(); });
      }
      void await_resume() const noexcept {}
    };
    const auto mine = std::this_thread::get_id();
    co_await on_thread{runner};
    require(std::this_thread::get_id() != mine, "the coroutine runs on the thread of the engine");
    co_await of.engine.enter();
    require(std::this_thread::get_id() == mine, "the coroutine runs on another thread");
  }(with, other));
  other.join();
}

// A deferred post refers to a request whose memory is used again before the post.
void post_from_dangling_reference(bool copies) {
  pair with;
  with.b->queue.post_receive({.id = 1}, with.memory.slice(4096, 64)).value();
  put(with.at(0, 64), first_text);
  put(with.at(64, 64), second_text);
  std::optional<local_slice> temporary = with.memory.slice(0, 64);
  const local_slice copy = *temporary;
  const auto post = [&, slice = &*temporary] {
    return c_send(with.a->queue.native(), 2, copies ? copy : *slice);
  };
  temporary = with.memory.slice(64, 64);  // the object of the next call has the same address
  require(post() == 0, "the post failed");
  take_successful(with.b->receives, 1);
  if (text_at(with.at(4096, 64), 64) != first_text) harmed("the bytes of another call were sent");
}
void keep_reference() { post_from_dangling_reference(false); }
void keep_copy() { post_from_dangling_reference(true); }
void operation_outlives_its_arguments() {
  coroutines with;
  with.engine.run([](coroutines& of) -> task<void> {
    put(of.at(0), first_text);
    put(of.at(64), second_text);
    std::optional<source> data(std::in_place, of.memory, 0, 64);
    std::optional<remote_region> there = of.memory.remote().slice(4096, 64);
    auto write = of.a->write(*data, *there);
    data.emplace(of.memory, 64, 64);
    there = of.memory.remote().slice(8192, 64);
    require((co_await std::move(write)).has_value(), "the write failed");
  }(with));
  require(text_at(with.at(4096), 64) == first_text, "other bytes were written");
  verified("the operation used copies of its arguments");
}

// A coroutine returns while a coroutine that it started refers to its variables.
raw_coroutine add_one(std::coroutine_handle<>& waiting, int& sum) {
  co_await raw_wait{waiting};
  ++sum;
}
void leave_started_coroutine(bool joins) {
  pair with;
  require(c_receive(with.b->queue.native(), 1, with.memory.slice(4096, 64)) == 0,
          "the post failed");
  send(with.a->queue, {.id = 2, .signaled = true}, with.memory.slice(0, 64)).value();
  std::coroutine_handle<> waiting;
  int place = 0;  // of a variable of the caller
  const auto coroutine = add_one(waiting, place);
  const auto finish = [&] {
    c_take_successful(with.b->receives.native(), 1);
    waiting.resume();
  };
  if (joins) finish();
  place = 40;  // the caller has returned, and another variable has the place
  if (!joins) finish();
  if (place != 40) harmed("a variable of another function was changed to " + std::to_string(place));
  coroutine.handle.destroy();
}
void return_before_join() { leave_started_coroutine(false); }
void return_after_join() { leave_started_coroutine(true); }
void destroy_scope_with_tasks() {
  coroutines with;
  with.engine.run([](coroutines& of) -> task<void> {
    const auto receive = [&]() -> task<void> { static_cast<void>(co_await of.receive(4096)); };
    async::scope running;
    running.spawn(receive());
    co_return;  // the mistake: the scope is not joined
  }(with));
}

// To end one receive after a time limit, the program moves the queue pair to the error state.
void end_receive_by_error_state() {
  pair with;
  for (std::uint64_t id : {1, 2})
    require(c_receive(with.b->queue.native(), id, with.memory.slice(4096 * id, 64)) == 0,
            "the post failed");
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  require(c_of(with.device).modify_qp(with.b->queue.native(), &attributes, IBV_QP_STATE) == 0,
          "the queue pair was not modified");
  const auto ended = c_take(with.b->receives.native(), 2);
  if (ended.size() == 2 && ended[1].status == IBV_WC_WR_FLUSH_ERR)
    harmed("the time limit of one receive flushed the other one, and ended the connection");
}
void deadline_of_a_message_channel() {
  messages with;
  with.engine.run([](messages& of) -> task<void> {
    require((co_await of.receiver->receive(deadline::after(1ms))).timed_out(), "a message arrived");
    require((co_await of.sender->send(std::as_bytes(std::span(first_text)))).has_value(),
            "a message was refused");
    require((co_await of.receiver->receive(long_deadline())).has_value(), "no message arrived");
  }(with));
}

// An exception leaves the handler of the first of two completions.
void throw_in_handler(bool throws) {
  pair with;
  for (std::uint64_t id : {1, 2})
    require(c_receive(with.b->queue.native(), id, with.memory.slice(4096 * id, 64)) == 0,
            "the post failed");
  for (std::uint64_t id : {3, 4})
    send(with.a->queue, {.id = id, .signaled = true}, with.memory.slice(0, 64)).value();
  take_successful(with.a->sends, 2);
  bool second_came = false;
  const auto dispatch = [&](deadline until) {
    for (const ibv_wc& each : c_take(with.b->receives.native(), 2, until)) {
      if (each.wr_id == 1 && throws) throw std::runtime_error("the message is invalid");
      second_came = each.wr_id == 2;
    }
  };
  try {
    dispatch(long_deadline());
  } catch (const std::runtime_error&) {
    dispatch(short_deadline());
  }
  if (!second_came) harmed("the completion that was polled with the first one is lost");
}
void exception_leaves_handler() { throw_in_handler(true); }
void handler_does_not_throw() { throw_in_handler(false); }
void exception_in_a_task() {
  coroutines with;
  bool second_came = false;
  with.engine.run([](coroutines& of, bool& came) -> task<void> {
    const auto fail = [&]() -> task<void> {
      require((co_await of.receive(4096)).has_value(), "no message arrived");
      throw std::runtime_error("the message is invalid");
    };
    const auto receive = [&]() -> task<void> { came = (co_await of.receive(8192)).has_value(); };
    const auto send = [&]() -> task<void> {
      require((co_await of.send(0)).has_value(), "the send failed");
    };
    async::scope running;
    running.spawn(fail());
    running.spawn(receive());
    running.spawn(send());
    running.spawn(send());
    std::string thrown;
    try {
      co_await running.join();
    } catch (const std::runtime_error& caught) {
      thrown = caught.what();
    }
    require(thrown == "the message is invalid", "the exception is lost");
  }(with, second_came));
  require(second_came, "the second message is lost");
  verified("the other task got its message, and join() threw the exception");
}

constexpr crate no_coroutines = {answer::absent, "it has no asynchronous operations"};

constexpr entry mistake_of_coroutines(entry of) {
  of.kind = "asynchronous";
  of.ibverbs = of.ibverbs_rs = of.rrddmma = no_coroutines;
  return of;
}

constexpr std::array entries = {
    mistake_of_coroutines(
        {.name = "queue_not_armed_again_after_an_event",
         .mistake = "an event loop requests a notification once and waits for several events",
         .seen = "ibv_req_notify_cq(3): a request generates one event",
         .does = harm::hang,
         .caught_by = level::unwritable,
         .words = "each message woke the engine",
         .harmful = &arm_once,
         .caught = &sleeping_engine_is_woken_by_each_message,
         .twin = &arm_for_each_event}),
    mistake_of_coroutines(
        {.name = "coroutine_resumed_twice",
         .mistake = "a completion and a timer both resume the coroutine that waits",
         .seen = "[coroutine.handle.resumption]: the coroutine must be suspended at the same point",
         .does = harm::wrong_data,
         .caught_by = level::unwritable,
         .words = "a message and a limit that passed resumed the coroutine once",
         .harmful = &resume_twice,
         .caught = &limit_and_message_at_once,
         .twin = &resume_once}),
    mistake_of_coroutines(
        {.name = "coroutine_destroyed_while_suspended",
         .mistake = "a coroutine is destroyed while the device may write to its memory",
         .seen = "ibv_post_recv(3): the buffers can be reused only after the completion",
         .does = harm::wrong_data,
         .caught_by = level::unwritable,
         .words = "the receive was flushed before its coroutine was gone",
         .harmful = &destroy_raw_coroutine,
         .caught = &destroy_coroutine_of_channel,
         .twin = &destroy_ended_coroutine}),
    mistake_of_coroutines(
        {.name = "completion_handler_blocks",
         .mistake = "a completion handler waits for a completion that its caller has polled",
         .seen = "ibv_poll_cq(3): a polled completion is removed from the queue",
         .does = harm::hang,
         .caught_by = level::unwritable,
         .words = "a coroutine that polls gets the completions that were polled with its own",
         .harmful = &block_in_handler,
         .caught = &poll_in_a_resumed_coroutine,
         .twin = &do_not_block_in_handler}),
    mistake_of_coroutines(
        {.name = "send_queue_exhausted_by_coroutines",
         .mistake = "coroutines post without room, ignore ENOMEM, and wait for completions",
         .seen = "ibv_post_send(3): returns ENOMEM if the send queue is full",
         .does = harm::hang,
         .caught_by = level::unwritable,
         .words = "48 operations ended in a queue of 16",
         .harmful = &overfill_send_queue,
         .caught = &operations_wait_for_room,
         .twin = &operations_wait_for_room}),
    mistake_of_coroutines(
        {.name = "cancelled_operation_writes",
         .mistake = "an operation is cancelled in the program, but the device still executes it",
         .seen = "ibv_post_recv(3): a posted request cannot be withdrawn",
         .does = harm::wrong_data,
         .caught_by = level::unwritable,
         .words = "the operation was stopped after the device had flushed it",
         .harmful = &cancel_in_program_only,
         .caught = &stop_operation_of_channel,
         .twin = &wait_for_completion}),
    mistake_of_coroutines(
        {.name = "buffer_of_a_stream_reused_too_early",
         .mistake = "a loop sends all messages from one buffer without awaiting completions",
         .seen = "ibv_post_send(3): the buffers can be reused only after the completion",
         .does = harm::wrong_data,
         .caught_by = level::unwritable,
         .words = "each message has the bytes of its send",
         .harmful = &reuse_buffer_of_stream,
         .caught = &send_copies_of_messages,
         .twin = &wait_before_each_message}),
    mistake_of_coroutines({.name = "operation_never_awaited",
                           .mistake = "a function returns a deferred request, which is dropped",
                           .seen = "C++ Core Guidelines, CP.coro; P2300R10: senders are lazy",
                           .does = harm::hang,
                           .caught_by = level::compiler,
                           .words = "async/operation_must_be_awaited",
                           .harmful = &drop_deferred_request,
                           .caught = nullptr,
                           .twin = &await_operation}),
    mistake_of_coroutines(
        {.name = "qp_destroyed_under_suspended_coroutine",
         .mistake = "a queue pair is destroyed while a coroutine waits for one of its requests",
         .seen = "ibv_destroy_qp(3): outstanding requests generate no completions",
         .does = harm::leak,
         .caught_by = level::unwritable,
         .words = "the coroutine was resumed when its channel was destroyed",
         .harmful = &destroy_qp_of_suspended_coroutine,
         .caught = &destroy_channel_of_suspended_coroutines,
         .twin = &destroy_channel_of_suspended_coroutines}),
    mistake_of_coroutines(
        {.name = "event_loop_used_by_two_threads",
         .mistake = "two threads poll, and one of them continues the coroutine of the other",
         .seen = "Boost.Asio, Strands: handlers run on each thread that calls run()",
         .does = harm::wrong_data,
         .caught_by = level::stop,
         .words = "two threads used an async::engine at once",
         .harmful = &poll_with_a_second_thread,
         .caught = &poll_engine_with_two_threads,
         .twin = &enter_engine}),
    mistake_of_coroutines(
        {.name = "request_refers_to_a_dead_temporary",
         .mistake = "a coroutine or deferred request keeps a reference to an argument that is gone",
         .seen = "C++ Core Guidelines, CP.53: no parameters by reference",
         .does = harm::wrong_data,
         .caught_by = level::unwritable,
         .words = "the operation used copies of its arguments",
         .harmful = &keep_reference,
         .caught = &operation_outlives_its_arguments,
         .twin = &keep_copy}),
    mistake_of_coroutines(
        {.name = "started_coroutine_not_joined",
         .mistake = "a function returns while a coroutine that it started uses its variables",
         .seen = "P3149: async scopes; C++ Core Guidelines, CP.51",
         .does = harm::wrong_data,
         .caught_by = level::stop,
         .words = "a scope was destroyed while its tasks were running",
         .harmful = &return_before_join,
         .caught = &destroy_scope_with_tasks,
         .twin = &return_after_join}),
    mistake_of_coroutines(
        {.name = "deadline_ends_the_connection",
         .mistake = "a time limit of one request is implemented by the error state of the queue "
                    "pair, unexpectedly for the others",
         .seen = "ibv_modify_qp(3): IBV_QPS_ERR flushes all requests",
         .does = harm::wrong_data,
         .caught_by = level::compiler,
         .words = "async/limit_of_an_operation_is_an_abort_at",
         .harmful = &end_receive_by_error_state,
         .caught = nullptr,
         .twin = &deadline_of_a_message_channel}),
    mistake_of_coroutines(
        {.name = "exception_leaves_a_completion_handler",
         .mistake = "a handler throws while completions of the same poll are not handled yet",
         .seen = "ibv_poll_cq(3): a polled completion is removed from the queue",
         .does = harm::hang,
         .caught_by = level::unwritable,
         .words = "the other task got its message, and join.. threw the exception",
         .harmful = &exception_leaves_handler,
         .caught = &exception_in_a_task,
         .twin = &handler_does_not_throw}),
};

}  // namespace
}  // namespace asynchronous_entries

std::span<const entry> asynchronous() { return asynchronous_entries::entries; }

}  // namespace verbena::zoo
