// SPDX-License-Identifier: MIT
// Operations that end early at random times, by stop requests, limits, destruction and abort().
// Their memory is overwritten and poisoned as soon as they end. The device must not access the
// memory afterwards: the test checks the memory and the bytes that the peer receives. The campaign
// ends a million operations early.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/async/async_pair.hpp"
#include "tests/unit/campaign_seed.hpp"
#include "verbena/async/execution.hpp"
#include "verbena/base/sanitizers.hpp"
#ifdef VERBENA_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace verbena::test {
namespace {

namespace execution = async::execution;
using async::task;

constexpr std::size_t cell_bytes = 64;
constexpr std::size_t cell_count = 512;
constexpr std::byte ended_mark{0xee};  // content of the memory of operations that have ended
constexpr std::byte peer_mark{0x55};   // content of the peer's memory that is read

channel_options cancelled_channels() {
  return {.queues = {.max_send_wr = 8, .max_recv_wr = 8},
          .access = access::remote_read | access::remote_write};
}

/// Cells of 64 bytes. Only cells of operations in flight may be accessed.
class guarded_cells {
 public:
  explicit guarded_cells(const protection_domain& pd)
      : region_(pd.allocate(cell_bytes * cell_count, all_access).value()) {
    for (std::size_t cell = 0; cell < cell_count; ++cell) close(cell);
  }
  ~guarded_cells() {
    for (std::size_t cell = 0; cell < cell_count; ++cell) unpoison(cell);
  }
  guarded_cells(const guarded_cells&) = delete;
  guarded_cells& operator=(const guarded_cells&) = delete;

  [[nodiscard]] const memory_region& region() const { return region_; }
  [[nodiscard]] std::span<std::byte> at(std::size_t cell) const {
    return region_.bytes().subspan(cell * cell_bytes, cell_bytes);
  }
  /// Returns the cell that has been closed for the longest time, filled with `mark`.
  std::size_t open(std::byte mark) {
    std::size_t cell = next_;
    while (is_open_.at(cell)) cell = (cell + 1) % cell_count;
    next_ = (cell + 1) % cell_count;
    expect_unchanged(cell);
    unpoison(cell);
    is_open_.at(cell) = true;
    std::ranges::fill(at(cell), mark);
    return cell;
  }
  void close(std::size_t cell) {
    std::ranges::fill(at(cell), ended_mark);
    is_open_.at(cell) = false;
#ifdef VERBENA_ADDRESS_SANITIZER
    __asan_poison_memory_region(at(cell).data(), cell_bytes);
#endif
  }
  void expect_all_unchanged() const {
    for (std::size_t cell = 0; cell < cell_count; ++cell)
      if (!is_open_.at(cell)) expect_unchanged(cell);
  }

 private:
  void unpoison(std::size_t cell) const {
#ifdef VERBENA_ADDRESS_SANITIZER
    __asan_unpoison_memory_region(at(cell).data(), cell_bytes);
#else
    static_cast<void>(cell);
#endif
  }
  void expect_unchanged(std::size_t cell) const {
    unpoison(cell);
    const bool unchanged =
        std::ranges::all_of(at(cell), [](std::byte each) { return each == ended_mark; });
    EXPECT_TRUE(unchanged) << "the device wrote to the memory of an operation that had ended";
#ifdef VERBENA_ADDRESS_SANITIZER
    __asan_poison_memory_region(at(cell).data(), cell_bytes);
#endif
  }

  memory_region region_;
  std::array<bool, cell_count> is_open_{};
  std::size_t next_ = 0;
};

bool are_equal(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [&](std::byte each) { return each == bytes.front(); });
}

/// The values that the two threads exchange between the phases of a round.
struct meeting {
  std::barrier<> phase{2};
  std::optional<endpoint> of_tested;
  std::optional<endpoint> of_peer;
  std::optional<remote_region> table;  // memory of the peer: half is read, half is written
  std::atomic<bool> stops = false;     // the peer aborts its channel
  std::atomic<bool> request = false;   // the peer requests a stop of the tested side
  std::stop_source source;
  bool is_over = false;
};

