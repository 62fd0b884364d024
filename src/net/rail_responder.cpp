// SPDX-License-Identifier: MIT
#include "verbena/net/rail_responder.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <atomic>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/call_or_else.hpp"
#include "src/base/quiet_thread.hpp"
#include "src/net/channel_access.hpp"
#include "src/net/rail_checks.hpp"
#include "src/net/rail_message.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/log.hpp"
#include "verbena/channel/channel.hpp"
#include "verbena/channel/prepared_channel.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/queue_pair.hpp"
#include "verbena/verbs/queue_pair_attributes.hpp"

namespace verbena::inline VERBENA_ABI::net {

namespace detail {
namespace {

// How often the ports are queried: the program may have read the events.
constexpr int query_interval_ms = 100;

}  // namespace

/// Threads: everything except is_connected() belongs to its thread.
class responder_thread {
 public:
  struct parts {
    rail_control control;
    std::vector<rail_port> rails;
    rail_responder_options options;
    unique_fd stop;
  };
  explicit responder_thread(parts of)
      : control_(std::move(of.control)), options_(of.options), stop_(std::move(of.stop)) {
    for (rail_port& each : of.rails) rails_.push_back({.port = std::move(each)});
  }
  responder_thread(const responder_thread&) = delete;
  responder_thread& operator=(const responder_thread&) = delete;
  ~responder_thread() {
    if (!is_started_) return;
    static_cast<void>(::eventfd_write(stop_.get(), 1));  // the counter is 0
    ::pthread_join(thread_, nullptr);
  }

  [[nodiscard]] result<void> start() {
    const auto body = [](void* self) -> void* {
      static_cast<responder_thread*>(self)->run();
      return nullptr;
    };
    if (const int code = verbena::detail::start_quiet_thread(thread_, body, this, "verbena-rails");
        code != 0)
      return error::from_errno(code, "pthread_create", control_.peer());
    is_started_ = true;
    return {};
  }
  [[nodiscard]] bool is_connected() const noexcept { return is_connected_.load(); }

 private:
  struct served_rail {
    rail_port port;
    std::optional<channel> queue = {};  // carries requests of the peer only
    std::uint32_t generation = 0;       // of `queue`
    bool is_up = true;                  // the state that the peer knows
    bool has_events = true;             // false after a failure to read them
  };

  void run();
  void serve_until_the_end();
  [[nodiscard]] bool wait();
  void report_ports();
  void serve(const rail_message& message);
  [[nodiscard]] bool end(std::uint32_t rail);
  void connect(served_rail& which, const rail_message& request);
  [[nodiscard]] result<verbena::endpoint> make(served_rail& which, const rail_message& request);