/// The peer: sends and receives continuously, on its own thread and engine.
class busy_peer {
 public:
  explicit busy_peer(meeting& with)
      : with_(with),
        engine_(async::engine::create(context_, {.spin = std::chrono::nanoseconds(0)}).value()) {}

  void run() {
    std::ranges::fill(table_.bytes().first(cell_bytes), peer_mark);
    with_.table = table_.remote();
    for (;;) {
      with_.phase.arrive_and_wait();
      if (with_.is_over) return;
      auto prepared = pd_.create_channel(engine_.hub(), cancelled_channels()).value();
      with_.of_peer = prepared.endpoint();
      with_.phase.arrive_and_wait();
      channel_.emplace(engine_, std::move(prepared).handshake(*with_.of_tested).value());
      with_.phase.arrive_and_wait();
      engine_.run(traffic());
      channel_.reset();
      expect_no_ended_bytes();
      with_.phase.arrive_and_wait();
    }
  }

 private:
  task<void> traffic() {
    async::scope running;
    for (std::size_t i = 0; i < 3; ++i) running.spawn(send(1 + i));
    for (std::size_t i = 0; i < 6; ++i) running.spawn(receive(8 + i));
    while (!with_.stops.load(std::memory_order_acquire)) {
      if (with_.request.exchange(false)) with_.source.request_stop();
      co_await engine_.yield();
    }
    channel_->abort();
    co_await running.join();
  }
  task<void> send(std::size_t cell) {
    for (unsigned char number = 1;; number = static_cast<unsigned char>(number % 100 + 1)) {
      std::ranges::fill(at(cell), std::byte{number});
      if (!co_await channel_->send(source(memory_, cell * cell_bytes, cell_bytes))) co_return;
    }
  }
  task<void> receive(std::size_t cell) {
    while (co_await channel_->receive(sink(memory_, cell * cell_bytes, cell_bytes)))
      EXPECT_TRUE(are_equal(at(cell)) && at(cell).front() != ended_mark)
          << "the device read the memory of a send that had ended";
  }
  void expect_no_ended_bytes() const {
    const auto written = table_.bytes().subspan(cell_bytes);
    EXPECT_EQ(std::ranges::find(written, ended_mark), written.end())
        << "the device read the memory of a write that had ended";
  }
  [[nodiscard]] std::span<std::byte> at(std::size_t cell) const {
    return memory_.bytes().subspan(cell * cell_bytes, cell_bytes);
  }

  meeting& with_;
  verbena::context context_ = open_tested();
  protection_domain pd_ = context_.allocate_pd().value();
  memory_region memory_ = pd_.allocate(cell_bytes * 16, all_access).value();
  memory_region table_ = pd_.allocate(cell_bytes * 16, all_access).value();
  async::engine engine_;
  std::optional<async::channel> channel_;
};

class cancelled_operations;

/// An operation in flight: an operation state or a coroutine on the heap.
struct flight {
  explicit flight(bool coroutine) : is_coroutine(coroutine) {}
  virtual ~flight() = default;
  flight(const flight&) = delete;
  flight& operator=(const flight&) = delete;

  const bool is_coroutine;
};

/// One place for an operation.
struct flight_place {
  cancelled_operations* of = nullptr;
  std::unique_ptr<flight> running;
  std::size_t cell = 0;
  bool is_sink = false;
  std::byte expected{};  // content after a read
};

struct flight_receiver {
  using receiver_concept = execution::receiver_t;
  struct env {
    std::stop_token token;
    [[nodiscard]] std::stop_token query(execution::get_stop_token_t /*which*/) const noexcept {
      return token;
    }
  };

  flight_place* to;
  std::stop_token token;

  [[nodiscard]] env get_env() const noexcept { return {token}; }
  void set_value(const operation_result& done) && noexcept;
  void set_stopped() && noexcept;
};

template <class Sender>
struct flight_of_sender : flight {
  execution::connect_result_t<Sender, flight_receiver> state;

  flight_of_sender(Sender from, flight_receiver to)
      : flight(false), state(execution::connect(std::move(from), std::move(to))) {}
};