  rail_control control_;
  rail_responder_options options_;
  unique_fd stop_;
  std::vector<served_rail> rails_;
  pthread_t thread_ = {};
  bool is_started_ = false;
  bool is_accessible_ = false;  // a queue pair could not be ended
  std::atomic<bool> is_connected_{true};
};

// NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the sole_owner calls it
void destroy(responder_thread& of) noexcept { delete &of; }

void responder_thread::run() {
#ifdef VERBENA_NO_EXCEPTIONS
  serve_until_the_end();
#else
  try {
    serve_until_the_end();
  } catch (...) {
    // Without an allocation. The end of the stream, with this object, ends the connection.
    log(log_level::warning,
        "an exception, for example of an allocation, ended a connection over rails");
  }
#endif
  for (served_rail& each : rails_) {
    if (!each.queue) continue;
    // In the error state, it executes no requests, also if it cannot be destroyed.
    verbena::detail::call_or_else([&] { each.queue->flush(); }, [this] { is_accessible_ = true; });
    is_accessible_ = is_accessible_ || channel_access::has_undestroyed_queue(*each.queue);
    each.queue.reset();
  }
  control_.end();
  // Afterwards, because the program may release the memory when is_connected() returns false.
  is_connected_.store(is_accessible_);
}

void responder_thread::serve_until_the_end() {
  while (control_.failure() == nullptr && wait()) {
    report_ports();
    // A peer that sends without a pause, or slowly, must not delay the destructor.
    const auto until = deadline::after(time_for_rail_messages);
    for (int count = 0; count < most_messages_in_turn; ++count) {
      const auto message = control_.poll(until);
      if (!message) break;
      serve(*message);
    }
  }
  if (const error* const why = control_.failure())
    log(log_level::info, "a connection over rails ended: " + why->message());
}

// Returns false if the object is being destroyed.
bool responder_thread::wait() {
  std::vector<pollfd> events{{.fd = stop_.get(), .events = POLLIN, .revents = 0},
                             {.fd = control_.fd(), .events = POLLIN, .revents = 0}};
  for (const served_rail& each : rails_)
    events.push_back({.fd = each.has_events ? each.port.domain.context().async_fd() : -1,
                      .events = POLLIN,
                      .revents = 0});
  static_cast<void>(::poll(events.data(), events.size(), query_interval_ms));
  return events.front().revents == 0;
}

// Reports the present state after all events have been read: an event is only the occasion.
void responder_thread::report_ports() {
  for (served_rail& each : rails_) {
    const auto context = each.port.domain.context();
    while (true) {
      const auto event = context.poll_event();
      // After the removal of a device, its descriptor stays readable.
      each.has_events = event.has_value();
      if (!event || !*event) break;
    }
  }
  for (std::uint32_t rail = 0; rail < rails_.size(); ++rail) {
    served_rail& each = rails_[rail];
    const bool is_up = is_port_active(each.port);
    if (is_up == each.is_up) continue;
    each.is_up = is_up;
    control_.send({.kind = rail_message_kind::port, .rail = rail, .generation = is_up ? 1U : 0U});
  }
}

void responder_thread::serve(const rail_message& message) {
  served_rail& which = rails_[message.rail];
  if (message.kind == rail_message_kind::connect) return connect(which, message);
  if (message.kind != rail_message_kind::fence) return;  // those of the responder
  if (which.generation <= message.generation && !end(message.rail)) return;
  control_.send(
      {.kind = rail_message_kind::fenced, .rail = message.rail, .generation = message.generation});
}

// Moves the queue pair of a rail to the error state, or destroys it: it executes no requests then.
// If the device refuses both, ends the connection and returns false.
bool responder_thread::end(std::uint32_t rail) {
  auto& queue = rails_[rail].queue;
  if (!queue) return true;
  auto* const pair = queue->qp();
  if (pair == nullptr) return !channel_access::has_undestroyed_queue(*queue);
  auto moved = pair->modify(queue_pair_attributes().set_state(queue_pair_state::error));
  // If it could not be moved to the error state, destroys it.
  queue->flush();
  if (moved || !channel_access::has_undestroyed_queue(*queue)) return true;
  is_accessible_ = true;
  control_.refuse(std::move(moved).error().with_diagnosis(
      fmt::format("the queue pair of rail {} can be neither moved to the error state nor "
                  "destroyed, so that failed requests cannot be repeated; reset the device",
                  rail)));
  return false;
}

void responder_thread::connect(served_rail& which, const rail_message& request) {
  rail_message answer{
      .kind = rail_message_kind::connected, .rail = request.rail, .generation = request.generation};
  if (auto made = make(which, request)) {
    answer.endpoint = *made;
  } else {
    answer.kind = rail_message_kind::refused;
    answer.reason = made.error().message();
  }
  control_.send(answer);
}

result<verbena::endpoint> responder_thread::make(served_rail& which, const rail_message& request) {
  const channel_options options{.queues = {.max_send_wr = 1, .max_recv_wr = 1},
                                .access = options_.access,
                                .route = which.port.route,
                                .reliability = options_.reliability};
  VERBENA_TRY(auto prepared, which.port.domain.create_channel(options));
  const auto local = prepared.endpoint();
  VERBENA_TRY(auto connected, std::move(prepared).handshake(*request.endpoint));
  // The new queue pair exists before the old one ends, so their numbers differ.
  if (!end(request.rail))
    return error::from_errno(EIO, "ibv_destroy_qp", which.port.domain.context().name(),
                             "the earlier queue pair of the rail cannot be ended");
  which.queue.emplace(std::move(connected));
  which.generation = request.generation;
  return local;
}

}  // namespace detail

result<rail_responder> rail_responder::accept(bringup::stream control,
                                              std::span<const rail_port> rails, deadline until,
                                              const rail_responder_options& options) {
  constexpr const char* call = "rail_responder::accept";
  VERBENA_TRY_VOID(detail::check_rails(call, rails));
  unique_fd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop) return error::from_errno(errno, "eventfd", control.peer());
  const auto count = static_cast<std::uint32_t>(rails.size());
  VERBENA_TRY_VOID(
      detail::exchange_hellos(call, control, detail::rail_role::passive, count, until));
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): of the sole_owner
  auto* const made =
      new detail::responder_thread({.control = detail::rail_control(std::move(control), count),
                                    .rails = {rails.begin(), rails.end()},
                                    .options = options,
                                    .stop = std::move(stop)});
  rail_responder out(made);
  VERBENA_TRY_VOID(made->start());
  return out;
}

bool rail_responder::is_connected() const noexcept { return thread_->is_connected(); }

}  // namespace verbena::inline VERBENA_ABI::net