struct flight_of_coroutine : flight {
  struct promise_type;
  using handle_type = std::coroutine_handle<promise_type>;
  struct created {
    handle_type handle;
    // NOLINTNEXTLINE(readability-identifier-naming): its name is given
    using promise_type = flight_of_coroutine::promise_type;
  };
  struct promise_type {
    [[nodiscard]] created get_return_object() { return {handle_type::from_promise(*this)}; }
    [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
    [[nodiscard]] std::suspend_always final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
  };

  explicit flight_of_coroutine(created of) : flight(true), handle(of.handle) {}
  ~flight_of_coroutine() override { handle.destroy(); }

  handle_type handle;
};

/// The tested side.
class cancelled_operations : public ::testing::Test {
 public:
  void SetUp() override {
    if (is_iwarp(context_)) GTEST_SKIP() << "iWARP connects by the connection manager";
  }
  void round() {
    with_.stops = false;
    with_.request = false;
    has_failed_ = false;
    with_.source = std::stop_source();
    others_ = std::stop_source();
    with_.phase.arrive_and_wait();
    auto prepared = pd_.create_channel(engine_.hub(), cancelled_channels()).value();
    with_.of_tested = prepared.endpoint();
    with_.phase.arrive_and_wait();
    channel_.emplace(engine_, std::move(prepared).handshake(*with_.of_peer).value());
    with_.phase.arrive_and_wait();
    operate();
    end_early();
    const auto until = deadline::after(20s);
    while (in_flight() != 0 && !until.expired()) engine_.poll();
    EXPECT_EQ(in_flight(), 0U) << "an operation did not end";
    for (auto& each : places_) give_up(each);
    cells_.expect_all_unchanged();
    with_.stops.store(true, std::memory_order_release);
    with_.phase.arrive_and_wait();
    cells_.expect_all_unchanged();
    channel_.reset();
    engine_.poll();
  }
  void finish() {
    with_.is_over = true;
    with_.phase.arrive_and_wait();
  }
  [[nodiscard]] std::uint64_t early_ends() const noexcept { return early_ends_; }
  [[nodiscard]] std::uint64_t successes() const noexcept { return successes_; }

  void end(flight_place& which, const operation_result& done) noexcept {
    if (done) {
      ++successes_;
      if (which.is_sink) expect_message(which, done.byte_length());
    } else {
      // An operation that was refused because the connection had failed was not in flight.
      if (done.refusal() != refusal::not_connected) ++early_ends_;
      has_failed_ = true;
    }
    leave(which);
  }
  void stop(flight_place& which) noexcept {
    ++early_ends_;
    leave(which);
  }

 private:
  static constexpr std::size_t place_count = 24;

  void expect_message(const flight_place& which, std::uint32_t length) const {
    const auto bytes = cells_.at(which.cell);
    EXPECT_EQ(length, cell_bytes);
    EXPECT_TRUE(are_equal(bytes)) << "a part of a message is missing";
    EXPECT_NE(bytes.front(), ended_mark);
    EXPECT_TRUE(which.expected == std::byte{} || which.expected == bytes.front());
  }
  void leave(flight_place& which) noexcept {
    cells_.close(which.cell);
    auto ended = std::move(which.running);
    if (ended->is_coroutine) ended_.push_back(std::move(ended));
  }
  void give_up(flight_place& which) {
    if (which.running == nullptr) return;
    ++early_ends_;
    which.running.reset();  // waits until posted operations are flushed
    cells_.close(which.cell);
  }
  /// Frees the operations that have ended. A coroutine cannot free itself before it is suspended.
  void free_ended() { ended_.clear(); }
  [[nodiscard]] std::size_t in_flight() {
    free_ended();
    return static_cast<std::size_t>(std::ranges::count_if(
        places_, [](const flight_place& each) { return each.running != nullptr; }));
  }

  template <class Sender>
  void start(flight_place& at, Sender from) {
    at.of = this;
    if (random_() % 3 == 0) {
      auto made = std::make_unique<flight_of_coroutine>(body(at, std::move(from)));
      const auto handle = made->handle;
      at.running = std::move(made);
      handle.resume();
    } else {
      const auto& stops = random_() % 2 == 0 ? with_.source : others_;
      auto made = std::make_unique<flight_of_sender<Sender>>(
          std::move(from), flight_receiver{&at, stops.get_token()});
      auto& state = made->state;
      at.running = std::move(made);
      execution::start(state);
    }
  }
  template <class Sender>
  static flight_of_coroutine::created body(flight_place& at, Sender from) {
    const operation_result done = co_await std::move(from);
    at.of->end(at, done);
  }

  void start_one(flight_place& at) {
    const auto limit =
        random_() % 256 == 0 ? abort_after(std::chrono::microseconds(random_() % 50)) : abort_at();
    const unsigned kind = static_cast<unsigned>(random_() % 4);
    at.is_sink = kind < 2;
    at.expected = kind == 0 ? peer_mark : std::byte{};
    at.cell = cells_.open(std::byte{static_cast<unsigned char>(random_() % 200 + 1)});
    const auto offset = at.cell * cell_bytes;
    const memory_region& memory = cells_.region();
    const auto there = with_.table->slice(cell_bytes * (1 + random_() % 15), cell_bytes);
    switch (kind) {
      case 0:
        return start(at, channel_->read(sink(memory, offset, cell_bytes),
                                        with_.table->slice(0, cell_bytes), limit));
      case 1:
        return start(at, channel_->receive(sink(memory, offset, cell_bytes), limit));
      case 2:
        return start(at, channel_->write(source(memory, offset, cell_bytes), there, limit));
      default:
        return start(at, channel_->send(source(memory, offset, cell_bytes), limit));
    }
  }
  void operate() {
    const auto until = deadline::after(std::chrono::microseconds(random_() % 400));
    while (!has_failed_ && !until.expired()) {
      for (auto& each : places_)
        if (each.running == nullptr) start_one(each);
      engine_.poll();
      free_ended();
    }
  }
  void end_early() {
    switch (random_() % 5) {
      case 0:  // on this thread
        with_.source.request_stop();
        break;
      case 1:  // on the thread of the peer
        with_.request = true;
        break;
      case 2:
        for (auto& each : places_)
          if (random_() % 2 == 0) give_up(each);
        break;
      case 3:
        channel_.reset();
        break;
      default:
        break;
    }
    for (auto polls = random_() % 8; polls > 0; --polls) engine_.poll();
    others_.request_stop();
    if (channel_) channel_->abort();
  }

  verbena::context context_ = open_tested();
  protection_domain pd_ = context_.allocate_pd().value();
  guarded_cells cells_{pd_};
  async::engine engine_ = async::engine::create(context_).value();
  std::optional<async::channel> channel_;
  std::array<flight_place, place_count> places_;
  std::vector<std::unique_ptr<flight>> ended_;  // coroutines
  std::stop_source others_;
  std::mt19937 random_{campaign_seed(21)};
  std::uint64_t early_ends_ = 0;
  std::uint64_t successes_ = 0;
  bool has_failed_ = false;

 protected:
  meeting with_;
};

void flight_receiver::set_value(const operation_result& done) && noexcept {
  to->of->end(*to, done);
}
void flight_receiver::set_stopped() && noexcept { to->of->stop(*to); }

TEST_F(cancelled_operations, memory_is_not_accessed_after_the_end) {
  const auto wanted = static_cast<std::uint64_t>(campaign_size(2'000, 100'000));
  std::jthread peer([&] { busy_peer(with_).run(); });
  std::uint64_t rounds = 0;
  for (; early_ends() < wanted && !HasFailure(); ++rounds) round();
  finish();
  EXPECT_GT(successes(), rounds);
  std::printf("%llu operations ended early, %llu succeeded, on %llu connections\n",
              static_cast<unsigned long long>(early_ends()),
              static_cast<unsigned long long>(successes()),
              static_cast<unsigned long long>(rounds));
}

}  // namespace
}  // namespace verbena::test
